//! A store around a store, which keeps what tasks carry where nobody reads it without a key.
//!
//! [`Sealed`] seals what a task was called with and what is remembered of its caller, its steps, its questions and their
//! answers, its parts, what it came to, and every line that is said of it; also the values of a [`Registry`] and the texts of
//! an [`EventStore`]. A bit that was changed is found, and nothing opens as part of another task.
//!
//! **What stays readable** is what the store inside works with: ids, owners, tools and their versions, times, states, codes of
//! errors, progress as a number, names of steps and keys of calls, digests by which equal calls and steps are found and the
//! open tasks of a stranger counted (whoever guesses what was digested can tell that it was; a network is soon guessed), how
//! large everything is, and what the store says itself, such as "task expired". A digest or a state that is changed is not
//! found.
//!
//! **Limits** of the store inside are of what it keeps: what is sealed takes a third more, and 70 bytes.
//!
//! **A store that has been used without keys** is not sealed by opening it so ([`Sealed::open`]), unless that is asked for
//! ([`Sealed::open_reading_plain`]): what is there stays as it is then, entries excepted, until it is forgotten. Nor is one sealed
//! while a node without keys is there, which would take what is sealed for what it is.
//!
//! **Another key** is given in two steps, so that no node meets what it cannot open: first as an older one to every node, then
//! as the newest. A key is still needed as long as there is anything that it sealed.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_store::sealed::{Sealed, SealingKeys};
//! use longhaul_store::{Json, Memory, NewTask, Owner, Scope, TaskId, TaskStore};
//!
//! let keys = SealingKeys::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
//! let (memory, ann) = (Memory::new(), Owner::principal("ann")?);
//! let store = Sealed::new(memory.another_node(), keys);
//! let id = TaskId::new("t1")?;
//! store.create(NewTask::new(id.clone(), ann.clone(), "build", Json::parse(r#"{"secret":1}"#)?)).await?;
//!
//! let read = store.get(Scope::Owner(&ann), &id).await?.expect("it is there");
//! assert_eq!(read.arguments.as_str(), r#"{"secret":1}"#);
//! let kept = memory.get(Scope::Owner(&ann), &id).await?.expect("it is there");
//! assert!(kept.arguments.as_str().starts_with("\"sealed1."));
//! # Ok(()) }
//! ```

mod first;
mod keys;
mod older;
mod payload;
mod shared;

pub use first::is_being_sealed;
pub use keys::{InvalidSealingKey, SealingKeys};
pub use older::written_before;
pub use shared::is_sealed;

use keys::{OVERHEAD, Unopened};

#[cfg(doc)]
use crate::EventStore;
use crate::{
    Answered, Batch, CallKey, CancelAsked, Cancellation, Created, Cursor, Epoch, Filter, Finished, Limits,
    NewTask, Operation, Outcome, Overlay, Owner, Page, Parts, Record, Registry, Reply, Runnable, Scope, Step,
    StoreError, StoreFuture, TaskId, TaskStore, transfer::Transfer,
};

/// A store whose payloads are sealed.
#[derive(Debug)]
pub struct Sealed<S> {
    store: S,
    sealing: Sealing,
}

#[derive(Debug)]
struct Sealing {
    keys: SealingKeys,
    reads_plain: bool,
}

impl<S: Transfer> Sealed<S> {
    /// `store`, sealed with these keys, if they are its keys: the first who opens it so makes them so.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoKey`] if the store has been sealed with another one, [`StoreError::NotSealed`] if it is not sealed and
    /// holds [something](written_before), [`StoreError::InUse`] if it is not sealed and another node has it open that is not about to
    /// open it so, too, for five seconds on end, and what reading and writing it gives. Then nothing has changed.
    pub async fn open(store: S, keys: SealingKeys) -> Result<Self, StoreError> {
        if !is_sealed(&store).await?
            && let Some(what) = written_before(&store).await?
        {
            return Err(StoreError::NotSealed { what });
        }
        first::seal(&store, &keys).await?;
        Ok(Self::new(store, keys))
    }

