//! Locks that others hold.

use std::fs::File;

use longhaul_store::{
    Accepts, Batch, Filter, Fingerprint, Outcome, Runnable, Scope, SqliteOptions, Step, StepState,
    StoreError, TaskStore,
};
use rustix::fs::{FlockOperation, flock};

use super::{PATIENCE, create, get, open, task};

#[tokio::test]
async fn another_programs_transaction_is_waited_for_and_then_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    create(&store, "t").await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refusal = store.create(task("u", 2)).await.unwrap_err();
    assert!(matches!(&refusal, StoreError::Busy { .. }), "{refusal:?}");
    assert!(refusal.is_retryable());
    assert!(get(&store, "t").await.is_some(), "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    create(&store, "u").await;
}

#[tokio::test]
async fn a_file_held_exclusively_is_busy_and_not_broken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let made = create(&store, "t").await;
    drop(store);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.pragma_update(None, "locking_mode", "exclusive").unwrap();
    other.execute_batch("BEGIN EXCLUSIVE; UPDATE store SET time = time; COMMIT").unwrap();
    let refusal = SqliteOptions::new().with_patience(PATIENCE).open(&path).unwrap_err();
    assert!(matches!(&refusal, StoreError::Busy { .. }), "{refusal:?}");
    drop(other);
    assert_eq!(get(&open(&path), "t").await, Some(made));
}

#[tokio::test]
async fn a_writer_that_never_ends_is_named_by_its_lock_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let made = create(&store, "t").await;
    let holder = File::open(folder.path().join("tasks.db.writer")).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    let (created, released) = tokio::join!(store.create(task("u", 2)), store.release(&made.id, made.epoch));
    for refusal in [created.map(drop).unwrap_err(), released.map(drop).unwrap_err()] {
        assert!(
            matches!(&refusal, StoreError::Busy { by, .. } if by.contains("tasks.db.writer")),
            "{refusal:?}"
        );
    }
    assert_eq!(get(&store, "t").await, Some(made));
    flock(&holder, FlockOperation::Unlock).unwrap();
    create(&store, "u").await;
    // Nothing was left holding the turn.
    create(&open(&path), "v").await;
}

#[tokio::test]
async fn who_finds_nothing_of_its_own_to_claim_takes_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    let mut new = task("t", 2);
    new.steps = vec![Step::new("undo", Fingerprint::new([1; Fingerprint::LEN]), StepState::Owed)];
    let made = store.create(new).await.unwrap().into_record();
    store.finish(&made.id, made.epoch, Outcome::lost("broke"), Batch::new()).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let of = |tool: &str| [Runnable::new(tool, Accepts::default())];
    assert!(store.claim(10, Some(&of("another"))).await.unwrap().is_empty());
    let page = store.list(Scope::Operator, &Filter::claimable(), None, 10).await.unwrap();
    assert!(page.tasks.is_empty(), "what has ended is not worked on");
    let refusal = store.claim(10, Some(&of("build"))).await.unwrap_err();
    assert!(matches!(&refusal, StoreError::Busy { .. }), "{refusal:?}");
}
