//! The contract: what a store of tasks does, each operation atomic.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use crate::{
    CallKey, Cursor, Epoch, HostId, Limits, NewChild, NewTask, NodeId, OnOrphan, Outcome, Owner, Page, Park,
    Part, Parts, Progress, Record, Reply, Runnable, Scope, SeenSteps, Step, StoreError, TaskId, TaskWatch,
    Time,
};

/// What an operation returns: boxed, so that a store can be a `dyn TaskStore`.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Durable state of tasks, shared by any number of nodes.
///
/// One handle is one node. When a handle is dropped, or its process dies, its leases are void at once and any other
/// node may claim the tasks.
///
/// **Atomic.** Each operation happens as a whole or not at all, at one moment between all others of all nodes, and
/// has happened at the store's [`durability`](Self::durability) when its future yields `Ok`.
///
/// **Fenced.** Whoever works on a task got an [`Epoch`] with the claim and shows it with each write. Claim, release,
/// cancel and expiry raise it, so a worker that lost its task without noticing cannot change it.
///
/// **Final.** A task that has ended never changes again for any caller, except that it is forgotten when its time is
/// up. If it ended without success while something was [owed](crate::StepState::Owed), it can be claimed to be undone,
/// also when it is forgotten for its callers: that changes only what they do not see.
///
/// **Tied.** A task that another has made ([`Batch::child`]) is told to it when it ends, in the same moment; and when a
/// task ends, however it does, its children that do not [outlive](crate::NewChild::outlives) it are cancelled in that
/// moment, and theirs.
///
/// **Scoped.** Whatever is read or cancelled on a caller's behalf takes a [`Scope`]. A task outside it cannot be
/// told from one that never was.
///
/// **Cancel safety.** Dropping a read does nothing. Dropping a write before its first poll does nothing; after it, the
/// write happens as a whole or not at all, and the caller does not learn which. Every write may be made again safely:
/// a second `create` of one id is [`StoreError::AlreadyExists`], a second `finish` [`Finished::AlreadyTerminal`].
pub trait TaskStore: fmt::Debug + Send + Sync {
    /// Creates a task, or finds the one that was created under its key, or the open one it joins.
    ///
    /// # Errors
    ///
    /// [`StoreError::Overloaded`] and [`StoreError::TooLarge`] by the store's limits, [`StoreError::AlreadyExists`],
    /// [`StoreError::KeyTaken`] and [`StoreError::KeySpent`]; in each case nothing is written.
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created>;

    /// The task of this id, if the scope sees one.
    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>>;

    /// The task of this owner that was created under this key.
    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>>;

