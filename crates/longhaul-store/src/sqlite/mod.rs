//! The stores in one SQLite file, shared by any number of processes of one machine.

mod anchor;
mod cells;
mod entries;
mod events;
mod family;
mod fault;
mod file_lock;
mod flushed;
mod inspect;
mod job;
mod list;
mod log;
mod open;
mod operation;
mod parts;
mod presence;
mod read;
mod recent;
mod schema;
mod sql;
mod steps;
mod transfer;
mod tx;
mod watcher;
mod writer;
mod writer_lock;

use std::{path::Path, sync::Arc, thread::JoinHandle, time::Duration};

pub use self::open::SqliteOptions;
use self::{
    job::{Jobs, Points},
    list::List,
    presence::Presence,
    read::{Claimable, Readers, Wanted},
    tx::Site,
};
use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Epoch, Erasure,
    Filter, Finished, Limits, NewTask, NodeId, Outcome, Owner, Page, Parts, Record, Reply, Runnable, Scope,
    SeenSteps, Step, StoreError, StoreFuture, Swept, TaskId, TaskStore, TaskWatch, Time, page::LONGEST_SCAN,
    row::phase,
};

/// Tasks, events and entries in one SQLite file.
///
/// Reads run where they are called, on a connection of their own: a few microseconds, no thread changes hands. A task that
/// was read lately is read from memory, for as long as nobody has changed it, in whichever process. Writes
/// go to one thread, which commits what has come together in the meantime and answers when it is on disk.
///
/// Beside the file lie SQLite's own `-wal` and `-shm`, `<file>.writer` (whose turn it is to write, and how much has reached the
/// disk) and `<file>.nodes/` (who is alive). All are readable by their owner only. The file belongs on a local disk; copy it with SQLite's own
/// tools or while no process has it open, and never open it directly within a process that has a store on it.
///
/// Dropping the handle finishes the writes in line, then gives up its leases; it blocks meanwhile.
///
/// ```no_run
/// # fn main() -> Result<(), longhaul_store::StoreError> {
/// let store = longhaul_store::Sqlite::open("tasks.db")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Sqlite {
    /// `None` only while being dropped, as are the threads.
    jobs: Option<Jobs>,
    /// Why nothing can be written, where the place was found so when it was opened.
    refusal: Option<StoreError>,
    writer: Option<JoinHandle<()>>,
    watcher: Option<JoinHandle<()>>,
    readers: Readers,
    site: Arc<Site>,
    presence: Presence,
}

impl Sqlite {
    /// Opens the store in this file with default [`SqliteOptions`], creating it if there is none.
    ///
    /// # Errors
    ///
    /// As [`SqliteOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteOptions::new().open(path)
    }

    /// The file, by its one true name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.site.path
    }

    /// Has the writer do something.
    fn write_with<T, F>(&self, points: &'static Points, operation: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnMut(&mut tx::Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        match &self.jobs {
            Some(jobs) => jobs.call(points, operation),
            None => {
                let refusal = self.refusal.clone().unwrap_or(StoreError::Closed);
                Box::pin(async { Err(refusal) })
            }
        }
    }

    /// Has the writer do something that takes room. Before it is refused for want of that, what is past its time makes
    /// some, by `sweep`.
    fn write_with_room<'a, T, F>(
        &'a self,
        operation: F,
        sweep: impl Fn(&'a Self) -> StoreFuture<'a, usize> + Send + 'a,
    ) -> StoreFuture<'a, T>
    where
        T: Send + 'static,
        F: FnMut(&mut tx::Tx<'_>) -> Result<T, StoreError> + Clone + Send + Sync + 'static,
    {
        Box::pin(async move {
            loop {
                match self.write_with(&WRITE, operation.clone()).await {
                    Err(StoreError::Overloaded { .. }) if sweep(self).await? > 0 => {}
                    written => return written,
                }
            }
        })
    }

    /// Reads something here and now.
    fn read_with<'a, T: Send>(
        &'a self,
        read: impl FnOnce(&rusqlite::Connection, &Site) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.readers.read(&self.site, |conn| read(conn, &self.site)) })
    }

    /// What can be claimed of phases below `below`, and of these tools, and who is dead, or `None` if nothing can: a node that has
    /// nothing to do takes no lock.
    fn claimable(&self, wanted: Wanted<'_>) -> Result<Option<Claimable>, StoreError> {
        self.readers.read(&self.site, |conn| {
            let holders = read::lease_holders(conn, &self.site)?;
            let dead: Vec<NodeId> =
                holders.iter().filter(|node| self.presence.is_dead(node)).cloned().collect();
            let now = self.site.clock.now();
            let tasks = read::claimable(conn, &self.site, &holders, &dead, wanted, now)?;
            Ok((!tasks.is_empty()).then_some(Claimable { tasks, dead }))
        })
    }

    /// The holders of leases that are dead, if anything can be claimed of these tools.
    fn dead(&self, runs: Option<&[Runnable]>) -> Result<Option<Vec<NodeId>>, StoreError> {
        let any = Wanted { below: phase::TOMBSTONE, limit: 1, runs };
        Ok(self.claimable(any)?.map(|found| found.dead))
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        drop(self.jobs.take());
        self.site.hub.close();
        for thread in [self.writer.take(), self.watcher.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread of the store has panicked");
            }
        }
    }
}

