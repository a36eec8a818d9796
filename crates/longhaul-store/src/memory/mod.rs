//! The store in memory: the contract in its plainest form, and what a program without a file uses.

mod entries;
#[cfg(test)]
mod frozen;
mod parts;
mod rows;
mod steps;
mod streams;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::rows::{Change, RowKey};
use self::{
    entries::Entries,
    streams::Streams,
    table::{Beside, Table},
};
use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Clock, Counts, Created, Cursor, Durability, Entry,
    EntryKey, Epoch, Erasure, Event, EventStore, Filter, Finished, Holder, Limits, NewChild, NewTask, NodeId,
    Outcome, Owner, Page, Parts, Record, Registry, Reply, Runnable, Scope, SeenSteps, Settings, Step,
    StoreError, StoreFuture, Stream, Swap, Swept, SystemClock, TaskId, TaskStore, TaskWatch, Time, Value,
    Version, WatchHub,
    clock::StoreClock,
    event_store::LONGEST_REPLAY,
    transfer::Miscount,
    transition::{self, Asked, Noted, Spawned},
};

/// Tasks, events and entries in this process's memory, gone with it.
///
/// Handles made by [`Memory::another_node`] share them; each is a node of its own, dead when dropped.
#[derive(Debug)]
pub struct Memory {
    node: NodeId,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    clock: StoreClock,
    hub: Arc<WatchHub>,
    table: Mutex<Table>,
    streams: Mutex<Streams>,
    entries: Mutex<Entries>,
}

impl Memory {
    /// An empty store with default [`Settings`].
    #[must_use]
    pub fn new() -> Self {
        Self::with(Settings::default(), Arc::new(SystemClock::new()))
    }

    /// An empty store with these settings, on this clock.
    #[must_use]
    pub fn with(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self::of(settings, StoreClock::resume(clock, None), Table::default())
    }

    fn of(settings: Settings, clock: StoreClock, mut table: Table) -> Self {
        let node = table.join();
        let shared = Arc::new(Shared {
            settings,
            clock,
            hub: WatchHub::new(),
            table: Mutex::new(table),
            streams: Mutex::default(),
            entries: Mutex::default(),
        });
        Self { node, shared }
    }

    /// Another node on the same tasks.
    #[must_use]
    pub fn another_node(&self) -> Self {
        Self { node: self.shared.lock().join(), shared: self.shared.clone() }
    }

    /// The owners that are charged for other bytes of tasks ([`Limits::max_task_bytes_per_owner`]) than they have: none, unless
    /// something is wrong here. For tests of what works on a store: it looks at every task.
    #[must_use]
    pub fn miscounted(&self) -> Vec<Miscount> {
        self.shared.lock().miscounted()
    }

