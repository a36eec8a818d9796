//! What the public suite shows of a few, of very many; with `LONGHAUL_MANY`, of as many as there may be: that takes
//! minutes, and `cargo xtask chaos many` does it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use longhaul_store::{
    Batch, Cancellation, Epoch, EventStore, Filter, Fingerprint, Finished, Json, Limits, Memory, NewTask,
    Outcome, Part, PartContent, Question, Quota, Record, Retention, Scope, Settings, Sqlite, SqliteOptions,
    Start, Step, StepClock, StepState, StoreError, Stream, SystemClock, TaskStore, Time,
};

use super::{ann, id, task};

const START: Time = Time::from_unix_ms(1_800_000_000_000);

/// How many are tried: `all` of them where that is asked for.
fn many(some: usize, all: usize) -> usize {
    if std::env::var_os("LONGHAUL_MANY").is_some() { all } else { some }
}

/// Room for very many.
fn roomy() -> Settings {
    let mut limits = Limits::default();
    (limits.max_open, limits.max_open_per_owner) = (1_000_000, 1_000_000);
    (limits.max_retained, limits.max_retained_per_owner) = (2_000_000, 2_000_000);
    let mut settings = Settings::default();
    settings.limits = limits;
    settings
}

fn open_at(path: &Path, clock: &StepClock) -> Sqlite {
    SqliteOptions::new().with_settings(roomy()).with_clock(Arc::new(clock.clone())).open(path).unwrap()
}

/// Copies of this task, which is the only one in the file, so that there are `many` in all.
fn multiply(path: &Path, of: &str, many: usize) {
    let conn = rusqlite::Connection::open(path).unwrap();
    let columns: Vec<String> = conn
        .prepare("SELECT name FROM pragma_table_info('tasks') WHERE name NOT IN ('ord', 'id', 'nth', 'seq')")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let columns = columns.join(", ");
    conn.execute_batch(&format!(
        "BEGIN; \
         WITH RECURSIVE n(x) AS (VALUES (2) UNION ALL SELECT x + 1 FROM n WHERE x < {many}) \
         INSERT INTO tasks (ord, id, nth, seq, {columns}) SELECT last + x, '{of}-' || x, nth + x, last + x, {columns} \
         FROM n, tasks, (SELECT seq AS last FROM store) WHERE id = '{of}'; \
         UPDATE store SET (seq, open, retained) = (SELECT max(ord), sum(phase < 8), count(*) FROM tasks); \
         UPDATE accounts SET (open, retained, last) = (SELECT sum(phase < 8), count(*), max(nth) FROM tasks); \
         COMMIT"
    ))
    .unwrap();
}

fn done(by: usize) -> Outcome {
    Outcome::result(Json::parse(by.to_string()).unwrap(), false)
}

/// D6 of `conformance/REQUIREMENTS.md`: 40,000 tasks in memory, or 100,000, and 500 in a file, each finished by two nodes and
/// cancelled by two.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d6_each_of_very_many_tasks_that_are_finished_and_cancelled_at_once_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let memory = Memory::with(roomy(), Arc::new(SystemClock::new()));
    let in_memory = (0..4).map(|_| Arc::new(memory.another_node()) as Arc<dyn TaskStore>).collect();
    let open =
        |_| Arc::new(SqliteOptions::new().with_settings(roomy()).open(&path).unwrap()) as Arc<dyn TaskStore>;
    end_at_once(in_memory, many(40_000, 100_000)).await;
    end_at_once((0..4).map(open).collect(), 500).await;
}

