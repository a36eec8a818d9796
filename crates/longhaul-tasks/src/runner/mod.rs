//! Carrying calls out: claims, leases, and the work itself.

mod again;
mod begin;
mod bind;
mod call;
mod child;
mod control;
mod ending;
mod figures;
mod follow;
mod front;
mod join;
mod keeper;
mod operation;
mod orphan;
mod pause;
mod recovery;
mod run;
mod runs;
mod stranded;
mod undo;
mod witness;
mod worker;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    Answered, CallKey, CancelAsked, Cancellation, Counts, Cursor, Erasure, Filter, Limits, Outcome, Owner,
    Page, Record, Reply, Scope, StoreError, TaskId, TaskStore, TaskWatch,
};
use tokio::sync::{Notify, watch};

pub use figures::{Figures, InLine};
pub use keeper::{Body, Keeper, StepError, Undoing};
pub use worker::{Entry, Worker};

pub use call::{Answer, Call, Canceller, Observed, Observer, Ticket, Work};
pub use child::ChildCall;

use crate::environment::Environment;
use crate::id;
use crate::job::FoundJobs;
use crate::machine::Plan;
use call::{Waiter, named};
use control::{Control, Controls};
use figures::Queued;
use follow::{Again, Followers, Whose};
use join::{Joins, Stage};
use run::Run;
use runs::{Listed, Runs};
use worker::{Places, Workers};

/// How an engine paces itself. The lease is the store's setting.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pace {
    /// How often leases are renewed; a third of the lease. Default 10 s.
    pub renew_every: Duration,
    /// How often to look for tasks whose node is gone. Default 2 s.
    pub recover_every: Duration,
    /// How often to look for tasks that no node runs, and how long one is left to other nodes before that is said of it.
    /// Default 10 s.
    pub strand_after: Duration,
    /// How long a task that is bound to a host waits for a node of it, once it could be taken up; then any other node ends it as
    /// lost. Default 10 min.
    pub host_grace: Duration,
    /// How often to do what time demands. Default 30 s.
    pub sweep_every: Duration,
    /// How often whoever waits for a task looks at it without having been told of a change, for a store may lose what it
    /// tells. Default 30 s.
    pub look_every: Duration,
    /// How often to look whether whatever is open has something that will move it on. Default 5 min.
    pub check_every: Duration,
    /// The least time between two reports of one task to the store. Default 1 s.
    pub report_every: Duration,
    /// How long work that only waits is kept in memory, if it can be entered again; a job that only waits is followed for so
    /// long after it was started or found. Default 2 s.
    pub hot_wait: Duration,
    /// How long work is left alone that has taken two processes in a row with it, or has failed to be undone; twice as long each
    /// further time, up to a minute. What has taken one with it goes on at once. Default 1 s.
    pub retry_work: Duration,
    /// How many attempts in a row at work that is entered again may end with their process. One that learns a step, or
    /// gets as far as to wait and be put aside, is the first of a new row. Default 5.
    pub max_attempts: u32,
    /// How long work that is entered to be undone may take to get to where it was. What it has not said by then is asked
    /// for in the next attempt. Default 30 s.
    pub undo_entry: Duration,
    /// How long one try may take to undo a step, before it is dropped and has failed. Default 5 min.
    pub undo_try: Duration,
    /// How long to wait before trying again to make a call durable. Default 5 s.
    pub retry_commit: Duration,
    /// How long to wait before trying again to start work for which there was no room: twice as long each time, up to
    /// 30 s. Default 1 s.
    pub retry_start: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            renew_every: Duration::from_secs(10),
            recover_every: Duration::from_secs(2),
            strand_after: Duration::from_secs(10),
            host_grace: Duration::from_secs(10 * 60),
            sweep_every: Duration::from_secs(30),
            look_every: Duration::from_secs(30),
            check_every: Duration::from_secs(5 * 60),
            report_every: Duration::from_secs(1),
            hot_wait: Duration::from_secs(2),
            retry_work: Duration::from_secs(1),
            max_attempts: 5,
            undo_entry: Duration::from_secs(30),
            undo_try: Duration::from_secs(5 * 60),
            retry_commit: Duration::from_secs(5),
            retry_start: Duration::from_secs(1),
        }
    }
}

/// The durable task engine of one node. Clones share it.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

