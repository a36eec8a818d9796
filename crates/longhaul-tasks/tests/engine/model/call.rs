//! A call as rules: what is to be done follows from what is known, whatever the way there was.
//!
//! The machine goes from state to state. This keeps facts instead, each of which an event makes true, and asks of one rule
//! after the other whether it has something to say, until none has. Both must do the same, also when what was asked for is
//! reported late.

use longhaul_store::{Json, Outcome};
use longhaul_tasks::machine::{Caller, Effect, Event, Machine, Plan, Refusal, Reply};

use super::bytes::Bytes;

/// What is known of a call.
#[derive(Clone, Debug)]
struct Call {
    plan: Plan,
    /// The row is on disk.
    kept: bool,
    /// The row is being written.
    writing: bool,
    /// The outcome is being written.
    ending: bool,
    /// A place was asked for.
    begun: bool,
    /// There is a place, and nothing was started there.
    has_place: bool,
    /// It was started, and is not refused.
    started: bool,
    /// It runs.
    runs: bool,
    /// It is being told of its row.
    hearing: bool,
    /// It outlives this process.
    knows: bool,
    /// How it ended, until that is written.
    ended: Option<Outcome>,
    /// It is to become durable.
    due: bool,
    /// Whoever takes a task is to have it.
    tell: bool,
    /// Who waits is to be let go.
    let_go: bool,
    cancelled: bool,
    left: bool,
    answered: bool,
    over: bool,
}

impl Call {
    fn new(plan: Plan) -> Self {
        Self {
            plan,
            kept: false,
            writing: false,
            ending: false,
            begun: false,
            has_place: false,
            started: false,
            runs: false,
            hearing: false,
            knows: false,
            ended: None,
            due: plan.row_first,
            tell: plan.tells_at_once,
            let_go: false,
            cancelled: false,
            left: false,
            answered: false,
            over: false,
        }
    }

    fn begin(plan: Plan) -> (Self, Vec<Effect>) {
        let mut call = Self::new(plan);
        if plan.row_first {
            (call.due, call.writing) = (false, true);
            return (call, vec![Effect::Commit]);
        }
        let first = call.settle();
        (call, first)
    }

    /// One that an earlier process has left: its row is there, and nobody waits.
    fn left_over(runs: bool) -> (Self, Vec<Effect>) {
        let mut call = Self::new(Plan::new(Caller::Waits, true));
        (call.kept, call.answered, call.due) = (true, true, false);
        (call.begun, call.started, call.runs, call.knows) = (runs, runs, runs, runs);
        let first = call.settle();
        (call, first)
    }

    /// What an event makes true.
    fn hear(&mut self, event: &Event) -> Vec<Effect> {
        if self.over {
            return vec![];
        }
        let mut said = vec![];
        match event.clone() {
            Event::Admitted => self.has_place |= self.begun && !self.started && self.work_is_ahead(),
            Event::Started => self.runs |= self.started && self.work_is_ahead(),
            Event::Ended(outcome) if !self.ending => self.ended = Some(outcome),
            Event::Told if self.hearing && self.ended.is_none() => (self.hearing, self.knows) = (false, true),
            Event::Refused(refusal) if !self.kept && !self.writing => {
                return self.close(Reply::Refused(refusal));
            }
            Event::Refused(refusal) if self.started && !self.runs && self.work_is_ahead() => {
                (self.started, self.knows) = (false, false);
                said.push(Effect::StartLater(refusal));
            }
            Event::AfterElapsed | Event::Asks => (self.due, self.tell) = (true, true),
            Event::Asked => self.let_go |= self.plan.is_asked,
            Event::WantsRow => self.due = true,
            Event::HoldElapsed => self.let_go = self.plan.hands_over,
            Event::Draining => (self.due, self.tell, self.let_go) = (true, true, self.plan.hands_over),
            Event::Committed => (self.writing, self.kept) = (false, true),
            Event::CommitFailed(refusal) if !self.begun => return self.close(Reply::Refused(refusal)),
            Event::CommitFailed(refusal) => {
                self.writing = false;
                self.plan.may_be_kept &= !refusal.lasting;
                said.extend(self.settle());
                if !self.over && !self.writing && self.plan.may_be_kept {
                    said.push(Effect::CommitLater);
                }
                return said;
            }
            Event::CallerCancelled => {
                self.cancelled |= !self.answered;
                self.answered = true;
            }
            Event::CallerLeft => (self.left, self.answered) = (true, true),
            Event::Recorded(outcome) => {
                let at_work = self.begun && self.work_is_ahead();
                said.extend(at_work.then_some(Effect::Stop));
                let asks = self.plan.caller == Caller::AsksForTask;
                said.extend(self.close(if asks { Reply::Task } else { Reply::Outcome(outcome) }));
                return said;
            }
            Event::TakenOver => {
                let waits = self.plan.caller == Caller::Waits;
                return self.close(if waits { Reply::HandOver } else { Reply::Task });
            }
            Event::Ended(_) | Event::Told | Event::Refused(_) => {}
        }
        said.extend(self.settle());
        said
    }

