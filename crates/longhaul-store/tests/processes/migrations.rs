//! A process that brings an older file to the newest format is killed at every statement of that: the next one does it, and all
//! that was in the file is there.

use std::{fs, path::Path};

use longhaul_store::{
    Batch, Json, Outcome, Owner, Scope, Sqlite, TaskId, TaskStore, transfer::Transfer as _,
};

use super::{contents, node::Node};

/// The least statements that lead from the first format to the newest.
const LEAST: usize = 40;

/// K24 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn k24_a_migration_that_is_killed_at_any_statement_is_made_by_the_next_process() {
    let mut killed = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let (path, report) = (folder.path().join("tasks.db"), folder.path().join("report"));
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch(include_str!("format_1.sql")).unwrap();
        drop(old);
        assert!(Sqlite::format(&path).unwrap().is_old());

        let point = format!("store.migrate.statement@{}", killed + 1);
        let report_path = report.to_str().expect("a plain path");
        let environment = [("LONGHAUL_CRASH_POINT", &*point), ("LONGHAUL_CRASH_REPORT", report_path)];
        let mut node = Node::start_with(&path, &environment);
        if node.answer().is_some() {
            assert!(node.leave().success() && !report.exists(), "there was no such statement");
            holds_everything(&path).await;
            break;
        }
        drop(node);
        assert_eq!(fs::read_to_string(&report).unwrap(), "store.migrate.statement\n");
        assert!(Sqlite::format(&path).unwrap().is_old(), "none of it is there at {point}");
        holds_everything(&path).await;
        killed += 1;
    }
    assert!(killed >= LEAST, "killed at {killed} statements");
}

/// Whether all that the older file held is there, and can be worked on.
async fn holds_everything(path: &Path) {
    let store = Sqlite::open(path).unwrap();
    assert!(!Sqlite::format(path).unwrap().is_old());
    let (ann, id) = (Owner::principal("ann").unwrap(), |name| TaskId::new(name).unwrap());
    let done = store.get(Scope::Owner(&Owner::Anonymous), &id("done")).await.unwrap().expect("it is kept");
    let came_to = Outcome::result(Json::parse(r#"{"content":[]}"#).unwrap(), false);
    assert_eq!(done.outcome(), Some(&came_to));
    let held = store.get(Scope::Owner(&ann), &id("held")).await.unwrap().expect("it is kept");
    let progress = held.progress.as_ref().map(|progress| progress.value);
    assert_eq!((progress, held.status_message.as_deref()), (Some(0.5), Some("half way")));
    assert_eq!((held.arguments.as_str(), held.epoch.get()), (r#"{"n":2}"#, 1));

    // Nobody lives any more who worked on them.
    let claimed = store.claim(10, None).await.unwrap();
    let mut names: Vec<&str> = claimed.iter().map(|record| record.id.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["held", "queued"]);
    for record in claimed {
        store.finish(&record.id, record.epoch, came_to.clone(), Batch::new()).await.unwrap();
    }
    assert_eq!(store.miscounted().await.unwrap(), []);
    drop(store);
    let all = ["done", "held", "queued"].map(str::to_owned);
    assert_eq!(contents(path), (all.clone().into(), all.into()));
}
