//! The stores on one Redis or Valkey server, shared by the nodes of a fleet.

mod address;
mod commit;
mod entries;
mod events;
mod family;
mod fault;
mod keeper;
mod keys;
mod link;
mod open;
mod operation;
mod read;
mod renew;
mod row;
mod settings;
mod tx;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::Receiver,
    },
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    sync::oneshot,
    task::JoinError,
    time::{sleep, timeout},
};

pub use self::open::RedisOptions;
use self::{
    address::Place,
    fault::Fault,
    keys::Keys,
    link::Link,
    operation::{
        Answer, AskToCancel, CameBack, Cancel, Claim, ClaimOne, Create, Done, Erase, Finish, Held, Release,
        Sweep, Target, Write,
    },
    read::{Called, Candidates, Claimable, Count, Due, Get, List, Look, PartsOf, Steps},
    tx::{Operation, Tx},
};
use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Limits, NewTask, NodeId, Outcome, Owner, Page, Parts, Record, Reply, Runnable, Scope,
    Settings, Step, StoreError, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time, WatchHub,
    clock::StoreClock, error::said, server_clock::ServerClock, suspects::Suspects,
};

/// Tasks, events and entries on one Redis (7 or later) or Valkey server, under keys that all begin with the store's name.
///
/// An operation on tasks reads what it is about, applies the rules that every backend has, and writes all that comes of it by
/// one script, which does so only if everything read is still as it was. Operations that meet are tried again, a bounded number
/// of times. What is sent in streams, and the registry, have a script for each operation. Operations run on threads of the
/// store's own, so that one whose caller goes away still happens as a whole; any runtime may wait for them.
///
/// **What it survives** is what the server is set to ([`durability`](TaskStore::durability)): with `appendonly yes` and
/// `appendfsync always` a loss of power; with `everysec` up to two seconds may be lost when the server or its machine goes down.
/// It is never the loss of the machine: a replica that takes over need not have what was acknowledged, however many were waited
/// for, and then tasks, answers and outcomes may be missing or older, and an epoch may be given a second time. Whoever
/// needs more takes PostgreSQL.
///
/// **Memory** is the server's: it must be set to refuse what it has no room for (`maxmemory-policy noeviction`), or the store
/// is not opened. What takes room fails then with [`StoreError::Full`]; what makes some goes on, and so do leases and cancels.
///
/// **A cluster** keeps a store on one of its nodes, for all its keys have one tag: name that node. More of them do not make one
/// store faster; stores of other [names](RedisOptions::open) are kept by others.
///
/// **Time** is the server's, as it is the database's in `Postgres`. **Alive** is who listens on a channel of its own. A node
/// whose session ends without a word, and that does not make another within [`session_grace`](RedisOptions::session_grace),
/// loses its leases.
///
/// **When the server goes away** operations fail with [`StoreError::Unreachable`] until it is back.
///
/// Dropping the handle gives up its leases; it blocks for that, for at most two seconds.
///
/// ```no_run
/// # async fn f() -> Result<(), longhaul_store::StoreError> {
/// let store = longhaul_store::Redis::open("redis://localhost").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Redis {
    site: Arc<Site>,
    /// `None` only while being dropped, as is the next.
    runtime: Option<Runtime>,
    parting: Option<Parting>,
}

/// What all parts of one store handle share.
struct Site {
    link: Link,
    place: Place,
    keys: Keys,
    settings: Settings,
    clock: StoreClock,
    /// Unless time comes from elsewhere.
    server_clock: Option<Arc<ServerClock>>,
    hub: Arc<WatchHub>,
    node: NodeId,
    suspects: Suspects,
    replicas: usize,
    patience: Duration,
    /// How many changes this node has heard of, its own included.
    changes: AtomicU64,
    /// How many rows this node has written.
    versions: AtomicU64,
    /// Here those of this node wait that others were faster than, so that they are not in each other's way, too.
    line: tokio::sync::Mutex<()>,
    durability: Mutex<(Durability, String)>,
}

/// How the keeper of the session is told to end.
#[derive(Debug)]
struct Parting {
    stop: oneshot::Sender<()>,
    gone: Mutex<Receiver<()>>,
}

impl Site {
    /// Does something that is done as a whole or not at all, and tells who watches.
    async fn write<O: Operation>(&self, operation: O) -> Result<O::Done, StoreError> {
        let mut waited_for = None;
        for tries in 1.. {
            let fault = match Tx::attempt(self, &operation).await {
                Ok((done, changes)) => {
                    changes.iter().for_each(|id| self.wake(id));
                    return Ok(done);
                }
                Err(fault) => fault,
            };
            let most = if matches!(fault, Fault::Changed) { MOST_MEETINGS } else { MOST_TRIES };
            if tries >= most || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            if waited_for.is_none() && matches!(fault, Fault::Changed) {
                waited_for = Some(self.line.lock().await);
            }
            self.pause(&fault, tries).await;
        }
        Err(StoreError::Closed)
    }

