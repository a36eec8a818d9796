//! What each promise has come to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use anyhow::{Context, Result};
use longhaul_store::{Outcome, Record};
use serde_json::Value;

use super::caller::{Answer, Call};
use super::effects::{DID, Effects, Line, TOLD, UNDID};
use super::node::IN_DOUBT;
use super::order::{AGAIN, NEVER, Order, TIMED, Word};
use super::watch::Rest;
use crate::mcp::Era;

/// What was found against one order after the other.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) broken: Vec<String>,
    completed: usize,
    failed: usize,
    cancelled: usize,
    lost: usize,
    expired: usize,
    forgotten: usize,
    children: usize,
    /// Times that effects were had, and those more often than once.
    pub(super) effects: usize,
    repeated: usize,
    undone: usize,
    in_doubt: usize,
    /// Times that an effect had the key of its step, which is the same each time.
    pub(super) keys: usize,
    /// Keys of calls, each of which is one task or forgotten.
    pub(super) calls: usize,
    pub(super) consumed: usize,
    /// Of those, the answers that were given in sessions.
    pub(super) in_sessions: usize,
}

/// A key as the caller has given it, without what the server says of its kind.
pub(super) fn of_call(key: &str) -> &str {
    key.rsplit(':').next().unwrap_or(key)
}

/// How a task ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    Completed,
    /// By its own words.
    Failed,
    Cancelled,
    Lost,
    /// Its time was up.
    Expired,
}

impl Verdict {
    /// Holds every call against its row, and its effects against its order.
    pub(super) fn of(calls: &[&Call], rest: &Rest, effects: &Effects, seed: u64) -> Result<Self> {
        let mut verdict = Self::default();
        let mut by_key: HashMap<&str, Vec<&Record>> = HashMap::new();
        let mut by_parent: HashMap<&str, Vec<&Record>> = HashMap::new();
        for row in &rest.rows {
            match (&row.once, &row.parent) {
                (Some(once), None) => by_key.entry(of_call(once.key.as_str())).or_default().push(row),
                (None, Some(parent)) => by_parent.entry(parent.task.as_str()).or_default().push(row),
                _ => verdict.broken.push(format!("I13: nobody knows of {}: {:?}", row.id, row.arguments)),
            }
        }
        verdict.calls = calls.len();
        for call in calls {
            let rows = by_key.remove(call.order.call_key(seed).as_str()).unwrap_or_default();
            let children = by_parent.remove(call.id.as_str()).unwrap_or_default();
            let judged = verdict.judge(call, &rows, &children, effects);
            judged.with_context(|| format!("{} cannot be judged", call.order.key))?;
        }
        verdict.broken.extend(by_key.keys().map(|key| format!("I13: nobody was told of the task of {key}")));
        verdict
            .broken
            .extend(by_parent.keys().map(|parent| format!("I14: {parent} has children, and is no task")));
        Ok(verdict)
    }

    fn judge(
        &mut self,
        call: &Call,
        rows: &[&Record],
        children: &[&Record],
        effects: &Effects,
    ) -> Result<()> {
        let Call { order, id, .. } = call;
        let row = match rows {
            [row] if row.id.as_str() == id => row,
            [] if order.kept().is_some() => {
                self.forgotten += 1;
                let end = if order.tool == TIMED { End::Expired } else { End::Completed };
                self.judge_effects(order, end, &effects.lines(&order.key)?);
                return Ok(());
            }
            rows => {
                let ids: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
                self.complain(order, format!("I13: acknowledged as {id}, and the store has {ids:?}"));
                return Ok(());
            }
        };
        let Some(end) = self.end(order, row) else { return Ok(()) };
        let may_be = match end {
            End::Completed => order.cancelled.is_none() && !order.fails() && order.tool != TIMED,
            End::Failed => order.fails(),
            // Acknowledged or not.
            End::Cancelled => order.cancelled.is_some(),
            End::Lost => order.tool == NEVER,
            End::Expired => order.tool == TIMED,
        };
        if !may_be {
            self.complain(order, format!("it ended as {:?}", row.outcome()));
        }
        let lines = effects.lines(&order.key)?;
        self.judge_effects(order, end, &lines);
        self.judge_answers(call, end, &lines);
        self.judge_children(order, end, children, effects)
    }

