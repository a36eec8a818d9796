//! Killed at every named point: before a commit nothing of the write is there, after it everything.

use std::{collections::BTreeSet, fs, path::Path};

use longhaul_store::{Phase, Scope, Sqlite, TaskId, TaskStore, crash_point::POINTS};

use super::{contents, node::Node};

/// One order of each kind, with the point it passes.
const ORDERS: &[(&str, &str)] = &[
    ("create", "create t"),
    ("renew", "renew t 1"),
    ("write", "write t 1 said"),
    ("release", "release t 1"),
    ("claim", "claim 1"),
    ("finish", "finish t 3"),
    ("create@2", "create-queued c"),
    ("cancel", "cancel c"),
    ("create@3", "create-brief e"),
    ("sweep", "sweep"),
    ("erase", "erase c"),
    ("create@4", "create q"),
    ("write@2", "ask q 1"),
    ("answer", "answer q"),
    ("create@5", "create-awaited w"),
    ("came_back", "come-back w"),
    ("create@6", "create p"),
    ("write@3", "put-aside p 1"),
    ("make_due", "make-due p"),
];

/// K20 of `conformance/REQUIREMENTS.md`.
/// K24 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn at_every_point_a_write_is_not_there_before_and_there_after() {
    let mut reached = BTreeSet::new();
    for (number, (operation, _)) in ORDERS.iter().enumerate() {
        for moment in ["before", "after"] {
            let (kind, hit) = operation.split_once('@').unwrap_or((operation, "1"));
            let point = format!("store.{kind}.{moment}");
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("tasks.db");
            let acknowledged = run(&path, &format!("{point}@{hit}"));
            assert_eq!(acknowledged, number, "killed at {point}, hit {hit}");
            assert_eq!(fs::read_to_string(folder.path().join("report")).unwrap(), format!("{point}\n"));
            let happened = if moment == "after" { number + 1 } else { number };
            assert_eq!(facts(&path).await, expected(happened), "{point}, hit {hit}");
            reached.insert(point);
        }
    }
    for point in ["store.open.before", "store.migrate.statement", "store.open.after"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let mut node = start(&path, point);
        assert_eq!(node.answer(), None, "killed while opening");
        assert_eq!(fs::read_to_string(folder.path().join("report")).unwrap(), format!("{point}\n"));
        drop(node);
        assert_eq!(facts(&path).await, expected(0));
        reached.insert(point.to_owned());
    }
    let all: BTreeSet<String> = POINTS.iter().map(|point| (*point).to_owned()).collect();
    assert_eq!(reached, all);
}

#[tokio::test]
async fn without_a_point_everything_happens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    assert_eq!(run(&path, "store.none"), ORDERS.len());
    assert_eq!(facts(&path).await, expected(ORDERS.len()));
}

#[tokio::test]
async fn k1_before_the_commit_the_same_key_creates_the_task() {
    assert_eq!(killed_while_creating("before"), "new second");
}

#[tokio::test]
async fn k2_after_the_commit_the_same_key_gives_the_same_task() {
    assert_eq!(killed_while_creating("after"), "again first");
}

/// What another process is told that makes the call again during which the first was killed.
fn killed_while_creating(moment: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let mut node = start(&path, &format!("store.create.{moment}"));
    assert!(node.answer().expect("it opens").starts_with("open "));
    node.order("create-once first");
    assert_eq!(node.answer(), None, "nobody heard of it");
    let mut next = Node::start(&path);
    assert!(next.answer().expect("it opens").starts_with("open "));
    next.ask("create-once second")
}

fn start(path: &Path, point: &str) -> Node {
    let report = path.with_file_name("report");
    let report = report.to_str().expect("a plain path");
    Node::start_with(path, &[("LONGHAUL_CRASH_POINT", point), ("LONGHAUL_CRASH_REPORT", report)])
}

/// Gives all orders until the node dies; returns how many were acknowledged.
fn run(path: &Path, point: &str) -> usize {
    let mut node = start(path, point);
    assert!(node.answer().expect("it opens").starts_with("open "));
    for (number, (_, order)) in ORDERS.iter().enumerate() {
        node.order(order);
        match node.answer() {
            Some(answer) => assert!(!answer.starts_with("error"), "{order}: {answer}"),
            None => return number,
        }
    }
    assert!(node.leave().success());
    ORDERS.len()
}

/// What can be seen of the six tasks: attempt, epoch, whether it ended, message or that somebody came back, or that it was put
/// aside.
type Facts = Vec<Option<(u32, u64, bool, Option<String>)>>;

async fn facts(path: &Path) -> Facts {
    let store = Sqlite::open(path).expect("it opens");
    let mut facts = Vec::new();
    for id in ["t", "c", "e", "q", "w", "p"] {
        let found = store.get(Scope::Operator, &TaskId::new(id).unwrap()).await.expect("it can be read");
        facts.push(found.map(|task| {
            let message = task.status_message.as_deref().map(str::to_owned);
            let message =
                message.or_else(|| task.questions.first().map(|question| question.request.to_string()));
            let message = message.or_else(|| task.came_back_at.map(|_| "came back".to_owned()));
            let is_aside = matches!(task.phase, Phase::Parked { .. });
            let message = message.or_else(|| is_aside.then(|| "put aside".to_owned()));
            (task.attempt, task.epoch.get(), task.is_terminal(), message)
        }));
    }
    drop(store);
    contents(path);
    facts
}

/// The facts after the first so many orders.
fn expected(happened: usize) -> Facts {
    let said = || Some("said".to_owned());
    let t = match happened {
        0 => None,
        1 | 2 => Some((1, 1, false, None)),
        3 => Some((1, 1, false, said())),
        4 => Some((0, 2, false, said())),
        5 => Some((1, 3, false, said())),
        _ => Some((1, 3, true, said())),
    };
    let c = match happened {
        0..7 => None,
        7 => Some((0, 0, false, None)),
        8..11 => Some((0, 1, true, None)),
        _ => None,
    };
    let e = match happened {
        0..9 => None,
        9 => Some((1, 1, false, None)),
        _ => Some((1, 2, true, None)),
    };
    let q = match happened {
        0..12 => None,
        12 => Some((1, 1, false, None)),
        13 => Some((0, 2, false, Some("\"how?\"".to_owned()))),
        _ => Some((0, 2, false, None)),
    };
    let w = match happened {
        0..15 => None,
        15 => Some((1, 1, false, None)),
        _ => Some((1, 1, false, Some("came back".to_owned()))),
    };
    let p = match happened {
        0..17 => None,
        17 => Some((1, 1, false, None)),
        18 => Some((0, 2, false, Some("put aside".to_owned()))),
        _ => Some((0, 2, false, None)),
    };
    vec![t, c, e, q, w, p]
}