async fn end_at_once(nodes: Vec<Arc<dyn TaskStore>>, many: usize) {
    for number in 0..many {
        let made = nodes[0].create(task(&format!("t-{number}"), 2)).await.unwrap().into_record();
        assert_eq!(made.epoch, Epoch::FIRST);
    }
    let ends = nodes.iter().cloned().enumerate().map(|(by, node)| {
        tokio::spawn(async move {
            let mut seen = Vec::with_capacity(many);
            for nth in 0..many {
                // Two from either end, for of four that go one way one may be before the others all of it.
                let number = if by % 2 == 0 { nth } else { many - 1 - nth };
                seen.push(end(&*node, by, &format!("t-{number}")).await);
                // Where nothing is waited for, the others get their turn.
                tokio::task::yield_now().await;
            }
            if by % 2 == 1 {
                seen.reverse();
            }
            seen
        })
    });
    let mut seen = Vec::new();
    for end in ends.collect::<Vec<_>>() {
        seen.push(end.await.unwrap());
    }
    let mut won = BTreeSet::new();
    for number in 0..many {
        let of_task: Vec<&(bool, Record)> = seen.iter().map(|of_node| &of_node[number]).collect();
        let first: Vec<usize> = (0..4).filter(|by| of_task[*by].0).collect();
        assert_eq!(first.len(), 1, "{of_task:?}");
        assert!(of_task.iter().all(|(_, record)| *record == of_task[0].1), "{of_task:?}");
        won.insert(first[0]);
    }
    assert!(won.len() > 1, "no two of them met");
}

/// Ends a task in one way or the other; whether it was the first to, and how the task stands then.
async fn end(node: &dyn TaskStore, by: usize, name: &str) -> (bool, Record) {
    if by.is_multiple_of(2) {
        match node.finish(&id(name), Epoch::FIRST, done(by), Batch::new()).await.unwrap() {
            Finished::Recorded(record) => (true, record),
            Finished::AlreadyTerminal(record) => (false, record),
        }
    } else {
        match node.request_cancel(Scope::Owner(&ann()), &id(name), Some("enough")).await.unwrap() {
            Cancellation::Cancelled(record) => (true, record),
            Cancellation::AlreadyTerminal(record) => (false, record),
            Cancellation::NotFound => panic!("{name} is there"),
        }
    }
}

/// T7 of `conformance/REQUIREMENTS.md`: 50,000 tasks, or 100,000, while nobody was there, and then four nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t7_very_many_that_came_due_while_nobody_was_there_are_each_claimed_once() {
    let count = many(50_000, 100_000);
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("tasks.db"), StepClock::at(START));
    let store = open_at(&path, &clock);
    let mut due = task("due", 2);
    due.start = Start::Queued { not_before: START.after(Duration::from_secs(60)) };
    store.create(due).await.unwrap();
    drop(store);
    multiply(&path, "due", count);
    let nodes: Vec<_> = (0..4).map(|_| open_at(&path, &clock)).collect();
    assert_eq!(nodes[0].claim(1000, None).await.unwrap(), [], "none is due yet");
    clock.advance(Duration::from_secs(3600));
    let claiming = nodes.into_iter().map(|node| {
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let some = node.claim(500, None).await.unwrap();
                if some.is_empty() {
                    return (node, claimed);
                }
                claimed.extend(some.into_iter().map(|record| record.id));
            }
        })
    });
    let (mut all, mut claims, mut still) = (BTreeSet::new(), 0, Vec::new());
    for claiming in claiming.collect::<Vec<_>>() {
        let (node, claimed) = claiming.await.unwrap();
        claims += claimed.len();
        all.extend(claimed);
        // As long as it lives its leases hold.
        still.push(node);
    }
    assert_eq!((claims, all.len()), (count, count), "none is left behind and none claimed twice");
}

/// S3 of `conformance/REQUIREMENTS.md`: 110,000 tasks that stay and 50,000 that go, or 700,000 and 300,000, a thousand a page.
#[tokio::test]
async fn s3_a_list_of_very_many_meets_each_lasting_task_once_while_others_come_and_go() {
    let (lasting, brief) = (many(110_000, 700_000), many(50_000, 300_000));
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("tasks.db"), StepClock::at(START));
    let store = open_at(&path, &clock);
    let mut going = NewTask::new(id("brief"), ann(), "build", Json::parse("{}").unwrap());
    going.retention = Retention::AfterTerminal(Duration::ZERO);
    let going = store.create(going).await.unwrap().into_record();
    store.finish(&going.id, going.epoch, done(0), Batch::new()).await.unwrap();
    multiply(&path, "brief", brief);
    store.create(task("lasting", 2)).await.unwrap();
    multiply(&path, "lasting", lasting);
    drop(store);
    let store = open_at(&path, &clock);
    let (mut met, mut cursor, mut pages, mut gone) = (BTreeMap::<String, usize>::new(), None, 0, 0);
    loop {
        let page = store.list(Scope::Owner(&ann()), &Filter::all(), cursor.as_ref(), 1000).await.unwrap();
        for record in page.tasks {
            *met.entry(record.id.to_string()).or_default() += 1;
        }
        clock.advance(Duration::from_secs(300));
        gone += store.sweep(100).await.unwrap().total();
        store.create(task(&format!("new-{pages}"), 2)).await.unwrap();
        (pages, cursor) = (pages + 1, page.next);
        if cursor.is_none() {
            break;
        }
    }
    assert!(gone > 0 && pages > lasting / 1000, "{gone} went in {pages} pages");
    assert_eq!(met.keys().filter(|name| name.starts_with("lasting")).count(), lasting);
    assert!(met.values().all(|times| *times == 1), "met twice");
}

