//! The life of one call, as a pure machine: state and event in, state and effects out.
//!
//! It decides when a call becomes durable, what its caller is told and when, and what is written. It
//! does nothing itself: the [runner](crate::runner) carries the effects out and reports back as events.
//!
//! ```text
//!            start                    after                 committed               told
//! Loose  ───────────▶ runs ───────────────▶ Committing ───────────────▶ Telling ───────────▶ Kept
//!   │ ended: the caller has the result,                                                        │ ended
//!   ▼ and there never was a task                                                               ▼
//! Over ◀──────────────────────────────────── recorded ◀──────────────────────────────── Finishing
//! ```
//!
//! A call that is asked for as a task begins at *Creating* instead: nothing runs before its row is on
//! disk.

use std::sync::Arc;

use longhaul_store::Outcome;

/// How a caller can be answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every way must be decided on")]
pub enum Caller {
    /// It asked for a task and must get one (D2).
    AsksForTask,
    /// It can take a task, if there is one (D3).
    TakesTask,
    /// It waits for the result; when it has waited long enough it is handed over to the task.
    Waits,
}

/// What is known of a call before it begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// How the caller can be answered.
    pub caller: Caller,
    /// The row comes before the work: the caller asked for a task, or the tool always is one.
    pub row_first: bool,
}

impl Plan {
    /// A plan.
    pub fn new(caller: Caller, row_first: bool) -> Self {
        Self { caller, row_first }
    }
}

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the machine answers to each")]
pub enum Event {
    /// The work runs.
    Started,
    /// The work has ended, or could not start.
    Ended(Outcome),
    /// The work has run long enough to become durable.
    AfterElapsed,
    /// The caller has waited long enough.
    HoldElapsed,
    /// The process is about to go: let callers go, keep the work.
    Draining,
    /// The row is on disk, claimed by this node.
    Committed,
    /// The row could not be written.
    CommitFailed(Refusal),
    /// The work knows that it is to outlive this process.
    Told,
    /// The outcome is on disk; or another was before it, and this is that one.
    Recorded(Outcome),
    /// The row is no longer this node's, and has not ended: somebody else works on it.
    TakenOver,
    /// The caller no longer wants the answer: it said so, or closed a stream whose closing says so. That a
    /// connection was lost says nothing, and is no event.
    CallerCancelled,
}

/// Why a row could not be written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// In words, for the caller.
    pub message: Arc<str>,
    /// There is too much already: the caller should come back later.
    pub overloaded: bool,
}

impl Refusal {
    /// A refusal.
    pub fn new(message: impl Into<Arc<str>>, overloaded: bool) -> Self {
        Self { message: message.into(), overloaded }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the runner carries out each")]
pub enum Effect {
    /// Start the work. [`Event::Started`] or [`Event::Ended`] follows.
    Start,
    /// Write the row. [`Event::Committed`] or [`Event::CommitFailed`] follows.
    Commit,
    /// Ask again later whether to become durable: [`Event::AfterElapsed`].
    CommitLater,
    /// Tell the work to outlive this process. [`Event::Told`] or [`Event::Ended`] follows.
    Tell,
    /// Write the outcome. [`Event::Recorded`] or [`Event::TakenOver`] follows.
    Finish(Outcome),
    /// Write that the task is cancelled. [`Event::Recorded`] follows.
    Cancel,
    /// End the work.
    Stop,
    /// Answer the caller.
    Answer(Reply),
}

/// What the caller is told.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the server writes each")]
pub enum Reply {
    /// The call ended so.
    Outcome(Outcome),
    /// The call is a task now.
    Task,
    /// The work goes on, and this is how to find it.
    HandOver,
    /// The call was not begun.
    Refused(Refusal),
}

/// The state of one call.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// The row is being written before the work starts.
    Creating,
    /// The row is there and the work is starting.
    Starting,
    /// The work is starting, or runs, and nothing is on disk. `due`: it is to become durable once it runs.
    Loose { started: bool, due: bool },
    /// The work runs, or has ended, while the row is being written.
    Committing { ended: Option<Outcome> },
    /// The row is there and the work is being told.
    Telling,
    /// The work outlives this process.
    Kept,
    /// The outcome is being written.
    Finishing,
    /// Nothing more will happen.
    Over,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Machine {
    plan: Plan,
    state: State,
    answered: bool,
    cancelled: bool,
    draining: bool,
}

impl Machine {
    /// A call that begins now, and what to do first.
    pub fn begin(plan: Plan) -> (Self, Vec<Effect>) {
        let (state, first) = if plan.row_first {
            (State::Creating, Effect::Commit)
        } else {
            (State::Loose { started: false, due: false }, Effect::Start)
        };
        let this = Self { plan, state, answered: false, cancelled: false, draining: false };
        (this, vec![first])
    }

    /// A call of an earlier process, found again: its row is this node's and its work runs.
    pub fn resume() -> Self {
        let plan = Plan::new(Caller::Waits, true);
        Self { plan, state: State::Kept, answered: true, cancelled: false, draining: false }
    }

    /// A call of an earlier process whose work never started: its row is this node's. What to do first.
    pub fn restart() -> (Self, Vec<Effect>) {
        (Self { state: State::Starting, ..Self::resume() }, vec![Effect::Start])
    }

    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether there is a row.
    pub fn is_durable(&self) -> bool {
        matches!(self.state, State::Starting | State::Telling | State::Kept | State::Finishing)
    }

    /// Whether the caller has its answer, or is not there to get one.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Something has happened: what to do now, in this order.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match (self.state.clone(), event) {
            (State::Over, _) => vec![],
            (_, Event::CallerCancelled) => self.caller_cancelled(),
            (_, Event::Draining) => self.draining(),
            (_, Event::TakenOver) => self.taken_over(),
            (_, Event::Recorded(outcome)) => self.recorded(outcome),
            (State::Creating, Event::Committed) => self.created(),
            (State::Creating, Event::CommitFailed(refusal)) => self.over(Reply::Refused(refusal)),
            (State::Starting, Event::Started) => self.enter(State::Telling, Effect::Tell),
            (State::Starting | State::Telling | State::Kept, Event::Ended(outcome)) => {
                self.enter(State::Finishing, Effect::Finish(outcome))
            }
            (State::Loose { .. }, Event::Ended(outcome)) => self.over(Reply::Outcome(outcome)),
            (State::Loose { due, .. }, Event::Started) => self.loose(true, due),
            (State::Loose { started, .. }, Event::AfterElapsed) => self.loose(started, true),
            (State::Committing { .. }, Event::Ended(outcome)) => {
                self.state = State::Committing { ended: Some(outcome) };
                vec![]
            }
            (State::Committing { ended }, Event::Committed) => self.committed(ended),
            (State::Committing { ended }, Event::CommitFailed(_)) => self.not_committed(ended),
            (State::Telling, Event::Told) => self.told(),
            (State::Kept | State::Finishing, Event::HoldElapsed) => self.hand_over(),
            _ => vec![],
        }
    }