    /// The work has not ended, and nobody has ended it.
    fn work_is_ahead(&self) -> bool {
        self.ended.is_none() && !self.ending && !self.over
    }

    /// A crash would lose nothing: the row is there, and the work has not begun, or outlives this process.
    fn is_safe(&self) -> bool {
        self.kept && (!self.started || self.knows)
    }

    /// Whom to answer before the end, and with what, now that a task is safe.
    fn acknowledgement(&self) -> Option<Reply> {
        match self.plan.caller {
            Caller::AsksForTask | Caller::TakesTask => self.tell.then_some(Reply::Task),
            Caller::Waits => self.let_go.then_some(Reply::HandOver),
        }
        .filter(|_| !self.answered)
    }

    /// What the rules say until they say nothing more.
    fn settle(&mut self) -> Vec<Effect> {
        let mut said = vec![];
        while let Some(more) = self.rule() {
            said.extend(more);
        }
        said
    }

    /// What the first rule says that has something to say.
    fn rule(&mut self) -> Option<Vec<Effect>> {
        let at_rest = !self.writing && !self.ending;
        let (loose, kept) = (at_rest && !self.kept, at_rest && self.kept);
        if self.over {
            return None;
        }
        if loose && (self.cancelled || self.left) {
            self.over = true;
            return Some(vec![Effect::Stop]);
        }
        if kept && self.cancelled {
            self.ending = true;
            return Some(vec![Effect::Cancel, Effect::Stop]);
        }
        if let Some(outcome) = self.ended.clone().filter(|_| loose) {
            return Some(self.close(Reply::Outcome(outcome)));
        }
        if let Some(outcome) = self.ended.clone().filter(|_| kept) {
            self.ending = true;
            return Some(vec![Effect::Finish(outcome)]);
        }
        if self.has_place {
            (self.has_place, self.started, self.knows) = (false, true, self.kept);
            return Some(vec![Effect::Start { durable: self.kept }]);
        }
        let can_hear = !self.started || self.runs;
        if loose && self.begun && self.due && can_hear && self.plan.may_be_kept {
            (self.due, self.writing) = (false, true);
            return Some(vec![Effect::Commit]);
        }
        if kept && self.runs && !self.knows && !self.hearing {
            self.hearing = true;
            return Some(vec![Effect::Tell]);
        }
        // Who only waits need not wait for a disk that takes no outcome.
        let in_vain = self.ending && self.plan.caller == Caller::Waits;
        if let Some(reply) = self.acknowledgement().filter(|_| kept && self.is_safe() || in_vain) {
            self.answered = true;
            return Some(vec![Effect::Answer(reply)]);
        }
        if at_rest && !self.begun {
            self.begun = true;
            return Some(vec![Effect::Admit]);
        }
        None
    }

    fn close(&mut self, reply: Reply) -> Vec<Effect> {
        self.over = true;
        if std::mem::replace(&mut self.answered, true) { vec![] } else { vec![Effect::Answer(reply)] }
    }
}

/// What was asked of the outside, and which reports can therefore come.
#[derive(Debug, Default)]
struct Outside {
    admitting: bool,
    starting: bool,
    running: bool,
    committing: bool,
    telling: bool,
    recording: bool,
    kept: bool,
}

impl Outside {
    fn ask(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Admit | Effect::StartLater(_) => self.admitting = true,
                Effect::Start { .. } => self.starting = true,
                Effect::Commit => self.committing = true,
                Effect::Tell => self.telling = true,
                Effect::Finish(_) | Effect::Cancel => self.recording = true,
                // What is let in, starts or ends just then may still say so.
                Effect::Stop | Effect::CommitLater | Effect::Answer(_) => {}
            }
        }
    }

    /// The next of the events that can come.
    fn next(&mut self, bytes: &mut Bytes<'_>) -> Event {
        let mut can_come = vec![
            Event::AfterElapsed,
            Event::HoldElapsed,
            Event::WantsRow,
            Event::Asks,
            Event::Draining,
            Event::CallerCancelled,
            Event::CallerLeft,
        ];
        // Most stories should get somewhere.
        for _ in 0..3 {
            can_come.extend(self.admitting.then_some(Event::Admitted));
            can_come.extend(self.starting.then_some(Event::Started));
            can_come.extend(self.committing.then_some(Event::Committed));
            can_come.extend(self.telling.then_some(Event::Told));
        }
        if self.starting || self.running {
            can_come.extend([Event::Ended(outcome(bytes))]);
        }
        if self.starting {
            can_come.push(Event::Refused(Refusal::new("no room", true)));
        }
        if self.committing {
            let refusal = Refusal::new("full", false);
            can_come.push(Event::CommitFailed(if bytes.flag() { refusal.lasting() } else { refusal }));
        }
        if self.recording || self.kept {
            can_come.extend([Event::Recorded(outcome(bytes)), Event::TakenOver, Event::Asked]);
        }
        let event = can_come.swap_remove(bytes.below(can_come.len()));
        match &event {
            Event::Admitted => self.admitting = false,
            Event::Started => (self.starting, self.running) = (false, true),
            Event::Refused(_) => self.starting = false,
            Event::Ended(_) => (self.starting, self.running) = (false, false),
            Event::Committed => (self.committing, self.kept) = (false, true),
            Event::CommitFailed(_) => self.committing = false,
            Event::Told => self.telling = false,
            _ => {}
        }
        event
    }
}

