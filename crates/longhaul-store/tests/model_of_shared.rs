//! Any sequence of operations on streams and entries does the same on SQLite as in memory, and what a file says of
//! itself adds up.

use std::{path::Path, sync::Arc, time::Duration};

use longhaul_store::{
    EntryKey, EventStore, Memory, Owner, Registry, Settings, SqliteOptions, StepClock, Stream, Time, Value,
    Version,
};
use proptest::prelude::*;

/// One operation; owners, sessions and names are small numbers so that they meet often.
#[derive(Clone, Debug)]
enum Operation {
    Append {
        owner: u8,
        session: u8,
        length: usize,
    },
    Replay {
        owner: u8,
        session: u8,
        after: u64,
        limit: usize,
    },
    Prolong {
        owner: u8,
        session: u8,
    },
    Trim {
        owner: u8,
        session: u8,
    },
    SweepStreams,
    Entry {
        holder: u8,
        name: u8,
    },
    Put {
        holder: u8,
        name: u8,
        byte: u8,
        seconds: Option<u64>,
    },
    /// From the version that is there, or so many before it.
    Swap {
        holder: u8,
        name: u8,
        behind: Option<u64>,
        byte: Option<u8>,
    },
    SweepEntries,
    Advance {
        seconds: u64,
    },
    Reopen,
}

fn operation() -> impl Strategy<Value = (usize, Operation)> {
    let (owner, session) = (|| 0..3u8, || 0..2u8);
    let (holder, name) = (|| 0..4u8, || 0..3u8);
    let operation = prop_oneof![
        6 => (owner(), session(), 0..2000usize)
            .prop_map(|(owner, session, length)| Operation::Append { owner, session, length }),
        4 => (owner(), session(), 0..8u64, 0..5usize)
            .prop_map(|(owner, session, after, limit)| Operation::Replay { owner, session, after, limit }),
        2 => (owner(), session()).prop_map(|(owner, session)| Operation::Prolong { owner, session }),
        1 => (owner(), session()).prop_map(|(owner, session)| Operation::Trim { owner, session }),
        1 => Just(Operation::SweepStreams),
        2 => (holder(), name()).prop_map(|(holder, name)| Operation::Entry { holder, name }),
        4 => (holder(), name(), any::<u8>(), prop::option::of(0..90u64))
            .prop_map(|(holder, name, byte, seconds)| Operation::Put { holder, name, byte, seconds }),
        4 => (holder(), name(), prop::option::of(0..2u64), prop::option::of(any::<u8>()))
            .prop_map(|(holder, name, behind, byte)| Operation::Swap { holder, name, behind, byte }),
        1 => Just(Operation::SweepEntries),
        2 => (0..90u64).prop_map(|seconds| Operation::Advance { seconds }),
        1 => Just(Operation::Reopen),
    ];
    (0..2usize, operation)
}

trait Store: EventStore + Registry {}
impl<S: EventStore + Registry> Store for S {}

/// A store with two nodes, and how to open another.
struct Side {
    nodes: [Arc<dyn Store>; 2],
    join: Box<dyn Fn() -> Arc<dyn Store>>,
    clock: StepClock,
}

impl Side {
    fn new(clock: StepClock, join: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        Self { nodes: [join(), join()], join: Box::new(join), clock }
    }

    /// What the operation came to, in words in which both sides agree.
    async fn apply(&mut self, node: usize, operation: &Operation) -> String {
        let store = &self.nodes[node];
        match operation {
            Operation::Append { owner, session, length } => {
                let (owner, session) = (self::owner(*owner), session.to_string());
                let text = "x".repeat(*length);
                format!("{:?}", store.append(Stream::new(&owner, &session, "t"), &text).await)
            }
            Operation::Replay { owner, session, after, limit } => {
                let (owner, session) = (self::owner(*owner), session.to_string());
                format!("{:?}", store.replay(Stream::new(&owner, &session, "t"), *after, *limit).await)
            }
            Operation::Prolong { owner, session } => {
                let (owner, session) = (self::owner(*owner), session.to_string());
                format!("{:?}", store.prolong(Stream::new(&owner, &session, "t")).await)
            }
            Operation::Trim { owner, session } => {
                format!("{:?}", store.trim(&self::owner(*owner), &session.to_string()).await)
            }
            Operation::SweepStreams => format!("{:?}", store.sweep_streams(100).await),
            Operation::SweepEntries => format!("{:?}", store.sweep_entries(100).await),
            Operation::Advance { seconds } => {
                self.clock.advance(Duration::from_secs(*seconds));
                "advanced".to_owned()
            }
            Operation::Reopen => {
                self.nodes[node] = (self.join)();
                "reopened".to_owned()
            }
            Operation::Entry { holder, name }
            | Operation::Put { holder, name, .. }
            | Operation::Swap { holder, name, .. } => {
                let (owner, name) = (owner(*holder), name.to_string());
                let key = match holder {
                    3 => EntryKey::of_server("kind", &name),
                    _ => EntryKey::of(&owner, "kind", &name),
                };
                registered(&**store, key, operation).await
            }
        }
    }
}

