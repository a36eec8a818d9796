//! One call under way: the loop that carries out what its machine decides.

mod aside;
mod line;
mod place;
mod said;

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{Epoch, Json, NewTask, Outcome, Record, Rerun, Step, TaskId, TaskWatch};

use super::begin;
use super::bind::{first, unbound_host};
use super::call::{Answer, Call, Observed, Observer, Ticket, Waiter, Work};
use super::control::Control;
use super::ending;
use super::follow::{Again, Whose, cancel_for_all};
use super::join::{Lead, Stage};
use super::keeper::Keeper;
use super::operation::{Done, Operation, cancel, commit, finish, look, read, start, stop, tell};
use super::orphan;
use super::pause::Pauses;
use super::runs::Listed;
use super::stranded;
use super::worker::{Entry, Place};
use crate::environment::BoxFuture;
use crate::job::{Attached, ExternalJob, JobRun};
use crate::machine::{Effect, Event, Machine, Reply};
use crate::note::Note;
use crate::project;
use crate::report::{Reporter, Reports};

/// Work under way.
enum Working {
    /// A future of this process.
    Here(BoxFuture<'static, Outcome>),
    /// The end of a job outside.
    Outside(Arc<dyn JobRun>, BoxFuture<'static, ()>),
}

impl Working {
    fn on(run: Arc<dyn JobRun>) -> Self {
        let running = Arc::clone(&run);
        Self::Outside(run, Box::pin(async move { running.ended().await }))
    }
}

/// How work has ended.
enum Worked {
    /// A future of this process, with this.
    Here(Outcome),
    /// A job outside; what it means depends on whether there is a row by then.
    Outside(Arc<dyn JobRun>),
}

pub(super) struct Run {
    listed: Listed,
    machine: Machine,
    todo: VecDeque<Effect>,
    operation: Option<Operation>,
    /// What the work has learnt, if it can be entered again or may ask.
    keeper: Option<Keeper>,
    /// Completes once work that can be entered again does nothing but wait; what work lets go of is withdrawn meanwhile. The
    /// same of a job, with how long it will.
    idle: Option<BoxFuture<'static, Option<Duration>>>,
    /// The process is about to go: work that can be entered again is given back as soon as that can be.
    leaving: Option<BoxFuture<'static, ()>>,
    /// The task was put aside.
    parked: bool,
    /// The work stands still: its lease is about to be over.
    held_back: bool,
    /// What is still to be written when the call becomes durable.
    new_task: Option<Box<NewTask>>,
    /// What the row says besides.
    note: Note,
    record: Option<Arc<Record>>,
    /// Under which it holds the row: what it writes is written under no other, whoever has the row by now.
    epoch: Epoch,
    /// The call was made before, and is this task.
    found: Option<Arc<Record>>,
    /// The row as it was written, until the caller has been answered with it.
    created: Option<Arc<Record>>,
    tool: Arc<str>,
    job: Option<Arc<dyn ExternalJob>>,
    arguments: Json,
    work: Option<Working>,
    /// A job that has ended and whose outcome is still to be read.
    unread: Option<Arc<dyn JobRun>>,
    /// Its outcome is being read.
    reading: bool,
    /// A future of this process that has not been started.
    unstarted: Option<BoxFuture<'static, Outcome>>,
    /// Until that has begun, which it records first, whoever claims the task begins it.
    begins_once: bool,
    admission: Option<BoxFuture<'static, Place>>,
    place: Place,
    /// The way back to its place, of work that waits for tasks of its own.
    returning: Option<BoxFuture<'static, Place>>,
    /// How long work for which there was no room waits before it is tried again.
    start_again: Option<Pauses>,
    kept: Option<Arc<dyn JobRun>>,
    reporter: Reporter,
    reports: Reports,
    observer: Option<Arc<dyn Observer>>,
    caller: Option<Waiter>,
    timers: Timers,
    watch: Option<TaskWatch>,
    /// The record has changed since it was last looked at.
    stale: bool,
    /// Those who joined this call.
    lead: Option<Lead>,
}

#[derive(Default)]
struct Timers {
    after: Option<BoxFuture<'static, ()>>,
    hold: Option<BoxFuture<'static, ()>>,
    report: Option<BoxFuture<'static, ()>>,
    report_due: bool,
    /// To look again, for what has changed could not be read.
    look: Option<BoxFuture<'static, ()>>,
    /// How long that waits next.
    look_pauses: Option<Pauses>,
    /// To end work that was asked to end itself, and has not.
    grace: Option<BoxFuture<'static, ()>>,
}

impl Run {
    /// A call that begins now; `lead`: others may join it.
    pub(super) fn begin(listed: Listed, mut call: Call, lead: Option<Lead>) -> (Box<Self>, Ticket) {
        call.join = call.join.filter(|_| lead.is_some());
        let new_task = new_task(&listed.id, &call);
        let (job, unstarted) = match call.work {
            Work::Future(work) => (None, Some(work)),
            Work::Job(job) => (Some(job), None),
        };
        let mut this =
            Self::new(listed, Machine::begin(call.plan), call.tool, call.arguments, job, call.reports);
        let (caller, ticket) = Waiter::new(&this.listed.inner.runs, this.listed.controls.clone());
        let ticket = ticket.keeping(call.once.is_some().then(|| this.listed.expect_caller()));
        let sleep =
            |duration: Option<Duration>| duration.map(|for_| this.listed.inner.environment.sleep(for_));
        let after = if call.plan.tells_at_once { None } else { sleep(call.after) };
        this.timers = Timers { after, hold: sleep(call.hold), ..Timers::default() };
        (this.note.secret, this.note.caller) = (call.secret, call.context);
        (this.note.client, this.note.conversation) = (call.client, call.conversation);
        if unstarted.is_some() {
            if !call.plan.may_be_kept {
                call.keeper.stay_loose();
            }
            call.keeper.seat(&this.listed.inner, &this.listed.id, &this.listed.controls);
            this.keeper = Some(call.keeper);
        }
        (this.new_task, this.unstarted, this.lead) = (Some(Box::new(new_task)), unstarted, lead);
        (this.caller, this.observer) = (Some(caller), Some(call.observer));
        (this, ticket)
    }

    /// A run of a task that an earlier process left; its row is this node's already.
    pub(super) fn take_up(
        listed: Listed,
        record: Record,
        job: Arc<dyn ExternalJob>,
        found: Attached,
        reports: (Reporter, Reports),
    ) -> Box<Self> {
        let (machine, kept) = match found {
            Attached::Running(run) | Attached::Ended(run) => ((Machine::resume(), vec![]), Some(run)),
            Attached::NeverStarted | Attached::Lost { .. } => (Machine::restart(), None),
        };
        stranded::take_back(&record, &reports.0);
        let (tool, arguments) = (Arc::clone(&record.tool), record.arguments.clone());
        let mut this = Self::new(listed, machine, tool, arguments, Some(job), reports);
        this.lead = this.lead_of(&record);
        if let Some(run) = kept {
            this.place = this.listed.inner.workers.free_place(&this.tool);
            this.work = Some(Working::on(Arc::clone(&run)));
            this.kept = Some(run);
        }
        this.hold_row(Arc::new(record));
        this
    }

    /// A run of a task whose work is entered again, or entered first as one that another task has made; its row is this
    /// node's already.
    pub(super) fn enter_again(
        listed: Listed,
        record: Record,
        entry: Arc<dyn Entry>,
        steps: Vec<Step>,
    ) -> Box<Self> {
        let (reporter, reports) = Reporter::new();
        stranded::take_back(&record, &reporter);
        let keeper = Keeper::resume(steps, &record, listed.inner.store.now());
        keeper.seat(&listed.inner, &listed.id, &listed.controls);
        let enters = begin::entered(entry, record.clone(), keeper.clone(), reporter.clone());
        let begins_once = !matches!(record.rerun, Rerun::Resumable | Rerun::Restart);
        let work = match begin::losses(&record) {
            _ if begins_once => begin::once(keeper.clone(), enters),
            Some(_) => begin::charged(keeper.clone(), record.attempt, enters),
            None => enters(),
        };
        let (tool, arguments) = (Arc::clone(&record.tool), record.arguments.clone());
        let mut this = Self::new(listed, Machine::restart(), tool, arguments, None, (reporter, reports));
        this.lead = this.lead_of(&record);
        (this.keeper, this.unstarted, this.begins_once) = (Some(keeper), Some(work), begins_once);
        this.hold_row(Arc::new(record));
        // It may have been answered, or cancelled, since its steps were read.
        this.stale = true;
        this
    }

    /// What lets others join a task that is taken up.
    fn lead_of(&self, record: &Record) -> Option<Lead> {
        let (stage, controls) = (Stage::Durable(record.id.clone()), &self.listed.controls);
        self.listed.inner.joins.join_or_lead(&record.owner, record.join?, stage, controls).ok()
    }

    fn new(
        listed: Listed,
        (machine, first): (Machine, Vec<Effect>),
        tool: Arc<str>,
        arguments: Json,
        job: Option<Arc<dyn ExternalJob>>,
        (reporter, reports): (Reporter, Reports),
    ) -> Box<Self> {
        Box::new(Self {
            listed,
            machine,
            todo: first.into(),
            operation: None,
            keeper: None,
            idle: None,
            leaving: None,
            parked: false,
            held_back: false,
            new_task: None,
            note: Note::default(),
            record: None,
            epoch: Epoch::default(),
            found: None,
            created: None,
            tool,
            job,
            arguments,
            work: None,
            unread: None,
            reading: false,
            unstarted: None,
            begins_once: false,
            admission: None,
            place: None,
            returning: None,
            start_again: None,
            kept: None,
            reporter,
            reports,
            observer: None,
            caller: None,
            timers: Timers::default(),
            watch: None,
            stale: false,
            lead: None,
        })
    }

    /// Carries the call to its end.
    ///
    /// In a box, for an async function holds what it is called with twice.
    pub(super) async fn drive(mut self: Box<Self>) {
        loop {
            while let Some(effect) = self.next_effect() {
                self.carry_out(effect).await;
            }
            if self.machine.is_over() && self.operation.is_none() {
                return self.clear_up().await;
            }
            if self.operation.is_none()
                && let Some(run) = self.unread.take()
            {
                // Nothing is being written: whether there is a row stays as it is until the outcome is read.
                self.timers.after = None;
                self.reading = true;
                self.operation = Some(read(run, self.machine.is_durable()));
            }
            self.look_if_stale();
            if self.todo.is_empty() {
                // It may wait for days: it holds no room for what to do meanwhile.
                self.todo = VecDeque::new();
            }
            self.wait().await;
            if let Some(found) = self.found.take() {
                return Box::pin(self.follow(found)).await;
            }
        }
    }

    /// What to do next: one operation at a time. A caller that is handed over waits for none: its patience, or this
    /// process, is at its end.
    fn next_effect(&mut self) -> Option<Effect> {
        let hands_over = matches!(self.todo.front(), Some(Effect::Answer(Reply::HandOver)));
        if self.operation.is_none() || hands_over { self.todo.pop_front() } else { None }
    }

    /// Leaves the call to what was made of it before.
    async fn follow(mut self: Box<Self>, found: Arc<Record>) {
        let Some(waiter) = self.caller.take() else { return };
        if self.machine.is_answered() {
            // Its caller has cancelled it meanwhile.
            return cancel_for_all(Arc::clone(&self.listed.inner), &found).await;
        }
        let again = Again {
            inner: Arc::clone(&self.listed.inner),
            plan: self.machine.plan(),
            controls: self.listed.controls.clone(),
            waiter,
            observer: self.observer.take(),
            hold: self.timers.hold.take(),
            told: None,
            whose: Whose::Anothers,
        };
        if let Some(lead) = &self.lead {
            lead.durable(&found.id);
        }
        let found = if found.id == self.listed.id { project::as_begun(found) } else { found };
        // What was not begun, or has had no effect, is not needed.
        drop(self);
        again.follow(found).await;
    }

    /// A call of which there is no row has left nothing that anybody could ask for.
    async fn clear_up(mut self: Box<Self>) {
        if self.parked {
            return Box::pin(self.leave_parked()).await;
        }
        match (self.record.take(), &self.job) {
            (Some(record), _) if record.is_undoing() => {
                Box::pin(self.leave_to_be_undone(record)).await;
            }
            (None, Some(job)) => job.discard(&self.listed.id).await,
            _ => {}
        }
    }

    /// Waits for the next thing to happen and lets the machine decide.
    async fn wait(&mut self) {
        let event = tokio::select! {
            biased;
            done = optional(&mut self.operation) => {
                (self.operation, self.reading) = (None, false);
                self.handle_done(done).await
            }
            control = self.listed.controls.next() => match control {
                Control::Cancel => self.handle_cancel(),
                Control::Unwanted => Some(Event::CallerCancelled),
                Control::Leave => self.handle_leave(),
                Control::Abandoned => Some(Event::CallerLeft),
                // The answer is on its way, and there is no task to hand over to.
                Control::Drain if self.reading && self.record.is_none() => None,
                Control::Drain => {
                    self.leave_soon();
                    Some(Event::Draining)
                }
                Control::CutOff => self.cut_off(),
                Control::LookAgain => self.look_again(),
                Control::WantsRow => Some(Event::WantsRow),
                Control::Asks => Some(Event::Asks),
                Control::Lease => {
                    self.held_back = self.listed.inner.runs.is_held_back(&self.listed.id, &self.listed.controls);
                    None
                }
            },
            () = changed(&mut self.watch) => self.look_again(),
            place = optional(&mut self.admission) => {
                self.admission = None;
                self.place = place;
                Some(Event::Admitted)
            }
            worked = worked(&mut self.work, self.keeper.as_ref(), &self.listed, (&mut self.place, &mut self.returning)), if !self.held_back => {
                self.work = None;
                // What was said last comes before the end.
                if self.reports.has_news() {
                    self.handle_report().await;
                }
                match worked {
                    Worked::Here(outcome) => Some(Event::Ended(outcome)),
                    Worked::Outside(run) => {
                        self.unread = Some(run);
                        None
                    }
                }
            }
            () = self.reports.news() => {
                self.handle_report().await;
                None
            }
            () = optional(&mut self.timers.report) => {
                self.timers.report = None;
                self.write_report();
                None
            }
            () = optional(&mut self.timers.look) => {
                self.timers.look = None;
                self.look_again()
            }
            () = optional(&mut self.timers.grace) => {
                self.timers.grace = None;
                if let Some(record) = &self.record {
                    ending::end(&self.listed.inner, record);
                }
                None
            }
            () = optional(&mut self.leaving) => {
                self.give_back();
                None
            }
            asleep = optional(&mut self.idle) => {
                self.watch_for_idleness();
                self.park(asleep);
                None
            }
            () = optional(&mut self.timers.after) => {
                self.timers.after = None;
                Some(Event::AfterElapsed)
            }
            () = optional(&mut self.timers.hold) => {
                self.timers.hold = None;
                Some(Event::HoldElapsed)
            }
        };
        if let Some(event) = event {
            self.happen(event);
        }
    }

    /// Lets the machine decide on what has happened.
    fn happen(&mut self, event: Event) {
        self.tell_joined(&event);
        if let (Some(keeper), Event::CommitFailed(refusal)) = (&self.keeper, &event) {
            keeper.commit_failed(refusal);
        }
        self.todo.extend(self.machine.handle(event));
    }

    /// The caller no longer wants the answer: the call ends, unless others want it too.
    fn handle_cancel(&mut self) -> Option<Event> {
        // It was answered, or has cancelled before.
        self.caller.as_ref()?;
        let followed = self.listed.inner.followers.any(&self.listed.id);
        if !followed && self.lead.as_ref().is_none_or(Lead::leave) {
            return Some(Event::CallerCancelled);
        }
        (self.caller, self.observer, self.timers.hold) = (None, None, None);
        self.listed.forget_caller();
        None
    }

    /// The caller is gone for good: what is durable goes on, and so does what others want.
    fn handle_leave(&mut self) -> Option<Event> {
        // It was answered, or has left before.
        self.caller.take()?;
        (self.observer, self.timers.hold) = (None, None);
        self.listed.forget_caller();
        // Whoever leaves a task may come back for it.
        let ends = self.machine.is_durable() || self.lead.as_ref().is_none_or(Lead::leave);
        ends.then_some(Event::CallerLeft)
    }

    /// Those who joined a call learn of its end when it is on disk, or when nothing ever will be.
    fn tell_joined(&self, event: &Event) {
        match (&self.lead, event) {
            (Some(lead), Event::Recorded(outcome)) => lead.ended(outcome),
            (Some(lead), Event::Ended(outcome)) if self.record.is_none() => lead.ended(outcome),
            _ => {}
        }
    }

    async fn handle_done(&mut self, done: Done) -> Option<Event> {
        match done {
            Done::Event(event) => Some(event),
            Done::Nothing => None,
            Done::NotParked => {
                if let Some(record) = &self.record {
                    self.listed.hold(record);
                }
                self.look_again()
            }
            Done::Parked => {
                (self.parked, self.work) = (true, None);
                Some(Event::TakenOver)
            }
            Done::Started(run) => {
                self.work = Some(Working::on(Arc::clone(&run)));
                self.kept = Some(run);
                self.watch_for_idleness();
                Some(Event::Started)
            }
            Done::Committed(record) => {
                (self.created, self.new_task) = (Some(project::as_begun(Arc::clone(&record))), None);
                if let Some(observer) = self.observer.as_deref().filter(|_| self.caller.is_some()) {
                    observer.observe(Observed::Kept { record: &record, is_own: true }).await;
                }
                self.hold_row(record);
                Some(Event::Committed)
            }
            Done::Again(record) => {
                self.found = Some(record);
                None
            }
            Done::Seen(record) => self.handle_seen(record).await,
            Done::Unseen => {
                self.look_later();
                None
            }
        }
    }

    fn hold_row(&mut self, record: Arc<Record>) {
        self.listed.hold(&record);
        if let Some(keeper) = &self.keeper {
            keeper.hold(record.epoch);
        }
        if let Some(lead) = &self.lead {
            lead.durable(&self.listed.id);
        }
        self.watch = Some(self.listed.inner.store.watch(&self.listed.id));
        self.epoch = record.epoch;
        self.record = Some(record);
        self.watch_for_idleness();
        if *self.listed.inner.draining.borrow() {
            // It was told when there was nothing yet to give back.
            self.leave_soon();
        }
    }

    /// The record was read again: is it still ours, and has it ended?
    async fn handle_seen(&mut self, record: Option<Arc<Record>>) -> Option<Event> {
        let Some(record) = record else {
            return Some(Event::Recorded(Outcome::lost("the task is forgotten")));
        };
        let changed = self.record.as_ref().is_none_or(|known| known.seq != record.seq);
        let ended = record.outcome().cloned();
        let ours = self.listed.owns(&record) && record.epoch.succeeds(self.epoch);
        if ours && record.epoch != self.epoch {
            // This node's own claim brought it in again, for its lease had run out: the run goes on.
            self.epoch = record.epoch;
            self.listed.hold(&record);
            if let Some(keeper) = &self.keeper {
                keeper.hold(record.epoch);
            }
        }
        if let (Some(keeper), true) = (&self.keeper, ours)
            && let Some(grace) = ending::ask_to_end(&self.listed.inner, keeper, &record)
        {
            self.timers.grace = Some(grace);
        }
        match self.keeper.as_ref().filter(|_| ours) {
            Some(keeper) if !keeper.look(&record).await => self.look_later(),
            _ => self.timers.look_pauses = None,
        }
        self.record = Some(record);
        if changed && self.machine.is_answered() {
            observe_change(self.observer.as_deref(), self.record.as_deref()).await;
        }
        match (ended, ours) {
            (Some(outcome), _) => Some(Event::Recorded(outcome)),
            (None, false) => Some(Event::TakenOver),
            (None, true) => {
                let asks = self.record.as_ref().is_some_and(|record| !record.questions.is_empty());
                asks.then_some(Event::Asked)
            }
        }
    }

    /// Reads the record again, as soon as nothing else is under way.
    fn look_again(&mut self) -> Option<Event> {
        self.stale = self.record.is_some();
        self.look_if_stale();
        None
    }

    /// Reads the record again after a pause, each time longer while it cannot be read, or the steps with it.
    fn look_later(&mut self) {
        let pauses = self.timers.look_pauses.get_or_insert(Pauses::of_store());
        self.timers.look = Some(pauses.wait(&self.listed.inner));
    }

    fn look_if_stale(&mut self) {
        if self.stale && self.operation.is_none() {
            self.stale = false;
            self.operation = Some(look(Arc::clone(&self.listed.inner), self.listed.id.clone()));
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        let inner = Arc::clone(&self.listed.inner);
        self.operation = match effect {
            Effect::Admit => {
                self.admit();
                None
            }
            Effect::Start { durable } => {
                if let Some(job) = self.job.clone() {
                    let (id, arguments) = (self.listed.id.clone(), self.arguments.clone());
                    let host = self.record.as_deref().and_then(|record| unbound_host(record, &*job));
                    let starts = start(job, id.clone(), arguments, durable, self.reporter.clone());
                    Some(match host {
                        Some(host) => {
                            first(inner, (id, self.listed.controls.clone(), self.epoch), host, starts)
                        }
                        None => starts,
                    })
                } else {
                    // A future of this process runs as it is polled.
                    self.work = self.unstarted.take().map(Working::Here);
                    self.happen(Event::Started);
                    None
                }
            }
            Effect::StartLater(refusal) => {
                if self.start_again.is_none() {
                    // Said once: a refusal tells how much is taken at the moment, and each word is a write.
                    self.reporter.status(format!("waiting to be started: {}", refusal.message));
                }
                let pauses = Pauses::new(inner.pace.retry_start, LONGEST_RETRY);
                let pause = self.start_again.get_or_insert(pauses).wait(&inner);
                let place = self.place.take();
                self.admission = Some(Box::pin(async move {
                    pause.await;
                    place
                }));
                None
            }
            Effect::Commit => {
                self.line_up();
                self.note.begun = self.kept.is_some();
                let is_begun = self.kept.is_some() || self.work.is_some();
                let host = self.job.as_ref().filter(|_| self.note.begun).and_then(|job| job.host().cloned());
                let note = self.note.json();
                let steps = self.keeper.as_ref().map(Keeper::begin_commit).unwrap_or_default();
                self.new_task.as_deref().map(|task| {
                    let mut task = task.clone();
                    (task.caller, task.steps, task.host) = (note, steps, host);
                    commit(inner, task, is_begun)
                })
            }
            Effect::CommitLater => {
                self.timers.after = Some(inner.environment.sleep(inner.pace.retry_commit));
                None
            }
            Effect::Tell => Some(tell(self.kept.clone())),
            Effect::Finish(outcome) => {
                let last = self.batch();
                let (id, controls) = (self.listed.id.clone(), self.listed.controls.clone());
                Some(finish(inner, id, controls, self.epoch, outcome, last))
            }
            Effect::Cancel => Some(cancel(inner, self.listed.id.clone())),
            Effect::Stop => {
                (self.work, self.unread, self.unstarted, self.admission) = (None, None, None, None);
                self.job.clone().map(|job| stop(job, self.listed.id.clone()))
            }
            Effect::Answer(reply) => return self.reply(reply).await,
        };
    }

    async fn reply(&mut self, reply: Reply) {
        self.timers.hold = None;
        let Some(caller) = self.caller.take() else { return };
        let as_created = self.created.as_ref().map(|record| record.seq);
        let told = match reply {
            Reply::Outcome(outcome) => Some(Answer::Outcome(outcome)),
            Reply::Refused(refusal) => {
                // Whoever joined this call asked for the same.
                if let Some(lead) = &self.lead {
                    lead.refused(&refusal);
                }
                Some(Answer::Refused(refusal))
            }
            // As it was created, whatever has become of it: its caller is told of that apart.
            Reply::Task => self.created.take().or_else(|| self.record.clone()).map(Answer::Task),
            Reply::HandOver => self.record.clone().map(Answer::HandOver),
        };
        if let Some(told) = told {
            caller.tell(told);
        }
        if self.record.as_ref().map(|record| record.seq) != as_created {
            observe_change(self.observer.as_deref(), self.record.as_deref()).await;
        }
    }
}

pub(super) fn new_task(id: &TaskId, call: &Call) -> NewTask {
    let mut task =
        NewTask::new(id.clone(), call.owner.clone(), Arc::clone(&call.tool), call.arguments.clone());
    task.share = call.share;
    task.version.clone_from(&call.version);
    task.rerun = call.rerun;
    task.cancel_grace = call.cancel_grace;
    task.orphan = orphan::rule(call);
    task.dialect = call.dialect;
    task.retention = call.retention;
    task.join = call.join;
    task.once.clone_from(&call.once);
    task.poll_interval_ms = call.poll_interval_ms;
    task
}

async fn observe_change(observer: Option<&dyn Observer>, record: Option<&Record>) {
    if let (Some(observer), Some(record)) = (observer, record) {
        observer.observe(Observed::Changed(record)).await;
    }
}

/// How long work for which there is no room waits at most before it is tried again.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The future in `slot`, or none that ever completes.
pub(super) async fn optional<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => Pin::new(future).await,
        None => pending().await,
    }
}

async fn worked(
    work: &mut Option<Working>,
    keeper: Option<&Keeper>,
    listed: &Listed,
    (place, returning): (&mut Place, &mut Option<BoxFuture<'static, Place>>),
) -> Worked {
    match work {
        Some(Working::Here(work)) => {
            Worked::Here(poll_fn(|task| place::poll(work, keeper, listed, (place, returning), task)).await)
        }
        Some(Working::Outside(run, ended)) => {
            ended.await;
            Worked::Outside(Arc::clone(run))
        }
        None => pending().await,
    }
}

async fn changed(watch: &mut Option<TaskWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_store::{Memory, Owner};

    use super::*;
    use crate::environment::Tokio;
    use crate::runner::control::Controls;
    use crate::runner::{Engine, Pace};

    #[test]
    fn a_call_that_waits_holds_a_kilobyte_or_two() {
        let engine = Engine::new(Arc::new(Memory::new()), Arc::new(Tokio::new()), Pace::default(), []);
        let work = Work::Future(Box::pin(pending()));
        let call = Call::new(Owner::Anonymous, "wait", Json::parse("{}").unwrap(), work);
        let listed = Listed::new(engine.0, TaskId::new("t").unwrap(), Controls::default());
        let (run, _ticket) = Run::begin(listed, call, None);
        let (run_size, future_size) = (size_of_val(&*run), size_of_val(&run.drive()));
        assert!(run_size <= 1280, "{run_size}");
        // More than this means that the run, or a record, is held by value across a wait.
        assert!(future_size <= 1024, "{future_size}");
        let idled = size_of_val(&Keeper::default().idled(Some(Duration::ZERO)));
        assert!(idled <= 512, "{idled}");
    }
}