    /// Tasks from the newest to the oldest, at most `limit` (1 to 1,000; a limit outside is brought to the nearest).
    ///
    /// A page may be shorter than asked, even empty, while there is more: how much one call reads is bounded. A task
    /// that exists throughout is met exactly once by whoever follows the cursors, whatever is created or removed
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unlistable`] for [`Owner::Anonymous`](crate::Owner), [`StoreError::InvalidCursor`].
    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page>;

    /// Takes up to `limit` tasks that nobody works on: queued or parked and due, or whose holder is dead or let its lease
    /// run out; or that have ended and [are to be undone](crate::Undo), if nobody is at that. With `runs`, only tasks of
    /// those tools in those versions, that are bound to no other [host](Runnable::host). Each comes with this node's lease and the epoch to show.
    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>>;

    /// Takes this task if [`claim`](Self::claim) could.
    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>>;

    /// Prolongs leases; returns the tasks that are no longer held at the epoch given, whose work must stop.
    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>>;

    /// Puts a task back in the queue, due at once, without charging the attempt: what a node does with what it
    /// holds before it goes away in order. Of one that somebody else has ended meanwhile it says so that its own work is
    /// over, under the epoch which that task has by then.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`].
    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record>;

    /// Records what the worker reports and returns the number of the task's latest change. A progress value not
    /// greater than the last is dropped.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`], [`StoreError::TooLarge`]; for its steps and parts [`StoreError::Overloaded`], for its
    /// steps [`StoreError::Recorded`]; for a child all of these and what [`create`](Self::create) gives. Then nothing of
    /// it is recorded.
    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64>;

    /// The steps of a task that is held at this epoch, in the order in which they began.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`].
    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>>;

    /// What is seen of the steps of a task, whoever works on it and also when nobody does, in the order in which they began:
    /// those behind the first `after`, at most `limit` (1 to 1,000; a limit outside is brought to the nearest), and fewer where
    /// their keys are long, though one at least. They are there as long as their task can be read. `None` if the scope sees no
    /// such task. Behind more than there are, nothing, at the end.
    fn seen_steps<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<SeenSteps>>;

    /// The parts that the work of a task has given, behind the first `after`: at most `limit` (1 to 1,000; a limit outside
    /// is brought to the nearest), and fewer where they are large, though one at least. `None` if the scope sees no such
    /// task. Behind more than there are, nothing, at the end.
    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>>;

    /// Answers questions of a task, whoever works on it; one that was parked is due at once. Answers to anything but
    /// a question that waits for one are passed over: the first that is recorded stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`], [`StoreError::Overloaded`]: then none is recorded.
    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered>;

    /// Ends a task, with a last report. Its questions are no longer asked.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if it is open and not held at this epoch, or forgotten; [`StoreError::TooLarge`].
    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished>;

    /// Cancels a task at once, whoever works on it.
    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation>;

    /// Asks the work of a task to end, which decides how, within the [grace](crate::NewTask::cancel_grace) it was made with;
    /// then it is cancelled. A task without one is cancelled at once, and so is one that never began; a store that knows no
    /// better cancels each at once.
    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        Box::pin(async move { self.request_cancel(scope, id, reason).await.map(CancelAsked::AtOnce) })
    }

    /// Notes that the owner of an open task has come back for it, so that it is [no orphan](crate::NewTask::orphan) from now on;
    /// says whether that was still to be known. Nothing of it changes that a caller can see. It is for tasks of which
    /// [`orphan_at`](crate::Record::orphan_at) is known, and for those that a node goes on to wait for in the place of another, which
    /// may not be gone: it keeps what it finds [noted](crate::Record::came_back_at). A store that knows of no orphans, and has one
    /// node, need not do anything.
    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        let _ = (scope, id);
        Box::pin(async { Ok(false) })
    }

    /// Makes a task due that was put aside, for what it waits for outside has come; says whether it was put aside. Any other is
    /// left as it is: who works on it learns of that by itself. In a store that knows no better it waits for its time.
    fn make_due<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, bool> {
        let _ = id;
        Box::pin(async { Ok(false) })
    }

    /// Forgets a task that has ended, as if its time were up: no caller finds it any more. Its key stays taken, and its id with
    /// it; without a key nothing is left of it after the next [`sweep`](Self::sweep). Its payloads go at once, or when it is
    /// undone.
    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure>;

    /// Does what time demands, to at most `limit` tasks: an open one past its time ends with an error; an open one that is an
    /// [orphan](crate::NewTask::orphan) by now is told of, and cancelled if it is to be; what is done
    /// and past its time, and undone or past the time for that, loses its payloads and stays as a tombstone, later not even
    /// that.
    ///
    /// Every node may sweep at any time. If [`Swept::is_full`], there may be more.
    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept>;

    /// How many tasks there are.
    fn counts(&self) -> StoreFuture<'_, Counts>;

    /// How many bytes it takes up where it is kept, as is known now or was some seconds ago; `None` where nobody says. For who
    /// watches a store: no bound goes by it, and a server may count what is not of this store.
    fn size(&self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Tells when a task may have changed, on whichever node. Only a hint: the truth is [`get`](Self::get), asked
    /// *after* this. It tells nothing of the task itself, so it takes no scope.
    fn watch(&self, id: &TaskId) -> TaskWatch;

    /// The store's time, from which all dates and deadlines of its tasks are made.
    fn now(&self) -> Time;

    /// The date that this machine has, where it is an hour or more ahead of the store's time and therefore is not followed;
    /// `None`, the default, where it is, and of a store that does not go by the machine's date.
    fn refused_date(&self) -> Option<Time> {
        None
    }

    /// How long a lease lasts that this node is given: with a claim, or with its latest renewal.
    fn lease(&self) -> Duration;

    /// Until when nobody can take this node for dead, whatever becomes of its way to the store; `None`, the default, where its
    /// leases are void only once they have run out or it is dead for certain.
    ///
    /// What the store says of a task that it is asked about *after* this holds until then, with time for an effect to get out.
    fn alive_until(&self) -> Option<Time> {
        None
    }

    /// How much it takes of everything, so that work which has no row yet keeps within it too: the defaults, unless it
    /// says otherwise.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// What survives what.
    fn durability(&self) -> Durability;

    /// Why it may lose what it acknowledges in spite of its [`durability`](Self::durability), in words for who operates it; `None`, the
    /// default, where nothing is known to be wrong. A server is not ready for more until it is set right.
    fn at_risk(&self) -> Option<Arc<str>> {
        None
    }

    /// Why it takes no writes now, as far as that is known without making one; `None`, the default, where nothing is known to be in
    /// the way. A server is not ready for more meanwhile. Whether there is room again may be found out because of this question, and be
    /// told the next time.
    fn refusal(&self) -> Option<StoreError> {
        None
    }

    /// The name of this node.
    fn node(&self) -> &NodeId;
}

