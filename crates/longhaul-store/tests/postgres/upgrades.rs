//! Databases of older formats, whose nodes go on while newer ones come.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use longhaul_store::{
    Batch, Fingerprint, Json, Outcome, Postgres, PostgresOptions, Quota, Record, Scope, Settings, Start,
    Step, StepState, StoreError, TaskId, TaskStore, transfer::Transfer as _,
};
use tokio::task::JoinHandle;

use crate::{
    networked::{task, until},
    rig::{query, run, session, shared, try_query},
};

/// How long a statement of a new node may take, and twice that a session may idle in a transaction.
const PATIENCE: Duration = Duration::from_secs(2);

/// What takes each version of the format back to the one before.
const BACK: [&str; 4] = [
    "ALTER TABLE longhaul.tasks DROP COLUMN spells; DELETE FROM longhaul.migrations WHERE version > 1",
    "DROP INDEX longhaul.open_shares; ALTER TABLE longhaul.tasks DROP COLUMN share; \
        DELETE FROM longhaul.migrations WHERE version > 2",
    "ALTER TABLE longhaul.tasks DROP COLUMN host; DELETE FROM longhaul.migrations WHERE version > 3",
    "ALTER TABLE longhaul.tasks DROP COLUMN charged; ALTER TABLE longhaul.accounts DROP COLUMN task_bytes; \
        DELETE FROM longhaul.migrations WHERE version > 4",
];

/// A database that was a store before there was a later format, and tasks in it.
async fn of_format(format: usize) -> (String, Vec<Record>) {
    let url = shared().database();
    let store = Postgres::open(&url).await.unwrap();
    let of = Fingerprint::new([1; Fingerprint::LEN]);
    let mut stepped = task("stepped");
    stepped.steps = vec![Step::new("begun", of, StepState::Begun)];
    let mut queued = task("queued");
    queued.start = Start::Queued { not_before: store.now() };
    for new in [task("open"), stepped, queued] {
        store.create(new).await.unwrap();
    }
    let ended = store.create(task("ended")).await.unwrap().into_record();
    let outcome = Outcome::result(Json::parse("{\"as\": [\"it\", \"was\"]}").unwrap(), false);
    store.finish(&ended.id, ended.epoch, outcome, Batch::new()).await.unwrap();
    let mut kept = Vec::new();
    for name in ["open", "stepped", "queued", "ended"] {
        let mut record = get(&store, name).await.unwrap();
        // An older format had no room for when it was worked on.
        record.spells = Vec::new();
        kept.push(record);
    }
    drop(store);
    BACK[format - 1..].iter().rev().for_each(|back| query(&url, back));
    (url, kept)
}

async fn get(store: &Postgres, name: &str) -> Option<Record> {
    store.get(Scope::Operator, &TaskId::new(name).unwrap()).await.unwrap()
}

async fn open(url: String) -> Result<Postgres, StoreError> {
    PostgresOptions::new().with_patience(PATIENCE).with_connections(2).open(&url).await
}