fn outcome(bytes: &mut Bytes<'_>) -> Outcome {
    match bytes.below(4) {
        0 => Outcome::result(Json::null(), false),
        1 => Outcome::result(Json::null(), true),
        2 => Outcome::lost("gone"),
        _ => Outcome::cancelled(None),
    }
}

fn plan(bytes: &mut Bytes<'_>) -> Plan {
    let caller = bytes.one(&[Caller::AsksForTask, Caller::TakesTask, Caller::Waits]);
    let flags = bytes.below(32);
    let mut plan = Plan::new(caller, flags & 1 == 0);
    plan.tells_at_once ^= flags & 2 != 0;
    (plan.may_be_kept, plan.hands_over) = (flags & 4 == 0, flags & 8 == 0);
    if flags & 16 == 0 { plan.with_questions() } else { plan }
}

/// The machine and the rules hear the same, of what can come.
pub(super) fn story(bytes: &[u8]) -> Result<(), String> {
    let mut bytes = Bytes::new(bytes);
    let plan = plan(&mut bytes);
    let ((mut machine, first), (mut call, expected)) = match bytes.below(8) {
        0 => ((Machine::resume(), vec![]), Call::left_over(true)),
        1 => (Machine::restart(), Call::left_over(false)),
        _ => (Machine::begin(plan), Call::begin(plan)),
    };
    let mut told = format!("{plan:?}");
    let mut outside = Outside { running: call.runs, kept: call.kept, ..Outside::default() };
    agree(&mut told, &machine, &first, &call, &expected)?;
    outside.ask(&first);
    while !bytes.is_empty() {
        let event = outside.next(&mut bytes);
        told += &format!("\n{event:?}");
        let (done, expected) = (machine.handle(event.clone()), call.hear(&event));
        outside.ask(&done);
        agree(&mut told, &machine, &done, &call, &expected)?;
    }
    Ok(())
}

fn agree(
    told: &mut String,
    machine: &Machine,
    done: &[Effect],
    call: &Call,
    expected: &[Effect],
) -> Result<(), String> {
    *told += &format!(" -> {done:?}");
    let found = (machine.is_over(), machine.is_durable(), machine.is_answered(), machine.plan());
    let known = (call.over, call.kept, call.answered, call.plan);
    if done == expected && found == known {
        return Ok(());
    }
    Err(format!(
        "{told}\n\nThe rules say {expected:?}.\nOver, durable, answered: {found:?}, by the rules {known:?}."
    ))
}

/// The machine hears what can never come as well: it stands that, and never answers twice.
pub(super) fn anything(bytes: &[u8]) -> Result<(), String> {
    let mut bytes = Bytes::new(bytes);
    let (mut machine, first) = Machine::begin(plan(&mut bytes));
    let mut told = format!("{first:?}");
    let is_answer = |effect: &&Effect| matches!(effect, Effect::Answer(_));
    let mut answers = first.iter().filter(is_answer).count();
    while !bytes.is_empty() {
        let refusal = Refusal::new("no", true);
        let all = [
            Event::Admitted,
            Event::Started,
            Event::Refused(refusal.clone()),
            Event::AfterElapsed,
            Event::WantsRow,
            Event::Asks,
            Event::Asked,
            Event::HoldElapsed,
            Event::Draining,
            Event::Committed,
            Event::CommitFailed(refusal),
            Event::Told,
            Event::TakenOver,
            Event::CallerCancelled,
            Event::CallerLeft,
            Event::Ended(outcome(&mut bytes)),
            Event::Recorded(outcome(&mut bytes)),
        ];
        let event = all[bytes.below(all.len())].clone();
        let (was_over, was_answered) = (machine.is_over(), machine.is_answered());
        let done = machine.handle(event.clone());
        told += &format!("\n{event:?} -> {done:?}");
        let more = done.iter().filter(is_answer).count();
        answers += more;
        let silent = !(was_over && !done.is_empty() || was_answered && more > 0);
        if !silent || answers > 1 || was_over && !machine.is_over() || answers > 0 && !machine.is_answered() {
            return Err(told);
        }
    }
    Ok(())
}