    fn enter(&mut self, state: State, effect: Effect) -> Vec<Effect> {
        self.state = state;
        vec![effect]
    }

    fn over(&mut self, reply: Reply) -> Vec<Effect> {
        self.state = State::Over;
        self.answer(reply)
    }

    fn answer(&mut self, reply: Reply) -> Vec<Effect> {
        if std::mem::replace(&mut self.answered, true) { vec![] } else { vec![Effect::Answer(reply)] }
    }

    /// Becomes durable as soon as the work runs and its time has come.
    fn loose(&mut self, started: bool, due: bool) -> Vec<Effect> {
        if started && due {
            return self.enter(State::Committing { ended: None }, Effect::Commit);
        }
        self.state = State::Loose { started, due };
        vec![]
    }

    /// The row came first: now the work may start, unless nobody wants it any more.
    fn created(&mut self) -> Vec<Effect> {
        if self.cancelled {
            return self.enter(State::Finishing, Effect::Cancel);
        }
        self.enter(State::Starting, Effect::Start)
    }

    fn committed(&mut self, ended: Option<Outcome>) -> Vec<Effect> {
        if self.cancelled {
            self.state = State::Finishing;
            return vec![Effect::Cancel, Effect::Stop];
        }
        match ended {
            Some(outcome) => self.enter(State::Finishing, Effect::Finish(outcome)),
            None => self.enter(State::Telling, Effect::Tell),
        }
    }

    /// The call stays what it was; it may become durable later.
    fn not_committed(&mut self, ended: Option<Outcome>) -> Vec<Effect> {
        match ended {
            Some(outcome) => self.over(Reply::Outcome(outcome)),
            None if self.cancelled => {
                self.state = State::Over;
                vec![Effect::Stop]
            }
            None => self.enter(State::Loose { started: true, due: false }, Effect::CommitLater),
        }
    }

    fn told(&mut self) -> Vec<Effect> {
        self.state = State::Kept;
        match self.plan.caller {
            Caller::AsksForTask | Caller::TakesTask => self.answer(Reply::Task),
            Caller::Waits if self.draining => self.hand_over(),
            Caller::Waits => vec![],
        }
    }

    fn hand_over(&mut self) -> Vec<Effect> {
        self.answer(Reply::HandOver)
    }

    fn recorded(&mut self, outcome: Outcome) -> Vec<Effect> {
        // Recorded while the work may still run: somebody cancelled it, or its time was up.
        let stop = matches!(self.state, State::Starting | State::Telling | State::Kept);
        self.state = State::Over;
        let mut effects = if stop { vec![Effect::Stop] } else { vec![] };
        effects.extend(self.answer(match self.plan.caller {
            Caller::AsksForTask => Reply::Task,
            Caller::TakesTask | Caller::Waits => Reply::Outcome(outcome),
        }));
        effects
    }

    fn taken_over(&mut self) -> Vec<Effect> {
        self.state = State::Over;
        match self.plan.caller {
            Caller::AsksForTask | Caller::TakesTask => self.answer(Reply::Task),
            Caller::Waits => self.hand_over(),
        }
    }

    fn caller_cancelled(&mut self) -> Vec<Effect> {
        self.cancelled = true;
        if std::mem::replace(&mut self.answered, true) {
            return vec![];
        }
        match self.state {
            State::Loose { .. } => {
                self.state = State::Over;
                vec![Effect::Stop]
            }
            State::Starting | State::Telling | State::Kept => {
                self.state = State::Finishing;
                vec![Effect::Cancel, Effect::Stop]
            }
            // What is being written decides first.
            State::Creating | State::Committing { .. } | State::Finishing | State::Over => vec![],
        }
    }

    fn draining(&mut self) -> Vec<Effect> {
        self.draining = true;
        match (&self.state, self.plan.caller) {
            (State::Loose { started, .. }, _) => {
                let started = *started;
                self.loose(started, true)
            }
            (State::Kept | State::Finishing, Caller::Waits) => self.hand_over(),
            _ => vec![],
        }
    }
}

#[cfg(test)]
mod tests;
