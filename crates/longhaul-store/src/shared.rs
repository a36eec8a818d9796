//! A shared store is a store.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Counts, Created, Cursor, Durability, Entry,
    EntryKey, Epoch, Erasure, Event, EventStore, Filter, Finished, Holder, Limits, NewTask, NodeId, Outcome,
    Owner, Page, Parts, Record, Registry, Reply, Runnable, Scope, Step, StoreFuture, Stream, Swap, Swept,
    TaskId, TaskStore, TaskWatch, Time, Value, Version,
};

impl<S: TaskStore + ?Sized> TaskStore for Arc<S> {
    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        (**self).create(task)
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        (**self).get(scope, id)
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        (**self).called(owner, key)
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        (**self).list(scope, filter, after, limit)
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        (**self).claim(limit, runs)
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        (**self).claim_one(id)
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        (**self).renew(held)
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        (**self).release(id, epoch)
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        (**self).write(id, epoch, batch)
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        (**self).steps(id, epoch)
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        (**self).parts(scope, id, after, limit)
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        (**self).answer(scope, id, replies)
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        (**self).finish(id, epoch, outcome, last)
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        (**self).request_cancel(scope, id, reason)
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        (**self).ask_to_cancel(scope, id, reason)
    }

    fn came_back<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, bool> {
        (**self).came_back(scope, id)
    }

    fn erase<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Erasure> {
        (**self).erase(scope, id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        (**self).sweep(limit)
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        (**self).counts()
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        (**self).watch(id)
    }

    fn now(&self) -> Time {
        (**self).now()
    }

    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn lease(&self) -> Duration {
        (**self).lease()
    }

    fn durability(&self) -> Durability {
        (**self).durability()
    }

    fn node(&self) -> &NodeId {
        (**self).node()
    }
}

impl<S: EventStore + ?Sized> EventStore for Arc<S> {
    fn append<'a>(&'a self, stream: Stream<'a>, text: &'a str) -> StoreFuture<'a, u64> {
        (**self).append(stream, text)
    }

    fn replay<'a>(
        &'a self,
        stream: Stream<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>> {
        (**self).replay(stream, after, limit)
    }

    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize> {
        (**self).trim(owner, session)
    }

    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize> {
        (**self).sweep_streams(limit)
    }
}

impl<S: Registry + ?Sized> Registry for Arc<S> {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        (**self).entry(key)
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        (**self).put(key, value)
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        (**self).compare_and_set(key, expected, value)
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        (**self).names(holder, kind, after, limit)
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        (**self).sweep_entries(limit)
    }
}