    /// What is counted of the end of a task; `None` where it has none.
    fn end(&mut self, order: &Order, row: &Record) -> Option<End> {
        let end = match row.outcome() {
            None => {
                self.complain(order, format!("I14: it has not ended: {:?}", row.phase));
                return None;
            }
            Some(Outcome::Cancelled { .. }) => End::Cancelled,
            Some(Outcome::Lost { .. }) => End::Lost,
            Some(outcome) if *outcome == Outcome::expired() => End::Expired,
            Some(Outcome::Result { is_error, value }) => {
                let words = if *is_error { "as it was told to" } else { "\"done\"" };
                if !value.as_str().contains(words) {
                    self.complain(order, format!("it came to {value:?}"));
                }
                if *is_error { End::Failed } else { End::Completed }
            }
            Some(other) => {
                self.complain(order, format!("it ended as {other:?}"));
                return None;
            }
        };
        *match end {
            End::Completed => &mut self.completed,
            End::Failed => &mut self.failed,
            End::Cancelled => &mut self.cancelled,
            End::Lost => &mut self.lost,
            End::Expired => &mut self.expired,
        } += 1;
        if row.is_undoing() {
            self.complain(order, format!("I14: it is not undone: {:?}", row.undo));
        }
        Some(end)
    }

    pub(super) fn judge_effects(&mut self, order: &Order, end: End, lines: &[Line]) {
        let mut undone = Vec::new();
        for (at, Word(what, _)) in order.words.iter().copied().enumerate() {
            let here =
                |kind: &'static str| lines.iter().filter(move |line| line.what == kind && line.at == at);
            let did = here(DID).count();
            let told: BTreeSet<&str> = here(TOLD).map(|line| line.came.as_str()).collect();
            let recorded = told.first().is_some_and(|told| *told != IN_DOUBT);
            let mut wrong = Vec::new();
            // What is no step has no key.
            for kind in [DID, UNDID] {
                let keys = here(kind).map(|line| &*line.came).filter(|key| *key != "-");
                self.keys += keys.clone().count();
                let keys: BTreeSet<&str> = keys.collect();
                if keys.len() > 1 {
                    self.complain(order, format!("I5: at {what} {at}, one step has the keys {keys:?}"));
                }
            }
            if told.len() > 1 {
                wrong.push(format!("it was told {told:?}"));
            }
            if "plmrcwx".contains(what) {
                let delayed = here(DID).filter(|line| line.delayed).count().min(did.saturating_sub(1));
                self.effects += did;
                self.repeated += did.saturating_sub(1);
                self.in_doubt += usize::from(!told.is_empty() && !recorded);
                let late = |line: &Line| line.delayed || (what == 'p' && line.unaware);
                let in_time = |line: &Line| line.what == DID && line.at == at && !late(line);
                let last_did = lines.iter().rposition(in_time);
                let first_told = lines.iter().position(|line| line.what == TOLD && line.at == at);
                if first_told.zip(last_did).is_some_and(|(told, did)| did > told) {
                    wrong.push("its effect was had after it was recorded".to_owned());
                }
                let once = "mrx".contains(what) || (what == 'w' && order.tool != AGAIN);
                if once && did - delayed > 1 {
                    wrong.push(format!("its effect was had {did} times"));
                }
                if did == 0 && (recorded || (end == End::Completed && what != 'm')) {
                    wrong.push("its effect was never had".to_owned());
                }
            }
            let undid = here(UNDID).count();
            let owed = what == 'c' && end != End::Completed && recorded;
            if owed && undid == 0 {
                wrong.push("it was not undone".to_owned());
            }
            if undid > 0 && (end == End::Completed || did == 0) {
                wrong.push("it was undone".to_owned());
            }
            if undid > 0 {
                self.undone += 1;
                undone.push((lines.iter().position(|line| line.what == UNDID && line.at == at), at));
            }
            for wrong in wrong {
                self.complain(order, format!("I7: at {what} {at}, {wrong}: {lines:?}"));
            }
        }
        if !undone.is_sorted_by(|earlier, later| earlier.0 > later.0) {
            self.complain(order, format!("I7: it was not undone in reverse: {lines:?}"));
        }
    }

    /// What the work was told is what was acknowledged, of each question.
    fn judge_answers(&mut self, call: &Call, end: End, lines: &[Line]) {
        for Answer { at, choices, acknowledged } in call.answers.values() {
            let told: BTreeSet<&str> = lines
                .iter()
                .filter(|line| line.what == TOLD && line.at == *at)
                .map(|line| &*line.came)
                .collect();
            let is_answer = |told: &str| choices.iter().any(|choice| choice.to_string() == told);
            // Of two that came at the same time it is told one, and that one for ever.
            if told.len() > 1
                || !told.iter().all(|told| is_answer(told))
                || (end == End::Completed && told.is_empty())
            {
                self.complain(
                    &call.order,
                    format!("I4: {choices:?} was answered at {at}, and it was told {told:?}"),
                );
            }
            let is_consumed = usize::from(*acknowledged && told.iter().any(|told| is_answer(told)));
            self.consumed += is_consumed;
            self.in_sessions += if call.order.era == Era::D2 { is_consumed } else { 0 };
        }
    }