struct Inner {
    store: Arc<dyn TaskStore>,
    /// The store's.
    limits: Arc<Limits>,
    environment: Arc<dyn Environment>,
    pace: Pace,
    /// Every tool this node can work on.
    workers: Workers,
    /// It works on nothing all the same.
    is_front: bool,
    runs: Runs,
    joins: Joins,
    followers: Followers,
    came: orphan::Came,
    counts: figures::Counts,
    /// The process is about to go.
    draining: watch::Sender<bool>,
    /// It goes now, whoever waits.
    leaving: watch::Sender<bool>,
    /// Demands that leases be renewed without waiting for their time.
    renew_now: Notify,
}

impl Inner {
    /// The id of a task that is made now.
    fn mint(&self, tool: &str) -> TaskId {
        id::mint(tool, self.store.now(), &*self.environment)
    }

    /// What notes that a task waits for a place, as long as what it gives is kept.
    fn waits(self: &Arc<Self>, id: &TaskId) -> impl FnOnce(&Arc<Places>) -> Queued + Send + 'static {
        let (inner, id) = (Arc::clone(self), id.clone());
        move |places| inner.counts.queue.enter(places, &id, inner.store.now())
    }

    /// Completes once the process is about to go.
    async fn draining(&self) {
        // The sender lives as long as the engine.
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine over `store` that can work on the tools of `workers`.
    pub fn new(
        store: Arc<dyn TaskStore>,
        environment: Arc<dyn Environment>,
        pace: Pace,
        workers: impl IntoIterator<Item = Worker>,
    ) -> Self {
        Self::in_role(store, environment, pace, workers, false)
    }

    /// An engine that works on nothing: each call becomes a task at once, which waits in the queue for a node that works on
    /// its tool, and is followed for its caller. It asks, answers and cancels as any other.
    pub fn front(
        store: Arc<dyn TaskStore>,
        environment: Arc<dyn Environment>,
        pace: Pace,
        workers: impl IntoIterator<Item = Worker>,
    ) -> Self {
        Self::in_role(store, environment, pace, workers, true)
    }

    fn in_role(
        store: Arc<dyn TaskStore>,
        environment: Arc<dyn Environment>,
        pace: Pace,
        workers: impl IntoIterator<Item = Worker>,
        is_front: bool,
    ) -> Self {
        Self(Arc::new(Inner {
            limits: Arc::new(store.limits()),
            store,
            environment,
            pace,
            workers: Workers::new(workers),
            is_front,
            runs: Runs::default(),
            joins: Joins::default(),
            followers: Followers::default(),
            came: orphan::Came::default(),
            counts: figures::Counts::default(),
            draining: watch::channel(false).0,
            leaving: watch::channel(false).0,
            renew_now: Notify::new(),
        }))
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<dyn TaskStore> {
        &self.0.store
    }

    /// What this node has come across so far.
    pub fn figures(&self) -> Figures {
        self.0.counts.figures(self.0.store.now())
    }

    /// Where a task stands in the line for a place among the calls of its tool, if it waits for one on this node. Another
    /// node's lines are known there alone.
    pub fn in_line(&self, record: &Record) -> Option<InLine> {
        self.0.counts.queue.in_line(&record.id)
    }

    /// Whether it works on nothing itself.
    pub fn is_front(&self) -> bool {
        self.0.is_front
    }

    /// Whether the calls of `tool` are jobs outside this process.
    pub fn runs_as_job(&self, tool: &str) -> bool {
        self.0.workers.job(tool).is_some()
    }

    /// Works on one more tool from now on, in place of the one of its name if there is one.
    pub fn employ(&self, worker: Worker) {
        self.0.workers.employ(worker);
    }

    /// Works on tasks of every other tool too, from now on, once their job has begun: it follows such a job, ends it
    /// when its task is cancelled, and records what it has come to.
    pub fn reach_others(&self, jobs: Arc<dyn FoundJobs>) {
        self.0.workers.reach_others(jobs);
    }

    /// Takes up what earlier processes left, then keeps leases alive, looks for work of dead nodes and does
    /// what time demands, for as long as the runtime lives.
    ///
    /// Returns how many tasks were taken up at once.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written.
    pub async fn start(&self) -> Result<usize, StoreError> {
        let mut idle = recovery::Idle::new();
        let taken = recovery::recover(&self.0, &mut idle).await?;
        self.keep_leases();
        let environment = Arc::clone(&self.0.environment);
        environment.spawn(Box::pin(recovery::keep_recovering(Arc::clone(&self.0), idle)));
        environment.spawn(Box::pin(recovery::keep_sweeping(Arc::clone(&self.0))));
        environment.spawn(Box::pin(runs::keep_looking(Arc::clone(&self.0))));
        environment.spawn(Box::pin(stranded::keep_telling(Arc::clone(&self.0))));
        environment.spawn(Box::pin(witness::keep_checking(Arc::clone(&self.0))));
        Ok(taken)
    }

    /// Keeps the leases of this node alive for as long as the runtime lives, [apart](Environment::spawn_apart) from all work: all
    /// that a process needs which serves nothing and [takes up](Self::take_up) what it is about.
    pub fn keep_leases(&self) {
        self.0.environment.spawn_apart(Box::pin(runs::renew_leases(Arc::clone(&self.0))));
    }

    /// Takes up this task, if nobody works on it and this node can; says whether it did.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written.
    pub async fn take_up(&self, id: &TaskId) -> Result<bool, StoreError> {
        match self.0.store.get(Scope::Operator, id).await? {
            Some(record) => recovery::try_take_up(&self.0, &record).await,
            None => Ok(false),
        }
    }

    /// The journal of a call of `tool` that begins; `entered_again`: its work may be. It takes as much as the store would,
    /// and says what the call will be called if it becomes a task.
    pub fn keeper(&self, tool: Arc<str>, entered_again: bool) -> Keeper {
        Keeper::of(Arc::clone(&self.0), tool, entered_again)
    }

    /// Begins a call. The work goes on when the ticket is dropped; [`Ticket::cancel`] ends it.
    ///
    /// A call that may be joined, and whose like is open on this node, waits for that one instead of running; that
    /// one ends when all its callers have cancelled.
    pub fn call(&self, mut call: Call) -> Ticket {
        // Anonymous callers share an owner and nothing else.
        call.join = call.join.filter(|_| matches!(call.owner, Owner::Principal(_)));
        if self.0.is_front {
            return front::queue(&self.0, call);
        }
        let controls = Controls::default();
        let join = |digest| self.0.joins.join_or_lead(&call.owner, digest, Stage::Loose, &controls);
        let lead = match call.join.map(join).transpose() {
            Ok(lead) => lead,
            Err(open) => {
                let (waiter, ticket) = Waiter::new(&self.0.runs, controls.clone());
                let (inner, observer) = (Arc::clone(&self.0), call.observer);
                let joined = join::wait_for(inner, open, call.hold, observer, waiter, controls);
                self.0.environment.spawn(Box::pin(joined));
                return ticket;
            }
        };
        let id = named(&self.0, &call);
        let listed = Listed::new(Arc::clone(&self.0), id, controls.clone());
        let (run, ticket) = Run::begin(listed, call, lead);
        if *self.0.draining.borrow() {
            controls.tell(Control::Drain);
        }
        self.0.environment.spawn(Box::pin(run.drive()));
        ticket
    }

    /// Waits for a task that a call has become as its caller did, who comes back for it: for its end, to be
    /// [asked](Plan::with_questions), or to be handed over after `hold`. [`Ticket::cancel`] ends it if this node is at work
    /// on it and nobody else here waits for it.
    ///
    /// `found` says which task, or what else its caller is told.
    pub fn come_back(
        &self,
        found: impl Future<Output = Result<Record, Outcome>> + Send + 'static,
        plan: Plan,
        hold: Option<Duration>,
        observer: Arc<dyn Observer>,
    ) -> Ticket {
        self.wait(found, plan, hold, observer, Whose::Anothers)
    }

    /// The same in the place of a process that is gone, for whoever made the call there: [`Ticket::cancel`] ends it wherever it is
    /// worked on, unless somebody else here waits for it. Its row is [noted](TaskStore::came_back) as one that is come back for, and kept
    /// as any: that process may not be gone, and wait for it, too.
    pub fn wait_on(
        &self,
        found: impl Future<Output = Result<Record, Outcome>> + Send + 'static,
        plan: Plan,
        hold: Option<Duration>,
        observer: Arc<dyn Observer>,
    ) -> Ticket {
        self.wait(found, plan, hold, observer, Whose::GoneOnWith)
    }

    fn wait(
        &self,
        found: impl Future<Output = Result<Record, Outcome>> + Send + 'static,
        plan: Plan,
        hold: Option<Duration>,
        observer: Arc<dyn Observer>,
        whose: Whose,
    ) -> Ticket {
        let controls = Controls::default();
        let (waiter, ticket) = Waiter::new(&self.0.runs, controls.clone());
        let hold = hold.map(|hold| self.0.environment.sleep(hold));
        let again = Again {
            inner: Arc::clone(&self.0),
            plan,
            controls,
            waiter,
            observer: Some(observer),
            hold,
            told: None,
            whose,
        };
        self.0.environment.spawn(Box::pin(async move {
            match found.await {
                Ok(record) => again.follow(Arc::new(record)).await,
                Err(outcome) => again.waiter.tell(Answer::Outcome(outcome)),
            }
        }));
        ticket
    }

    /// The task, if the scope sees it.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn find(&self, scope: Scope<'_>, id: &TaskId) -> Result<Option<Record>, StoreError> {
        self.0.store.get(scope, id).await
    }

    /// The owner of a task has come back for it, who was shown this record: from now on nobody takes it for an
    /// [orphan](longhaul_store::NewTask::orphan). What is not known yet is written once, after a moment if the task is open then and has been
    /// shown to nobody as ended, and nobody waits for that.
    ///
    /// Must be called within the runtime.
    pub fn came_back(&self, record: &Record) {
        orphan::came_back(&self.0, record);
    }

    /// The same of a task that its owner was shown something of, and not this record.
    pub fn came_back_by_id(&self, id: &TaskId) {
        orphan::came_back_by_id(&self.0, id);
    }

    /// The task that this owner created under this key.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn called(&self, owner: &Owner, key: &CallKey) -> Result<Option<Record>, StoreError> {
        self.0.store.called(owner, key).await
    }

    /// Forgets a task that has ended.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub async fn erase(&self, scope: Scope<'_>, id: &TaskId) -> Result<Erasure, StoreError> {
        self.0.store.erase(scope, id).await
    }

    /// Waits until the task has ended, wherever it runs; `None` when the scope sees no such task. Dropping
    /// the future changes nothing, and the call can be made again, on any node.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn ended(&self, scope: Scope<'_>, id: &TaskId) -> Result<Option<Record>, StoreError> {
        let mut watch = self.0.store.watch(id);
        loop {
            match self.0.store.get(scope, id).await? {
                Some(record) if !record.is_terminal() => self.told(&mut watch).await,
                ended => return Ok(ended),
            }
        }
    }

    /// Waits until the task has changed since `seen`, or is gone.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn changed(
        &self,
        scope: Scope<'_>,
        id: &TaskId,
        seen: u64,
    ) -> Result<Option<Record>, StoreError> {
        let mut watch = self.0.store.watch(id);
        loop {
            match self.0.store.get(scope, id).await? {
                Some(record) if record.seq <= seen => self.told(&mut watch).await,
                changed => return Ok(changed),
            }
        }
    }

    /// Completes once a task may have changed, or it is time to look all the same.
    async fn told(&self, watch: &mut TaskWatch) {
        tokio::select! {
            () = watch.changed() => {}
            () = self.0.environment.sleep(self.0.pace.look_every) => {}
        }
    }

    /// Answers questions of a task, wherever its work is; what waited for them goes on.
    ///
    /// # Errors
    ///
    /// When the store cannot be written: nothing is answered.
    pub async fn answer(
        &self,
        scope: Scope<'_>,
        id: &TaskId,
        replies: &[Reply],
    ) -> Result<Answered, StoreError> {
        let answered = self.0.store.answer(scope, id, replies).await?;
        if let Answered::Recorded { record, .. } = &answered {
            recovery::wake(&self.0, record).await;
        }
        Ok(answered)
    }

    /// What a task waits for outside this process has come, such as a call of who does its job: if it was put aside it goes on
    /// now, here if this node can work on it. Nothing happens to any other, nor where the store cannot be written: then it goes on
    /// when its time has come.
    pub async fn go_on(&self, id: &TaskId) {
        recovery::go_on(&self.0, id).await;
    }

    /// A page of tasks, newest first.
    ///
    /// # Errors
    ///
    /// When the scope may not list, or the store cannot be read.
    pub async fn list(
        &self,
        scope: Scope<'_>,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.0.store.list(scope, filter, after, limit).await
    }

    /// How many tasks there are.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        self.0.store.counts().await
    }

    /// Why the store may lose what it keeps, if it is known to ([`TaskStore::at_risk`]).
    pub fn at_risk(&self) -> Option<Arc<str>> {
        self.0.store.at_risk()
    }

    /// Why the store takes no writes now, if it is known to take none ([`TaskStore::refusal`]).
    pub fn refusal(&self) -> Option<StoreError> {
        self.0.store.refusal()
    }

    /// Cancels a task at once, whichever node works on it, and ends its job.
    ///
    /// The cancellation is on disk when this returns. A job that cannot be reached now is ended when its
    /// node next looks.
    ///
    /// # Errors
    ///
    /// When the store cannot be written: the task goes on.
    pub async fn cancel(
        &self,
        scope: Scope<'_>,
        id: &TaskId,
        reason: Option<&str>,
    ) -> Result<Cancellation, StoreError> {
        let cancellation = self.0.store.request_cancel(scope, id, reason).await?;
        if let Cancellation::Cancelled(record) = &cancellation {
            self.stop(record).await;
        }
        Ok(cancellation)
    }

    /// Ends the job of a task that was cancelled, and tells who waits for it.
    async fn stop(&self, record: &Record) {
        recovery::wake_parent(&self.0, record);
        if let Some(job) = self.0.workers.job_of(record) {
            let id = record.id.clone();
            self.0.environment.spawn(Box::pin(async move {
                if let Err(error) = job.cancel(&id).await {
                    tracing::warn!(%id, ?error, "a cancelled job could not be reached");
                }
            }));
        }
        recovery::wake(&self.0, record).await;
    }

    /// Asks the work of a task to end, whichever node is at it; it decides how, within the
    /// [grace](longhaul_store::NewTask::cancel_grace) that its task was made with, and then the task is cancelled. What has
    /// none is cancelled at once, as by [`cancel`](Self::cancel).
    ///
    /// That it is asked is on disk when this returns.
    ///
    /// # Errors
    ///
    /// When the store cannot be written: the task goes on.
    pub async fn ask_to_cancel(
        &self,
        scope: Scope<'_>,
        id: &TaskId,
        reason: Option<&str>,
    ) -> Result<CancelAsked, StoreError> {
        let asked = self.0.store.ask_to_cancel(scope, id, reason).await?;
        match &asked {
            // What was put aside is due, to hear of it.
            CancelAsked::Requested(record) => recovery::wake(&self.0, record).await,
            CancelAsked::AtOnce(Cancellation::Cancelled(record)) => self.stop(record).await,
            CancelAsked::AtOnce(_) => {}
        }
        Ok(asked)
    }

    /// Lets every caller go, keeping the work that can outlive this process: what is not durable yet becomes
    /// so, and who still waits is handed over. A call that may not become durable is left to end by itself.
    /// What is being undone is given back. Returns once no caller waits and that is written, or after `limit`.
    ///
    /// Calls that begin from now on are let go as soon as they can be.
    pub async fn drain(&self, limit: Duration) {
        self.0.draining.send_replace(true);
        self.0.runs.tell_all(Control::Drain);
        tokio::select! {
            () = async { tokio::join!(self.0.runs.nobody_waits(), self.0.runs.nothing_is_undone()); } => {}
            () = self.0.environment.sleep(limit) => tracing::warn!("some callers could not be let go in time"),
        }
    }

    /// Completes once the process is about to go.
    pub async fn draining(&self) {
        self.0.draining().await;
    }

    /// Whether the process is about to go.
    pub fn is_draining(&self) -> bool {
        *self.0.draining.borrow()
    }

    /// Waits until no work is left in this process, or for `limit`: what can be entered again elsewhere is given back once no
    /// step of it is under way, and all else may end. Jobs outside live on. What is left then and never runs twice is recorded as
    /// lost. To be called once it [drains](Self::drain).
    pub async fn finish(&self, limit: Duration) {
        let (runs, environment) = (&self.0.runs, &self.0.environment);
        let none_of = async |left: fn(&Runs) -> usize| {
            while left(runs) > 0 {
                environment.sleep(LOOK_AT_WORK).await;
            }
        };
        tokio::select! {
            // Where nothing is left no time is needed.
            biased;
            () = none_of(Runs::work_here) => return,
            () = environment.sleep(limit) => tracing::warn!("some work was not done in time"),
        }
        runs.tell_all(Control::CutOff);
        tokio::select! {
            () = none_of(Runs::only_here) => {}
            // Whoever finds it says so.
            () = environment.sleep(LAST_WORDS) => {}
        }
    }

    /// How many calls have work that ends with this process.
    pub fn at_work(&self) -> usize {
        self.0.runs.work_here()
    }

    /// How many callers of this node wait for what they have called.
    pub fn waiting(&self) -> usize {
        self.0.runs.waiting()
    }

    /// The time to end in is over: who waits still is told, by whatever [`left_behind`](Self::left_behind) is for.
    pub fn leave(&self) {
        self.0.leaving.send_replace(true);
    }

    /// Completes once the process goes although callers wait.
    pub fn left_behind(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut leaving = self.0.leaving.subscribe();
        async move {
            if leaving.wait_for(|leaving| *leaving).await.is_err() {
                std::future::pending().await
            }
        }
    }
}

/// How often it is looked whether work is done, once the process is about to go.
const LOOK_AT_WORK: Duration = Duration::from_millis(20);

/// How long it may take to record what is lost with the process.
const LAST_WORDS: Duration = Duration::from_secs(2);