    async fn read<L: Look>(&self, look: L) -> Result<L::Found, StoreError> {
        for tries in 1.. {
            let fault = match look.look(self).await {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            };
            if tries >= MOST_TRIES || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            self.pause(&fault, tries).await;
        }
        Err(StoreError::Closed)
    }

    /// Those who met go on at different moments; whoever waits for the server gives it longer.
    async fn pause(&self, fault: &Fault, tries: u32) {
        match fault {
            Fault::Changed => {
                let part = self.versions.fetch_add(1, Ordering::Relaxed) % 7 + 1;
                sleep(Duration::from_micros(250) * (part as u32) * tries.min(8)).await;
            }
            _ => sleep(PAUSE * tries).await,
        }
    }

    /// Waits for something no longer than this node's patience goes.
    async fn within<T>(&self, doing: impl Future<Output = Result<T, Fault>>) -> Result<T, StoreError> {
        match timeout(self.patience, doing).await {
            Ok(done) => done.map_err(|fault| self.place.error(fault)),
            Err(late) => Err(self.place.unreachable(late)),
        }
    }

    /// A task has changed, here or elsewhere.
    fn wake(&self, id: &TaskId) {
        self.hub.wake(id, self.changes.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// Another version than any row has had.
    fn next_version(&self) -> String {
        format!("{}.{:x}", self.node, self.versions.fetch_add(1, Ordering::Relaxed))
    }

    fn set_durability(&self, found: (Durability, String)) {
        let mut known = self.durability.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != found.0 && !known.1.is_empty() {
            tracing::warn!(was = %known.0, is = %found.0, settings = found.1, "the server's durability has changed");
        }
        *known = found;
    }
}

impl Redis {
    /// Opens the store on this server with default [`RedisOptions`], creating it if there is none.
    ///
    /// # Errors
    ///
    /// As [`RedisOptions::open`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        RedisOptions::new().open(url).await
    }

    /// Where the server is, and nothing else that its URL says.
    #[must_use]
    pub fn place(&self) -> String {
        self.site.place.to_string()
    }

    /// The settings of the server that its [`durability`](TaskStore::durability) follows from, such as
    /// `appendfsync = always`.
    #[must_use]
    pub fn commits(&self) -> String {
        self.site.durability.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Has the store's own threads do something, from its first poll on, whoever goes on to wait for it.
    fn on_own<'a, T, F>(&'a self, make: impl FnOnce(Arc<Site>) -> F + Send + 'a) -> StoreFuture<'a, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(async move {
            let Some(runtime) = &self.runtime else { return Err(StoreError::Closed) };
            // Each of its questions has an answer in time; many of them may not.
            let (doing, most) = (make(self.site.clone()), self.site.patience * 4);
            match ended(runtime.spawn(async move { timeout(most, doing).await }).await.map(Ok)) {
                Ok(Ok(done)) => done,
                Ok(Err(late)) => Err(self.site.place.unreachable(late)),
                Err(error) => Err(error),
            }
        })
    }

    fn write<'a, O: Operation>(&'a self, make: impl FnOnce() -> O + Send + 'a) -> StoreFuture<'a, O::Done> {
        self.on_own(move |site| {
            let operation = make();
            async move { site.write(operation).await }
        })
    }

    fn read<'a, L: Look>(&'a self, make: impl FnOnce() -> L + Send + 'a) -> StoreFuture<'a, L::Found> {
        self.on_own(move |site| {
            let look = make();
            async move { site.read(look).await }
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.site.hub.close();
        if let Some(Parting { stop, gone }) = self.parting.take()
            && stop.send(()).is_ok()
        {
            let gone = gone.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _told_or_late = gone.recv_timeout(LONGEST_PARTING);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl TaskStore for Redis {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        self.write(move || Create(task))
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.read(move || Get { owner: owner_of(scope), id: id.clone() })
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.read(move || Called { owner: owner.clone(), key: key.clone() })
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            if matches!(scope, Scope::Owner(Owner::Anonymous)) {
                return Err(StoreError::Unlistable);
            }
            let before = after.map_or(Ok(u64::MAX), |cursor| cursor.number(scope))?;
            let mut claimable = None;
            if filter.claimable_only {
                let open_only = filter.open_only;
                let found = self.read(move || Claimable { open_only, limit: 1, runs: None }).await?;
                if found.ids.is_empty() {
                    return Ok(Page::default());
                }
                claimable = Some(found.dead);
            }
            let limit = limit.clamp(1, Page::MAX);
            let (owner, filter) = (owner_of(scope), filter.clone());
            self.read(move || List { owner, filter, claimable, before, limit }).await
        })
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        Box::pin(async move {
            if limit == 0 {
                return Ok(Vec::new());
            }
            let mut claimed = Vec::new();
            for _ in 0..MOST_TRIES {
                // Others may be at the first of them at the same time.
                let some = limit.saturating_add(SPARE);
                let look =
                    move || Claimable { open_only: false, limit: some, runs: runs.map(<[Runnable]>::to_vec) };
                let Candidates { ids, dead } = self.read(look).await?;
                if ids.is_empty() {
                    break;
                }
                claimed = self.write(move || Claim { ids, dead, limit }).await?;
                if !claimed.is_empty() {
                    break;
                }
            }
            Ok(claimed)
        })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let look = move || Claimable { open_only: false, limit: 1, runs: None };
            let Candidates { ids, dead } = self.read(look).await?;
            if ids.is_empty() {
                return Ok(None);
            }
            self.write(move || ClaimOne { id: id.clone(), dead }).await
        })
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.on_own(move |site| {
            let held = held.to_vec();
            async move { renew::renew(&site, &held).await }
        })
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.write(move || Release(Held { id: id.clone(), epoch }))
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        let written = self.write(move || Write { held: Held { id: id.clone(), epoch }, batch });
        Box::pin(async move { written.await.map(|record| record.seq) })
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.read(move || Steps { id: id.clone(), epoch })
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.read(move || PartsOf { task: Get { owner: owner_of(scope), id: id.clone() }, after, limit })
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        self.write(move || Answer { target: target(scope, id), replies: replies.to_vec() })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        self.write(move || Finish { held: Held { id: id.clone(), epoch }, outcome, last })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        self.write(move || Cancel { target: target(scope, id), reason: reason.map(str::to_owned) })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        self.write(move || {
            AskToCancel(Cancel { target: target(scope, id), reason: reason.map(str::to_owned) })
        })
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.write(move || CameBack(target(scope, id)))
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        self.write(move || Erase(target(scope, id)))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let mut swept = Swept::default();
            // Each by itself: what one that has ended leads to may be long.
            for id in self.read(move || Due(limit)).await? {
                match self.write(|| Sweep(id.clone())).await? {
                    Done::Expired => swept.expired.push(id),
                    Done::Orphaned(then) => swept.orphans.push((id, then)),
                    Done::Forgot(record) => swept.forgot(&record),
                    Done::Removed => swept.removed += 1,
                    Done::Nothing => {}
                }
            }
            Ok(swept)
        })
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.read(|| Count)
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.site.hub.watch(id)
    }

    fn now(&self) -> Time {
        self.site.clock.now()
    }

    fn limits(&self) -> Limits {
        self.site.settings.limits.clone()
    }

    fn lease(&self) -> Duration {
        self.site.settings.lease
    }

    fn durability(&self) -> Durability {
        self.site.durability.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn node(&self) -> &NodeId {
        &self.site.node
    }
}

/// What became of an operation on the store's own threads.
fn ended<T>(ended: Result<Result<T, StoreError>, JoinError>) -> Result<T, StoreError> {
    match ended {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(StoreError::Closed),
        Err(_) => {
            Err(StoreError::Backend { doing: "an operation", source: said("it has panicked; see the log") })
        }
    }
}

/// The owner a scope is bound to, for an operation that outlives its caller.
fn owner_of(scope: Scope<'_>) -> Option<Owner> {
    match scope {
        Scope::Owner(owner) => Some(owner.clone()),
        Scope::Operator => None,
    }
}

fn target(scope: Scope<'_>, id: &TaskId) -> Target {
    Target { owner: owner_of(scope), id: id.clone() }
}

/// How often an operation is tried that the server cannot be reached for, and a claim that others were faster than.
const MOST_TRIES: u32 = 5;

/// How often an operation is tried that others are faster than.
const MOST_MEETINGS: u32 = 64;

/// The pause before the second try; the later ones wait longer.
const PAUSE: Duration = Duration::from_millis(20);

/// How many more tasks a claim looks at than it wants, for others may take some.
const SPARE: usize = 64;

/// How long the end of a handle may take.
const LONGEST_PARTING: Duration = Duration::from_secs(2);
