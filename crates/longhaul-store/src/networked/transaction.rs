//! What an operation reads and writes by: each store supplies it in its own way.

use std::collections::{HashMap, HashSet};

use super::{beside::Beside, fault::Fault, node::Node};
use crate::{Batch, Created, Owner, Record, Settings, Share, Step, TaskId, Time, transition::Noted};

/// One attempt at an operation: all that it writes is written or nothing, as if nobody else were there.
pub(crate) trait Transaction: Send + Sync {
    /// Why it does not come to its end.
    type Fault: Fault;

    /// What finds a task that a claim could take.
    type Row: Send + Sync + 'static;

    /// The node whose operation it is.
    fn node(&self) -> &Node;

    /// The time.
    fn now(&self) -> Time;

    /// How the store behaves.
    fn settings(&self) -> &Settings {
        &self.node().settings
    }

    /// What there is already in the place of a new task: one that was created under its key, or an open one that it joins.
    fn known(&mut self, new: &Record) -> impl Future<Output = Result<Option<Created>, Self::Fault>> + Send;

    /// Adds a new task, if its id is free and there is room for it.
    fn insert(&mut self, record: &Record) -> impl Future<Output = Result<(), Self::Fault>> + Send;

    /// Reads a task that is no tombstone.
    fn load(&mut self, id: &TaskId) -> impl Future<Output = Result<Option<Record>, Self::Fault>> + Send;

    /// The same, with what is kept beside it that this report is held against.
    fn load_with(
        &mut self,
        id: &TaskId,
        batch: &Batch,
    ) -> impl Future<Output = Result<Option<(Record, Beside)>, Self::Fault>> + Send;

    /// Reads those of these tasks that are no tombstones and are not damaged, by as few questions as can be.
    fn load_many(&mut self, ids: &[TaskId]) -> impl Future<Output = Result<Vec<Record>, Self::Fault>> + Send;

    /// Reads those of these tasks that nobody else is at, `limit` at most.
    fn load_free(
        &mut self,
        rows: &[Self::Row],
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, Self::Fault>> + Send;

    /// The step of a task under this key.
    fn step(
        &mut self,
        record: &Record,
        key: &str,
    ) -> impl Future<Output = Result<Option<Step>, Self::Fault>> + Send;

    /// The open tasks that this one has made.
    fn children(&mut self, of: &Record) -> impl Future<Output = Result<Vec<TaskId>, Self::Fault>> + Send;

    /// Makes sure that the tasks above this one can be written to.
    fn reach_above(&self, _: &Record) -> Result<(), Self::Fault> {
        Ok(())
    }

    /// Puts a task in the place of what it was.
    fn put(
        &mut self,
        record: &Record,
        change: Change,
    ) -> impl Future<Output = Result<(), Self::Fault>> + Send;

    /// Writes what becomes of a task's steps, and its new parts, which the record counts already.
    fn note(&mut self, record: &Record, noted: Noted)
    -> impl Future<Output = Result<(), Self::Fault>> + Send;

    /// Reads those of these tasks that nobody else is at: what time demands of them is to be done.
    fn load_aged(&mut self, ids: &[TaskId]) -> impl Future<Output = Result<Aged, Self::Fault>> + Send;

    /// Makes tasks that have ended tombstones, which stay until this time.
    fn erase(
        &mut self,
        records: &[Record],
        until: Time,
    ) -> impl Future<Output = Result<(), Self::Fault>> + Send;

    /// Removes tombstones that were read.
    fn remove(
        &mut self,
        tombstones: &[(TaskId, Owner)],
    ) -> impl Future<Output = Result<(), Self::Fault>> + Send;
}

/// Tasks of which time demands something.
#[derive(Debug, Default)]
pub(crate) struct Aged {
    /// Those that are no tombstones.
    pub(crate) living: Vec<Record>,
    /// Tombstones whose time is up, and whose they are.
    pub(crate) tombstones: Vec<(TaskId, Owner)>,
    /// Those that cannot be read.
    pub(crate) damaged: Vec<TaskId>,
}

/// What of a record has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Anything: it has a number, and whoever watches is told.
    Any,
    /// The same of what a worker reports that stays at its work.
    Report,
    /// What goes on after a task's end, which nobody sees, as the two below.
    Ended,
    /// Whether somebody came back for it.
    Orphan,
    /// How many tasks were made below it.
    Below,
}

/// Something that is done as a whole or not at all. It may be tried several times, so it keeps what it was given.
pub(crate) trait Operation<T: Transaction>: Send + Sync + 'static {
    /// What it comes to.
    type Done: Send + 'static;

    /// Whether it may be refused for want of room on the server.
    const TAKES_ROOM: bool = false;

    /// Whether what it does to one task stands by itself: then it may leave out those that others were at.
    const EACH_BY_ITSELF: bool = false;

    /// What it is about, so that a store may ask for that together with the transaction.
    fn first(&self) -> First<'_> {
        First::Nothing
    }

    /// Does it.
    fn run(&self, tx: &mut T) -> impl Future<Output = Result<Self::Done, T::Fault>> + Send;

    /// It is written, and what has come of it can be told of: a record that was put has the number of its change.
    fn settle(_: &mut Self::Done, _: &Written) {}
}

/// What an operation is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum First<'a> {
    Task(&'a TaskId),
    /// To make a task of this owner's, and of this share.
    Account(&'a Owner, Option<Share>),
    Nothing,
}

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The numbers of the changes.
    pub(crate) seqs: HashMap<TaskId, u64>,
    /// The tasks that others were at.
    pub(crate) lost: HashSet<TaskId>,
}

impl Written {
    /// Gives a record the number of its change.
    pub(crate) fn number(&self, record: &mut Record) {
        if let Some(seq) = self.seqs.get(&record.id) {
            record.seq = *seq;
        }
    }
}
