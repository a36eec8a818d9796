//! The stores in one PostgreSQL database, shared by the nodes of a fleet.

mod address;
mod entries;
mod events;
mod family;
mod fault;
mod keeper;
mod link;
mod migrations;
mod open;
mod operation;
mod read;
mod sql;
mod steps;
mod tx;
mod value;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::Receiver,
    },
    time::Duration,
};

use deadpool_postgres::Pool;
use tokio::{
    runtime::Runtime,
    sync::{mpsc, oneshot},
    task::JoinError,
    time::{sleep, timeout},
};

pub use self::open::PostgresOptions;
use self::{
    address::Place,
    fault::Fault,
    link::Direct,
    operation::{
        Answer, AskToCancel, CameBack, Cancel, Claim, ClaimOne, Create, Done, Erase, Finish, Held, Release,
        Renew, Sweep, Target, Write,
    },
    read::{Called, Candidates, Claimable, Count, Due, Get, GetAsking, List, Look, PartsOf, Steps},
    tx::{Operation, Tx},
};
use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Limits, NewTask, NodeId, Outcome, Owner, Page, Parts, Record, Reply, Runnable, Scope,
    Settings, Step, StoreError, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time, WatchHub,
    clock::StoreClock, error::said, row::phase, server_clock::ServerClock, suspects::Suspects,
};

/// Tasks, events and entries in one PostgreSQL database (14 or later), in a schema of their own, `longhaul`.
///
/// Each operation is one transaction: it holds the rows it is about, applies the rules that every backend has, and
/// writes back. Transactions that meet give way and are tried again, a few times. Operations run on threads of the
/// store's own, so that one whose caller goes away still happens as a whole; any runtime may wait for them.
///
/// **Time** is the database's: each node asks for it and measures what has passed since, so that what the nodes' own
/// clocks say does not matter. The clock of the database's machine does: set forward by less than an hour it is followed,
/// and leases, time limits and retentions run out by as much earlier; by more, it is followed by nodes that are opened
/// after that, and then by all. Set back, it is passed over. Two nodes differ by as much as one question to the database
/// and back takes.
///
/// **Alive** is who has a session with the database. A node whose session ends without a word, and that does not make
/// another within [`session_grace`](PostgresOptions::session_grace), loses its leases.
///
/// **When the database goes away** operations fail with [`StoreError::Unreachable`] until it is back; what was
/// acknowledged is there then, as far as [`durability`](TaskStore::durability) goes.
///
/// **Bounds in all** ([`Limits::max_open`], [`Limits::max_retained`]), and those of events and entries, are counted without
/// one operation waiting for another: as many may come beyond as are under way at the same moment. An owner's own tasks are
/// counted exactly.
///
/// Dropping the handle gives up its leases; it blocks for that, for at most two seconds.
///
/// ```no_run
/// # async fn f() -> Result<(), longhaul_store::StoreError> {
/// let store = longhaul_store::Postgres::open("postgres://longhaul@localhost/tasks").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Postgres {
    site: Arc<Site>,
    /// `None` only while being dropped, as is the next.
    runtime: Option<Runtime>,
    parting: Option<Parting>,
}

/// What all parts of one store handle share.
struct Site {
    pool: Pool,
    place: Place,
    direct: Direct,
    settings: Settings,
    clock: StoreClock,
    /// Unless time comes from elsewhere.
    server_clock: Option<Arc<ServerClock>>,
    hub: Arc<WatchHub>,
    node: NodeId,
    hints: mpsc::Sender<TaskId>,
    suspects: Suspects,
    is_pooled: bool,
    /// How a transaction begins.
    begin: String,
    patience: Duration,
    /// How many changes this node has heard of, its own included. Their own numbers are not given in the order in which
    /// they are committed.
    changes: AtomicU64,
    shards: AtomicU64,
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
        let (mut tries, mut family) = (0, None);
        loop {
            let attempt = timeout(self.patience * 2, Tx::attempt(self, &operation, family.as_ref()));
            let fault = match attempt.await {
                Ok(Ok((done, changes))) => {
                    for id in changes {
                        self.wake(&id);
                        // A hint that finds no room is none: others look for themselves.
                        let _told_or_not = self.hints.try_send(id);
                    }
                    return Ok(done);
                }
                Ok(Err(Fault::Family(id))) => {
                    family = Some(id);
                    continue;
                }
                Ok(Err(fault)) => fault,
                Err(late) => return Err(self.place.unreachable(late)),
            };
            tries += 1;
            if tries == MOST_TRIES || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            sleep(PAUSE * tries).await;
        }
    }

    async fn read<L: Look>(&self, look: L) -> Result<L::Found, StoreError> {
        let mut tries = 0;
        loop {
            let fault = match timeout(self.patience * 2, read::attempt(self, &look)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(fault)) => fault,
                Err(late) => return Err(self.place.unreachable(late)),
            };
            tries += 1;
            if tries == MOST_TRIES || !fault.is_worth_another_try() {
                return Err(self.place.error(fault));
            }
            sleep(PAUSE * tries).await;
        }
    }

    /// A task has changed, here or elsewhere.
    fn wake(&self, id: &TaskId) {
        self.hub.wake(id, self.changes.fetch_add(1, Ordering::Relaxed) + 1);
    }

    fn set_durability(&self, found: (Durability, String)) {
        let mut known = self.durability.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != found.0 && !known.1.is_empty() {
            tracing::warn!(was = %known.0, is = %found.0, settings = found.1, "the database's durability has changed");
        }
        *known = found;
    }
}

