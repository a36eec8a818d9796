//! Copying a store into another of any kind, whole.
//!
//! Tasks go as they are kept: with their steps, questions, answers, parts and outcomes, the keys of their calls, and what is left of
//! those that are forgotten. So do the entries of the registry, and what was sent in streams that can be resumed, under the
//! same numbers. What is sealed stays as it is sealed, and no key is needed.
//!
//! **Nothing runs twice**, for only one of two stores is ever in service. Both have a [`Mark`] before the first task is copied:
//! the one [is copied](Mark::Copying), the other is [a copy](Mark::CopyOf) and not whole yet. Once all of the copy has been held
//! against what it was made of, the one [is moved](Mark::Moved) for ever, and then the other has no mark any more. A store with
//! one is not opened but [to be copied](crate::SqliteOptions::open_to_copy), and a node that has lost its session looks for one
//! before it does anything else; one that finds it is out of service, too.
//!
//! **Nobody else may be there**: a copy is refused while another node has a store open. On a server a node that ended without
//! a word counts for as long as it might come back, which is less than a minute.
//!
//! **What is broken off is begun again** by the same call: what is there already is passed over. Or it is [given up](abandon), as
//! long as it is not whole.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_store::transfer::{Place, copy};
//! use longhaul_store::{PostgresOptions, SqliteOptions};
//!
//! let from = SqliteOptions::new().open_to_copy("tasks.db")?;
//! let to = PostgresOptions::new().open_to_copy("postgres://longhaul@localhost/tasks").await?;
//! let from = Place { name: "sqlite:/var/lib/tasks.db", store: &from };
//! let to = Place { name: "postgres://longhaul@localhost/tasks", store: &to };
//! let copied = copy(from, to, &mut |progress| println!("{progress}")).await?;
//! println!("{} tasks", copied.tasks);
//! # Ok(()) }
//! ```

mod copy;
mod mark;

use std::{fmt, sync::Arc};

use self::kept::Kept;

pub use copy::copy;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) use mark::heed;
pub use mark::{Mark, abandon};

use crate::{
    EntryKey, Event, EventStore, Holder, NodeId, Owner, Part, Record, Registry, Step, StoreError,
    StoreFuture, Stream, TaskStore, Time,
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
    pub(crate) fn key(&self) -> EntryKey<'_> {
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
    pub(crate) fn stream(&self) -> Stream<'_> {
        Stream::new(&self.owner, &self.session, &self.name)
    }
}

/// A store that can be copied: one of those of this crate that outlive their process, for what is told of here is how these
/// keep it.
pub trait Transfer: TaskStore + EventStore + Registry + Kept {
    /// Which other nodes have it open, or may come back to it.
    fn other_nodes(&self) -> StoreFuture<'_, Vec<NodeId>>;

    /// How many these are.
    fn others(&self) -> StoreFuture<'_, usize> {
        Box::pin(async move { Ok(self.other_nodes().await?.len()) })
    }

    /// Some tasks behind this place, in the order of their creation, each with its place; none at the end. Whatever goes meanwhile
    /// may be left out.
    fn whole_tasks(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeTask)>>;

    /// Adds tasks as they are, behind the others: all of them or, if one is there already, none.
    fn take_tasks(&self, tasks: Vec<WholeTask>) -> StoreFuture<'_, ()>;

    /// The owners that are charged for other bytes of tasks ([`Limits::max_task_bytes_per_owner`](crate::Limits)) than they have.
    /// It looks at every task, as long as that takes, and on Redis at no single moment: whatever is written meanwhile may show.
    fn miscounted(&self) -> StoreFuture<'_, Vec<Miscount>>;

    /// How many tasks there are, with what is left of forgotten ones: each is counted, as long as that takes, and
    /// [`counts`](TaskStore::counts) must say the same. What is made or removed meanwhile may be counted or not.
    fn rows(&self) -> StoreFuture<'_, u64>;

    /// Some entries behind this place, each with the place behind which the next are, which several may have; none at the end. One that is there all the
    /// time is among them, whatever else is written meanwhile, and may come twice.
    fn whole_entries(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeEntry)>>;

    /// Some streams behind this place, each with its place; none at the end.
    fn whole_streams(&self, after: u64) -> StoreFuture<'_, Vec<(u64, WholeStream)>>;

    /// Adds events as they are behind those that are there, or behind [`begins_after`](WholeStream::begins_after) if there is no
    /// such stream; it is gone when it says. All of them or, if one would have another number, none.
    fn take_events(&self, stream: WholeStream, events: Vec<Event>) -> StoreFuture<'_, ()>;
}

