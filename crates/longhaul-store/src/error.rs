//! Why a store refuses or fails, by what the caller should do about it.

use std::{error::Error, fmt, path::PathBuf, sync::Arc};

use crate::{Epoch, TaskId, transfer::Mark};

/// Why an operation was refused or failed. Nothing was acknowledged and, unless a variant says otherwise,
/// nothing has changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The task was taken over, released, cancelled, expired or forgotten: stop this attempt.
    #[error("task {id} is no longer held at epoch {held}; stop this attempt, nothing it writes is accepted")]
    Fenced {
        /// The task.
        id: TaskId,
        /// The epoch the caller believed in.
        held: Epoch,
    },
    /// A limit on how much there may be is reached.
    #[error("too many {what} (at most {limit}); {} or raise `{}`", what.makes_room(), what.setting())]
    Overloaded {
        /// What there is too much of.
        what: Quota,
        /// The limit.
        limit: u64,
    },
    /// A single value is too large.
    #[error("{what} of {found} bytes (at most {limit}); send less or raise the limit")]
    TooLarge {
        /// Which value.
        what: &'static str,
        /// Its size in bytes.
        found: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The id of a new task is taken, perhaps by an earlier try of the same call.
    #[error("task {id} exists already; look at it, or create with a fresh id")]
    AlreadyExists {
        /// The id.
        id: TaskId,
    },
    /// The key of a new task stands for another call of the same owner.
    #[error("this key was used for another call; give each call a key of its own")]
    KeyTaken,
    /// The call under this key was made, has ended, and is forgotten by now.
    #[error("the call with this key is made and forgotten; give a new call a key of its own")]
    KeySpent {
        /// What its task was.
        id: TaskId,
    },
    /// The step was learnt before, or is another one: whoever does the work again does something else.
    #[error("step {key} of task {id} is recorded otherwise; the work does not repeat itself")]
    Recorded {
        /// The task.
        id: TaskId,
        /// The step's key.
        key: Arc<str>,
    },
    /// Anonymous callers have no list: each of their tasks is known by its id alone.
    #[error("tasks of anonymous callers are not listed; ask by id, or sign in")]
    Unlistable,
    /// A cursor that this list never gave.
    #[error("this cursor does not belong to this list; start again without one")]
    InvalidCursor,
    /// The store, or the place it is in, may not be written.
    #[error(
        "{place} cannot be written; check its permissions and that its file system is not mounted read-only"
    )]
    ReadOnly {
        /// The file or folder.
        place: PathBuf,
        /// What the system said.
        #[source]
        source: Source,
    },
    /// No space is left. The store works again once there is some.
    #[error("no space is left for {place}; free some and try again")]
    Full {
        /// The file.
        place: PathBuf,
        /// What the system said.
        #[source]
        source: Source,
    },
    /// Someone else holds a lock for longer than we wait.
    #[error("the store is locked by {by}; try again, and if it lasts find who holds it")]
    Busy {
        /// What is known of the holder.
        by: String,
        /// What the system said.
        #[source]
        source: Source,
    },
    /// The database cannot be reached, or went away in the middle. Whether a write that was under way has been made is not
    /// known: making it again is safe.
    #[error(
        "the database {place} cannot be reached; nothing is lost, try again, and if it lasts look after it"
    )]
    Unreachable {
        /// Where it should be.
        place: String,
        /// What was seen of it.
        #[source]
        source: Source,
    },
    /// A newer release has written this store.
    #[error("the store has format {found} and this release reads up to {supported}; install a newer release")]
    Newer {
        /// The store's format version.
        found: u32,
        /// The newest version this release knows.
        supported: u32,
    },
    /// It is something, but no store of ours.
    #[error("{place} is not a longhaul store ({why}); name another file")]
    Foreign {
        /// The file.
        place: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// What is stored cannot be read back.
    #[error("the store is damaged ({what}); restore it from a backup")]
    Corrupt {
        /// What could not be read.
        what: String,
        /// What the system said, if it said anything.
        #[source]
        source: Option<Source>,
    },
    /// The file was removed, replaced or cut short while it was in use. Nothing that was acknowledged before can be found in it
    /// unless it comes back.
    #[error(
        "the store's file {place} was removed or replaced, or cut short, while it was in use; move it back, or restart to begin a new one"
    )]
    Gone {
        /// The file.
        place: PathBuf,
    },
    /// It was sealed with a key that this handle was not given.
    #[error("{what} is sealed with the key {key}, which was not given; give it too, after the newest")]
    NoKey {
        /// What does not open.
        what: String,
        /// What the key is called: the beginning of a digest of it.
        key: String,
    },
    /// It is not sealed where it should be: it was written before the store was sealed, or by somebody else.
    #[error(
        "{what} is not sealed: it was written without a key, and is read only where that is asked for (`[store] read_plain = true`)"
    )]
    NotSealed {
        /// What is not.
        what: String,
    },
    /// It is to be sealed, and others use it who have no keys, for all that is known: they would take what is sealed for what it is.
    #[error(
        "the store is not sealed yet, and {others} other process(es) use it without keys; stop them first"
    )]
    InUse {
        /// How many others.
        others: usize,
    },
    /// Its tasks are in another store, too, and would run twice.
    #[error("the store {mark}")]
    OutOfService {
        /// Which one, and which of them is in service.
        mark: Mark,
    },
    /// The handle is being closed.
    #[error("this store handle is closed; open another")]
    Closed,
    /// Anything else the system below reports. A write may or may not have been made: look before repeating it.
    #[error("the store failed while {doing}; see the cause, then try again")]
    Backend {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: Source,
    },
}