/// What became of a create.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum Created {
    /// It exists now.
    New(Record),
    /// An open task of the same owner and digest was found; nothing was created.
    Joined(Record),
    /// The call was made before, under the same key, and is this task, ended or not; nothing was created.
    Again(Record),
}

impl Created {
    /// The task, whichever it is.
    #[must_use]
    pub fn into_record(self) -> Record {
        match self {
            Self::New(record) | Self::Joined(record) | Self::Again(record) => record,
        }
    }
}

/// What became of a finish.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum Finished {
    /// This outcome is the task's.
    Recorded(Record),
    /// It had ended before, perhaps otherwise; nothing changed.
    AlreadyTerminal(Record),
}

impl Finished {
    /// The task as it ended.
    #[must_use]
    pub fn into_record(self) -> Record {
        match self {
            Self::Recorded(record) | Self::AlreadyTerminal(record) => record,
        }
    }
}

/// What became of a cancel.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum Cancellation {
    /// It is cancelled now.
    Cancelled(Record),
    /// It had ended before; nothing changed.
    AlreadyTerminal(Record),
    /// The scope sees no such task.
    NotFound,
}

/// What became of asking the work of a task to end.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum CancelAsked {
    /// It is asked, now or since before; the task is open still.
    Requested(Record),
    /// It is not: the task is cancelled, has ended or is not there.
    AtOnce(Cancellation),
}

/// What became of an erasure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum Erasure {
    /// It is forgotten now.
    Erased,
    /// It has not ended; nothing changed.
    Open,
    /// The scope sees no such task.
    NotFound,
}

/// What became of answers.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
#[expect(
    clippy::large_enum_variant,
    reason = "it is looked at where it arrives, and the large one is the rule"
)]
pub enum Answered {
    /// So many of them are recorded; the others were to nothing that is asked.
    Recorded {
        /// The task as it is now.
        record: Record,
        /// How many.
        taken: usize,
    },
    /// The scope sees no such task.
    NotFound,
}

/// What a worker reports: each part left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Batch {
    /// How far it is.
    pub progress: Option<Progress>,
    /// The line for a person to read.
    pub status_message: Option<Arc<str>>,
    /// Keys of steps that are forgotten, before those below are taken: they count no more, and their keys are free. A
    /// question among them is no longer asked.
    pub forget: Vec<Arc<str>>,
    /// Steps that have begun, or were learnt. A question that is [`Begun`](crate::StepState::Begun) again, or learnt
    /// without an answer, is no longer asked.
    pub steps: Vec<Step>,
    /// Parts of what it comes to, in the order in which they are given. What was given under a key is passed over.
    pub parts: Vec<Part>,
    /// A task that is made, in the same moment as the step that it is. A last report makes none.
    pub child: Option<NewChild>,
    /// How many [attempts](Record::attempt) in a row there were, of a task that is open: nothing is charged for one that has yet to
    /// begin.
    pub attempt: Option<u32>,
    /// Where its work is about to begin, and is bound to from now on. A task that is bound already stays where it is.
    pub host: Option<HostId>,
    /// Puts the task aside: the worker's lease ends with this. Nothing is charged for it, but for an attempt to undo the
    /// task, which then is due at the time that is given.
    pub park: Option<Park>,
}

