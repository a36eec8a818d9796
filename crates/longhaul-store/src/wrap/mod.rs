//! Wrappers: a store around another one, which sees each operation come and go.
//!
//! [`Wrapped`] carries every operation of a [`TaskStore`] through one function of a [`Wrap`]; [`Faults`] is a wrap that
//! lets what was planned go wrong. A wrapped store that does nothing of its own keeps every promise of the one inside.

mod fault;

use std::fmt;
use std::time::Duration;

pub use fault::{Fault, Faults, Moment};

use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Limits, NewTask, NodeId, Outcome, Owner, Page, Parts, Record, Reply, Runnable, Scope,
    Step, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time,
};

/// Stands around each operation of a store.
pub trait Wrap: fmt::Debug + Send + Sync {
    /// What becomes of an operation. Nothing is done before `doing` is polled, and dropping it unpolled means that it
    /// never was asked for.
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T>;

    /// What an operation survives that was acknowledged through this, given what it survives in the store inside: the
    /// same, unless the wrap keeps what is done somewhere else.
    fn durability(&self, inside: Durability) -> Durability {
        inside
    }
}

/// What a store is asked to do.
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
    /// [`TaskStore::erase`].
    Erase,
    /// [`TaskStore::sweep`].
    Sweep,
    /// [`TaskStore::counts`].
    Counts,
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
            Self::Parts => "parts",
            Self::Answer => "answer",
            Self::Finish => "finish",
            Self::RequestCancel => "request_cancel",
            Self::AskToCancel => "ask_to_cancel",
            Self::CameBack => "came_back",
            Self::Erase => "erase",
            Self::Sweep => "sweep",
            Self::Counts => "counts",
        })
    }
}

/// A store inside a wrap.
///
/// What is no operation (`watch`, `now`, `node`) goes to the store inside at once.
#[derive(Debug)]
pub struct Wrapped<S, W> {
    store: S,
    wrap: W,
}

impl<S, W> Wrapped<S, W> {
    /// `store` inside `wrap`.
    #[must_use]
    pub fn new(store: S, wrap: W) -> Self {
        Self { store, wrap }
    }

    /// The store inside.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// What stands around it.
    #[must_use]
    pub fn wrap(&self) -> &W {
        &self.wrap
    }
}

impl<S: TaskStore, W: Wrap> TaskStore for Wrapped<S, W> {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        self.wrap.around(Operation::Create, self.store.create(task))
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.wrap.around(Operation::Get, self.store.get(scope, id))
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.wrap.around(Operation::Called, self.store.called(owner, key))
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        self.wrap.around(Operation::List, self.store.list(scope, filter, after, limit))
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        self.wrap.around(Operation::Claim, self.store.claim(limit, runs))
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.wrap.around(Operation::ClaimOne, self.store.claim_one(id))
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.wrap.around(Operation::Renew, self.store.renew(held))
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.wrap.around(Operation::Release, self.store.release(id, epoch))
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        self.wrap.around(Operation::Write, self.store.write(id, epoch, batch))
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.wrap.around(Operation::Steps, self.store.steps(id, epoch))
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.wrap.around(Operation::Parts, self.store.parts(scope, id, after, limit))
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        self.wrap.around(Operation::Answer, self.store.answer(scope, id, replies))
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        self.wrap.around(Operation::Finish, self.store.finish(id, epoch, outcome, last))
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        self.wrap.around(Operation::RequestCancel, self.store.request_cancel(scope, id, reason))
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        self.wrap.around(Operation::AskToCancel, self.store.ask_to_cancel(scope, id, reason))
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.wrap.around(Operation::CameBack, self.store.came_back(scope, id))
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        self.wrap.around(Operation::Erase, self.store.erase(scope, id))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.wrap.around(Operation::Sweep, self.store.sweep(limit))
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.wrap.around(Operation::Counts, self.store.counts())
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.store.watch(id)
    }

    fn now(&self) -> Time {
        self.store.now()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn lease(&self) -> Duration {
        self.store.lease()
    }

    fn durability(&self) -> Durability {
        self.wrap.durability(self.store.durability())
    }

    fn node(&self) -> &NodeId {
        self.store.node()
    }
}