/// A node of the first format at its work: it makes tasks and reports of one, as that release's statements had it.
struct OldNode {
    wrote: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    works: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl OldNode {
    async fn at_work(url: &str) -> Self {
        let (wrote, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let client = session(url).await;
        client.batch_execute("SET statement_timeout = '10s'").await.unwrap();
        let (writes, stops) = (Arc::clone(&wrote), Arc::clone(&stop));
        let works = tokio::spawn(async move {
            while !stops.load(Ordering::Relaxed) {
                let number = writes.load(Ordering::Relaxed);
                client.batch_execute(&CREATE.replace("NUMBER", &number.to_string())).await?;
                client.batch_execute(REPORT).await?;
                client
                    .simple_query("SELECT ord, nth, phase, id, seq FROM longhaul.tasks WHERE id = 'open'")
                    .await?;
                writes.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let node = Self { wrote, stop, works };
        node.goes_on().await;
        node
    }

    async fn goes_on(&self) {
        let before = self.wrote.load(Ordering::Relaxed);
        until(async || {
            assert!(!self.works.is_finished(), "it has failed");
            self.wrote.load(Ordering::Relaxed) > before + 5
        })
        .await;
    }

    /// How many tasks it has made.
    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.works.await.unwrap().expect("none of its statements fails");
        self.wrote.load(Ordering::Relaxed)
    }
}

/// Copied from a task that is there, but for what is each one's own.
const CREATE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
    SELECT open, retained, last FROM longhaul.accounts FOR UPDATE; \
    INSERT INTO longhaul.tasks (ord, id, owner, nth, seq, phase, not_before, lease_node, lease_until, epoch, attempt, \
        started, rerun, dialect, retention, retention_ms, expires_at, created_at, status_changed_at, updated_at, \
        poll_interval_ms, join_digest, tool, status_message, caller, arguments, once_key, once_digest, asked, steps, \
        step_bytes, tool_version, owed, parent, parent_step, depth, outlives, essential, cancel_grace_ms, orphan_at, on_orphan) \
    SELECT nextval('longhaul.seq'), 'old-NUMBER', owner, (SELECT last + 1 FROM longhaul.accounts), \
        currval('longhaul.seq'), phase, not_before, lease_node, lease_until, epoch, attempt, started, rerun, dialect, \
        retention, retention_ms, expires_at, created_at, status_changed_at, updated_at, poll_interval_ms, join_digest, tool, \
        status_message, caller, arguments, once_key, once_digest, asked, steps, step_bytes, tool_version, owed, parent, \
        parent_step, depth, outlives, essential, cancel_grace_ms, orphan_at, on_orphan \
        FROM longhaul.tasks WHERE id = 'queued'; \
    UPDATE longhaul.accounts SET open = open + 1, retained = retained + 1, last = last + 1; \
    UPDATE longhaul.totals SET open = open + 1, retained = retained + 1 WHERE shard = 3; \
    COMMIT";

const REPORT: &str = "UPDATE longhaul.tasks SET seq = nextval('longhaul.seq'), progress = coalesce(progress, 0) + 1 \
    WHERE id = 'open'";

#[tokio::test]
async fn nodes_of_the_first_format_go_on_while_newer_ones_come() {
    go_on_while_newer_ones_come(1).await;
}

#[tokio::test]
async fn nodes_of_the_second_format_go_on_while_newer_ones_come() {
    go_on_while_newer_ones_come(2).await;
}

async fn go_on_while_newer_ones_come(format: usize) {
    let (url, kept) = of_format(format).await;
    let old = OldNode::at_work(&url).await;
    // Somebody reads all of the database, and has not touched a task yet.
    let reader = session(&url).await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    let opens: Vec<_> = (0..3).map(|_| tokio::spawn(open(url.clone()))).collect();
    let indexed = "SELECT 1 / count(*) FROM pg_stat_progress_create_index \
        WHERE datname = current_database() AND phase = 'waiting for old snapshots'";
    until(async || try_query(&url, indexed)).await;
    // It lasts longer than a statement or an idle transaction of the new nodes may.
    tokio::time::sleep(PATIENCE * 2 + Duration::from_secs(1)).await;
    old.goes_on().await;
    assert!(opens.iter().all(|open| !open.is_finished()), "the format is not whole before the index is");
    reader.batch_execute("COMMIT").await.unwrap();
    let mut stores = Vec::new();
    for open in opens {
        stores.push(open.await.unwrap().unwrap());
    }
    old.goes_on().await;
    let made = old.end().await;

    let store = &stores[0];
    for before in kept {
        let after = get(store, before.id.as_str()).await.unwrap();
        if before.id.as_str() == "open" {
            assert_eq!(after.progress.unwrap().value, made as f64);
            assert_eq!((after.arguments, after.spells), (before.arguments, before.spells));
        } else {
            assert_eq!(after, before);
        }
    }
    for number in [0, made - 1] {
        let found = get(store, &format!("old-{number}")).await.unwrap();
        assert!(!found.is_terminal() && found.share.is_none() && found.spells.is_empty(), "{found:?}");
    }
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.open, counts.retained), (3 + made, 4 + made));
    // What they made is worked on by the new ones.
    let mut claimed = Vec::new();
    loop {
        let some = store.claim(100, None).await.unwrap();
        if some.is_empty() {
            break;
        }
        claimed.extend(some);
    }
    assert_eq!(claimed.iter().filter(|task| task.id.as_str().starts_with("old-")).count() as u64, made);
    // And charged: what was there before, what they made, and what has become of it.
    assert_eq!(store.miscounted().await.unwrap(), []);
    let uncharged = "SELECT count(*) FROM longhaul.tasks WHERE charged IS NULL";
    assert_eq!(run(&url, uncharged).unwrap(), ["0"]);
    let index = "SELECT 1 / count(*) FROM pg_index WHERE indexrelid = 'longhaul.open_shares'::regclass AND indisvalid";
    assert!(try_query(&url, index), "its index is whole");
}

#[tokio::test]
async fn a_table_that_somebody_holds_is_waited_for_and_nobody_else_waits_for_long() {
    let (url, _) = of_format(2).await;
    let holder = session(&url).await;
    holder.batch_execute("BEGIN; LOCK TABLE longhaul.tasks IN ACCESS SHARE MODE").await.unwrap();
    let opening = tokio::spawn(open(url.clone()));
    let waits =
        "SELECT 1 / count(*) FROM pg_locks WHERE relation = 'longhaul.tasks'::regclass AND NOT granted";
    let other = session(&url).await;
    for _ in 0..3 {
        until(async || try_query(&url, waits)).await;
        // It stands behind the change, until that gives way.
        other.simple_query("SELECT count(*) FROM longhaul.tasks").await.unwrap();
    }
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(opening.await.unwrap().unwrap().counts().await.unwrap().retained, 4);
}

#[tokio::test]
async fn who_holds_a_table_for_too_long_is_named() {
    let (url, _) = of_format(2).await;
    let holder = session(&url).await;
    let hold =
        "SET application_name = 'nightly export'; BEGIN; LOCK TABLE longhaul.tasks IN ACCESS SHARE MODE";
    holder.batch_execute(hold).await.unwrap();
    let hasty = PostgresOptions::new().with_format_patience(Duration::from_secs(2));
    let refusal = hasty.open(&url).await.unwrap_err();
    assert!(refusal.to_string().contains("(nightly export)"), "{refusal}");
    assert!(matches!(refusal, StoreError::Busy { .. }), "{refusal:?}");
    holder.batch_execute("COMMIT").await.unwrap();
    assert!(open(url).await.is_ok());
}

#[tokio::test]
async fn a_change_that_was_broken_off_is_begun_again() {
    let (url, _) = of_format(2).await;
    // What stands there when a node is killed that was building the index.
    query(
        &url,
        "ALTER TABLE longhaul.tasks ADD COLUMN share bigint; CREATE INDEX open_shares ON longhaul.tasks (ord); \
         UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'longhaul.open_shares'::regclass",
    );
    assert!(open(url.clone()).await.is_ok());
    let index = "SELECT pg_get_indexdef('longhaul.open_shares'::regclass)";
    let index = run(&url, index).unwrap();
    assert!(index[0].contains("(share)"), "{index:?}");
}

#[tokio::test]
async fn a_change_that_gives_way_in_a_deadlock_is_made_again_though_no_patience_is_left() {
    let (url, kept) = of_format(4).await;
    // Whoever writes a task waits for somebody who then waits for that task.
    query(
        &url,
        "CREATE FUNCTION longhaul.gate() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$; \
         CREATE TRIGGER gate BEFORE UPDATE ON longhaul.tasks FOR EACH ROW EXECUTE FUNCTION longhaul.gate()",
    );
    let other = session(&url).await;
    other.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)").await.unwrap();
    let at = url.clone();
    let options = PostgresOptions::new().with_format_patience(Duration::ZERO);
    let opening = tokio::spawn(async move { options.open(&at).await });
    let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    until(async || !run(&url, waits).unwrap().is_empty()).await;
    other.batch_execute("UPDATE longhaul.tasks SET seq = seq; COMMIT").await.unwrap();
    let store = opening.await.unwrap().unwrap();
    let weighs: u64 = kept.iter().map(Record::weight).sum();
    assert_eq!(run(&url, "SELECT task_bytes FROM longhaul.accounts").unwrap(), [weighs.to_string()]);
    assert_eq!(store.miscounted().await.unwrap(), []);
}

#[tokio::test]
async fn what_tasks_take_that_an_older_release_has_written_is_counted() {
    let (url, kept) = of_format(4).await;
    let store = open(url.clone()).await.unwrap();
    let weighs: u64 = kept.iter().map(Record::weight).sum();
    assert_eq!(run(&url, "SELECT task_bytes FROM longhaul.accounts").unwrap(), [weighs.to_string()]);
    assert_eq!(store.miscounted().await.unwrap(), []);
    query(&url, "UPDATE longhaul.accounts SET task_bytes = task_bytes + 1");
    let wrong = store.miscounted().await.unwrap();
    assert_eq!(
        wrong.iter().map(|wrong| (wrong.charged, wrong.has)).collect::<Vec<_>>(),
        [(weighs + 1, weighs)]
    );
}

#[tokio::test]
async fn a_task_that_an_older_release_removes_takes_no_room() {
    let url = shared().database();
    let mut settings = Settings::default();
    settings.limits.max_task_bytes_per_owner = task("t").arguments.as_str().len() as u64 + 4;
    let open = async || PostgresOptions::new().with_settings(settings.clone()).open(&url).await.unwrap();
    let store = open().await;
    let is_full =
        |refusal: &_| matches!(refusal, Err(StoreError::Overloaded { what: Quota::TaskBytesPerOwner, .. }));
    store.create(task("old")).await.unwrap();
    assert!(is_full(&store.create(task("new")).await));
    // It knows nothing of what was charged for that.
    query(
        &url,
        "DELETE FROM longhaul.tasks WHERE id = 'old'; UPDATE longhaul.accounts SET open = 0, retained = 0; \
         UPDATE longhaul.totals SET open = 0, retained = 0",
    );
    assert_eq!(store.miscounted().await.unwrap().len(), 1);
    // What takes a look at all tasks of an owner a node does seldom for each.
    assert!(is_full(&store.create(task("new")).await));
    open().await.create(task("new")).await.unwrap();
    assert_eq!(store.miscounted().await.unwrap(), []);
    assert!(is_full(&store.create(task("next")).await));
}
