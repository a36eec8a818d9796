//! Stores around stores: what an overlay does not do itself, the store below does.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Limits, NewTask, NodeId, Outcome, Owner, Page, Parts, Record, Reply, Runnable, Scope,
    SeenSteps, Step, StoreError, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time,
};

/// A store over another one, which does itself only what it says here.
///
/// Every operation of a [`TaskStore`] is one of an overlay, too, and goes to the store below unless it is written here.
/// So an overlay that says nothing keeps every promise of that store, and one that is written today also passes on what
/// a later version adds. Nothing is boxed on the way. Whoever is an `Overlay` is a `TaskStore`.
///
/// [`around`](Self::around) sees all operations that are not written here come and go.
///
/// Both traits name their operations alike. Where both are imported, ask [`below`](Self::below), or say which is meant: an
/// overlay's own is `TaskStore::get(&overlay, scope, &id)`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use longhaul_store::{Created, Json, Memory, NewTask, Overlay, Owner, StoreFuture, TaskId, TaskStore};
///
/// /// Counts the tasks that are made through it.
/// #[derive(Debug)]
/// struct Counting<S> {
///     store: S,
///     made: AtomicU64,
/// }
///
/// impl<S: TaskStore> Overlay for Counting<S> {
///     type Below = S;
///
///     fn below(&self) -> &S {
///         &self.store
///     }
///
///     fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
///         Box::pin(async move {
///             let created = self.store.create(task).await?;
///             if let Created::New(_) = created {
///                 self.made.fetch_add(1, Ordering::Relaxed);
///             }
///             Ok(created)
///         })
///     }
/// }
///
/// async fn use_it(store: &impl TaskStore) -> Result<(), Box<dyn std::error::Error>> {
///     let task = || Ok::<_, Box<dyn std::error::Error>>(NewTask::new(TaskId::new("t1")?, Owner::principal("ann")?, "t", Json::parse("{}")?));
///     store.create(task()?).await?;
///     assert!(store.create(task()?).await.is_err(), "the store below refuses what is there");
///     assert_eq!(store.counts().await?.open, 1, "and is asked for the rest");
///     Ok(())
/// }
///
/// let store = Counting { store: Memory::new(), made: AtomicU64::new(0) };
/// use_it(&store).await?;
/// assert_eq!(store.made.into_inner(), 1);
/// # Ok(()) }
/// ```
pub trait Overlay: fmt::Debug + Send + Sync {
    /// What is below. Of a shared store it is the store, not the pointer: of an `Arc<dyn TaskStore>` it is `dyn TaskStore`.
    type Below: TaskStore + ?Sized;

    /// The store below.
    fn below(&self) -> &Self::Below;

    /// What becomes of an operation that is not written here. Nothing is done before `doing` is polled, and dropping it
    /// unpolled means that it never was asked for.
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        let _ = operation;
        doing
    }

    /// [`TaskStore::create`].
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        self.around(Operation::Create, self.below().create(task))
    }

    /// [`TaskStore::get`].
    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.around(Operation::Get, self.below().get(scope, id))
    }

    /// [`TaskStore::called`].
    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.around(Operation::Called, self.below().called(owner, key))
    }

    /// [`TaskStore::list`].
    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        self.around(Operation::List, self.below().list(scope, filter, after, limit))
    }

    /// [`TaskStore::claim`].
    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        self.around(Operation::Claim, self.below().claim(limit, runs))
    }

    /// [`TaskStore::claim_one`].
    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.around(Operation::ClaimOne, self.below().claim_one(id))
    }

    /// [`TaskStore::renew`].
    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.around(Operation::Renew, self.below().renew(held))
    }

    /// [`TaskStore::release`].
    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.around(Operation::Release, self.below().release(id, epoch))
    }

    /// [`TaskStore::write`].
    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        self.around(Operation::Write, self.below().write(id, epoch, batch))
    }

    /// [`TaskStore::steps`].
    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.around(Operation::Steps, self.below().steps(id, epoch))
    }

    /// [`TaskStore::seen_steps`].
    fn seen_steps<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<SeenSteps>> {
        self.around(Operation::SeenSteps, self.below().seen_steps(scope, id, after, limit))
    }

    /// [`TaskStore::parts`].
    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.around(Operation::Parts, self.below().parts(scope, id, after, limit))
    }

    /// [`TaskStore::answer`].
    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        self.around(Operation::Answer, self.below().answer(scope, id, replies))
    }

    /// [`TaskStore::finish`].
    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        self.around(Operation::Finish, self.below().finish(id, epoch, outcome, last))
    }

    /// [`TaskStore::request_cancel`].
    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        self.around(Operation::RequestCancel, self.below().request_cancel(scope, id, reason))
    }

    /// [`TaskStore::ask_to_cancel`].
    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        self.around(Operation::AskToCancel, self.below().ask_to_cancel(scope, id, reason))
    }

    /// [`TaskStore::came_back`].
    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.around(Operation::CameBack, self.below().came_back(scope, id))
    }

    /// [`TaskStore::make_due`].
    fn make_due<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.around(Operation::MakeDue, self.below().make_due(id))
    }

    /// [`TaskStore::erase`].
    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        self.around(Operation::Erase, self.below().erase(scope, id))
    }

    /// [`TaskStore::sweep`].
    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.around(Operation::Sweep, self.below().sweep(limit))
    }

    /// [`TaskStore::counts`].
    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.around(Operation::Counts, self.below().counts())
    }

    /// [`TaskStore::size`].
    fn size(&self) -> StoreFuture<'_, Option<u64>> {
        self.around(Operation::Size, self.below().size())
    }

    /// [`TaskStore::watch`].
    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.below().watch(id)
    }

    /// [`TaskStore::now`].
    fn now(&self) -> Time {
        self.below().now()
    }

    /// [`TaskStore::refused_date`].
    fn refused_date(&self) -> Option<Time> {
        self.below().refused_date()
    }

    /// [`TaskStore::limits`].
    fn limits(&self) -> Limits {
        self.below().limits()
    }

    /// [`TaskStore::lease`].
    fn lease(&self) -> Duration {
        self.below().lease()
    }

    /// [`TaskStore::alive_until`].
    fn alive_until(&self) -> Option<Time> {
        self.below().alive_until()
    }

    /// [`TaskStore::durability`].
    fn durability(&self) -> Durability {
        self.below().durability()
    }

    /// [`TaskStore::at_risk`].
    fn at_risk(&self) -> Option<Arc<str>> {
        self.below().at_risk()
    }

    /// [`TaskStore::refusal`].
    fn refusal(&self) -> Option<StoreError> {
        self.below().refusal()
    }

    /// [`TaskStore::node`].
    fn node(&self) -> &NodeId {
        self.below().node()
    }
}

