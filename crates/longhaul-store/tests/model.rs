//! Any sequence of operations does the same on SQLite as on the plain model, which is the store in memory.

use std::{fmt::Debug, sync::Arc, time::Duration};

use longhaul_store::{
    Accepts, Batch, CallKey, Digest, Epoch, Filter, Fingerprint, Json, Lease, Memory, NewChild, NewTask,
    NodeId, OnOrphan, Once, OrphanRule, Outcome, Owner, Park, Part, PartContent, Phase, Progress, Question,
    Record, Reply, Rerun, Retention, Runnable, Scope, Settings, Share, SqliteOptions, Start, Step, StepClock,
    StepState, StoreError, TaskId, TaskStore, Time, transfer::Transfer as _,
};
use proptest::prelude::*;

/// One operation; tasks, owners and nodes are named by small numbers so that they meet often.
#[derive(Clone, Debug)]
enum Operation {
    Create {
        task: u8,
        owner: u8,
        queued: bool,
        join: Option<u8>,
        once: Option<(u8, u8)>,
        retention: u8,
    },
    Called {
        owner: u8,
        key: u8,
    },
    Erase {
        task: u8,
        scope: u8,
    },
    Get {
        task: u8,
        scope: u8,
    },
    List {
        scope: u8,
        open: bool,
        limit: usize,
    },
    Claim {
        tool: Option<u8>,
    },
    ClaimOne {
        task: u8,
    },
    Renew {
        task: u8,
        behind: u64,
    },
    Release {
        task: u8,
        behind: u64,
    },
    Write {
        task: u8,
        behind: u64,
        value: f64,
        message: Option<u8>,
    },
    Finish {
        task: u8,
        behind: u64,
        outcome: u8,
    },
    Cancel {
        task: u8,
        scope: u8,
    },
    AskToCancel {
        task: u8,
        scope: u8,
    },
    CameBack {
        task: u8,
        scope: u8,
    },
    MakeDue {
        task: u8,
    },
    Note {
        task: u8,
        behind: u64,
        forget: Vec<u8>,
        steps: Vec<(u8, u8)>,
        park: Option<(Option<u8>, Option<u64>, Option<u8>)>,
    },
    Spawn {
        task: u8,
        behind: u64,
        child: u8,
        key: u8,
        ties: (bool, bool),
        retention: u8,
    },
    Steps {
        task: u8,
        behind: u64,
    },
    Give {
        task: u8,
        behind: u64,
        keys: Vec<u8>,
        ends: bool,
    },
    SeenSteps {
        task: u8,
        scope: u8,
        after: u64,
        limit: usize,
    },
    Parts {
        task: u8,
        scope: u8,
        after: u64,
        limit: usize,
    },
    Answer {
        task: u8,
        scope: u8,
        keys: Vec<u8>,
    },
    Sweep {
        limit: usize,
    },
    Advance {
        seconds: u64,
    },
    Rejoin,
    Counts,
}