/// What a system below said; shared, because one failure may be that of a whole group of writes.
pub type Source = Arc<dyn Error + Send + Sync>;

impl StoreError {
    /// Whether the same call may succeed later without the caller changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Overloaded { .. } | Self::Busy { .. } | Self::Full { .. } | Self::Unreachable { .. }
        )
    }

    /// Whether the caller must stop working on its task.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }
}

/// A stored value that cannot be one.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) fn corrupt(what: impl ToString) -> StoreError {
    StoreError::Corrupt { what: what.to_string(), source: None }
}

/// Words as a source.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) fn said(words: impl Into<Box<dyn Error + Send + Sync>>) -> Source {
    Source::from(words.into())
}

/// What there can be too much of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Quota {
    /// Open tasks in all.
    Open,
    /// Open tasks of one principal.
    OpenPerOwner,
    /// Open tasks of anonymous callers.
    OpenAnonymous,
    /// Open tasks of one of them.
    OpenPerStranger,
    /// Tasks that one of them has made within a day.
    MadePerStranger,
    /// Kept tasks in all.
    Retained,
    /// Kept tasks of one owner.
    RetainedPerOwner,
    /// Bytes of the tasks of one owner.
    TaskBytesPerOwner,
    /// Steps of one task.
    Steps,
    /// Bytes of the steps of one task.
    StepBytes,
    /// Questions of one task that wait for an answer.
    Questions,
    /// Parts of one task.
    Parts,
    /// Bytes of the parts of one task.
    PartBytes,
    /// Generations of tasks below a call's own.
    Depth,
    /// Open children of one task.
    Children,
    /// Tasks made in all below one above which no task is open.
    Descendants,
    /// Bytes of events in all.
    EventBytes,
    /// Bytes of events of one owner.
    EventBytesPerOwner,
    /// Entries of the registry in all.
    Entries,
    /// Entries of the registry of one owner.
    EntriesPerOwner,
}

impl Quota {
    /// The name of the limit in [`Limits`](crate::Limits).
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::Open => "max_open",
            Self::OpenPerOwner => "max_open_per_owner",
            Self::OpenAnonymous => "max_open_anonymous",
            Self::OpenPerStranger => "max_open_per_stranger",
            Self::MadePerStranger => "max_made_per_stranger",
            Self::Retained => "max_retained",
            Self::RetainedPerOwner => "max_retained_per_owner",
            Self::TaskBytesPerOwner => "max_task_bytes_per_owner",
            Self::Steps => "max_steps",
            Self::StepBytes => "max_step_bytes",
            Self::Questions => "max_questions",
            Self::Parts => "max_parts",
            Self::PartBytes => "max_part_bytes",
            Self::Depth => "max_depth",
            Self::Children => "max_children",
            Self::Descendants => "max_descendants",
            Self::EventBytes => "max_event_bytes",
            Self::EventBytesPerOwner => "max_event_bytes_per_owner",
            Self::Entries => "max_entries",
            Self::EntriesPerOwner => "max_entries_per_owner",
        }
    }
}

impl Quota {
    /// What a caller can do for there to be room again.
    fn makes_room(self) -> &'static str {
        match self {
            Self::Retained | Self::RetainedPerOwner | Self::TaskBytesPerOwner => {
                "wait until some that have ended are forgotten, have some deleted,"
            }
            _ => "wait until some end",
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open tasks",
            Self::OpenPerOwner => "open tasks of this caller",
            Self::OpenAnonymous => "open tasks of anonymous callers",
            Self::OpenPerStranger => "open tasks of this caller, who has not signed in",
            Self::MadePerStranger => "tasks within a day of this caller, who has not signed in",
            Self::Retained => "tasks kept",
            Self::RetainedPerOwner => "tasks kept for this caller",
            Self::TaskBytesPerOwner => "bytes of tasks kept for this caller",
            Self::Steps => "steps of one task",
            Self::StepBytes => "bytes of steps of one task",
            Self::Questions => "open questions of one task",
            Self::Parts => "parts of one task",
            Self::PartBytes => "bytes of parts of one task",
            Self::Depth => "generations of tasks",
            Self::Children => "open children of one task",
            Self::Descendants => "tasks made below one",
            Self::EventBytes => "bytes of events",
            Self::EventBytesPerOwner => "bytes of events for this caller",
            Self::Entries => "entries",
            Self::EntriesPerOwner => "entries of this caller",
        })
    }
}
