//! Several real processes on one file, and what becomes of it when they are killed.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test, to its last line")]

#[cfg(feature = "crash-points")]
mod crash_points;
mod cuts;
mod flips;
mod flushes;
mod kills;
#[cfg(feature = "crash-points")]
mod migrations;
mod node;

use std::{collections::BTreeSet, path::Path};

use longhaul_store::{Scope, Sqlite, TaskId, TaskStore};

/// What is in a store, seen without the store: ids, and which of them have ended. Checks it over on the way.
fn contents(path: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let conn = rusqlite::Connection::open(path).expect("the file opens");
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(sound, "ok");
    let ids = |sql: &str| {
        let mut statement = conn.prepare(sql).expect("good SQL");
        let ids = statement.query_map([], |row| row.get(0)).expect("rows");
        ids.map(|id| id.expect("an id")).collect::<BTreeSet<String>>()
    };
    let numbers = |sql: &str| -> (i64, i64) {
        conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("two numbers")
    };
    let rows = numbers("SELECT ifnull(sum(phase < 8), 0), count(*) FROM tasks");
    assert_eq!(numbers("SELECT open, retained FROM store"), rows, "the totals are those of the rows");
    assert_eq!(numbers("SELECT ifnull(sum(open), 0), ifnull(sum(retained), 0) FROM accounts"), rows);
    (ids("SELECT id FROM tasks"), ids("SELECT id FROM tasks WHERE phase >= 8"))
}

async fn is_terminal(store: &Sqlite, id: &str) -> Option<bool> {
    let id = TaskId::new(id).expect("a good id");
    store.get(Scope::Operator, &id).await.expect("it can be read").map(|record| record.is_terminal())
}
