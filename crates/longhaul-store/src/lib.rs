//! Durable state of Model Context Protocol servers.
//!
//! A task is kept as facts in a [`Record`]; a [`TaskStore`] creates, reads, claims, changes and forgets records,
//! each operation atomic, for any number of nodes at once. Statuses, wire formats and the work itself belong to the
//! layers above; payloads pass through as JSON text nobody here reads.
//!
//! Beside the tasks, an [`EventStore`] keeps what was sent in streams that can be resumed, and a [`Registry`] the small
//! facts that nodes share: sessions, keys, spent nonces, buckets. Each backend here is all three.
//!
//! | feature | adds |
//! |---|---|
//! | (none) | the contract, and [`Memory`] |
//! | `sqlite` | `Sqlite`: one file, shared by the processes of one machine |
//! | `postgres` | `Postgres`: one database, shared by the nodes of a fleet |
//! | `redis` | `Redis`: one Redis or Valkey server, shared by the nodes of a fleet |
//! | `conformance` | `conformance`: the suite every backend passes, and a clock that tests step |
//! | `sealed` | `sealed`: a store around a store, which keeps nothing that can be read without a key |
//! | `wrap` | `wrap`: stores around stores, and one that lets things go wrong as planned |
//! | `crash-points` | points at which a test makes the process kill itself; never in a shipped build |
//!
//! ```
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_store::{Batch, Json, Memory, NewTask, Outcome, Owner, Scope, TaskId, TaskStore};
//!
//! let (store, ann) = (Memory::new(), Owner::principal("ann")?);
//! let task = NewTask::new(TaskId::new("t1")?, ann.clone(), "build", Json::parse("{}")?);
//! let task = store.create(task).await?.into_record();
//! store.finish(&task.id, task.epoch, Outcome::result(Json::parse("{}")?, false), Batch::new()).await?;
//! assert!(store.get(Scope::Owner(&ann), &task.id).await?.is_some_and(|task| task.is_terminal()));
//! # Ok(()) }
//! ```

#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod aside;
mod child;
mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[doc(hidden)]
pub mod crash_point;
mod error;
mod event_store;
mod format;
mod identity;
mod json;
#[cfg(any(feature = "redis", feature = "sqlite"))]
mod lately;
mod memory;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod networked;
mod new_task;
mod once;
mod orphan;
mod outcome;
mod overlay;
mod owner;
mod page;
mod part;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod registry;
mod room;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(feature = "sealed")]
pub mod sealed;
mod seen_step;
mod settings;
mod share;
mod shared;
mod spell;
#[cfg(feature = "sqlite")]
mod sqlite;
mod step;
mod stored;
mod task_store;
mod time;
mod tool_version;
pub mod transfer;
pub mod transition;
mod watch;
#[cfg(any(test, feature = "wrap"))]
pub mod wrap;

#[cfg(feature = "redis")]
pub use self::redis::{Redis, RedisOptions};
pub use child::{ChildEnd, Children, NewChild, Parent};
#[cfg(any(test, feature = "conformance"))]
pub use clock::StepClock;
pub use clock::{Clock, SystemClock};
pub use error::{Quota, Source, StoreError};
pub use event_store::{Event, EventStore, Stream};
pub use format::Format;
pub use identity::{Epoch, HostId, InvalidName, NodeId, TaskId};
pub use json::Json;
pub use memory::{Change, Memory, RowKey};
pub use new_task::{NewTask, Start};
pub use once::{CallKey, InvalidCallKey, Once};
pub use orphan::{OnOrphan, OrphanRule};
pub use outcome::Outcome;
pub use overlay::{Operation, Overlay};
pub use owner::{InvalidPrincipal, Owner, Principal, Scope};
pub use page::{Cursor, Page};
pub use part::{Part, PartContent, Parts};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresOptions};
pub use record::{Dialect, Digest, Lease, Phase, Progress, Record, Rerun, Retention, Undo, UndoPhase};
pub use registry::{Entry, EntryKey, Holder, Registry, Swap, Value, Version};
pub use seen_step::{SeenState, SeenStep, SeenSteps};
pub use settings::{Limits, Settings};
pub use share::Share;
pub use spell::{Spell, SpellOver};
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteOptions};
pub use step::{Answerer, Fingerprint, Park, Question, Reply, Step, StepState};
pub use task_store::{
    Answered, Batch, CancelAsked, Cancellation, Counts, Created, Durability, Erasure, Filter, Finished,
    StoreFuture, Swept, TaskStore,
};
pub use time::Time;
pub use tool_version::{Accepts, InvalidToolVersion, Runnable, ToolVersion};
pub use watch::{TaskWatch, WatchHub};