fn operation() -> impl Strategy<Value = (usize, Operation)> {
    let task = || 0..6u8;
    let behind = || prop_oneof![4 => Just(0u64), 1 => 1..3u64];
    let operation = prop_oneof![
        4 => (task(), 0..3u8, any::<bool>(), prop::option::of(0..2u8), prop::option::of((0..2u8, 0..2u8)), 0..4u8)
            .prop_map(|(task, owner, queued, join, once, retention)| {
                Operation::Create { task, owner, queued, join, once, retention }
            }),
        1 => (0..3u8, 0..2u8).prop_map(|(owner, key)| Operation::Called { owner, key }),
        1 => (task(), 0..4u8).prop_map(|(task, scope)| Operation::Erase { task, scope }),
        2 => (task(), 0..4u8).prop_map(|(task, scope)| Operation::Get { task, scope }),
        2 => (0..4u8, any::<bool>(), 0..8usize).prop_map(|(scope, open, limit)| Operation::List { scope, open, limit }),
        2 => prop::option::of(0..2u8).prop_map(|tool| Operation::Claim { tool }),
        1 => task().prop_map(|task| Operation::ClaimOne { task }),
        1 => (task(), behind()).prop_map(|(task, behind)| Operation::Renew { task, behind }),
        1 => (task(), behind()).prop_map(|(task, behind)| Operation::Release { task, behind }),
        3 => (task(), behind(), any::<f64>(), prop::option::of(0..3u8)).prop_map(
            |(task, behind, value, message)| Operation::Write { task, behind, value, message }
        ),
        2 => (task(), behind(), 0..5u8).prop_map(|(task, behind, outcome)| Operation::Finish { task, behind, outcome }),
        1 => (task(), 0..4u8).prop_map(|(task, scope)| Operation::Cancel { task, scope }),
        2 => (task(), 0..4u8).prop_map(|(task, scope)| Operation::AskToCancel { task, scope }),
        2 => (task(), 0..4u8).prop_map(|(task, scope)| Operation::CameBack { task, scope }),
        1 => task().prop_map(|task| Operation::MakeDue { task }),
        6 => (
            task(),
            behind(),
            prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(0..5u8, 0..3)],
            prop::collection::vec((0..4u8, 0..8u8), 0..4),
            prop::option::of((
                prop::option::of(0..8u8),
                prop::option::of(0..90u64),
                prop::option::of(0..4u8)
            )),
        )
            .prop_map(|(task, behind, forget, steps, park)| {
                Operation::Note { task, behind, forget, steps, park }
            }),
        6 => (task(), behind(), task(), 0..4u8, any::<(bool, bool)>(), 0..4u8).prop_map(
            |(task, behind, child, key, ties, retention)| {
                Operation::Spawn { task, behind, child, key, ties, retention }
            }
        ),
        2 => (task(), behind()).prop_map(|(task, behind)| Operation::Steps { task, behind }),
        4 => (task(), behind(), prop::collection::vec(0..6u8, 0..4), prop::bool::weighted(0.2))
            .prop_map(|(task, behind, keys, ends)| Operation::Give { task, behind, keys, ends }),
        2 => (task(), 0..4u8, 0..5u64, 0..4usize)
            .prop_map(|(task, scope, after, limit)| Operation::Parts { task, scope, after, limit }),
        2 => (task(), 0..4u8, 0..5u64, 0..4usize)
            .prop_map(|(task, scope, after, limit)| Operation::SeenSteps { task, scope, after, limit }),
        4 => (task(), 0..4u8, prop::collection::vec(0..8u8, 0..4))
            .prop_map(|(task, scope, keys)| Operation::Answer { task, scope, keys }),
        1 => (0..5usize).prop_map(|limit| Operation::Sweep { limit }),
        2 => (0..120u64).prop_map(|seconds| Operation::Advance { seconds }),
        1 => Just(Operation::Rejoin),
        1 => Just(Operation::Counts),
    ];
    (0..2usize, operation)
}

/// A store with two nodes, and how to open another.
struct Side {
    nodes: [Arc<dyn TaskStore>; 2],
    join: Box<dyn Fn() -> Arc<dyn TaskStore>>,
    clock: StepClock,
}

impl Side {
    fn new(clock: StepClock, join: impl Fn() -> Arc<dyn TaskStore> + 'static) -> Self {
        Self { nodes: [join(), join()], join: Box::new(join), clock }
    }

    /// What the operation came to, in words in which both sides agree.
    async fn apply(&mut self, node: usize, operation: &Operation) -> String {
        match operation {
            Operation::Rejoin => {
                // The old handle goes first: that is the death of the node.
                self.nodes[node] = self.nodes[1 - node].clone();
                self.nodes[node] = (self.join)();
                "rejoined".to_owned()
            }
            Operation::Advance { seconds } => {
                self.clock.advance(Duration::from_secs(*seconds));
                "advanced".to_owned()
            }
            Operation::List { scope, open, limit } => self.list(node, *scope, *open, *limit).await,
            Operation::Write { .. }
            | Operation::Note { .. }
            | Operation::Spawn { .. }
            | Operation::Steps { .. }
            | Operation::Give { .. }
            | Operation::Finish { .. }
            | Operation::Renew { .. }
            | Operation::Release { .. } => self.work(node, operation).await,
            other => self.manage(node, other).await,
        }
    }

