//! The life of one call, as a pure machine: state and event in, state and effects out.
//!
//! It decides when a call becomes durable, what its caller is told and when, and what is written. It
//! does nothing itself: the [runner](crate::runner) carries the effects out and reports back as events.
//!
//! Two things are followed: the **row** (absent, being written, there, ended) and the **work** (not begun,
//! waiting for a place, starting, running, ended). Work that starts after its row knows from the start
//! that it is to outlive this process; work that was there first is told once the row is on disk. A caller
//! is answered with a task only when a crash could lose neither.

mod witness;

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::Outcome;

pub use witness::has_witness;

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
    /// The row comes before the work: the caller asked for a task, the tool always is one, or its work has an effect
    /// from its first moment.
    pub row_first: bool,
    /// Whoever takes a task has it as soon as there is one, and not only once the call has run for a while.
    pub tells_at_once: bool,
    /// The call may become durable.
    pub may_be_kept: bool,
    /// A caller that waits may be handed over to the task.
    pub hands_over: bool,
    /// It is handed over as soon as the task asks, for it can be asked by its answer.
    pub is_asked: bool,
}

impl Plan {
    /// A call that may become durable.
    pub fn new(caller: Caller, row_first: bool) -> Self {
        Self {
            caller,
            row_first,
            tells_at_once: row_first,
            may_be_kept: true,
            hands_over: true,
            is_asked: false,
        }
    }

    /// A call that its caller waits for to the end, and of which there is never a row.
    pub fn in_place() -> Self {
        Self { may_be_kept: false, hands_over: false, ..Self::new(Caller::Waits, false) }
    }

    /// The same, its row before its work in any case: nobody is told of it earlier for that.
    #[must_use]
    pub fn with_row_first(mut self) -> Self {
        self.row_first = true;
        self
    }

    /// The same of a caller that is handed over as soon as the task asks, if it may be handed over at all.
    #[must_use]
    pub fn with_questions(mut self) -> Self {
        self.is_asked = self.hands_over;
        self
    }

    /// How long after its row is there its caller is told of the task at the latest, where the call becomes one `after` so long,
    /// and who waits is handed over after `hold`. `None` if it may wait to the end.
    pub fn tells_within(&self, after: Option<Duration>, hold: Option<Duration>) -> Option<Duration> {
        match self.caller {
            Caller::AsksForTask | Caller::TakesTask if self.tells_at_once => Some(Duration::ZERO),
            Caller::AsksForTask | Caller::TakesTask => after,
            Caller::Waits => hold.filter(|_| self.hands_over),
        }
    }

    /// A call that its caller waits for to the end, and whose row comes first all the same: it is found again by it.
    pub fn in_place_once() -> Self {
        Self { hands_over: false, ..Self::new(Caller::Waits, true) }
    }
}

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the machine answers to each")]
pub enum Event {
    /// There is a place for the work among those that may run at once.
    Admitted,
    /// The work runs.
    Started,
    /// The work has ended, or could not start.
    Ended(Outcome),
    /// The work was not started, for there is too much already.
    Refused(Refusal),
    /// The work has run long enough to become durable.
    AfterElapsed,
    /// The work is about to have an effect, before which it must be durable.
    WantsRow,
    /// The work asks whoever called, and waits for the answer.
    Asks,
    /// What it asks is on disk.
    Asked,
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
    /// The outcome is on disk; or another was before it, and this is that one; or it never will be, by this process.
    Recorded(Outcome),
    /// The row is no longer this node's, and has not ended: somebody else works on it.
    TakenOver,
    /// The caller no longer wants the answer: it said so, or closed a stream whose closing says so. That a
    /// connection was lost says nothing, and is no event.
    CallerCancelled,
    /// The caller is gone for good, and said nothing: what is not durable ends.
    CallerLeft,
}

/// Why a call was not begun.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// In words, for the caller.
    pub message: Arc<str>,
    /// There is too much already: the caller should come back later.
    pub overloaded: bool,
    /// Trying again will not help.
    pub lasting: bool,
    /// The same call may be made again, although it may have been begun: it has a key, and is made once.
    pub again: bool,
    /// The caller must call otherwise, and this is the name by which programs know why.
    pub reason: Option<&'static str>,
    /// There may be a row all the same.
    pub(crate) unsure: bool,
}

impl Refusal {
    /// A refusal.
    pub fn new(message: impl Into<Arc<str>>, overloaded: bool) -> Self {
        Self {
            message: message.into(),
            overloaded,
            lasting: false,
            again: false,
            reason: None,
            unsure: false,
        }
    }

    /// The same, of a call of which there may be a row all the same.
    pub(crate) fn unsure(mut self, unsure: bool) -> Self {
        self.unsure = unsure;
        self
    }

