//! One sentence on a task: what it does, what it waits for, or how it ended.

use std::fmt;

use longhaul::proto::model::{ElicitParams, InputRequest};
use longhaul::store::{Outcome, Phase, Question, Record, Rerun, Spell, SpellOver, Time, ToolVersion};
use longhaul::tasks::project::{self, View};
use longhaul::tasks::runner::InLine;

use super::{Admin, Viewer, span};
use crate::clean;

/// The sentence, and the moment that it counts from or to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Why {
    pub(crate) words: String,
    /// Behind the words: how long that is.
    pub(crate) when: Option<When>,
}

/// A moment that a sentence ends with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct When {
    pub(crate) at: Time,
    now: Time,
}

impl When {
    /// How long it is to there, or was.
    pub(crate) fn span(self) -> String {
        let (at, now) = (self.at, self.now);
        if at > now { format!("in {}", span(at.since(now))) } else { format!("for {}", span(now.since(at))) }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)?;
        match self.when {
            Some(when) => write!(f, " {}", when.span()),
            None => Ok(()),
        }
    }
}

/// How many characters a sentence has at most.
const LONGEST: usize = 200;

impl Admin {
    /// The sentence on a task, for `viewer`.
    pub(crate) fn why(&self, viewer: &Viewer, record: &Record, now: Time) -> Why {
        let in_line = self.engine().in_line(record);
        why(record, in_line.map(|line| queued(line, &record.tool, viewer.is_operator())), now)
    }
}

/// The sentence on a task; what is said of the line that it stands in, if it does and that is known.
pub(crate) fn why(record: &Record, queued: Option<String>, now: Time) -> Why {
    let (words, at) = sentence(record, queued, now);
    Why { words: clean::line(&words, LONGEST), when: at.map(|at| When { at, now }) }
}

fn sentence(record: &Record, queued: Option<String>, now: Time) -> (String, Option<Time>) {
    if let Some(reason) = &record.cancelling
        && !record.is_terminal()
    {
        let because = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        let until = record.expires_at.map_or("", |_| ", and is cancelled in any case");
        return (format!("asked to end{because}{until}"), record.expires_at);
    }
    if let Some(question) = record.questions.first() {
        return (asks(question, record.questions.len()), None);
    }
    if let Some(queued) = queued.filter(|_| !record.is_terminal()) {
        return (queued, None);
    }
    let said = || project::task(record, View::D2).status_message.unwrap_or_default();
    match &record.phase {
        Phase::Done(Outcome::Result { is_error: false, .. }) => ("done".to_owned(), None),
        Phase::Done(Outcome::Cancelled { reason: None }) => ("cancelled".to_owned(), None),
        Phase::Done(_) => (said(), None),
        Phase::Queued { not_before } if *not_before > now && record.attempt > 0 => {
            let cause = cut_off(record);
            (format!("attempt {} was cut off{cause}; the next begins", record.attempt), Some(*not_before))
        }
        Phase::Queued { not_before } if *not_before > now => ("begins".to_owned(), Some(*not_before)),
        Phase::Queued { .. } if record.started => {
            (format!("waits for a node that goes on with {}", tool(record)), Some(record.updated_at))
        }
        Phase::Queued { .. } if record.status_message.is_some() => (said(), None),
        Phase::Queued { .. } => {
            (format!("queued: waits for a node with a place for {}", tool(record)), Some(record.created_at))
        }
        Phase::Parked { .. } if record.children.open > 0 => {
            let (open, all) = (record.children.open, record.children.open + record.children.ended);
            let of = if open < all { format!(" of {all}") } else { String::new() };
            (format!("waits for {open}{of} task{} that it made", if all == 1 { "" } else { "s" }), None)
        }
        // What runs elsewhere goes on meanwhile.
        Phase::Parked { until: Some(until) } if *until > now && record.rerun == Rerun::Reattach => {
            (format!("{}; asked after again", working(record)), Some(*until))
        }
        Phase::Parked { until: Some(until) } if *until > now => ("goes on".to_owned(), Some(*until)),
        Phase::Parked { .. } => ("is about to go on".to_owned(), None),
        Phase::Running { lease } if lease.until <= now => {
            (format!("node {} has not been heard of", lease.node), Some(lease.until))
        }
        Phase::Running { .. } => (working(record), None),
        _ => (said(), None),
    }
}

/// Its tool, in the version that a node has to accept, if it has one.
fn tool(record: &Record) -> String {
    let Record { tool, version, .. } = record;
    if *version == ToolVersion::default() {
        format!("`{tool}`")
    } else {
        format!("version {version} of `{tool}`")
    }
}

/// By what the latest attempt was cut off, if that is known.
fn cut_off(record: &Record) -> String {
    match record.spells.last() {
        Some(Spell { node, over: Some(SpellOver::Lost(_)), .. }) => {
            format!(", for node {node} was gone or silent for too long")
        }
        Some(Spell { node, over: Some(SpellOver::Back(_)), .. }) => format!(", for node {node} gave it back"),
        _ => String::new(),
    }
}

/// How many come before it, for who sees the tasks of others.
fn queued(InLine { ahead, limit, .. }: InLine, tool: &str, sees_others: bool) -> String {
    let place = match ahead {
        _ if !sees_others => String::new(),
        0 => ", next in line".to_owned(),
        1 => " behind 1 other".to_owned(),
        ahead => format!(" behind {ahead} others"),
    };
    format!("queued{place}: limit {limit} for `{tool}`")
}

