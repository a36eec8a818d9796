//! The format of the file, and how an older one becomes the newest.

use std::path::Path;

use rusqlite::{Batch, Connection, fallible_iterator::FallibleIterator as _};

use super::fault::sqlite_error;
use crate::{StoreError, crash_point::crash_point};

/// "LHST", so that `file` and we can tell a store from any other database.
pub(super) const APPLICATION_ID: i32 = 0x4c48_5354;

/// What makes each version of the format from the one before. Entries are never changed, only added.
pub(super) const MIGRATIONS: &[&str] = &[V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11, V12, V13, V14, V15];

/// Phases below this are open; the number stands in partial indexes, so it is part of the format.
///
/// 0 queued, 1 running, 2 parked, 8 done, 9 tombstone; 3 to 7 are left for further open phases.
const V1: &str = "
CREATE TABLE store (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    seq       INTEGER NOT NULL,           -- the latest change of any task
    time      INTEGER NOT NULL,           -- the greatest time stored
    steady_ms INTEGER NOT NULL,           -- the steady clock at that time
    boot      TEXT    NOT NULL,           -- what the steady clock counts from
    open      INTEGER NOT NULL,
    retained  INTEGER NOT NULL
) STRICT;

INSERT INTO store VALUES (1, 0, 0, 0, '', 0, 0);

CREATE TABLE accounts (
    owner     TEXT    PRIMARY KEY,        -- '' is nobody in particular
    open      INTEGER NOT NULL,
    retained  INTEGER NOT NULL,
    last      INTEGER NOT NULL            -- the number of its newest task
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    ord               INTEGER PRIMARY KEY,  -- the change that created it
    id                TEXT    NOT NULL UNIQUE,
    owner             TEXT    NOT NULL,
    nth               INTEGER NOT NULL,     -- its number among its owner's
    seq               INTEGER NOT NULL,
    phase             INTEGER NOT NULL,
    not_before        INTEGER,
    lease_node        TEXT,
    lease_until       INTEGER,
    epoch             INTEGER NOT NULL,
    attempt           INTEGER NOT NULL,
    started           INTEGER NOT NULL,
    rerun             INTEGER NOT NULL,
    dialect           INTEGER NOT NULL,
    retention         INTEGER NOT NULL,
    retention_ms      INTEGER NOT NULL,
    expires_at        INTEGER,              -- of a tombstone: when it goes
    created_at        INTEGER NOT NULL,
    status_changed_at INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    terminal_at       INTEGER,
    poll_interval_ms  INTEGER,
    progress          REAL,
    progress_total    REAL,
    outcome           INTEGER,
    outcome_code      INTEGER,
    join_digest       BLOB,
    tool              TEXT    NOT NULL,
    status_message    TEXT,
    progress_message  TEXT,
    outcome_text      TEXT,
    caller            TEXT    NOT NULL,
    arguments         TEXT    NOT NULL,
    outcome_json      TEXT
) STRICT;

CREATE INDEX tasks_of_owner ON tasks (owner, nth);
CREATE INDEX open_tasks ON tasks (owner, nth) WHERE phase < 8;
CREATE INDEX queued_tasks ON tasks (not_before) WHERE phase = 0;
CREATE INDEX leased_tasks ON tasks (lease_node, lease_until) WHERE phase = 1;
CREATE INDEX expiring_tasks ON tasks (expires_at) WHERE expires_at IS NOT NULL;
CREATE UNIQUE INDEX joinable_tasks ON tasks (owner, join_digest) WHERE join_digest IS NOT NULL AND phase < 8;
";

/// What was sent in streams, and what nodes share.
const V2: &str = "
ALTER TABLE store ADD COLUMN version     INTEGER NOT NULL DEFAULT 0;  -- the latest change of any entry
ALTER TABLE store ADD COLUMN event_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store ADD COLUMN entries     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN event_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN entries     INTEGER NOT NULL DEFAULT 0;