/// An owner that is charged for other bytes of tasks than it has.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Miscount {
    /// Who it is, or a digest of that where no more is kept.
    pub owner: String,
    /// For how many bytes it is charged.
    pub charged: u64,
    /// How many it has.
    pub has: u64,
}

impl Miscount {
    /// Of this owner.
    #[must_use]
    pub fn new(owner: impl Into<String>, charged: u64, has: u64) -> Self {
        Self { owner: owner.into(), charged, has }
    }
}

impl fmt::Display for Miscount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, charged, has } = self;
        write!(f, "owner {owner:?} is charged for {charged} bytes of tasks, and has {has}")
    }
}

/// A store, and what it is called in marks and messages: without its password.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "both are all there is to say")]
pub struct Place<'a> {
    /// What it is called.
    pub name: &'a str,
    /// The store, opened to be copied: the innermost one, for what is sealed stays so.
    pub store: &'a dyn Transfer,
}

impl Place<'_> {
    fn out_of_service(self, mark: Mark) -> TransferError {
        TransferError::OutOfService { place: self.name.to_owned(), mark }
    }
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
    /// How many events in them.
    pub events: u64,
}

/// How far a copy is. Entries come first, then streams, then tasks; and then all of them once more, to be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Whether all is copied: then it is being compared.
    pub is_copied: bool,
    /// What is done of the one or the other.
    pub done: Copied,
    /// How many tasks there are.
    pub tasks: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_copied, done: Copied { tasks, entries, streams, events }, tasks: all } = self;
        let doing = if *is_copied { "compared" } else { "copied" };
        write!(f, "{doing}: {entries} entries, {streams} streams of {events} events, {tasks} of {all} tasks")
    }
}

/// Why a store is not copied, or a copy not given up.
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
    /// It is part of another copy, or of one that is whole.
    #[error("{place} {mark}")]
    OutOfService {
        /// Which store.
        place: String,
        /// Of which.
        mark: Mark,
    },
    /// What was copied is not what was to be copied.
    #[error(
        "{what} is not in {place} as it was copied; give the copy up and begin again with an empty store"
    )]
    Differs {
        /// Into which store.
        place: String,
        /// What is different.
        what: String,
    },
    /// The copy was given up while it was made, or somebody else has begun one.
    #[error("somebody else has begun a copy of {place} meanwhile, or given it up; see who, then begin again")]
    Overtaken {
        /// Which store.
        place: String,
    },
}

/// The stores that can be copied, and no others.
mod kept {
    /// It outlives its process.
    #[expect(unnameable_types, reason = "so that nobody else can have one")]
    pub trait Kept {}

    #[cfg(feature = "postgres")]
    impl Kept for crate::Postgres {}
    #[cfg(feature = "redis")]
    impl Kept for crate::Redis {}
    #[cfg(feature = "sqlite")]
    impl Kept for crate::Sqlite {}
}

/// Settings that refuse nothing for want of room: what there is was admitted when it was made.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) fn without_limits(mut settings: crate::Settings) -> crate::Settings {
    let limits = &mut settings.limits;
    for limit in [
        &mut limits.max_open,
        &mut limits.max_open_per_owner,
        &mut limits.max_open_anonymous,
        &mut limits.max_open_per_stranger,
        &mut limits.max_retained,
        &mut limits.max_retained_per_owner,
        &mut limits.max_task_bytes_per_owner,
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