impl TaskStore for Sqlite {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        let node = self.presence.node().clone();
        self.write_with(&CREATE, move |tx| operation::create(tx, &node, &task))
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let (recent, now) = (&self.site.recent, self.site.clock.now());
            if let Some(found) = recent.find(id) {
                let is_seen = scope.sees(&found.owner) && !found.is_forgotten(now);
                return Ok(is_seen.then(|| Record::clone(&found)));
            }
            self.readers.read(&self.site, |conn| {
                let before = recent.end(conn);
                let found = read::get(conn, &self.site, scope, id, now)?;
                if let Some(record) = &found {
                    recent.keep(before, record);
                }
                Ok(found)
            })
        })
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.read_with(move |conn, site| read::called(conn, site, owner, key, site.clock.now()))
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        let limit = limit.clamp(1, Page::MAX);
        Box::pin(async move {
            let below = if filter.open_only { phase::DONE } else { phase::TOMBSTONE };
            // Those of an owner are looked for among its open tasks, which are few.
            let most = if matches!(scope, Scope::Operator) { LONGEST_SCAN } else { 1 };
            let wanted = Wanted { below, limit: most, runs: None };
            let claimable = filter.claimable_only.then(|| self.claimable(wanted)).transpose()?;
            self.readers.read(&self.site, |conn| {
                let now = self.site.clock.now();
                list::list(conn, &self.site, &List { scope, filter, claimable, after, limit, now })
            })
        })
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        Box::pin(async move {
            let Some(dead) = self.dead(runs)? else { return Ok(Vec::new()) };
            let (node, runs) = (self.presence.node().clone(), runs.map(<[Runnable]>::to_vec));
            self.write_with(&CLAIM, move |tx| operation::claim(tx, &node, &dead, limit, runs.as_deref()))
                .await
        })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let Some(dead) = self.dead(None)? else { return Ok(None) };
            let (node, id) = (self.presence.node().clone(), id.clone());
            self.write_with(&CLAIM, move |tx| operation::claim_one(tx, &node, &dead, &id)).await
        })
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        let held = held.to_vec();
        self.write_with(&RENEW, move |tx| operation::renew(tx, &held))
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        let id = id.clone();
        self.write_with(&RELEASE, move |tx| operation::release(tx, &id, epoch))
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        let (node, id) = (self.presence.node().clone(), id.clone());
        self.write_with(&WRITE, move |tx| operation::write(tx, &node, &id, epoch, &batch))
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.read_with(move |conn, site| read::steps(conn, site, id, epoch))
    }

    fn seen_steps<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<SeenSteps>> {
        self.read_with(move |conn, site| steps::seen(conn, site, scope, id, after, limit, site.clock.now()))
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.read_with(move |conn, site| parts::read(conn, site, scope, id, after, limit, site.clock.now()))
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        let (owner, id, replies) = (owner_of(scope), id.clone(), replies.to_vec());
        self.write_with(&ANSWER, move |tx| {
            operation::answer(tx, owner.as_ref().map_or(Scope::Operator, Scope::Owner), &id, &replies)
        })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        let id = id.clone();
        self.write_with(&FINISH, move |tx| operation::finish(tx, &id, epoch, &outcome, &last))
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        let owner = owner_of(scope);
        let (id, reason) = (id.clone(), reason.map(str::to_owned));
        self.write_with(&CANCEL, move |tx| {
            let scope = owner.as_ref().map_or(Scope::Operator, Scope::Owner);
            operation::cancel(tx, scope, &id, reason.as_deref())
        })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        let owner = owner_of(scope);
        let (id, reason) = (id.clone(), reason.map(str::to_owned));
        self.write_with(&CANCEL, move |tx| {
            let scope = owner.as_ref().map_or(Scope::Operator, Scope::Owner);
            operation::ask_to_cancel(tx, scope, &id, reason.as_deref())
        })
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        let (owner, id) = (owner_of(scope), id.clone());
        self.write_with(&CAME_BACK, move |tx| {
            operation::came_back(tx, owner.as_ref().map_or(Scope::Operator, Scope::Owner), &id)
        })
    }

    fn make_due<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, bool> {
        let id = id.clone();
        self.write_with(&MAKE_DUE, move |tx| operation::make_due(tx, &id))
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        let (owner, id) = (owner_of(scope), id.clone());
        self.write_with(&ERASE, move |tx| {
            operation::erase(tx, owner.as_ref().map_or(Scope::Operator, Scope::Owner), &id)
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            if !self
                .readers
                .read(&self.site, |conn| read::has_due(conn, &self.site, self.site.clock.now()))?
            {
                return Ok(Swept::default());
            }
            let mut failure = None;
            for _ in 0..MOST_SWEEPS {
                match self.write_with(&SWEEP, move |tx| operation::sweep(tx, limit)).await {
                    // What met it is left alone by now.
                    Err(error @ StoreError::Corrupt { .. }) => {
                        failure = Some(error);
                    }
                    Ok(swept) if swept.total() == 0 => return failure.map_or(Ok(swept), Err),
                    swept => return swept,
                }
            }
            failure.map_or_else(|| Ok(Swept::default()), Err)
        })
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.read_with(read::counts)
    }

    fn size(&self) -> StoreFuture<'_, Option<u64>> {
        self.read_with(|_, site| read::size(site).map(Some))
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.site.hub.watch(id)
    }

    fn now(&self) -> Time {
        self.site.clock.now()
    }

    fn refused_date(&self) -> Option<Time> {
        self.site.clock.refused()
    }

    fn limits(&self) -> Limits {
        self.site.settings.limits.clone()
    }

    fn lease(&self) -> Duration {
        self.site.settings.lease
    }

    fn durability(&self) -> Durability {
        Durability::Disk
    }

    fn refusal(&self) -> Option<StoreError> {
        let refusal = self.refusal.clone().or_else(|| self.site.file.check().err());
        if refusal.is_some() {
            return refusal;
        }
        let failing = self.site.failing().clone();
        if failing.is_some()
            && self.site.file.has_room()
            && let Some(jobs) = &self.jobs
        {
            // Where nobody sends more until it can be written, nothing else would show that it can be.
            jobs.probe(&WRITE);
        }
        failing
    }

    fn node(&self) -> &NodeId {
        self.presence.node()
    }
}