CREATE TABLE streams (
    ord        INTEGER PRIMARY KEY,
    owner      TEXT    NOT NULL,
    session    TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    last       INTEGER NOT NULL,            -- the number of its newest event
    kept       INTEGER NOT NULL,            -- how many are kept: the newest, without a gap
    bytes      INTEGER NOT NULL,            -- what they take
    expires_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX streams_by_name ON streams (owner, session, name);
CREATE INDEX expiring_streams ON streams (expires_at);

CREATE TABLE events (
    ord        INTEGER PRIMARY KEY,
    stream     INTEGER NOT NULL,
    nth        INTEGER NOT NULL,
    room       INTEGER NOT NULL,            -- what it takes
    text       TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_of_stream ON events (stream, nth, room);

CREATE TABLE entries (
    ord        INTEGER PRIMARY KEY,
    is_own     INTEGER NOT NULL,            -- 0 the server's, 1 an owner's
    owner      TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    expires_at INTEGER,
    value      BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX entries_by_name ON entries (is_own, owner, kind, name);
CREATE INDEX expiring_entries ON entries (expires_at) WHERE expires_at IS NOT NULL;
";

/// What calls are known by to their callers.
const V3: &str = "
ALTER TABLE tasks ADD COLUMN once_key    TEXT;
ALTER TABLE tasks ADD COLUMN once_digest BLOB;

CREATE UNIQUE INDEX tasks_by_key ON tasks (owner, once_key) WHERE once_key IS NOT NULL;
";

/// What the work of tasks has learnt, and tasks that wait without a node: those have a time, as queued ones do.
const V4: &str = "
ALTER TABLE tasks ADD COLUMN asked      INTEGER NOT NULL DEFAULT 0;  -- how many questions wait for an answer
ALTER TABLE tasks ADD COLUMN steps      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN step_bytes INTEGER NOT NULL DEFAULT 0;

DROP INDEX queued_tasks;
CREATE INDEX waiting_tasks ON tasks (not_before) WHERE not_before IS NOT NULL;

CREATE TABLE steps (
    ord         INTEGER PRIMARY KEY,        -- within a task, the order in which they began
    task        INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    state       INTEGER NOT NULL,           -- 0 begun, 1 asked, 2 due, 3 learnt, 4 learnt to be an error
    name        TEXT,                       -- of a question: its public name
    asked       INTEGER,                    -- of a question: its place among the others
    asked_at    INTEGER,
    until       INTEGER,                    -- when it is due, or until when it can be answered
    json        TEXT
) STRICT;

CREATE UNIQUE INDEX steps_by_key ON steps (task, key);
CREATE INDEX open_questions ON steps (task, asked) WHERE state = 1;
";

/// The versions of tools that began the work of tasks.
const V5: &str = "
ALTER TABLE tasks ADD COLUMN tool_version TEXT NOT NULL DEFAULT '0.0.0';
";

/// What is owed by tasks (state 5 of a step), and how far those are undone that failed: they are due as queued ones are.
const V6: &str = "
ALTER TABLE tasks ADD COLUMN owed         INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN undo_attempt INTEGER;
ALTER TABLE tasks ADD COLUMN undo_failed  INTEGER NOT NULL DEFAULT 0;
";

/// What the work of tasks gives before its end.
const V7: &str = "
ALTER TABLE tasks ADD COLUMN parts      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN part_bytes INTEGER NOT NULL DEFAULT 0;

CREATE TABLE parts (
    ord  INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    nth  INTEGER NOT NULL,                  -- its number within its task, from 1 on
    key  TEXT    NOT NULL,
    kind INTEGER NOT NULL,                  -- 0 text, 1 JSON
    text TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX parts_of_task ON parts (task, nth);
CREATE UNIQUE INDEX parts_by_key ON parts (task, key);
";

/// Tasks that tasks have made (state 6 of a step of theirs): what ties them, and how many there are.
const V8: &str = "
ALTER TABLE tasks ADD COLUMN parent         TEXT;
ALTER TABLE tasks ADD COLUMN parent_step    TEXT;
ALTER TABLE tasks ADD COLUMN depth          INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN outlives       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN essential      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN children       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN children_ended INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN below          INTEGER NOT NULL DEFAULT 0;

CREATE INDEX open_children ON tasks (parent) WHERE parent IS NOT NULL AND phase < 8;
";

/// Whoever undoes a task holds a lease on it (before, `not_before` was the end of that), and until when it is kept for that.
const V9: &str = "
ALTER TABLE tasks ADD COLUMN undo_until INTEGER;

UPDATE tasks SET undo_until = ifnull(expires_at, terminal_at + 7 * 24 * 3600000)
    WHERE phase = 8 AND not_before IS NOT NULL;

DROP INDEX leased_tasks;
CREATE INDEX leased_tasks ON tasks (lease_node, lease_until) WHERE lease_node IS NOT NULL;

DROP INDEX expiring_tasks;
CREATE INDEX expiring_tasks ON tasks (max(expires_at, ifnull(undo_until, 0))) WHERE expires_at IS NOT NULL;
";

/// Tasks whose work is asked to end: for how long it may go on, and why it is asked.
const V10: &str = "
ALTER TABLE tasks ADD COLUMN cancel_grace_ms INTEGER;
ALTER TABLE tasks ADD COLUMN cancel_reason   TEXT;
";

/// Tasks for which nobody comes back: when they are orphans, what becomes of them then, and whether somebody came.
const V11: &str = "
ALTER TABLE tasks ADD COLUMN orphan_at    INTEGER;
ALTER TABLE tasks ADD COLUMN on_orphan    INTEGER NOT NULL DEFAULT 0;  -- 0 they go on, 1 they are cancelled
ALTER TABLE tasks ADD COLUMN came_back_at INTEGER;

DROP INDEX expiring_tasks;
CREATE INDEX expiring_tasks ON tasks (ifnull(orphan_at, max(expires_at, ifnull(undo_until, 0))))
    WHERE (expires_at IS NOT NULL OR orphan_at IS NOT NULL);
";

/// Who has worked on tasks, and when.
const V12: &str = "
ALTER TABLE tasks ADD COLUMN spells TEXT;
";

/// Among whose open tasks those of strangers are counted.
const V13: &str = "
ALTER TABLE tasks ADD COLUMN share INTEGER;

CREATE INDEX open_shares ON tasks (share) WHERE share IS NOT NULL AND phase < 8;
";

/// Where the work of tasks is that is bound to a host.
const V14: &str = "
ALTER TABLE tasks ADD COLUMN host TEXT;
";

/// What the tasks of each owner weigh, as [`Record::weight`](crate::Record::weight) has it.
const V15: &str = "
ALTER TABLE accounts ADD COLUMN task_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE accounts SET task_bytes = (SELECT ifnull(sum(octet_length(arguments) + octet_length(caller)
        + CASE WHEN phase < 8 THEN (step_bytes + part_bytes) / 65536 * 65536
          ELSE step_bytes + part_bytes + ifnull(octet_length(outcome_text), 0) + ifnull(octet_length(outcome_json), 0)
            + ifnull(octet_length(status_message), 0) + ifnull(octet_length(progress_message), 0)
            + ifnull(octet_length(cancel_reason), 0) END), 0)
    FROM tasks WHERE tasks.owner = accounts.owner AND phase < 9);
";

/// What a file turns out to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found {
    /// Nothing yet.
    Empty,
    /// A store in this older version of the format.
    Older(usize),
    /// A store as this release writes it.
    Current,
}

/// Looks at a file without changing it.
pub(super) fn look(conn: &Connection, place: &Path, migrations: &[&str]) -> Result<Found, StoreError> {
    let number = |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let read = || Ok((number("application_id")?, number("user_version")?, objects(conn)?));
    let (application, version, objects) =
        read().map_err(|error| sqlite_error(place, "reading the file's format", error))?;
    if application != APPLICATION_ID {
        if application == 0 && version == 0 && objects == 0 {
            return Ok(Found::Empty);
        }
        let why = format!("its application id is {application:#x}, a store's is {APPLICATION_ID:#x}");
        return Err(StoreError::Foreign { place: place.to_owned(), why });
    }
    let supported = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    let Ok(found) = u32::try_from(version) else {
        return Err(StoreError::Corrupt { what: format!("format version {version}"), source: None });
    };
    match found.cmp(&supported) {
        std::cmp::Ordering::Less => Ok(Found::Older(found as usize)),
        std::cmp::Ordering::Equal => Ok(Found::Current),
        std::cmp::Ordering::Greater => Err(StoreError::Newer { found, supported }),
    }
}

/// Brings the format from version `from` to the newest, within the caller's transaction.
pub(super) fn migrate(conn: &Connection, from: usize, migrations: &[&str]) -> rusqlite::Result<()> {
    for step in &migrations[from..] {
        let mut statements = Batch::new(conn, step);
        while let Some(mut statement) = statements.next()? {
            crash_point("store.migrate.statement");
            statement.execute([])?;
        }
    }
    crash_point("store.migrate.statement");
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    crash_point("store.migrate.statement");
    conn.pragma_update(None, "user_version", migrations.len() as u32)?;
    crash_point("store.migrate.statement");
    Ok(())
}

fn objects(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Counts, EntryKey, EventStore as _, Owner, Registry as _, Scope, SeenStep, Sqlite, Stream, TaskId,
        TaskStore as _, Value,
    };

    fn version(conn: &Connection) -> i64 {
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_older_format_becomes_the_newest_and_keeps_what_it_holds() {
        let later =
            [MIGRATIONS, &["ALTER TABLE store ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'"]].concat();
        let conn = Connection::open_in_memory().unwrap();
        let place = Path::new("tasks.db");
        assert_eq!(look(&conn, place, MIGRATIONS).unwrap(), Found::Empty);
        migrate(&conn, 0, MIGRATIONS).unwrap();
        conn.execute_batch("UPDATE store SET seq = 7").unwrap();
        assert_eq!(look(&conn, place, MIGRATIONS).unwrap(), Found::Current);

        let Found::Older(from) = look(&conn, place, &later).unwrap() else { panic!("it is older") };
        migrate(&conn, from, &later).unwrap();
        assert_eq!(
            (look(&conn, place, &later).unwrap(), version(&conn)),
            (Found::Current, later.len() as i64)
        );
        let (seq, mood): (i64, String) =
            conn.query_row("SELECT seq, mood FROM store", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!((seq, mood.as_str()), (7, "calm"));

        let refusal = look(&conn, place, MIGRATIONS).unwrap_err();
        let StoreError::Newer { found, supported } = refusal else { panic!("{refusal}") };
        assert_eq!((found as usize, supported as usize), (later.len(), MIGRATIONS.len()));
    }

    #[tokio::test]
    async fn what_was_to_be_undone_in_an_older_format_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.db");
        let conn = Connection::open(&path).unwrap();
        migrate(&conn, 0, &MIGRATIONS[..6]).unwrap();
        // One that a node was at, and one that is undone. Both are kept for longer than this runs.
        conn.execute_batch(
            "INSERT INTO tasks (ord, id, owner, nth, seq, phase, not_before, epoch, attempt, started, rerun, dialect, \
             retention, retention_ms, expires_at, created_at, status_changed_at, updated_at, terminal_at, outcome, \
             outcome_text, tool, caller, arguments, steps, step_bytes, owed, undo_attempt) VALUES \
             (1, 'due', 'ann', 1, 1, 8, 6, 3, 1, 1, 1, 0, 1, 0, 9000000000000, 5, 5, 5, 5, 3, 'x', 'build', 'null', '{}', \
              1, 600, 1, 1), \
             (2, 'done', 'ann', 2, 2, 8, NULL, 3, 1, 1, 1, 0, 1, 0, 9000000000000, 5, 5, 5, 5, 3, 'x', 'build', 'null', \
              '{}', 1, 600, 0, 1); \
             INSERT INTO steps (task, key, fingerprint, state) VALUES (1, 'undo', zeroblob(16), 5); \
             INSERT INTO accounts VALUES ('ann', 0, 2, 2, 0, 0); \
             UPDATE store SET seq = 2, time = 1000, boot = 'another', retained = 2",
        )
        .unwrap();
        drop(conn);
        let store = Sqlite::open(&path).unwrap();
        let claimed = store.claim(10, None).await.unwrap();
        let [held] = &claimed[..] else { panic!("one of them is due, not {claimed:?}") };
        assert_eq!((held.id.as_str(), held.undo.as_ref().map(|undo| undo.attempt)), ("due", Some(2)));
        let steps = store.steps(&held.id, held.epoch).await.unwrap();
        assert_eq!(
            steps.iter().map(|step| (step.began_at, step.learnt_at)).collect::<Vec<_>>(),
            [(None, None)]
        );
        let seen = store.seen_steps(Scope::Operator, &held.id, 0, 10).await.unwrap().unwrap();
        assert_eq!(seen.steps, steps.iter().map(SeenStep::of).collect::<Vec<_>>());
    }

    #[test]
    fn another_programs_database_is_left_alone() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE notes (text)").unwrap();
        let refusal = look(&conn, Path::new("notes.db"), MIGRATIONS).unwrap_err();
        assert!(matches!(refusal, StoreError::Foreign { .. }), "{refusal}");
    }

    #[tokio::test]
    async fn a_file_of_the_first_format_keeps_its_tasks_and_takes_what_came_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.db");
        let conn = Connection::open(&path).unwrap();
        migrate(&conn, 0, &MIGRATIONS[..1]).unwrap();
        conn.execute_batch(
            "INSERT INTO tasks (ord, id, owner, nth, seq, phase, not_before, epoch, attempt, started, rerun, dialect, \
             retention, retention_ms, created_at, status_changed_at, updated_at, tool, caller, arguments) \
             VALUES (1, 't', 'ann', 1, 1, 0, 0, 0, 0, 0, 3, 0, 2, 0, 5, 5, 5, 'build', 'null', '{}'); \
             INSERT INTO accounts VALUES ('ann', 1, 1, 1); \
             UPDATE store SET seq = 1, time = 5, boot = 'another', open = 1, retained = 1",
        )
        .unwrap();
        drop(conn);

        let (ann, id) = (Owner::principal("ann").unwrap(), TaskId::new("t").unwrap());
        let stream = Stream::new(&ann, "s", "t");
        for seen in 0..2 {
            let store = Sqlite::open(&path).unwrap();
            assert!(store.get(Scope::Owner(&ann), &id).await.unwrap().is_some());
            assert_eq!(store.counts().await.unwrap(), Counts::new(1, 1));
            assert_eq!(store.append(stream, "sent").await.unwrap(), seen + 1);
            let key = EntryKey::of(&ann, "kind", "name");
            assert_eq!(store.entry(key).await.unwrap().is_some(), seen > 0);
            store.put(key, Value::for_ever(b"kept")).await.unwrap();
        }
        let conn = Connection::open(&path).unwrap();
        let account = "SELECT open, retained, last, entries FROM accounts WHERE event_bytes > 0";
        let account = conn.query_row(account, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
        });
        assert_eq!(account.unwrap(), (1, 1, 1, 1));
    }
}