impl<O: Overlay> TaskStore for O {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        Overlay::create(self, task)
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Overlay::get(self, scope, id)
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        Overlay::called(self, owner, key)
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        Overlay::list(self, scope, filter, after, limit)
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        Overlay::claim(self, limit, runs)
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Overlay::claim_one(self, id)
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        Overlay::renew(self, held)
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        Overlay::release(self, id, epoch)
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        Overlay::write(self, id, epoch, batch)
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        Overlay::steps(self, id, epoch)
    }

    fn seen_steps<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<SeenSteps>> {
        Overlay::seen_steps(self, scope, id, after, limit)
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        Overlay::parts(self, scope, id, after, limit)
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        Overlay::answer(self, scope, id, replies)
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        Overlay::finish(self, id, epoch, outcome, last)
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        Overlay::request_cancel(self, scope, id, reason)
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        Overlay::ask_to_cancel(self, scope, id, reason)
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        Overlay::came_back(self, scope, id)
    }

    fn make_due<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, bool> {
        Overlay::make_due(self, id)
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        Overlay::erase(self, scope, id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Overlay::sweep(self, limit)
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        Overlay::counts(self)
    }

    fn size(&self) -> StoreFuture<'_, Option<u64>> {
        Overlay::size(self)
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        Overlay::watch(self, id)
    }

    fn now(&self) -> Time {
        Overlay::now(self)
    }

    fn refused_date(&self) -> Option<Time> {
        Overlay::refused_date(self)
    }

    fn limits(&self) -> Limits {
        Overlay::limits(self)
    }

    fn lease(&self) -> Duration {
        Overlay::lease(self)
    }

    fn alive_until(&self) -> Option<Time> {
        Overlay::alive_until(self)
    }

    fn durability(&self) -> Durability {
        Overlay::durability(self)
    }

    fn at_risk(&self) -> Option<Arc<str>> {
        Overlay::at_risk(self)
    }

    fn refusal(&self) -> Option<StoreError> {
        Overlay::refusal(self)
    }

    fn node(&self) -> &NodeId {
        Overlay::node(self)
    }
}

/// What a store is asked to do: a [`TaskStore`], or the [`Registry`](crate::Registry) beside it, of which an overlay knows nothing.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// [`TaskStore::create`].
    Create,
    /// [`TaskStore::get`].
    Get,
    /// [`TaskStore::called`].
    Called,
    /// [`TaskStore::list`].
    List,
    /// [`TaskStore::claim`].
    Claim,
    /// [`TaskStore::claim_one`].
    ClaimOne,
    /// [`TaskStore::renew`].
    Renew,
    /// [`TaskStore::release`].
    Release,
    /// [`TaskStore::write`].
    Write,
    /// [`TaskStore::steps`].
    Steps,
    /// [`TaskStore::seen_steps`].
    SeenSteps,
    /// [`TaskStore::parts`].
    Parts,
    /// [`TaskStore::answer`].
    Answer,
    /// [`TaskStore::finish`].
    Finish,
    /// [`TaskStore::request_cancel`].
    RequestCancel,
    /// [`TaskStore::ask_to_cancel`].
    AskToCancel,
    /// [`TaskStore::came_back`].
    CameBack,
    /// [`TaskStore::make_due`].
    MakeDue,
    /// [`TaskStore::erase`].
    Erase,
    /// [`TaskStore::sweep`].
    Sweep,
    /// [`TaskStore::counts`].
    Counts,
    /// [`TaskStore::size`].
    Size,
    /// [`Registry::entry`](crate::Registry::entry).
    Entry,
    /// [`Registry::put`](crate::Registry::put).
    Put,
    /// [`Registry::compare_and_set`](crate::Registry::compare_and_set).
    CompareAndSet,
    /// [`Registry::names`](crate::Registry::names).
    Names,
    /// [`Registry::sweep_entries`](crate::Registry::sweep_entries).
    SweepEntries,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Called => "called",
            Self::List => "list",
            Self::Claim => "claim",
            Self::ClaimOne => "claim_one",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Write => "write",
            Self::Steps => "steps",
            Self::SeenSteps => "seen_steps",
            Self::Parts => "parts",
            Self::Answer => "answer",
            Self::Finish => "finish",
            Self::RequestCancel => "request_cancel",
            Self::AskToCancel => "ask_to_cancel",
            Self::CameBack => "came_back",
            Self::MakeDue => "make_due",
            Self::Erase => "erase",
            Self::Sweep => "sweep",
            Self::Counts => "counts",
            Self::Size => "size",
            Self::Entry => "entry",
            Self::Put => "put",
            Self::CompareAndSet => "compare_and_set",
            Self::Names => "names",
            Self::SweepEntries => "sweep_entries",
        })
    }
}