    async fn manage(&self, node: usize, operation: &Operation) -> String {
        let store = &self.nodes[node];
        match operation {
            Operation::Create { task, owner, queued, join, once, retention } => {
                let mut new = new_task(&**store, *task, *owner, *queued, *join, *retention);
                new.once = once.map(|(number, of)| Once::new(key(number), Digest::new([of; 32])));
                self.show(store.create(new).await)
            }
            Operation::Called { owner: by, key: number } => {
                self.show(store.called(&owner(*by), &key(*number)).await)
            }
            Operation::Erase { task, scope } => {
                let owner = owner(*scope);
                self.show(store.erase(scoped(*scope, &owner), &id(*task)).await)
            }
            Operation::Get { task, scope } => {
                let owner = owner(*scope);
                self.show(store.get(scoped(*scope, &owner), &id(*task)).await)
            }
            Operation::Claim { tool } => {
                let tools = tool.map(|tool| [Runnable::new(format!("tool{tool}"), Accepts::default())]);
                let claimed =
                    store.claim(100, tools.as_ref().map(<[_; 1]>::as_slice)).await.map(|mut claimed| {
                        claimed.sort_by(|a, b| a.id.cmp(&b.id));
                        claimed
                    });
                self.show(claimed)
            }
            Operation::ClaimOne { task } => self.show(store.claim_one(&id(*task)).await),
            Operation::Cancel { task, scope } => {
                let owner = owner(*scope);
                self.show(store.request_cancel(scoped(*scope, &owner), &id(*task), Some("stop")).await)
            }
            Operation::AskToCancel { task, scope } => {
                let owner = owner(*scope);
                self.show(store.ask_to_cancel(scoped(*scope, &owner), &id(*task), Some("stop")).await)
            }
            Operation::CameBack { task, scope } => {
                let owner = owner(*scope);
                self.show(store.came_back(scoped(*scope, &owner), &id(*task)).await)
            }
            Operation::MakeDue { task } => self.show(store.make_due(&id(*task)).await),
            Operation::Answer { task, scope, keys } => {
                let owner = owner(*scope);
                let replies: Vec<_> = keys
                    .iter()
                    .map(|key| Reply::new(format!("q{key}"), json(&"1".repeat(1 + *key as usize))))
                    .collect();
                self.show(store.answer(scoped(*scope, &owner), &id(*task), &replies).await)
            }
            Operation::SeenSteps { task, scope, after, limit } => {
                let owner = owner(*scope);
                self.show(store.seen_steps(scoped(*scope, &owner), &id(*task), *after, *limit).await)
            }
            Operation::Parts { task, scope, after, limit } => {
                let owner = owner(*scope);
                let parts = store.parts(scoped(*scope, &owner), &id(*task), *after, *limit).await;
                let texts =
                    parts.as_ref().ok().and_then(Option::as_ref).map(|parts| {
                        parts.parts.iter().map(|part| part.as_str().to_owned()).collect::<Vec<_>>()
                    });
                format!("{} {texts:?}", self.show(parts))
            }
            Operation::Sweep { limit } => self.show(store.sweep(*limit).await),
            _ => self.show(store.counts().await),
        }
    }