    /// As [`open`](Self::open), whatever the store holds: what was written before it was sealed [is read](Self::reading_plain).
    /// The entries among that are sealed here, so that without them it is needed no longer than there are
    /// [tasks](written_before) which are not.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoKey`] if the store has been sealed with another one, [`StoreError::InUse`] as [`open`](Self::open), and what
    /// reading and writing it gives.
    pub async fn open_reading_plain(store: S, keys: SealingKeys) -> Result<Self, StoreError> {
        first::seal(&store, &keys).await?;
        let this = Self::new(store, keys).reading_plain();
        this.seal_entries().await?;
        Ok(this)
    }
}

impl<S: Registry> Sealed<S> {
    /// As [`open`](Self::open), of a store of one's own: nobody looks whether it holds anything that is not sealed, or who else is
    /// there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoKey`] if the store has been sealed with another one, and what reading it gives.
    pub async fn open_unseen(store: S, keys: SealingKeys) -> Result<Self, StoreError> {
        shared::prove(&store, &keys).await?;
        Ok(Self::new(store, keys))
    }

    /// As [`open`](Self::open), for who only looks in: nothing is changed, and a store that is not sealed is refused, for others
    /// would take what is written by this for what it is.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoKey`] if the store has been sealed with another one, [`StoreError::NotSealed`] if it is not, and what
    /// reading it gives.
    pub async fn look(store: S, keys: SealingKeys) -> Result<Self, StoreError> {
        shared::try_keys(&store, &keys).await?;
        Ok(Self::new(store, keys))
    }
}

impl<S> Sealed<S> {
    /// `store`, sealed with these keys, whatever else it is sealed with: what has another key is refused when it is read.
    #[must_use]
    pub fn new(store: S, keys: SealingKeys) -> Self {
        Self { store, sealing: Sealing { keys, reads_plain: false } }
    }

    /// Also reads what was written before the store was sealed. Without this it is [`StoreError::NotSealed`], for whoever can
    /// write to the store could put anything there.
    #[must_use]
    pub fn reading_plain(mut self) -> Self {
        self.sealing.reads_plain = true;
        self
    }

    /// The store inside.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn open_if_any(&self, record: Option<Record>) -> Result<Option<Record>, StoreError> {
        record.map(|record| self.sealing.open(record)).transpose()
    }

    /// Those that open. What does not must not keep the others from being read or worked on.
    fn open_all(&self, records: Vec<Record>) -> Vec<Record> {
        let open = |record: Record| {
            let id = record.id.clone();
            let opened = self.sealing.open(record);
            opened.map_err(|error| tracing::error!(task = %id, %error, "a task is passed over")).ok()
        };
        records.into_iter().filter_map(open).collect()
    }
}

impl<S: TaskStore> Overlay for Sealed<S> {
    type Below = S;

