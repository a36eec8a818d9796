//! A shared store is a store.

use std::sync::Arc;

use crate::{
    Entry, EntryKey, Event, EventStore, Holder, Overlay, Owner, Registry, StoreFuture, Stream, Swap,
    TaskStore, Value, Version,
};

impl<S: TaskStore + ?Sized> Overlay for Arc<S> {
    type Below = S;

    fn below(&self) -> &S {
        self
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

    fn prolong<'a>(&'a self, stream: Stream<'a>) -> StoreFuture<'a, Option<u64>> {
        (**self).prolong(stream)
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