impl Postgres {
    /// Opens the store in this database with default [`PostgresOptions`], creating it if there is none.
    ///
    /// # Errors
    ///
    /// As [`PostgresOptions::open`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        PostgresOptions::new().open(url).await
    }

    /// Where the database is: its hosts and its name, and nothing else that its URL says.
    #[must_use]
    pub fn place(&self) -> String {
        self.site.place.to_string()
    }

    /// The settings of the database that its [`durability`](TaskStore::durability) follows from, such as
    /// `synchronous_commit = on`.
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
            ended(runtime.spawn(make(self.site.clone())).await)
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

    /// Does something that takes room. Before it is refused for want of that, what is past its time makes some, by
    /// `sweep`.
    fn write_with_room<'a, O: Operation>(
        &'a self,
        make: impl Fn() -> O + Send + Sync + 'a,
        sweep: impl Fn(&'a Self) -> StoreFuture<'a, usize> + Send + 'a,
    ) -> StoreFuture<'a, O::Done> {
        Box::pin(async move {
            loop {
                match self.write(&make).await {
                    Err(StoreError::Overloaded { .. }) if sweep(self).await? > 0 => {}
                    written => return written,
                }
            }
        })
    }

    /// What a claim could take of phases below `below`, and of these tools.
    fn claimable<'a>(
        &'a self,
        below: i64,
        limit: usize,
        runs: Option<&'a [Runnable]>,
    ) -> StoreFuture<'a, Candidates> {
        self.read(move || Claimable { below, limit, runs: runs.map(<[Runnable]>::to_vec) })
    }
}

impl Drop for Postgres {
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

impl TaskStore for Postgres {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        self.write(move || Create(task))
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        let wanted = move || Get { owner: owner_of(scope), id: id.clone() };
        Box::pin(async move {
            match self.read(wanted).await? {
                Some(found) => Ok(found),
                None => self.read(move || GetAsking(wanted())).await,
            }
        })
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
                let below = if filter.open_only { phase::DONE } else { phase::TOMBSTONE };
                let found = self.claimable(below, 1, None).await?;
                if found.rows.is_empty() {
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
                let Candidates { rows, dead } = self.claimable(phase::TOMBSTONE, some, runs).await?;
                if rows.is_empty() {
                    break;
                }
                claimed = self.write(move || Claim { rows, dead, limit }).await?;
                if !claimed.is_empty() {
                    break;
                }
            }
            Ok(claimed)
        })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let Candidates { rows, dead } = self.claimable(phase::TOMBSTONE, 1, None).await?;
            if rows.is_empty() {
                return Ok(None);
            }
            self.write(move || ClaimOne { id: id.clone(), dead }).await
        })
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.write(move || {
            Renew(held.iter().map(|(id, epoch)| Held { id: id.clone(), epoch: *epoch }).collect())
        })
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.write(move || Release(Held { id: id.clone(), epoch }))
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        self.write(move || Write { held: Held { id: id.clone(), epoch }, batch })
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

/// How often an operation is tried that others stand in the way of.
const MOST_TRIES: u32 = 5;

/// The pause before the second try; the later ones wait longer.
const PAUSE: Duration = Duration::from_millis(20);

/// How much that is past its time goes at once to make room.
const SWEPT_AT_ONCE: usize = 256;

/// How many more tasks a claim looks at than it wants, for others may take some.
const SPARE: usize = 64;

/// How long the end of a handle may take.
const LONGEST_PARTING: Duration = Duration::from_secs(2);