async fn registered(store: &dyn Store, key: EntryKey<'_>, operation: &Operation) -> String {
    match operation {
        Operation::Put { byte, seconds, .. } => {
            let bytes = [*byte];
            let value = match seconds {
                Some(seconds) => Value::lasting(&bytes, Duration::from_secs(*seconds)),
                None => Value::for_ever(&bytes),
            };
            format!("{:?}", store.put(key, value).await)
        }
        Operation::Swap { behind, byte, .. } => {
            let found = store.entry(key).await.expect("an entry can be read");
            let seen = found.map_or(1, |entry| entry.version.get());
            let expected = behind.map(|behind| Version::new(seen.saturating_sub(behind)));
            let bytes = byte.map(|byte| [byte]);
            let value = bytes.as_ref().map(|bytes| Value::lasting(bytes, Duration::from_secs(60)));
            format!("{:?}", store.compare_and_set(key, expected, value).await)
        }
        _ => {
            let found = store.entry(key).await.expect("an entry can be read");
            format!("{found:?} {:?}", found.as_ref().map(|entry| entry.value.to_vec()))
        }
    }
}

fn owner(number: u8) -> Owner {
    match number {
        0 => Owner::principal("ann").expect("a good name"),
        1 => Owner::principal("bob").expect("a good name"),
        _ => Owner::Anonymous,
    }
}

fn sides(folder: &Path) -> [Side; 2] {
    let start = Time::from_unix_ms(1_800_000_000_000);
    let mut settings = Settings::default();
    settings.event_retention = Duration::from_secs(60);
    let limits = &mut settings.limits;
    (limits.max_stream_events, limits.max_stream_bytes) = (4, 6_000);
    (limits.max_event_bytes_per_owner, limits.max_event_bytes) = (9_000, 15_000);
    (limits.max_entries_per_owner, limits.max_entries) = (2, 5);
    let clock = StepClock::at(start);
    let memory = Memory::with(settings.clone(), Arc::new(clock.clone()));
    let model = Side::new(clock, move || Arc::new(memory.another_node()));
    let clock = StepClock::at(start);
    let path = folder.join("tasks.db");
    let options = SqliteOptions::new().with_settings(settings).with_clock(Arc::new(clock.clone()));
    let sqlite = Side::new(clock, move || Arc::new(options.clone().open(&path).expect("the store opens")));
    [model, sqlite]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_does_what_memory_does(operations in prop::collection::vec(operation(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [mut model, mut sqlite] = sides(folder.path());
        for (node, operation) in operations {
            let expected = runtime.block_on(model.apply(node, &operation));
            let found = runtime.block_on(sqlite.apply(node, &operation));
            prop_assert_eq!(expected, found, "{:?}", operation);
        }
        drop(sqlite);
        assert_sums_agree(&folder.path().join("tasks.db"));
    }
}

/// The totals a store keeps are those of the rows it has.
fn assert_sums_agree(path: &Path) {
    let conn = rusqlite::Connection::open(path).expect("the file opens");
    let sums = |sql: &str| {
        let mut statement = conn.prepare(sql).expect("good SQL");
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let rows = statement.query_map([], row).expect("rows");
        rows.map(|row| row.expect("a row")).collect::<Vec<(String, i64, i64)>>()
    };
    assert_eq!(
        sums("SELECT ord, kept, bytes FROM (SELECT '' || ord AS ord, kept, bytes FROM streams) ORDER BY ord"),
        sums("SELECT '' || stream, count(*), sum(room) FROM events GROUP BY stream ORDER BY '' || stream"),
    );
    let of_rows = "WITH streamed AS (SELECT owner, sum(bytes) AS bytes FROM streams GROUP BY owner), \
        registered AS (SELECT owner, count(*) AS entries FROM entries WHERE is_own GROUP BY owner) \
        SELECT owner, ifnull(bytes, 0), ifnull(entries, 0) \
        FROM streamed FULL JOIN registered USING (owner) ORDER BY owner";
    assert_eq!(sums("SELECT owner, event_bytes, entries FROM accounts ORDER BY owner"), sums(of_rows));
    let in_all = "SELECT '', (SELECT ifnull(sum(bytes), 0) FROM streams), (SELECT count(*) FROM entries)";
    assert_eq!(sums("SELECT '', event_bytes, entries FROM store"), sums(in_all));
}