    fn judge_children(&mut self, order: &Order, end: End, rows: &[&Record], effects: &Effects) -> Result<()> {
        let mut orders: BTreeMap<String, Order> =
            order.children().into_iter().map(|child| (child.key.clone(), child)).collect();
        let complete = orders.len();
        self.children += rows.len();
        for row in rows {
            let arguments: Value = serde_json::from_str(row.arguments.as_str())?;
            let key = arguments["key"].as_str().unwrap_or_default();
            let Some(child) = orders.remove(key) else {
                self.complain(order, format!("I7: it made {key} twice, or for nobody"));
                continue;
            };
            // Not counted among the calls.
            let mut of = Self::default();
            let ended = of.end(&child, row);
            if ended.is_some_and(|it| {
                it != if order.cancelled.is_some() { End::Cancelled } else { End::Completed }
            }) {
                of.complain(&child, format!("it ended as {ended:?}"));
            }
            if let Some(ended) = ended {
                of.judge_effects(&child, ended, &effects.lines(key)?);
            }
            self.broken.append(&mut of.broken);
            self.effects += of.effects;
            self.keys += of.keys;
            self.repeated += of.repeated;
        }
        if end == End::Completed && !orders.is_empty() {
            self.complain(order, format!("of {complete} children {} were never made", orders.len()));
        }
        Ok(())
    }

    fn complain(&mut self, order: &Order, what: String) {
        self.broken.push(format!("{} ({} {}): {what}", order.key, order.tool, order.plan()));
    }

    /// How everything ended.
    pub(super) fn ends(&self) -> String {
        let Self { completed, failed, cancelled, lost, expired, forgotten, children, .. } = self;
        format!(
            "{completed} completed, {failed} failed, {cancelled} cancelled, {lost} lost, {expired} expired, \
             {forgotten} forgotten; {children} children"
        )
    }

    /// What was had of effects.
    pub(super) fn told_of_effects(&self) -> String {
        let Self { effects, repeated, undone, in_doubt, .. } = self;
        let mut text = format!("{effects} times, {repeated} of them again");
        write!(text, "; {undone} undone, {in_doubt} in doubt").expect("a string takes any text");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::{FLOW, words};
    use super::*;

    /// What is said of work that left these lines.
    fn said(plan: &str, end: End, lines: &str) -> Vec<String> {
        let (key, era) = ("t".to_owned(), Era::D3);
        let order = Order { key, tool: FLOW, era, words: words(plan), cancelled: None };
        let folder = tempfile::tempdir().unwrap();
        let effects = Effects::of(folder.path().to_owned(), "n");
        let lines = lines.lines().map(|line| line.splitn(3, ' ').collect::<Vec<_>>());
        lines.for_each(|line| effects.note("t", line[0], line[1].parse().unwrap(), line[2]).unwrap());
        let mut verdict = Verdict::default();
        verdict.judge_effects(&order, end, &effects.lines("t").unwrap());
        verdict.broken
    }

    #[test]
    fn what_may_happen_to_effects_is_not_complained_of() {
        let none: [String; 0] = [];
        assert_eq!(said("l0", End::Completed, "did 0 k\ndid 0 k\ntold 0 2\ntold 0 2\n"), none);
        assert_eq!(said("m0", End::Completed, "did 0 k\ntold 0 in doubt\n"), none);
        let undone = "did 0 k\ntold 0 1\ndid 1 k\ntold 1 1\nundid 1 k\nundid 0 k\n";
        assert_eq!(said("c0 c0 f0", End::Failed, undone), none);
    }

    #[test]
    fn a_step_has_one_key() {
        let said = said("l0", End::Completed, "did 0 k\ndid 0 j\ntold 0 2\n");
        assert!(said.len() == 1 && said[0].contains("I5: at l 0"), "{said:?}");
    }

    #[test]
    fn what_must_not_happen_to_effects_is() {
        let found = |plan, end, lines, what: &str| {
            let said = said(plan, end, lines);
            assert!(said.iter().any(|said| said.contains(what)), "{what}: {said:?}");
        };
        found("l0", End::Completed, "did 0 k\ntold 0 1\ndid 0 k\ntold 0 1\n", "after it was recorded");
        found("l0", End::Completed, "did 0 k\ntold 0 1\ntold 0 2\n", "it was told");
        found("l0", End::Completed, "", "never had");
        found("m0", End::Completed, "did 0 k\ndid 0 k\ntold 0 2\n", "2 times");
        found("r0", End::Completed, "did 0 k\ndid 0 k\ntold 0 2\n", "2 times");
        found("x0", End::Completed, "did 0 -\ndid 0 -\ntold 0 -\n", "2 times");
        found("c0 f0", End::Failed, "did 0 k\ntold 0 1\n", "not undone");
        found("c0", End::Completed, "did 0 k\ntold 0 1\nundid 0 k\n", "it was undone");
        let forwards = "did 0 k\ntold 0 1\ndid 1 k\ntold 1 1\nundid 0 k\nundid 1 k\n";
        found("c0 c0 f0", End::Failed, forwards, "in reverse");
    }
}