    async fn work(&self, node: usize, operation: &Operation) -> String {
        let store = &self.nodes[node];
        match operation {
            Operation::Renew { task, behind } => {
                let held = [(id(*task), self.held(*task, *behind).await), (id(0), self.held(0, 0).await)];
                self.show(store.renew(&held).await)
            }
            Operation::Release { task, behind } => {
                self.show(store.release(&id(*task), self.held(*task, *behind).await).await)
            }
            Operation::Write { task, behind, value, message } => {
                let mut batch = Batch::new().with_progress(Progress::new(*value, Some(10.0), None));
                if let Some(message) = message {
                    batch = batch.with_status_message(format!("message {message}"));
                }
                let written = store.write(&id(*task), self.held(*task, *behind).await, batch).await;
                self.show(written.map(|_number| ()))
            }
            Operation::Note { task, behind, forget, steps, park } => {
                let mut batch = Batch::new();
                batch.steps = steps.iter().map(|(key, state)| step(&**store, *key, *state)).collect();
                batch.forget = forget.iter().map(|key| Arc::from(format!("step {key}"))).collect();
                batch.park = park.map(|(on, seconds, child)| {
                    let on = on.map(|key| Arc::from(format!("q{key}")));
                    let until = seconds.map(|seconds| store.now().after(Duration::from_secs(seconds)));
                    let children = child.map(|key| Arc::from(format!("step {key}")));
                    Park::new(on.into_iter().collect(), until).or_children(children.into_iter().collect())
                });
                let written = store.write(&id(*task), self.held(*task, *behind).await, batch).await;
                self.show(written.map(|_number| ()))
            }
            Operation::Spawn { task, behind, child, key, ties, retention } => {
                let new = new_task(&**store, *child, 2, true, Some(0), *retention);
                let mut child = NewChild::new(format!("step {key}"), Fingerprint::new([*key; 16]), new);
                (child.outlives, child.essential) = *ties;
                let batch = Batch::new().with_child(child);
                let written = store.write(&id(*task), self.held(*task, *behind).await, batch).await;
                self.show(written.map(|_number| ()))
            }
            Operation::Steps { task, behind } => {
                self.show(store.steps(&id(*task), self.held(*task, *behind).await).await)
            }
            Operation::Give { task, behind, keys, ends } => {
                let held = self.held(*task, *behind).await;
                let mut batch = Batch::new();
                batch.parts = keys.iter().map(|key| part(*key)).collect();
                if *ends {
                    self.show(store.finish(&id(*task), held, outcome_of(0), batch).await)
                } else {
                    self.show(store.write(&id(*task), held, batch).await.map(|_number| ()))
                }
            }
            Operation::Finish { task, behind, outcome } => {
                let held = self.held(*task, *behind).await;
                self.show(store.finish(&id(*task), held, outcome_of(*outcome), Batch::new()).await)
            }
            other => panic!("{other:?} is not a worker's"),
        }
    }

    async fn list(&self, node: usize, scope: u8, open: bool, limit: usize) -> String {
        let (store, owner) = (&self.nodes[node], owner(scope));
        let filter = if open { Filter::open() } else { Filter::all() };
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            match store.list(scoped(scope, &owner), &filter, cursor.as_ref(), limit).await {
                Ok(page) => {
                    all.extend(page.tasks);
                    cursor = page.next;
                }
                Err(error) => return self.show::<()>(Err(error)),
            }
            if cursor.is_none() {
                return self.show(Ok(all));
            }
        }
    }

    /// The epoch of a task, or one that many changes ago was.
    async fn held(&self, task: u8, behind: u64) -> Epoch {
        let found = self.nodes[0].get(Scope::Operator, &id(task)).await.expect("the task can be read");
        Epoch::new(found.map_or(0, |record| record.epoch.get()).saturating_sub(behind))
    }

    fn show<T: Debug>(&self, result: Result<T, StoreError>) -> String {
        let text = format!("{result:?}");
        let mut text = self.nodes.iter().enumerate().fold(text, |text, (number, node)| {
            text.replace(&format!("{:?}", node.node()), &format!("node {number}"))
        });
        // The order of several changes of one moment is no promise, nor are the names of nodes that are gone.
        for begin in ["seq: ", "NodeId("] {
            let mut shown = String::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once(begin) {
                shown.push_str(before);
                rest = &after[after.find(['}', ')', ',']).unwrap_or(after.len())..];
            }
            text = shown + rest;
        }
        text
    }
}

fn id(task: u8) -> TaskId {
    TaskId::new(format!("t{task}")).expect("a good id")
}

fn key(number: u8) -> CallKey {
    CallKey::new(format!("k{number}")).expect("a good key")
}