/// What it is at.
fn working(record: &Record) -> String {
    let progress = record.progress.as_ref();
    let message =
        progress.and_then(|progress| progress.message.as_deref()).or(record.status_message.as_deref());
    let count = progress.map(|progress| match progress.total {
        Some(total) => format!("{}/{total} ", progress.value),
        None => format!("{} ", progress.value),
    });
    let words = format!("{}{}", count.unwrap_or_default(), message.unwrap_or_default());
    match words.trim() {
        "" if record.attempt > 1 => format!("at work, attempt {}", record.attempt),
        "" => "at work".to_owned(),
        words => words.to_owned(),
    }
}

/// What a question asks, and whom.
fn asks(question: &Question, of: usize) -> String {
    let more = if of > 1 { format!(" (and {} more)", of - 1) } else { String::new() };
    match InputRequest::read(&question.request) {
        Ok(InputRequest::Elicit(ElicitParams::Form(form))) => form.message + &more,
        Ok(InputRequest::Elicit(ElicitParams::Url(page))) => page.message + &more,
        Ok(InputRequest::Sample(_)) => format!("asks the model of its caller{more}"),
        Ok(InputRequest::ListRoots) => format!("asks its caller where it may work{more}"),
        Err(_) => format!("asks something that this release cannot read{more}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul::store::{Json, Lease, NodeId, Owner, Progress, TaskId};

    use super::*;

    #[test]
    fn it_says_why_a_task_does_not_move() {
        let at = |seconds: i64| Time::from_unix_ms(seconds * 1000);
        let now = at(1000);
        let id = TaskId::new("t-1").unwrap();
        let base = Record::new(id, Owner::Anonymous, "deploy", Json::null(), Json::null(), at(940));
        let said = |change: &dyn Fn(&mut Record)| {
            let mut record = base.clone();
            change(&mut record);
            why(&record, None, now).to_string()
        };
        let lease = |until| Lease::new(NodeId::new("node-b").unwrap(), until);
        let running = |until| Phase::Running { lease: lease(at(until)) };
        assert_eq!(said(&|_| {}), "queued: waits for a node with a place for `deploy` for 1m");
        assert_eq!(
            said(&|record| record.version = ToolVersion::new("2").unwrap()),
            "queued: waits for a node with a place for version 2.0.0 of `deploy` for 1m"
        );
        assert_eq!(
            said(&|record| {
                (record.attempt, record.started) = (2, true);
                record.phase = Phase::Queued { not_before: at(1040) };
            }),
            "attempt 2 was cut off; the next begins in 40s"
        );
        for (over, cause) in [("Lost", "was gone or silent for too long"), ("Back", "gave it back")] {
            let spell = serde_json::json!([{ "nth": 2, "node": "node-b", "from": 950_000, "over": { over: 990_000 } }]);
            let spells: Vec<Spell> = serde_json::from_value(spell).unwrap();
            let said = said(&|record| {
                (record.attempt, record.started, record.spells) = (2, true, spells.clone());
                record.phase = Phase::Queued { not_before: at(1040) };
            });
            assert_eq!(
                said,
                format!("attempt 2 was cut off, for node node-b {cause}; the next begins in 40s")
            );
        }
        assert_eq!(said(&|record| record.phase = Phase::Parked { until: Some(at(4600)) }), "goes on in 1h");
        assert_eq!(
            said(&|record| {
                (record.phase, record.rerun) = (Phase::Parked { until: Some(at(1040)) }, Rerun::Reattach);
                record.status_message = Some("frame 2 of 3".into());
            }),
            "frame 2 of 3; asked after again in 40s"
        );
        assert_eq!(
            said(&|record| {
                record.phase = Phase::Parked { until: None };
                record.children.open = 2;
            }),
            "waits for 2 tasks that it made"
        );
        assert_eq!(
            said(&|record| {
                record.phase = Phase::Parked { until: None };
                (record.children.open, record.children.ended) = (2, 3);
            }),
            "waits for 2 of 5 tasks that it made"
        );
        assert_eq!(said(&|record| record.phase = running(988)), "node node-b has not been heard of for 12s");
        assert_eq!(
            said(&|record| {
                record.phase = running(1010);
                record.progress = Some(Progress::new(212.0, Some(412.0), Some("api::auth\u{1b}[31m".into())));
            }),
            "212/412 api::auth"
        );
        assert_eq!(said(&|record| record.phase = Phase::Done(Outcome::lost("gone"))), "worker_lost: gone");
        let mut waits = base.clone();
        waits.phase = running(1010);
        let said = |ahead, sees_others| {
            let queued = queued(InLine::new(ahead, 2), "deploy", sees_others);
            why(&waits, Some(queued), now).to_string()
        };
        let in_line = |ahead| said(ahead, true);
        assert_eq!(in_line(3), "queued behind 3 others: limit 2 for `deploy`");
        assert_eq!(in_line(0), "queued, next in line: limit 2 for `deploy`");
        for ahead in [0, 3] {
            assert_eq!(said(ahead, false), "queued: limit 2 for `deploy`", "of others nothing is told");
        }
        assert_eq!(now.since(base.created_at), Duration::from_secs(60));
    }
}