    /// The same, for good.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// The same, of a call with a key, for something that passes.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.again = true;
        self
    }

    /// The same, of a call that can never be made so.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        (self.lasting, self.reason) = (true, Some(reason));
        self
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the runner carries out each")]
pub enum Effect {
    /// Wait for a place for the work. [`Event::Admitted`] follows.
    Admit,
    /// Start the work; `durable`: it outlives this process from the start. [`Event::Started`],
    /// [`Event::Ended`] or [`Event::Refused`] follows.
    Start {
        /// Its row is on disk.
        durable: bool,
    },
    /// Try again later to start the work, for which there was no room: [`Event::Admitted`].
    StartLater(Refusal),
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

/// What is on disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Row {
    /// Nothing.
    Absent,
    /// The row is being written.
    Writing,
    /// The row.
    There,
    /// The outcome is being written.
    Ending,
}

/// What runs.
#[derive(Clone, Debug, PartialEq)]
enum Work {
    /// Nothing: the row comes first.
    NotBegun,
    /// Nothing yet, for want of a place.
    Waiting,
    /// It is starting.
    Starting { durable: bool },
    /// It runs.
    Running { durable: bool, telling: bool },
    /// It has ended, and that is not on disk.
    Ended(Outcome),
    /// It has ended or was ended.
    Gone,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Machine {
    plan: Plan,
    row: Row,
    work: Work,
    /// The call is to become durable as soon as it can.
    due: bool,
    /// Whoever takes a task is to have it as soon as there is one.
    tell: bool,
    /// Who waits is to be let go as soon as that can be.
    let_go: bool,
    cancelled: bool,
    /// There is no caller, so that nobody would know of a task that the call became now.
    left: bool,
    answered: bool,
    over: bool,
}

impl Machine {
    /// A call that begins now, and what to do first.
    pub fn begin(plan: Plan) -> (Self, Vec<Effect>) {
        let mut this = Self {
            plan,
            row: Row::Absent,
            work: Work::Waiting,
            due: false,
            tell: plan.tells_at_once,
            let_go: false,
            cancelled: false,
            left: false,
            answered: false,
            over: false,
        };
        if !plan.row_first {
            return (this, vec![Effect::Admit]);
        }
        this.row = Row::Writing;
        this.work = Work::NotBegun;
        (this, vec![Effect::Commit])
    }

    /// A call of an earlier process, found again: its row is this node's and its work runs.
    pub fn resume() -> Self {
        let (mut this, _) = Self::begin(Plan::new(Caller::Waits, true));
        this.row = Row::There;
        this.work = Work::Running { durable: true, telling: false };
        this.answered = true;
        this
    }

    /// A call of an earlier process whose work never started: its row is this node's. What to do first.
    pub fn restart() -> (Self, Vec<Effect>) {
        (Self { work: Work::Waiting, ..Self::resume() }, vec![Effect::Admit])
    }

    /// What was known of it before it began.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether there is a row.
    pub fn is_durable(&self) -> bool {
        matches!(self.row, Row::There | Row::Ending)
    }