fn owner(number: u8) -> Owner {
    match number {
        0 => Owner::principal("ann").expect("a good name"),
        1 => Owner::principal("bob").expect("a good name"),
        _ => Owner::Anonymous,
    }
}

fn scoped(number: u8, owner: &Owner) -> Scope<'_> {
    if number == 3 { Scope::Operator } else { Scope::Owner(owner) }
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("good JSON")
}

fn new_task(
    store: &dyn TaskStore,
    task: u8,
    by: u8,
    queued: bool,
    join: Option<u8>,
    retention: u8,
) -> NewTask {
    let mut new = NewTask::new(id(task), owner(by), format!("tool{}", task % 2), json(&format!("[{task}]")));
    if queued {
        new.start =
            Start::Queued { not_before: store.now().after(Duration::from_secs(u64::from(task) * 10)) };
    }
    new.share = (task > 1).then(|| Share::new(u64::from(task % 2)));
    new.join = join.map(|join| Digest::new([join; 32]));
    new.rerun = [Rerun::Never, Rerun::Restart, Rerun::Resumable, Rerun::Reattach][usize::from(retention)];
    new.retention = match retention {
        0 => Retention::Unlimited,
        1 => Retention::FromCreation(Duration::from_secs(60)),
        2 => Retention::AfterTerminal(Duration::from_secs(30)),
        _ => Retention::AfterTerminal(Duration::ZERO),
    };
    new.cancel_grace = (!task.is_multiple_of(3)).then(|| Duration::from_secs(u64::from(task) * 15));
    let then = if task.is_multiple_of(4) { OnOrphan::Keep } else { OnOrphan::Cancel };
    new.orphan = task.is_multiple_of(2).then(|| OrphanRule::new(Duration::from_secs(25), then));
    new
}

/// Four steps, of which each asks one of two questions.
fn step(store: &dyn TaskStore, key: u8, state: u8) -> Step {
    let until = (state == 3).then(|| store.now().after(Duration::from_secs(30)));
    let question = |key: u8| StepState::Asked(Question::new(format!("q{key}"), json("[]")).until(until));
    let now = match state {
        0 | 1 => StepState::Begun,
        2 | 3 => question(key),
        4 => question(key + 4),
        5 => StepState::Due(Time::from_unix_ms(7)),
        6 => StepState::Owed,
        _ => StepState::learnt(json("true")),
    };
    Step::new(format!("step {key}"), Fingerprint::new([key; 16]), now)
}

/// Six parts, the larger the higher their number.
fn part(key: u8) -> Part {
    let text = "1".repeat(1 + 10 * usize::from(key));
    let content =
        if key.is_multiple_of(2) { PartContent::Text(text.into()) } else { PartContent::Json(json(&text)) };
    Part::new(format!("part {key}"), content)
}

fn outcome_of(number: u8) -> Outcome {
    match number {
        0 => Outcome::result(json("{\"a\": 1}"), false),
        1 => Outcome::result(json("null"), true),
        2 => Outcome::error(-1, "broke", Some(json("[]"))),
        3 => Outcome::cancelled(None),
        _ => Outcome::lost("gone"),
    }
}

