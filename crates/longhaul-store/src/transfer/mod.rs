//! Copying a store into another of any kind, whole.
//!
//! Tasks go as they are kept: with their steps, questions, answers, parts and outcomes, the keys of their calls, and what is left of
//! those that are forgotten. So do the entries of the registry, and what was sent in streams that can be resumed, under the
//! same numbers. What is sealed stays as it is sealed, and no key is needed.
//!
//! **Nothing runs twice**, for only one of two stores is ever served: both are marked before the first task is copied, and
//! [`refusal`] tells whoever is about to serve one that has such a mark. From the first task on, the one is moved away from; the
//! other is unfinished until all of it has been held against what it was copied from. Whoever serves a store without asking
//! [`refusal`] has none of this.
//!
//! **What is broken off is begun again** by the same call: what is there already is passed over.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_store::transfer::{Place, copy, settings};
//! use longhaul_store::{PostgresOptions, SqliteOptions};
//!
//! let from = SqliteOptions::new().with_settings(settings()).open("tasks.db")?;
//! let to = PostgresOptions::new().with_settings(settings()).open("postgres://longhaul@localhost/tasks").await?;
//! let from = Place { name: "sqlite:/var/lib/tasks.db", store: &from };
//! let to = Place { name: "postgres://longhaul@localhost/tasks", store: &to };
//! let copied = copy(from, to, &mut |done, of| println!("{done} of {of}")).await?;
//! println!("{} tasks", copied.tasks);
//! # Ok(()) }
//! ```

mod copy;
mod mark;

use std::{fmt, sync::Arc};

pub use copy::copy;
pub use mark::{abandon, refusal};

use crate::{
    EntryKey, EventStore, Holder, Owner, Part, Record, Registry, Settings, Step, StoreError, StoreFuture,
    Stream, TaskStore, Time,
};

/// A task with all that is kept of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WholeTask {
    /// Its record.
    pub record: Record,
    /// Its steps, in the order in which they began.
    pub steps: Vec<Step>,
    /// Its parts, in the order in which they were given.
    pub parts: Vec<Part>,
    /// When the last of it goes, if it is forgotten: then nothing but its name, its owner and the key of its call is left.
    pub removable_at: Option<Time>,
}

impl WholeTask {
    #[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
    pub(crate) fn new(record: Record, steps: Vec<Step>, parts: Vec<Part>) -> Self {
        Self { record, steps, parts, removable_at: None }
    }

    /// Bytes that it carries, roughly.
    #[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
    pub(crate) fn size(&self) -> usize {
        let record = &self.record;
        let outcome = record.outcome().map_or(0, crate::Outcome::len);
        record.arguments.as_str().len() + outcome + (record.step_bytes + record.part_bytes) as usize
    }

    /// What another store has of it, if it was copied there: each numbers changes for itself, and what is left of a forgotten
    /// task is no more than is said of it.
    fn into_copied(mut self) -> Self {
        self.record.seq = 0;
        if self.removable_at.is_some() {
            let Record { id, owner, created_at, once, .. } = self.record;
            self.record = Record::new(id, owner, "", crate::Json::null(), crate::Json::null(), created_at);
            self.record.once = once;
        }
        self
    }
}

/// An entry with its name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WholeEntry {
    /// Whose it is; the server's own if nobody's.
    pub owner: Option<Owner>,
    /// What it is.
    pub kind: String,
    /// What it is called.
    pub name: String,
    /// Its bytes.
    pub value: Arc<[u8]>,
    /// When it is gone.
    pub expires_at: Option<Time>,
}

impl WholeEntry {
    fn key(&self) -> EntryKey<'_> {
        let holder = self.owner.as_ref().map_or(Holder::Server, Holder::Owner);
        EntryKey { holder, kind: &self.kind, name: &self.name }
    }
}

/// A stream, and which of its events are kept: the newest.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WholeStream {
    /// To whom it belongs.
    pub owner: Owner,
    /// The session it is of.
    pub session: String,
    /// Its name in that.
    pub name: String,
    /// The number of the last event that is kept no more; those that follow are.
    pub begins_after: u64,
    /// The number of its newest event.
    pub last: u64,
    /// When it is gone.
    pub expires_at: Time,
}

impl WholeStream {
    fn stream(&self) -> Stream<'_> {
        Stream::new(&self.owner, &self.session, &self.name)
    }
}

/// A store that can be copied.
pub trait Transfer: TaskStore + EventStore + Registry {
    /// How many other nodes are alive.
    fn others(&self) -> StoreFuture<'_, usize>;

    /// Some tasks behind this place, in the order of their creation, each with its place; none at the end.
    fn whole_tasks(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeTask)>>;

    /// Adds tasks as they are, behind the others: all of them or, if one is there already, none.
    fn take_tasks(&self, tasks: Vec<WholeTask>) -> StoreFuture<'_, ()>;

    /// Some entries behind this place, each with its place; none at the end.
    fn whole_entries(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeEntry)>>;

    /// Some streams behind this place, each with its place; none at the end.
    fn whole_streams(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeStream)>>;

    /// Begins a stream of which nothing is there, so that its next event has the number behind
    /// [`begins_after`](WholeStream::begins_after).
    fn begin_stream<'a>(&'a self, stream: &'a WholeStream) -> StoreFuture<'a, ()>;
}

/// A store, and what it is called in marks and messages: without its password.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "both are all there is to say")]
pub struct Place<'a> {
    /// What it is called.
    pub name: &'a str,
    /// The store: the innermost one, for what is sealed stays so.
    pub store: &'a dyn Transfer,
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name)
    }
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Copied {
    /// How many tasks, with what is left of forgotten ones.
    pub tasks: u64,
    /// How many entries.
    pub entries: u64,
    /// How many streams.
    pub streams: u64,
}

/// Why a store is not copied, or not served.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A store refuses or fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody works on it.
    #[error("{place} is in use by {others} other process(es); stop all servers on it first")]
    InUse {
        /// Which store.
        place: String,
        /// How many others.
        others: usize,
    },
    /// There is something in it already.
    #[error("{place} is not empty; name a store that holds nothing")]
    NotEmpty {
        /// Which store.
        place: String,
    },
    /// It is being copied into another store, or was: that one is to be used.
    #[error("{place} has been copied to {to}; use that one")]
    Moved {
        /// Which store.
        place: String,
        /// Into which.
        to: String,
    },
    /// A copy into it was broken off.
    #[error("{place} is an unfinished copy of {from}")]
    Unfinished {
        /// Which store.
        place: String,
        /// Of which.
        from: String,
    },
    /// What was copied is not what was to be copied.
    #[error("{what} is not in {place} as it was copied; begin again with an empty store")]
    Differs {
        /// Into which store.
        place: String,
        /// What is different.
        what: String,
    },
}

/// Settings that refuse nothing for want of room: what there is was admitted when it was made.
#[must_use]
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    let limits = &mut settings.limits;
    for limit in [
        &mut limits.max_open,
        &mut limits.max_open_per_owner,
        &mut limits.max_open_anonymous,
        &mut limits.max_retained,
        &mut limits.max_retained_per_owner,
        &mut limits.max_entries,
        &mut limits.max_entries_per_owner,
        &mut limits.max_stream_events,
        &mut limits.max_event_bytes,
        &mut limits.max_event_bytes_per_owner,
    ] {
        *limit = u64::MAX;
    }
    (limits.max_entry, limits.max_stream_bytes) = (usize::MAX, usize::MAX);
    settings
}
