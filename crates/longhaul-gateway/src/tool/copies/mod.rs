//! What commands write, copied into the store: a run's files are at its host alone, and whoever asks for them is answered by any node.
//!
//! A stream is cut at fixed places into pieces. The one that still grows is an entry of its own, put anew once a second at most; each that is
//! full goes into the next of [`PLACES`] entries, round and round, so that what has been kept is always the newest. Whoever puts a full piece
//! again puts the same, and the last one is only ever replaced by one that goes further: a node that takes a run over, and one that has not
//! noticed yet, do each other no harm. They can be done without, so that however much is written, it takes the room of nothing else.

mod piece;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{EntryKey, Owner, Record, Registry, StoreError, Swap, TaskStore, Value, Version};
use tokio::sync::watch;

use crate::command::{Chunk, Run, RunsDir, Stream};
use piece::{Piece, Reading};
use writer::Writer;

/// The copies of what commands write, where there are any.
#[derive(Clone, Debug)]
pub struct Copies(Option<Arc<Place>>);

#[derive(Debug)]
struct Place {
    tasks: Arc<dyn TaskStore>,
    registry: Arc<dyn Registry>,
}

/// Where reading begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begin {
    /// Behind so many bytes.
    After(u64),
    /// So that the last is read.
    BeforeEnd,
}

/// A run of which a copy is made.
#[derive(Debug)]
pub(super) struct Copying(watch::Receiver<()>);

impl Copying {
    /// Waits until all that it wrote is copied, or nobody copies it any more; no longer than a moment, for nothing depends on it.
    pub(super) async fn caught_up(&self) {
        let mut writer = self.0.clone();
        // It says nothing, and is dropped when it is done.
        let _done_or_late = tokio::time::timeout(MOMENT, writer.changed()).await;
    }
}

impl Copies {
    /// Copies of the tasks in `tasks`, kept in `registry`. Runs are copied where their directory is [a host](RunsDir::as_host).
    pub fn new(tasks: Arc<dyn TaskStore>, registry: Arc<dyn Registry>) -> Self {
        Self(Some(Arc::new(Place { tasks, registry })))
    }

    /// None: no other process ever asks.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Copies what the command of a task writes, until it has ended or this process watches it no more.
    pub(super) fn keep(&self, runs: &RunsDir, run: &Run) -> Option<Copying> {
        let place = self.0.as_ref().filter(|_| runs.host().is_some())?;
        let (writes, writer) = watch::channel(());
        tokio::spawn(Writer::new(place, runs, run).until_over(run.updates(), writes));
        Some(Copying(writer))
    }

    /// Whether a host may still copy something of a task.
    pub(super) fn may_grow(&self, record: &Record) -> bool {
        let Some(ended_at) = record.terminal_at else { return true };
        // Both times are the store's: this node's own date may be wrong.
        self.0.as_ref().is_some_and(|place| place.tasks.now().since(ended_at) <= LATE)
    }

    /// What was copied of a stream, at most `most` bytes; `None` if nothing is.
    ///
    /// # Errors
    ///
    /// When the store cannot be asked.
    pub(super) async fn read(
        &self,
        record: &Record,
        stream: Stream,
        begin: Begin,
        most: usize,
    ) -> Result<Option<Chunk>, StoreError> {
        let Some(place) = &self.0 else { return Ok(None) };
        let copied = Copied { place, owner: &record.owner, task: record.id.as_str(), stream };
        copied.read(begin, most).await
    }
}

/// One stream of one task.
struct Copied<'c> {
    place: &'c Place,
    owner: &'c Owner,
    task: &'c str,
    stream: Stream,
}

impl Copied<'_> {
    async fn read(&self, begin: Begin, most: usize) -> Result<Option<Chunk>, StoreError> {
        // Looked at first: every full piece before it was put before it was.
        let Some((last, _)) = self.last().await? else { return Ok(None) };
        let mut reading = Reading::new(begin, most, &last);
        while let Some(number) = reading.wants() {
            reading.take(self.full(number).await?.as_ref());
        }
        Ok(Some(reading.chunk()))
    }

    /// The piece that grows, as it was put last.
    async fn last(&self) -> Result<Option<(Piece, Version)>, StoreError> {
        let name = self.name();
        let entry = self.place.registry.entry(self.key(&name)).await?;
        Ok(entry.and_then(|entry| Some((Piece::read(&entry.value)?, entry.version))))
    }

    /// The full piece with this number, if it is still kept.
    async fn full(&self, number: u64) -> Result<Option<Piece>, StoreError> {
        let name = self.place_of(number);
        let entry = self.place.registry.entry(self.key(&name)).await?;
        Ok(entry.and_then(|entry| Piece::read(&entry.value)).filter(|piece| piece.number() == number))
    }

    /// Keeps a piece, unless more of it is kept: a run's files may have less of it by now.
    async fn put_full(&self, piece: &Piece) -> Result<(), StoreError> {
        let is_part = (piece.text.len() as u64) < piece::PIECE;
        if is_part
            && let Some(kept) = self.full(piece.number()).await?
            && kept.text.len() > piece.text.len()
        {
            return Ok(());
        }
        let (name, bytes) = (self.place_of(piece.number()), piece.bytes());
        self.place.registry.put(self.key(&name), Value::lasting(&bytes, KEPT)).await.map(drop)
    }

    /// Replaces the last piece if it is still that of this version.
    async fn put_last(&self, piece: &Piece, version: Option<Version>) -> Result<Swap, StoreError> {
        let (name, bytes) = (self.name(), piece.bytes());
        let value = Some(Value::lasting(&bytes, KEPT));
        self.place.registry.compare_and_set(self.key(&name), version, value).await
    }

    fn name(&self) -> String {
        format!("{}/{}", self.task, self.stream.name())
    }

    fn place_of(&self, number: u64) -> String {
        format!("{}/{}/{}", self.task, self.stream.name(), number % PLACES)
    }

    fn key<'k>(&'k self, name: &'k str) -> EntryKey<'k> {
        EntryKey::spare(self.owner, KIND, name)
    }
}