fn sides(folder: &std::path::Path) -> [Side; 2] {
    let start = Time::from_unix_ms(1_800_000_000_000);
    let mut settings = Settings::default();
    (settings.tombstone, settings.min_result_retention) = (Duration::from_secs(60), Duration::from_secs(20));
    (settings.limits.max_open_per_owner, settings.limits.max_retained) = (3, 5);
    (settings.limits.max_open_per_stranger, settings.limits.max_task_bytes_per_owner) = (1, 400);
    (settings.limits.max_questions, settings.limits.max_step_bytes) = (3, 1800);
    (settings.limits.max_parts, settings.limits.max_part, settings.limits.max_part_bytes) = (4, 57, 120);
    (settings.limits.max_depth, settings.limits.max_children) = (2, 2);
    settings.limits.max_descendants = 3;
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
    fn sqlite_does_what_the_model_does(operations in prop::collection::vec(operation(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [mut model, mut sqlite] = sides(folder.path());
        for (node, operation) in operations {
            let expected = runtime.block_on(model.apply(node, &operation));
            let found = runtime.block_on(sqlite.apply(node, &operation));
            prop_assert_eq!(expected, found, "{:?}", operation);
        }
        for task in 0..6 {
            let get = Operation::Get { task, scope: 3 };
            let expected = runtime.block_on(model.apply(0, &get));
            prop_assert_eq!(expected, runtime.block_on(sqlite.apply(1, &get)));
        }
        prop_assert_eq!(
            runtime.block_on(model.apply(0, &Operation::Counts)),
            runtime.block_on(sqlite.apply(0, &Operation::Counts))
        );
        drop(sqlite);
        let path = folder.path().join("tasks.db");
        assert_sums_agree(&path);
        let file = SqliteOptions::new().open_to_read(&path).expect("the file opens");
        prop_assert_eq!(runtime.block_on(file.miscounted()).expect("it is counted"), []);
    }
}

/// The totals a store keeps are those of the rows it has.
fn assert_sums_agree(path: &std::path::Path) {
    let conn = rusqlite::Connection::open(path).expect("the file opens");
    let sums = |sql: &str| {
        let mut statement = conn.prepare(sql).expect("good SQL");
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        statement
            .query_map([], row)
            .expect("rows")
            .map(|row| row.expect("a row"))
            .collect::<Vec<(String, i64, i64)>>()
    };
    let of_rows = sums("SELECT owner, sum(phase < 8), count(*) FROM tasks GROUP BY owner ORDER BY owner");
    assert_eq!(sums("SELECT owner, open, retained FROM accounts ORDER BY owner"), of_rows);
    let of_steps =
        sums("SELECT id, steps, step_bytes > 0 FROM tasks WHERE steps > 0 AND phase < 9 ORDER BY id");
    let kept =
        "SELECT id, count(*), 1 FROM steps JOIN tasks ON tasks.ord = steps.task GROUP BY id ORDER BY id";
    assert_eq!(sums(kept), of_steps);
    let of_steps = "SELECT id, tasks.asked, count(steps.ord) FROM tasks LEFT JOIN steps ON task = tasks.ord AND state = 1 \
        WHERE phase < 8 GROUP BY id";
    assert!(sums(of_steps).iter().all(|(_, asked, found)| asked == found), "what is asked is counted");
    let of_parts = sums("SELECT id, parts, part_bytes FROM tasks WHERE parts > 0 AND phase < 9 ORDER BY id");
    let kept = "SELECT id, count(*), sum(octet_length(parts.key) + octet_length(text)) FROM parts \
        JOIN tasks ON tasks.ord = parts.task GROUP BY id ORDER BY id";
    assert_eq!(sums(kept), of_parts);
    let (open, retained) = of_rows.iter().fold((0, 0), |sum, row| (sum.0 + row.1, sum.1 + row.2));
    assert_eq!(sums("SELECT '', open, retained FROM store"), [(String::new(), open, retained)]);
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(sound, "ok");
}

#[test]
fn a_difference_would_be_seen() {
    let at = Time::from_unix_ms(0);
    let mut record = Record::new(id(0), owner(0), "t", json("1"), json("2"), at);
    let (folder, runtime) =
        (tempfile::tempdir().unwrap(), tokio::runtime::Builder::new_current_thread().build().unwrap());
    let [model, _] = sides(folder.path());
    let before = model.show(Ok(record.clone()));
    record.phase = Phase::Running { lease: Lease::new(NodeId::new("gone").unwrap(), at) };
    let gone = model.show(Ok(record.clone()));
    record.phase = Phase::Running { lease: Lease::new(model.nodes[1].node().clone(), at) };
    let living = model.show(Ok(record.clone()));
    record.attempt = 1;
    let charged = model.show(Ok(record));
    let all = [before, gone, living, charged];
    for (number, text) in all.iter().enumerate() {
        assert!(!all[..number].contains(text), "{text}");
    }
    drop(runtime);
}