impl Batch {
    /// A report that says nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = Some(progress);
        self
    }

    /// With a step.
    #[must_use]
    pub fn with_step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// With a part.
    #[must_use]
    pub fn with_part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Which forgets the step of this key first.
    #[must_use]
    pub fn with_forgotten(mut self, key: impl Into<Arc<str>>) -> Self {
        self.forget.push(key.into());
        self
    }

    /// With a task that it makes.
    #[must_use]
    pub fn with_child(mut self, child: NewChild) -> Self {
        self.child = Some(child);
        self
    }

    /// Which says that there were so many attempts in a row.
    #[must_use]
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// Which binds the task to this host.
    #[must_use]
    pub fn with_host(mut self, host: HostId) -> Self {
        self.host = Some(host);
        self
    }

    /// After which the task waits.
    #[must_use]
    pub fn with_park(mut self, park: Park) -> Self {
        self.park = Some(park);
        self
    }

    /// With a status message.
    #[must_use]
    pub fn with_status_message(mut self, message: impl Into<Arc<str>>) -> Self {
        self.status_message = Some(message.into());
        self
    }
}

/// Which tasks a list is of.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Only those that have not ended.
    pub open_only: bool,
    /// Only those of this tool.
    pub tool: Option<Arc<str>>,
    /// Only those that a claim could take now: without [`open_only`](Self::open_only) that are also those that have ended
    /// and are to be undone. A store finds out that there is none without looking at any task, and where there are few it looks at
    /// those alone, however many are open.
    pub claimable_only: bool,
}

impl Filter {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Those that have not ended.
    #[must_use]
    pub fn open() -> Self {
        Self { open_only: true, ..Self::default() }
    }

    /// Those that have not ended and a [claim](TaskStore::claim) could take now. What has ended and is to be undone is
    /// not among them.
    #[must_use]
    pub fn claimable() -> Self {
        Self { claimable_only: true, ..Self::open() }
    }

    /// Of those, the ones of this tool.
    #[must_use]
    pub fn of_tool(mut self, tool: impl Into<Arc<str>>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// Whether a task is one of them, as far as its record says: whether it can be claimed depends on who is alive.
    #[must_use]
    pub fn admits(&self, record: &Record) -> bool {
        !(self.open_only && record.is_terminal())
            && self.tool.as_ref().is_none_or(|tool| *tool == record.tool)
    }
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Swept {
    /// Open tasks that ended because their time was up.
    pub expired: Vec<TaskId>,
    /// Open tasks that are orphans now, and what has become of each.
    pub orphans: Vec<(TaskId, OnOrphan)>,
    /// Finished tasks that were forgotten.
    pub erased: usize,
    /// Which those were.
    pub forgotten: Vec<TaskId>,
    /// Those of them of which something was still to be undone, and how many steps: nobody undoes it any more.
    pub owing: Vec<(TaskId, u32)>,
    /// Tombstones that went.
    pub removed: usize,
    /// Whether as many were due as it was to take: there may be more, also where others were faster with some of these.
    pub is_full: bool,
}

impl Swept {
    /// One more finished task was forgotten.
    pub fn forgot(&mut self, record: &Record) {
        self.erased += 1;
        self.forgotten.push(record.id.clone());
        if record.is_undoing() {
            self.owing.push((record.id.clone(), record.owed));
        }
    }

    /// How many tasks it touched.
    #[must_use]
    pub fn total(&self) -> usize {
        self.expired.len() + self.orphans.len() + self.erased + self.removed
    }
}

/// How many tasks a store holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// Those that have not ended.
    pub open: u64,
    /// All that take room, tombstones included.
    pub retained: u64,
}

impl Counts {
    /// These counts.
    #[must_use]
    pub fn new(open: u64, retained: u64) -> Self {
        Self { open, retained }
    }
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: it ends with this process.
    Volatile,
    /// The end of this process, though not the loss of power.
    Process,
    /// The loss of power: it is synced to disk before it is acknowledged.
    Disk,
    /// The loss of a machine: it is synced to the disks of two before it is acknowledged.
    Replicated,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volatile => "in memory, lost when the process ends",
            Self::Process => "survives the process, not a power cut",
            Self::Disk => "on disk before it is acknowledged",
            Self::Replicated => "on two machines' disks before it is acknowledged",
        })
    }
}
