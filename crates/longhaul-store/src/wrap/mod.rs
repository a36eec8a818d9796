//! Wrappers: a store around another one, which sees each operation come and go.
//!
//! [`Wrapped`] is an [`Overlay`] that carries every operation of a [`TaskStore`] through one function of a [`Wrap`], which
//! knows nothing of the store; [`Faults`] is a wrap that lets what was planned go wrong. A wrapped store that does nothing of
//! its own keeps every promise of the one inside. A [`Registry`] is wrapped in the same way.

mod fault;

use std::fmt;

pub use fault::{Fault, Faults, Moment};

pub use crate::Operation;
use crate::{
    Durability, Entry, EntryKey, Holder, Overlay, Registry, StoreFuture, Swap, TaskStore, Value, Version,
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

impl<S: TaskStore, W: Wrap> Overlay for Wrapped<S, W> {
    type Below = S;

    fn below(&self) -> &S {
        &self.store
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        self.wrap.around(operation, doing)
    }

    fn durability(&self) -> Durability {
        self.wrap.durability(self.store.durability())
    }
}

impl<S: Registry, W: Wrap> Registry for Wrapped<S, W> {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        self.wrap.around(Operation::Entry, self.store.entry(key))
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        self.wrap.around(Operation::Put, self.store.put(key, value))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        self.wrap.around(Operation::CompareAndSet, self.store.compare_and_set(key, expected, value))
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        self.wrap.around(Operation::Names, self.store.names(holder, kind, after, limit))
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.wrap.around(Operation::SweepEntries, self.store.sweep_entries(limit))
    }
}
