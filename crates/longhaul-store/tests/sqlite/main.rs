//! What only the store in a file promises: its files, its locks, its space, its format.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test, to its last line")]

mod files;
mod injection;
mod lists;
mod locks;
mod many;
mod mount;
#[cfg(feature = "sealed")]
mod sealed;
mod space;
mod sweeps;
mod time;
mod watching;

use std::{path::Path, time::Duration};

use longhaul_store::{Json, NewTask, Owner, Record, Scope, Sqlite, SqliteOptions, TaskId, TaskStore};

/// Short enough to wait for in a test, long enough for any disk.
const PATIENCE: Duration = Duration::from_millis(300);

fn open(path: &Path) -> Sqlite {
    SqliteOptions::new().with_patience(PATIENCE).open(path).expect("the store opens")
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).expect("a good id")
}

fn ann() -> Owner {
    Owner::principal("ann").expect("a good name")
}

fn task(name: &str, bytes: usize) -> NewTask {
    let arguments = Json::parse(format!("\"{}\"", "x".repeat(bytes))).expect("good JSON");
    NewTask::new(id(name), ann(), "build", arguments)
}

async fn create(store: &Sqlite, name: &str) -> Record {
    store.create(task(name, 2)).await.expect("the task is created").into_record()
}

async fn get(store: &Sqlite, name: &str) -> Option<Record> {
    store.get(Scope::Operator, &id(name)).await.expect("the task can be read")
}