    /// Whether the caller has its answer, or is not there to get one.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Something has happened: what to do now, in this order.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        if self.over {
            return vec![];
        }
        match event {
            Event::Recorded(outcome) => return self.recorded(outcome),
            Event::TakenOver => return self.taken_over(),
            Event::CommitFailed(refusal) => return self.commit_failed(refusal),
            Event::Admitted if self.work == Work::Waiting => return self.start(),
            Event::Admitted => {}
            Event::Started => {
                if let Work::Starting { durable } = self.work {
                    self.work = Work::Running { durable, telling: false };
                }
            }
            Event::Told => {
                if let Work::Running { telling: true, .. } = self.work {
                    self.work = Work::Running { durable: true, telling: false };
                }
            }
            Event::Ended(outcome) => self.work = Work::Ended(outcome),
            Event::Refused(refusal) if self.row == Row::Absent => return self.end(Reply::Refused(refusal)),
            Event::Refused(refusal) if matches!(self.work, Work::Starting { .. }) => {
                self.work = Work::Waiting;
                let mut effects = vec![Effect::StartLater(refusal)];
                effects.extend(self.advance());
                return effects;
            }
            Event::Refused(_) => {}
            Event::AfterElapsed | Event::Asks => (self.due, self.tell) = (true, true),
            Event::Asked => self.let_go |= self.plan.is_asked,
            Event::WantsRow => self.due = true,
            Event::HoldElapsed => self.let_go = self.plan.hands_over,
            Event::Draining => (self.due, self.tell, self.let_go) = (true, true, self.plan.hands_over),
            Event::Committed => self.row = Row::There,
            Event::CallerCancelled => {
                self.cancelled |= !self.answered;
                self.answered = true;
            }
            Event::CallerLeft => (self.left, self.answered) = (true, true),
        }
        self.advance()
    }

    /// Does whatever what has happened allows.
    fn advance(&mut self) -> Vec<Effect> {
        match self.row {
            Row::Absent => self.advance_loose(),
            Row::There => self.advance_kept(),
            Row::Ending => self.let_go_before_the_end(),
            // What is being written decides first.
            Row::Writing => vec![],
        }
    }

    /// Nothing is on disk.
    fn advance_loose(&mut self) -> Vec<Effect> {
        if self.cancelled || self.left {
            self.over = true;
            return vec![Effect::Stop];
        }
        match &self.work {
            Work::Ended(outcome) => {
                let reply = Reply::Outcome(outcome.clone());
                self.end(reply)
            }
            // Work that is starting does not know of the row, and cannot be told yet.
            Work::Waiting | Work::Running { .. } if self.due && self.plan.may_be_kept => {
                self.due = false;
                self.row = Row::Writing;
                vec![Effect::Commit]
            }
            _ => vec![],
        }
    }

    /// The row is on disk.
    fn advance_kept(&mut self) -> Vec<Effect> {
        if self.cancelled {
            self.row = Row::Ending;
            self.work = Work::Gone;
            return vec![Effect::Cancel, Effect::Stop];
        }
        match self.work.clone() {
            Work::Ended(outcome) => {
                self.row = Row::Ending;
                self.work = Work::Gone;
                let mut effects = vec![Effect::Finish(outcome)];
                effects.extend(self.let_go_before_the_end());
                effects
            }
            Work::NotBegun => {
                self.work = Work::Waiting;
                let mut effects = self.acknowledge();
                effects.push(Effect::Admit);
                effects
            }
            Work::Running { durable: false, telling: false } => {
                self.work = Work::Running { durable: false, telling: true };
                vec![Effect::Tell]
            }
            // Started or not, a crash now loses nothing.
            Work::Waiting | Work::Starting { durable: true } | Work::Running { durable: true, .. } => {
                self.acknowledge()
            }
            _ => vec![],
        }
    }

    /// A task is safe: whoever takes one gets it, and whoever has waited long enough is handed over.
    fn acknowledge(&mut self) -> Vec<Effect> {
        match self.plan.caller {
            Caller::AsksForTask | Caller::TakesTask if self.tell => self.answer(Reply::Task),
            Caller::Waits if self.let_go => self.answer(Reply::HandOver),
            Caller::AsksForTask | Caller::TakesTask | Caller::Waits => vec![],
        }
    }

    /// The outcome is being written, which a full disk may keep from ending: who only waits need not wait for that.
    fn let_go_before_the_end(&mut self) -> Vec<Effect> {
        let waits = self.plan.caller == Caller::Waits;
        if waits && self.let_go { self.answer(Reply::HandOver) } else { vec![] }
    }

    fn start(&mut self) -> Vec<Effect> {
        let durable = self.row == Row::There;
        self.work = Work::Starting { durable };
        vec![Effect::Start { durable }]
    }

    fn answer(&mut self, reply: Reply) -> Vec<Effect> {
        if std::mem::replace(&mut self.answered, true) { vec![] } else { vec![Effect::Answer(reply)] }
    }

    fn end(&mut self, reply: Reply) -> Vec<Effect> {
        self.over = true;
        self.answer(reply)
    }

    /// A call whose row came first was not begun. Any other stays what it was, and may become durable later if
    /// that can ever be.
    fn commit_failed(&mut self, refusal: Refusal) -> Vec<Effect> {
        if self.work == Work::NotBegun {
            return self.end(Reply::Refused(refusal));
        }
        self.row = Row::Absent;
        self.plan.may_be_kept &= !refusal.lasting;
        let mut effects = self.advance();
        if !self.over && self.row == Row::Absent && self.plan.may_be_kept {
            effects.push(Effect::CommitLater);
        }
        effects
    }

    /// The outcome is on disk: this call's, or one that was there before it.
    fn recorded(&mut self, outcome: Outcome) -> Vec<Effect> {
        // While the work may still run, somebody else has ended the task: cancelled it, or its time was up.
        let runs = !matches!(self.work, Work::Gone | Work::Ended(_) | Work::NotBegun);
        let mut effects = if runs { vec![Effect::Stop] } else { vec![] };
        effects.extend(self.end(match self.plan.caller {
            Caller::AsksForTask => Reply::Task,
            Caller::TakesTask | Caller::Waits => Reply::Outcome(outcome),
        }));
        effects
    }

    /// Somebody else works on the task now: what runs outside this process is theirs.
    fn taken_over(&mut self) -> Vec<Effect> {
        self.end(match self.plan.caller {
            Caller::AsksForTask | Caller::TakesTask => Reply::Task,
            Caller::Waits => Reply::HandOver,
        })
    }
}

#[cfg(test)]
mod tests;