/// How many full pieces of a stream are kept: with the last they are a megabyte.
const PLACES: u64 = 17;

/// How long each is kept after it was put.
const KEPT: Duration = Duration::from_secs(3600);

/// How long the end of a task waits for the end of its copy.
const MOMENT: Duration = Duration::from_secs(2);

/// How long after its end what a command wrote may still be copied.
const LATE: Duration = Duration::from_secs(120);

/// What these entries are called.
const KIND: &str = "output";

#[cfg(test)]
mod tests {
    use longhaul::store::{Clock, Json, Memory, NewTask, Settings, SystemClock, TaskId, Time};

    use super::*;

    #[tokio::test]
    async fn a_copy_is_its_owners_and_grows_whoever_puts_it() {
        let store = Arc::new(Memory::new());
        let place = Place { tasks: Arc::<Memory>::clone(&store), registry: Arc::<Memory>::clone(&store) };
        let [ann, bob] = ["ann", "bob"].map(|name| Owner::principal(name).unwrap());
        let copied = |owner| Copied { place: &place, owner, task: "t", stream: Stream::Stdout };
        let piece = |text: &[u8], is_end| Piece { start: 0, is_end, text: text.to_vec() };
        let put = async |text: &[u8], is_end, version| {
            copied(&ann).put_last(&piece(text, is_end), version).await.unwrap()
        };
        let Swap::Done(Some(one)) = put(b"a", false, None).await else { panic!("there was none") };
        let Swap::Done(Some(two)) = put(b"all", true, Some(one.version)).await else {
            panic!("it was one's own")
        };
        // One that did not notice.
        assert_eq!(put(b"al", false, Some(one.version)).await, Swap::Found(Some(two)));

        let mut record = NewTask::new(TaskId::new("t").unwrap(), ann, "build", Json::parse("{}").unwrap());
        let copies = Copies(Some(Arc::new(place)));
        let read = async |new: &NewTask| {
            let record = store.create(new.clone()).await.unwrap().into_record();
            copies.read(&record, Stream::Stdout, Begin::After(1), 100).await.unwrap()
        };
        let chunk = read(&record).await.unwrap();
        assert_eq!((chunk.bytes.as_slice(), chunk.next, chunk.done), (&b"ll"[..], 3, true));
        (record.id, record.owner) = (TaskId::new("u").unwrap(), bob.clone());
        assert_eq!(read(&record).await, None, "another task has its own");
        let place = Place { tasks: Arc::<Memory>::clone(&store), registry: store };
        let of_bob = Copied { place: &place, owner: &bob, task: "t", stream: Stream::Stdout };
        assert!(of_bob.last().await.unwrap().is_none(), "and another owner");
    }

    /// A clock that stands still, nowhere near the date of this machine.
    #[derive(Debug)]
    struct LongAgo;

    impl Clock for LongAgo {
        fn wall(&self) -> Time {
            Time::from_unix_ms(1_000_000)
        }

        fn steady(&self) -> Duration {
            Duration::ZERO
        }

        fn boot(&self) -> &str {
            "long ago"
        }
    }

    #[tokio::test]
    async fn the_time_of_the_store_says_for_how_long_a_copy_may_grow() {
        let store = Arc::new(Memory::with(Settings::default(), Arc::new(LongAgo)));
        let copies = Copies::new(Arc::<Memory>::clone(&store), Arc::<Memory>::clone(&store));
        let arguments = Json::parse("{}").unwrap();
        let new = NewTask::new(TaskId::new("t").unwrap(), Owner::Anonymous, "build", arguments);
        let mut record = store.create(new).await.unwrap().into_record();
        assert!(copies.may_grow(&record), "it has not ended");
        for (ended_at, may_grow) in [(1_000_000, true), (880_000, true), (879_999, false)] {
            record.terminal_at = Some(Time::from_unix_ms(ended_at));
            assert_eq!(copies.may_grow(&record), may_grow, "{ended_at}");
        }
    }

    #[tokio::test]
    async fn copies_leave_their_owners_sessions_their_room() {
        let mut settings = Settings::default();
        settings.limits.max_entries_per_owner = 2;
        let store = Arc::new(Memory::with(settings, Arc::new(SystemClock::new())));
        let place = Place { tasks: Arc::<Memory>::clone(&store), registry: Arc::<Memory>::clone(&store) };
        let ann = Owner::principal("ann").unwrap();
        let put = async |task| {
            let copied = Copied { place: &place, owner: &ann, task, stream: Stream::Stdout };
            copied.put_last(&Piece { start: 0, is_end: true, text: b"all".to_vec() }, None).await
        };
        put("1").await.unwrap();
        put("2").await.unwrap();
        assert!(
            matches!(put("3").await, Err(StoreError::Overloaded { .. })),
            "they have a bound of their own"
        );
        for name in ["1", "2"] {
            let session = EntryKey::of(&ann, "session", name);
            Registry::put(&*store, session, Value::lasting(b"x", KEPT)).await.unwrap();
        }
    }
}
