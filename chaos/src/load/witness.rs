//! Who sees every change of the file in the transaction that makes it: triggers, which note what no look from outside
//! could see in time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::Connection;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// Leases that went from one node to another, since the first was dead or late.
    pub(super) taken: usize,
    /// Those of them whose nodes were late.
    pub(super) late: usize,
    pub(super) broken: Vec<String>,
}

/// A lease that went from one node to another.
#[derive(Debug)]
struct Taken {
    task: String,
    before: String,
    after: String,
    /// When it would have run out, and when it was taken.
    until: i64,
    at: i64,
}

/// How far apart two processes may be that say what time it is.
const SKEW: i64 = 100;

/// Of what was learnt, how tasks ended, and epochs nothing is ever changed; who holds a lease is noted when it changes.
const TRIGGERS: &str = "
CREATE TABLE witness (what TEXT NOT NULL, task TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
    until INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE TRIGGER witness_taken AFTER UPDATE OF lease_node ON tasks WHEN OLD.lease_node <> NEW.lease_node BEGIN
    INSERT INTO witness VALUES ('taken', OLD.id, OLD.lease_node, NEW.lease_node, OLD.lease_until, NEW.lease_until);
END;
CREATE TRIGGER witness_ended AFTER UPDATE ON tasks WHEN OLD.phase = 8 AND (NEW.phase < 8 OR NEW.phase = 8 AND
    (OLD.outcome, OLD.outcome_text, OLD.outcome_json, OLD.terminal_at, OLD.status_changed_at) IS NOT
    (NEW.outcome, NEW.outcome_text, NEW.outcome_json, NEW.terminal_at, NEW.status_changed_at)) BEGIN
    INSERT INTO witness VALUES ('how it ended', OLD.id, OLD.outcome, NEW.phase || ' ' || ifnull(NEW.outcome, ''), 0, 0);
END;
CREATE TRIGGER witness_epoch AFTER UPDATE OF epoch ON tasks WHEN NEW.epoch < OLD.epoch BEGIN
    INSERT INTO witness VALUES ('its epoch', OLD.id, OLD.epoch, NEW.epoch, 0, 0);
END;
CREATE TRIGGER witness_learnt AFTER UPDATE ON steps WHEN OLD.state IN (3, 4) AND
    (OLD.state, OLD.json) IS NOT (NEW.state, NEW.json) BEGIN
    INSERT INTO witness SELECT 'what it has learnt', id, OLD.key || ' ' || OLD.json, ifnull(NEW.json, ''), 0, 0
        FROM tasks WHERE ord = OLD.task;
END;
";

/// Lets the file of a store be witnessed from now on.
pub(super) fn install(path: &Path) -> Result<()> {
    open(path)?.execute_batch(TRIGGERS).context("the store cannot be witnessed")
}

/// Whether a node holds a lease.
pub(super) fn holds(path: &Path, node: &str) -> Result<bool> {
    Ok(open(path)?.prepare("SELECT 1 FROM tasks WHERE lease_node = ?1")?.exists([node])?)
}

/// Whether a lease was taken from a node.
pub(super) fn has_lost(path: &Path, node: &str) -> Result<bool> {
    Ok(open(path)?.prepare("SELECT 1 FROM witness WHERE what = 'taken' AND before = ?1")?.exists([node])?)
}

/// What was seen. Nodes end when `ends` says so, and leases are given for so long.
pub(super) fn read(path: &Path, ends: &BTreeMap<String, i64>, lease: Duration) -> Result<Witness> {
    let conn = open(path)?;
    let mut witness = Witness::default();
    let mut rows = conn.prepare("SELECT what, task, before, after, until, at FROM witness ORDER BY rowid")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let what: String = row.get(0)?;
        let (task, before, after) = (row.get(1)?, row.get(2)?, row.get(3)?);
        if what != "taken" {
            witness.broken.push(format!("{task}: {what} was {before}, and is {after}"));
            continue;
        }
        // A lease begins as it is given.
        let at = row.get::<_, i64>(5)? - i64::try_from(lease.as_millis())?;
        witness.see(&Taken { task, before, after, until: row.get(4)?, at }, ends);
    }
    Ok(witness)
}

impl Witness {
    fn see(&mut self, taken: &Taken, ends: &BTreeMap<String, i64>) {
        let Taken { task, before, after, until, at } = taken;
        self.taken += 1;
        if ends.get(before).is_some_and(|end| *at + SKEW >= *end) {
            return;
        }
        self.late += 1;
        if at < until {
            let left = until - at;
            self.broken
                .push(format!("{task}: {after} took it from {before}, which lived, {left} ms too early"));
        }
    }
}

fn open(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(20))?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use longhaul_store::{Json, NewTask, NodeId, Owner, Sqlite, Start, TaskId, TaskStore as _};

    use super::*;

    #[test]
    fn only_the_living_keep_their_leases() {
        let seen = |at, end: Option<i64>| {
            let taken = Taken { task: "t".into(), before: "a".into(), after: "b".into(), until: 5000, at };
            let mut witness = Witness::default();
            witness.see(&taken, &end.into_iter().map(|end| ("a".to_owned(), end)).collect());
            (witness.late, witness.broken.len())
        };
        assert_eq!((seen(3000, Some(2000)), seen(6000, None)), ((0, 0), (1, 0)));
        assert_eq!((seen(3000, None), seen(3000, Some(4000))), ((1, 1), (1, 1)));
    }

    #[tokio::test]
    async fn what_must_not_change_is_seen_as_it_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let store = Sqlite::open(&path).unwrap();
        install(&path).unwrap();
        let id = TaskId::new("t").unwrap();
        let mut task = NewTask::new(id.clone(), Owner::Anonymous, "flow", Json::parse("{}").unwrap());
        task.start = Start::Claimed;
        store.create(task).await.unwrap();
        assert!(holds(&path, store.node().as_str()).unwrap());
        store.request_cancel(longhaul_store::Scope::Operator, &id, None).await.unwrap();
        let none = BTreeMap::new();
        let seen = || read(&path, &none, Duration::from_secs(30)).unwrap();
        assert_eq!((seen().taken, seen().broken), (0, Vec::new()), "what may happen");
        let (now, other) = (store.now().unix_ms(), NodeId::new("other").unwrap());
        let conn = open(&path).unwrap();
        let change = |sql: &str| assert_eq!(conn.execute(sql, []).unwrap(), 1, "{sql}");
        change(
            "INSERT INTO steps (task, key, fingerprint, state, json) SELECT ord, 'k', zeroblob(32), 3, '1' FROM tasks",
        );
        change("UPDATE steps SET json = '2'");
        change("UPDATE tasks SET epoch = epoch - 1");
        change(&format!("UPDATE tasks SET lease_node = 'me', lease_until = {}", now + 20_000));
        change(&format!("UPDATE tasks SET lease_node = '{other}', lease_until = {}", now + 31_000));
        assert!(has_lost(&path, "me").unwrap());
        change("UPDATE tasks SET phase = 1");
        let said = seen().broken.join("\n");
        for what in
            ["what it has learnt was k 1, and is 2", "its epoch", "other took it from me", "how it ended"]
        {
            assert!(said.contains(what), "{what}: {said}");
        }
    }
}