    fn below(&self) -> &S {
        &self.store
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        use Operation::*;
        match operation {
            // They carry nothing that is sealed.
            Renew | SeenSteps | CameBack | MakeDue | Erase | Sweep | Counts | Size => doing,
            // They do, and are written below. All are named, so that a new one is not passed on unthought.
            Create | Get | Called | List | Claim | ClaimOne | Release | Write | Steps | Parts | Answer
            | Finish | RequestCancel | AskToCancel => doing,
            // A registry's, which is sealed elsewhere.
            Entry | Put | CompareAndSet | Names | SweepEntries => doing,
        }
    }

    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        Box::pin(async move {
            let created = self.store.create(self.sealing.seal_new(task)).await?;
            self.sealing.open_created(created)
        })
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move { self.open_if_any(self.store.get(scope, id).await?) })
    }

    fn called<'a>(&'a self, owner: &'a Owner, key: &'a CallKey) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move { self.open_if_any(self.store.called(owner, key).await?) })
    }

    /// A task that does not open is left out and [counted](Page::unopened), and an ERROR says so.
    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            let mut page = self.store.list(scope, filter, after, limit).await?;
            let found = page.tasks.len();
            page.tasks = self.open_all(page.tasks);
            page.unopened += found - page.tasks.len();
            Ok(page)
        })
    }

    /// A task that does not open is left alone until its lease has run out, and an ERROR says so.
    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        Box::pin(async move { Ok(self.open_all(self.store.claim(limit, runs).await?)) })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move { self.open_if_any(self.store.claim_one(id).await?) })
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        Box::pin(async move { self.sealing.open(self.store.release(id, epoch).await?) })
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        Box::pin(async move { self.store.write(id, epoch, self.sealing.seal_batch(id, batch)).await })
    }

    fn steps<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Vec<Step>> {
        Box::pin(async move {
            let steps = self.store.steps(id, epoch).await?;
            steps.into_iter().map(|step| self.sealing.open_step(id, step)).collect()
        })
    }

    fn parts<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Parts>> {
        Box::pin(async move {
            let parts = self.store.parts(scope, id, after, limit).await?;
            parts.map(|parts| self.sealing.open_parts(id, parts)).transpose()
        })
    }

    fn answer<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        replies: &'a [Reply],
    ) -> StoreFuture<'a, Answered> {
        Box::pin(async move {
            let replies: Vec<Reply> =
                replies.iter().map(|reply| self.sealing.seal_reply(id, reply)).collect();
            Ok(match self.store.answer(scope, id, &replies).await? {
                Answered::Recorded { record, taken } => {
                    Answered::Recorded { record: self.sealing.open(record)?, taken }
                }
                Answered::NotFound => Answered::NotFound,
            })
        })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        Box::pin(async move {
            let (outcome, last) = (self.sealing.seal_outcome(id, outcome), self.sealing.seal_batch(id, last));
            Ok(match self.store.finish(id, epoch, outcome, last).await? {
                Finished::Recorded(record) => Finished::Recorded(self.sealing.open(record)?),
                Finished::AlreadyTerminal(record) => Finished::AlreadyTerminal(self.sealing.open(record)?),
            })
        })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        Box::pin(async move {
            let reason = reason.map(|reason| self.sealing.seal_reason(id, reason, &self.store.limits()));
            Ok(match self.store.request_cancel(scope, id, reason.as_deref()).await? {
                Cancellation::Cancelled(record) => Cancellation::Cancelled(self.sealing.open(record)?),
                Cancellation::AlreadyTerminal(record) => {
                    Cancellation::AlreadyTerminal(self.sealing.open(record)?)
                }
                Cancellation::NotFound => Cancellation::NotFound,
            })
        })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        Box::pin(async move {
            let reason = reason.map(|reason| self.sealing.seal_reason(id, reason, &self.store.limits()));
            Ok(match self.store.ask_to_cancel(scope, id, reason.as_deref()).await? {
                CancelAsked::Requested(record) => CancelAsked::Requested(self.sealing.open(record)?),
                CancelAsked::AtOnce(Cancellation::Cancelled(record)) => {
                    CancelAsked::AtOnce(Cancellation::Cancelled(self.sealing.open(record)?))
                }
                CancelAsked::AtOnce(Cancellation::AlreadyTerminal(record)) => {
                    CancelAsked::AtOnce(Cancellation::AlreadyTerminal(self.sealing.open(record)?))
                }
                CancelAsked::AtOnce(Cancellation::NotFound) => CancelAsked::AtOnce(Cancellation::NotFound),
            })
        })
    }

    /// Of what is sealed as much as fits in there.
    fn limits(&self) -> Limits {
        let mut limits = self.store.limits();
        for limit in [
            &mut limits.max_arguments,
            &mut limits.max_caller,
            &mut limits.max_outcome,
            &mut limits.max_text,
            &mut limits.max_step,
            &mut limits.max_part,
        ] {
            *limit = fitting(*limit);
        }
        limits.max_step_bytes = limits.max_step_bytes / 4 * 3;
        limits.max_part_bytes = limits.max_part_bytes / 4 * 3;
        limits
    }
}

/// The longest text that still fits when it is sealed.
fn fitting(limit: usize) -> usize {
    // Its mark, and the quotes of a string.
    let room = limit.saturating_sub(keys::MARK.len() + 2);
    (room / 4 * 3).saturating_sub(OVERHEAD)
}

/// Why something does not open.
fn refusal(what: String, why: Unopened) -> StoreError {
    match why {
        Unopened::NoKey(key) => StoreError::NoKey { what, key },
        Unopened::Damaged => StoreError::Corrupt {
            what: format!("{what} was changed since it was sealed, or belongs elsewhere"),
            source: None,
        },
    }
}