/// The owner a scope is bound to, for a job that outlives its caller.
fn owner_of(scope: Scope<'_>) -> Option<Owner> {
    match scope {
        Scope::Owner(owner) => Some(owner.clone()),
        Scope::Operator => None,
    }
}

const CREATE: Points = Points { before: "store.create.before", after: "store.create.after" };
const CLAIM: Points = Points { before: "store.claim.before", after: "store.claim.after" };
const RENEW: Points = Points { before: "store.renew.before", after: "store.renew.after" };
const RELEASE: Points = Points { before: "store.release.before", after: "store.release.after" };
/// How much that is past its time goes at once to make room.
const SWEPT_AT_ONCE: usize = 256;
/// How often a sweep is made again, without what kept it from its end.
const MOST_SWEEPS: u32 = 16;
const WRITE: Points = Points { before: "store.write.before", after: "store.write.after" };
const ANSWER: Points = Points { before: "store.answer.before", after: "store.answer.after" };
const FINISH: Points = Points { before: "store.finish.before", after: "store.finish.after" };
const CANCEL: Points = Points { before: "store.cancel.before", after: "store.cancel.after" };
const CAME_BACK: Points = Points { before: "store.came_back.before", after: "store.came_back.after" };
const MAKE_DUE: Points = Points { before: "store.make_due.before", after: "store.make_due.after" };
const ERASE: Points = Points { before: "store.erase.before", after: "store.erase.after" };
const SWEEP: Points = Points { before: "store.sweep.before", after: "store.sweep.after" };