    /// Does one thing to the table, at one moment.
    fn at_once<'a, T: Send>(
        &'a self,
        act: impl FnOnce(&mut Table, &Self, Time) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let mut table = self.shared.lock();
            // Under the lock, so that the order of times is the order of changes.
            let now = self.shared.clock.now();
            act(&mut table, self, now)
        })
    }

    fn put(&self, table: &mut Table, record: Record) -> Record {
        let record = table.replace(record);
        self.shared.hub.wake(&record.id, record.seq);
        record
    }

    /// Does what follows from the end of a task: the one that made it is told, and those that it has made end with it.
    fn follow(&self, table: &mut Table, ended: &Record, now: Time) {
        let settings = &self.shared.settings;
        let mut ends = vec![ended.clone()];
        while let Some(ended) = ends.pop() {
            if let Some(link) = &ended.parent
                && let Some(mut parent) =
                    table.find(&link.task).filter(|parent| !parent.is_terminal()).cloned()
            {
                let known = table.step(&parent.id, &link.step).cloned();
                let noted = transition::hear(&mut parent, &ended, known.as_ref(), now, settings);
                table.note(&parent.id, noted);
                let parent = self.put(table, parent);
                ends.extend(Some(parent).filter(Record::is_terminal));
            }
            for id in table.children(&ended.id) {
                let Some(mut child) = table.find(&id).cloned() else { continue };
                if transition::end_with_parent(&mut child, &ended, now, settings) {
                    ends.push(self.put(table, child));
                }
            }
        }
    }

    /// The task that a worker's report makes, if there is room for it.
    fn spawn(
        &self,
        table: &Table,
        parent: &mut Record,
        epoch: Epoch,
        child: &NewChild,
        now: Time,
    ) -> Result<Option<(Spawned, Option<Record>)>, StoreError> {
        let (known, mut top) = (table.step(&parent.id, &child.step), table.top(parent).cloned());
        let settings = &self.shared.settings;
        let spawned =
            transition::spawn(parent, epoch, child, known, top.as_mut(), &self.node, now, settings)?;
        let Some(spawned) = spawned else { return Ok(None) };
        table.admit(&spawned.record, &settings.limits)?;
        Ok(Some((spawned, top)))
    }

    /// Puts a record that has changed. Of what had ended before nobody sees it.
    fn put_or_keep(&self, table: &mut Table, record: Record) -> Record {
        let had_ended = table.find(&record.id).is_some_and(Record::is_terminal);
        if had_ended { table.keep(record) } else { self.put(table, record) }
    }

    /// The task of a worker, for whom one that is gone is as good as taken away.
    fn of_worker(&self, table: &Table, id: &TaskId, epoch: Epoch) -> Result<Record, StoreError> {
        table.find(id).cloned().ok_or_else(|| StoreError::Fenced { id: id.clone(), held: epoch })
    }

    /// Lets a worker change its task; `change` says whether anyone can see it.
    fn as_worker(
        &self,
        table: &mut Table,
        id: &TaskId,
        epoch: Epoch,
        change: impl FnOnce(&mut Record) -> Result<bool, StoreError>,
    ) -> Result<Record, StoreError> {
        let mut record = self.of_worker(table, id, epoch)?;
        if change(&mut record)? { Ok(self.put_or_keep(table, record)) } else { Ok(table.keep(record)) }
    }

    fn take(&self, table: &mut Table, id: &TaskId, now: Time) -> Option<Record> {
        let mut record = table.find(id)?.clone();
        let is_dead = |node: &NodeId| !table.is_alive(node);
        transition::claim(&mut record, &self.node, now, &self.shared.settings, &is_dead)
            .then(|| self.put_or_keep(table, record))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.shared.lock().leave(&self.node);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskStore for Memory {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        self.at_once(move |table, this, now| {
            let settings = &this.shared.settings;
            let (record, noted) = transition::create(&task, &this.node, now, settings)?;
            if let Some(found) = table.again(&record, now) {
                return found.map(Created::Again);
            }
            if let Some(found) = table.joinable(&record) {
                return Ok(Created::Joined(found.clone()));
            }
            table.admit(&record, &settings.limits)?;
            let record = table.insert(record);
            table.note(&record.id, noted);
            this.shared.hub.wake(&record.id, record.seq);
            Ok(Created::New(record))
        })
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.at_once(move |table, _, now| {
            Ok(table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now)).cloned())
        })
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        self.at_once(move |table, _, now| {
            Ok(table.called(owner, key).filter(|record| !record.is_forgotten(now)).cloned())
        })
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        self.at_once(move |table, _, now| table.list(scope, filter, after, limit.clamp(1, Page::MAX), now))
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        self.at_once(move |table, this, now| {
            let due = table.claimable(now, limit, runs);
            Ok(due.iter().filter_map(|id| this.take(table, id, now)).collect())
        })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.at_once(move |table, this, now| Ok(this.take(table, id, now)))
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        self.at_once(move |table, this, now| {
            let mut fenced = Vec::new();
            for (id, epoch) in held {
                let renewed = this.as_worker(table, id, *epoch, |record| {
                    transition::renew(record, *epoch, now, &this.shared.settings).map(|()| false)
                });
                if renewed.is_err() {
                    fenced.push(id.clone());
                }
            }
            Ok(fenced)
        })
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        self.at_once(move |table, this, now| {
            this.as_worker(table, id, epoch, |record| transition::release(record, epoch, now).map(|()| true))
        })
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        self.at_once(move |table, this, now| {
            let limits = &this.shared.settings.limits;
            let mut record = this.of_worker(table, id, epoch)?;
            let spawned = match &batch.child {
                Some(child) => this.spawn(table, &mut record, epoch, child, now)?,
                None => None,
            };
            let kept = &mut Beside { table, task: id };
            let written = transition::write(&mut record, epoch, &batch, kept, now, limits)?;
            table.note(id, written.noted);
            let changed = written.changed || spawned.is_some();
            if let Some((Spawned { record: child, noted, step, .. }, top)) = spawned {
                table.note(id, Noted::one(step));
                if let Some(top) = top {
                    table.keep(top);
                }
                let child = table.insert(child);
                table.note(&child.id, noted);
                this.shared.hub.wake(&child.id, child.seq);
            }
            Ok(if changed { this.put_or_keep(table, record) } else { table.keep(record) }.seq)
        })
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        self.at_once(move |table, this, _| {
            transition::check_held(&this.of_worker(table, id, epoch)?, epoch)?;
            Ok(table.steps(id))
        })
    }

    fn seen_steps<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<SeenSteps>> {
        self.at_once(move |table, _, now| {
            let seen = table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now));
            Ok(seen.map(|record| table.seen_steps(&record.id, after, limit)))
        })
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        self.at_once(move |table, _, now| {
            let seen = table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now));
            Ok(seen.map(|record| table.parts(record, after, limit)))
        })
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        self.at_once(move |table, this, now| {
            let seen = table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now));
            let Some(mut record) = seen.cloned() else { return Ok(Answered::NotFound) };
            let learnt = transition::answer(&mut record, replies, scope, now, &this.shared.settings.limits)?;
            let taken = learnt.steps.len();
            if taken > 0 {
                table.note(id, learnt);
                record = this.put(table, record);
            }
            Ok(Answered::Recorded { record, taken })
        })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        self.at_once(move |table, this, now| {
            let mut record = this.of_worker(table, id, epoch)?;
            if record.is_forgotten(now) {
                return Err(StoreError::Fenced { id: id.clone(), held: epoch });
            }
            let (kept, settings) = (&mut Beside { table, task: id }, &this.shared.settings);
            let ended = transition::finish(&mut record, epoch, &outcome, &last, kept, now, settings)?;
            Ok(match ended {
                Some(noted) => {
                    table.note(id, noted);
                    let record = this.put(table, record);
                    this.follow(table, &record, now);
                    Finished::Recorded(record)
                }
                None => Finished::AlreadyTerminal(record),
            })
        })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        self.at_once(move |table, this, now| {
            let seen = table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now));
            let Some(mut record) = seen.cloned() else { return Ok(Cancellation::NotFound) };
            Ok(if transition::cancel(&mut record, reason, now, &this.shared.settings) {
                let record = this.put(table, record);
                this.follow(table, &record, now);
                Cancellation::Cancelled(record)
            } else {
                Cancellation::AlreadyTerminal(record)
            })
        })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        self.at_once(move |table, this, now| {
            let seen = table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now));
            let Some(mut record) = seen.cloned() else {
                return Ok(CancelAsked::AtOnce(Cancellation::NotFound));
            };
            Ok(match transition::ask_to_cancel(&mut record, reason, now, &this.shared.settings) {
                Asked::Cancelled => {
                    let record = this.put(table, record);
                    this.follow(table, &record, now);
                    CancelAsked::AtOnce(Cancellation::Cancelled(record))
                }
                Asked::Requested => CancelAsked::Requested(this.put(table, record)),
                Asked::Again => CancelAsked::Requested(record),
                Asked::Over => CancelAsked::AtOnce(Cancellation::AlreadyTerminal(record)),
            })
        })
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.at_once(move |table, _, now| {
            let seen = table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now));
            let Some(mut record) = seen.cloned() else { return Ok(false) };
            let is_new = transition::came_back(&mut record, now);
            if is_new {
                table.keep(record);
            }
            Ok(is_new)
        })
    }

    fn make_due<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, bool> {
        self.at_once(move |table, this, now| {
            let Some(mut record) = table.find(id).cloned() else { return Ok(false) };
            let is_due = transition::make_due(&mut record, now);
            if is_due {
                this.put(table, record);
            }
            Ok(is_due)
        })
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        self.at_once(move |table, this, now| {
            let seen = table.find(id).filter(|r| scope.sees(&r.owner) && !r.is_forgotten(now));
            let Some(mut record) = seen.cloned() else { return Ok(Erasure::NotFound) };
            match transition::erase(&mut record, now) {
                None => return Ok(Erasure::Open),
                Some(true) => {
                    table.erase(id, transition::taken_until(&record, now, &this.shared.settings));
                }
                Some(false) => drop(table.keep(record)),
            }
            Ok(Erasure::Erased)
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.at_once(move |table, this, now| {
            let settings = &this.shared.settings;
            let mut swept = Swept::default();
            let due = table.due(now, limit);
            swept.is_full = !due.is_empty() && due.len() == limit;
            for id in due {
                let Some(mut record) = table.find(&id).cloned() else {
                    table.remove(&id);
                    swept.removed += 1;
                    continue;
                };
                if transition::expire(&mut record, now, settings) {
                    let record = this.put(table, record);
                    this.follow(table, &record, now);
                    swept.expired.push(id);
                } else if let Some(then) = transition::orphan(&mut record, now, settings) {
                    if record.is_terminal() {
                        let record = this.put(table, record);
                        this.follow(table, &record, now);
                    } else {
                        table.keep(record);
                    }
                    swept.orphans.push((id, then));
                } else if record.is_forgotten(now) {
                    table.erase(&id, now.after(settings.tombstone));
                    swept.forgot(&record);
                }
            }
            Ok(swept)
        })
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.at_once(|table, _, _| Ok(table.counts()))
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.shared.hub.watch(id)
    }

    fn now(&self) -> Time {
        self.shared.clock.now()
    }

    fn refused_date(&self) -> Option<Time> {
        self.shared.clock.refused()
    }

    fn limits(&self) -> Limits {
        self.shared.settings.limits.clone()
    }

    fn lease(&self) -> Duration {
        self.shared.settings.lease
    }

    fn durability(&self) -> Durability {
        Durability::Volatile
    }

    fn node(&self) -> &NodeId {
        &self.node
    }
}

impl EventStore for Memory {
    fn append<'a>(&'a self, stream: Stream<'a>, text: &'a str) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let mut streams = self.shared.streams();
            streams.append(stream, text, self.shared.clock.now(), &self.shared.settings)
        })
    }

    fn replay<'a>(
        &'a self,
        stream: Stream<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>> {
        let limit = limit.clamp(1, LONGEST_REPLAY);
        Box::pin(async move {
            let streams = self.shared.streams();
            Ok(streams.replay(stream, after, limit, self.shared.clock.now()))
        })
    }

    fn prolong<'a>(&'a self, stream: Stream<'a>) -> StoreFuture<'a, Option<u64>> {
        Box::pin(async move {
            let (now, kept_for) = (self.shared.clock.now(), self.shared.settings.event_retention);
            Ok(self.shared.streams().prolong(stream, now, now.after(kept_for)))
        })
    }

    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize> {
        Box::pin(async move { Ok(self.shared.streams().trim(owner, session)) })
    }

    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let mut streams = self.shared.streams();
            Ok(streams.sweep(limit, self.shared.clock.now()))
        })
    }
}

impl Registry for Memory {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        Box::pin(async move {
            let entries = self.shared.entries();
            Ok(entries.entry(key, self.shared.clock.now()))
        })
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        Box::pin(async move {
            let mut entries = self.shared.entries();
            entries.put(key, value, self.shared.clock.now(), &self.shared.settings.limits)
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            let mut entries = self.shared.entries();
            let limits = &self.shared.settings.limits;
            entries.compare_and_set(key, expected, value, self.shared.clock.now(), limits)
        })
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            let now = self.shared.clock.now();
            Ok(self.shared.entries().names(holder, kind, after, limit.min(EntryKey::LONGEST_NAMES), now))
        })
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let mut entries = self.shared.entries();
            Ok(entries.sweep(limit, self.shared.clock.now()))
        })
    }
}