/// S4 of `conformance/REQUIREMENTS.md`, as the matrix of failures has it: 100 MB, 10^5 questions and 10^6 events, by the bounds that
/// there are when nobody says otherwise.
#[tokio::test]
async fn s4_a_result_questions_and_events_without_end_are_refused_or_make_room() {
    let store = Memory::new();
    let made = store.create(task("t", 2)).await.unwrap().into_record();
    let limits = Limits::default();

    let whole = Json::parse(format!("\"{}\"", "x".repeat(100_000_000))).unwrap();
    let refused = store.finish(&made.id, made.epoch, Outcome::result(whole, false), Batch::new()).await;
    let Err(StoreError::TooLarge { found, limit, .. }) = refused else {
        panic!("a result of 100 MB is taken")
    };
    assert!(found > 100_000_000 && limit == limits.max_outcome, "{found} of {limit}");

    let asks = |number: usize| {
        let key = format!("q{number}");
        let question = Question::new(key.clone(), Json::parse("{}").unwrap());
        Step::new(key, Fingerprint::new([1; Fingerprint::LEN]), StepState::Asked(question))
    };
    let is_full = |refused: &Result<u64, StoreError>| {
        let limit = limits.max_questions as u64;
        matches!(refused, Err(StoreError::Overloaded { what: Quota::Questions, limit: found }) if *found == limit)
    };
    let mut all = Batch::new();
    all.steps = (0..100_000).map(asks).collect();
    let refused = store.write(&made.id, made.epoch, all).await;
    assert!(is_full(&refused), "all at once: {refused:?}");
    for number in 0..many(10_000, 100_000) {
        let written = store.write(&made.id, made.epoch, Batch::new().with_step(asks(number))).await;
        assert!(
            if number < limits.max_questions { written.is_ok() } else { is_full(&written) },
            "{number}: {written:?}"
        );
    }
    let kept = store.get(Scope::Operator, &made.id).await.unwrap().unwrap();
    assert_eq!((kept.questions.len(), kept.is_terminal()), (limits.max_questions, false));

    let (owner, events) = (ann(), many(20_000, 1_000_000) as u64);
    let stream = Stream::new(&owner, "session", "stream");
    for _ in 0..events {
        store.append(stream, "an event").await.unwrap();
    }
    let last = store.replay(stream, events - limits.max_stream_events, usize::MAX).await.unwrap();
    assert!(last.is_some_and(|events| !events.is_empty()), "the newest are there");
    let first = store.replay(stream, 0, usize::MAX).await.unwrap();
    assert!(first.is_none(), "and nobody resumes behind what has made room");

    let part = |number: usize| Part::new(format!("p{number}"), PartContent::Text("a part".into()));
    for number in 0..2 * limits.max_parts as usize {
        let written = store.write(&made.id, made.epoch, Batch::new().with_part(part(number))).await;
        let is_full = matches!(written, Err(StoreError::Overloaded { what: Quota::Parts, .. }));
        assert_eq!(is_full, number >= limits.max_parts as usize, "{number}: {written:?}");
    }
    store
        .finish(&made.id, made.epoch, Outcome::lost("enough"), Batch::new())
        .await
        .expect("it ends all the same");
}
