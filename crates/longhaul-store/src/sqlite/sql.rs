//! Every statement, where its plan can be checked.

use rusqlite::{Connection, config::DbConfig};

use crate::row::{
    columns,
    step::{seen_columns, step_columns},
};

/// Has SQLite keep to the plan that it has made of a statement. It would make it anew whenever another value is bound to a
/// limit, say, which takes longer than most of these statements do; and each of them has but one plan that is any good.
pub(super) fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

pub(super) const BY_ID: &str = concat!("SELECT ", columns!(), " FROM tasks WHERE id = ?1");

pub(super) const INSERT: &str = "INSERT INTO tasks (ord, id, owner, nth, seq, phase, not_before, lease_node, \
    lease_until, epoch, attempt, started, rerun, dialect, retention, retention_ms, expires_at, created_at, \
    status_changed_at, updated_at, poll_interval_ms, join_digest, tool, status_message, caller, arguments, \
    once_key, once_digest, asked, steps, step_bytes, tool_version, owed, parent, parent_step, depth, outlives, essential, \
    cancel_grace_ms, orphan_at, on_orphan, share, host) \
    VALUES (?1, ?2, ?3, ?4, ?1, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17, ?17, ?18, ?19, \
    ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40) \
    ON CONFLICT (id) DO NOTHING";

pub(super) const UPDATE: &str = "UPDATE tasks SET seq = ?2, phase = ?3, not_before = ?4, lease_node = ?5, \
    lease_until = ?6, epoch = ?7, attempt = ?8, started = ?9, expires_at = ?10, status_changed_at = ?11, \
    updated_at = ?12, terminal_at = ?13, progress = ?14, progress_total = ?15, progress_message = ?16, \
    outcome = ?17, outcome_code = ?18, outcome_text = ?19, outcome_json = ?20, status_message = ?21, asked = ?22, \
    steps = ?23, step_bytes = ?24, owed = ?25, undo_attempt = ?26, undo_until = ?27, \
    parts = ?28, part_bytes = ?29, children = ?30, children_ended = ?31, below = ?32, cancel_reason = ?33, \
    orphan_at = ?34, spells = ?35, share = ?36, host = ?37 WHERE ord = ?1";

/// What changes of a task while it is undone, and when it is erased meanwhile.
pub(super) const UPDATE_ENDED: &str = "UPDATE tasks SET not_before = ?2, lease_node = ?3, lease_until = ?4, epoch = ?5, \
    expires_at = ?6, steps = ?7, step_bytes = ?8, owed = ?9, undo_attempt = ?10, undo_failed = ?11, undo_until = ?12 \
    WHERE ord = ?1";

pub(super) const UPDATE_REPORT: &str = "UPDATE tasks SET seq = ?2, updated_at = ?3, progress = ?4, \
    progress_total = ?5, progress_message = ?6, status_message = ?7, status_changed_at = ?8, asked = ?9, \
    steps = ?10, step_bytes = ?11, owed = ?12, parts = ?13, part_bytes = ?14, attempt = ?15 WHERE ord = ?1";

/// Whether somebody came back for a task.
pub(super) const UPDATE_ORPHAN: &str = "UPDATE tasks SET orphan_at = ?2, came_back_at = ?3 WHERE ord = ?1";

/// How many tasks were made below one.
pub(super) const COUNT_BELOW: &str = "UPDATE tasks SET below = ?2 WHERE ord = ?1";

/// The open tasks that one has made.
pub(super) const CHILDREN: &str =
    "SELECT id FROM tasks INDEXED BY open_children WHERE parent = ?1 AND phase < 8 ORDER BY ord";

pub(super) const RENEW: &str = "UPDATE tasks SET lease_until = ?2 WHERE ord = ?1";

pub(super) const ERASE: &str = "UPDATE tasks SET phase = 9, not_before = NULL, lease_node = NULL, lease_until = NULL, \
    expires_at = ?2, undo_until = NULL, arguments = 'null', caller = 'null', outcome = NULL, outcome_code = NULL, \
    outcome_text = NULL, outcome_json = NULL, status_message = NULL, progress_message = NULL, cancel_reason = NULL, join_digest = NULL, spells = NULL, share = NULL \
    WHERE ord = ?1";

pub(super) const ACCOUNT: &str =
    "SELECT open, retained, last, event_bytes, entries, task_bytes FROM accounts WHERE owner = ?1";

pub(super) const PUT_ACCOUNT: &str = "INSERT INTO accounts (owner, open, retained, last, event_bytes, entries, task_bytes) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (owner) \
    DO UPDATE SET open = ?2, retained = ?3, last = ?4, event_bytes = ?5, entries = ?6, task_bytes = ?7";

pub(super) const PUT_TOTALS: &str = "UPDATE store SET seq = ?1, open = ?2, retained = ?3, version = ?4, event_bytes = ?5, entries = ?6, \
     time = ?7, steady_ms = ?8, boot = ?9 WHERE one = 1";

pub(super) const GET: &str =
    concat!("SELECT ", columns!(), " FROM tasks WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)");

pub(super) const LIST_OWN: &str =
    concat!("SELECT ", columns!(), " FROM tasks WHERE owner = ?3 AND nth < ?1 ORDER BY nth DESC LIMIT ?2");

pub(super) const LIST_OWN_OPEN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM tasks INDEXED BY open_tasks WHERE owner = ?3 AND nth < ?1 AND phase < 8 ORDER BY nth DESC LIMIT ?2"
);

pub(super) const LIST_ALL: &str =
    concat!("SELECT ", columns!(), " FROM tasks WHERE ord < ?1 AND ?3 IS NULL ORDER BY ord DESC LIMIT ?2");

pub(super) const LIST_ALL_OPEN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM tasks WHERE ?3 IS NULL AND ord IN (SELECT ord FROM tasks INDEXED BY open_tasks \
      WHERE phase < 8 AND ord < ?1 ORDER BY ord DESC LIMIT ?2) ORDER BY ord DESC"
);

/// One of a list of which it is known which they are.
pub(super) const LIST_ONE: &str = concat!("SELECT ", columns!(), " FROM tasks WHERE ord = ?1");

pub(super) const IS_TAKEN: &str = "SELECT 1 FROM tasks WHERE id = ?1";

/// How many open tasks are counted together.
pub(super) const OF_SHARE: &str =
    "SELECT count(*) FROM tasks INDEXED BY open_shares WHERE share = ?1 AND phase < 8";

pub(super) const SEQ: &str = "SELECT seq FROM tasks WHERE id = ?1";

pub(super) const JOINABLE: &str = "SELECT id FROM tasks WHERE owner = ?1 AND join_digest = ?2 AND phase < 8";

pub(super) const CALLED: &str =
    concat!("SELECT ", columns!(), " FROM tasks WHERE owner = ?1 AND once_key = ?2");

pub(super) const AGAIN: &str = "SELECT id, once_digest FROM tasks WHERE owner = ?1 AND once_key = ?2";

pub(super) const REMOVE: &str = "DELETE FROM tasks WHERE ord = ?1";

/// The next node after ?1 that holds a lease, be it to work on a task or to undo it.
pub(super) const LEASE_HOLDER: &str =
    "SELECT lease_node FROM tasks WHERE lease_node > ?1 ORDER BY lease_node LIMIT 1";

/// What is worth claiming: an open task whose time is not up, or one that is to be undone.
macro_rules! worth_claiming {
    () => {
        "coalesce(undo_until, expires_at, ?1 + 1) > ?1"
    };
}

/// Queued or parked, or ended and to be undone: nothing else has a time to wait for. Of phases below ?2 alone.
pub(super) const WAITING: &str = concat!(
    "SELECT id, tool, tool_version, host, ord FROM tasks WHERE not_before <= ?1 AND phase < ?2 AND ",
    worth_claiming!(),
    " ORDER BY not_before"
);

/// Held by the node ?3, whose leases until ?4 have run out.
pub(super) const OVERDUE: &str = concat!(
    "SELECT id, tool, tool_version, host, ord FROM tasks WHERE lease_node = ?3 AND lease_until <= ?4 AND phase < ?2 AND ",
    worth_claiming!(),
    " ORDER BY lease_until"
);

/// When a sweep looks at a task: as [`Record::swept_at`](crate::Record::swept_at). So says the index.
macro_rules! swept_at {
    () => {
        "ifnull(orphan_at, max(expires_at, ifnull(undo_until, 0)))"
    };
}

/// Whether a sweep ever looks at a task. So says the index.
macro_rules! is_swept {
    () => {
        "(expires_at IS NOT NULL OR orphan_at IS NOT NULL)"
    };
}

pub(super) const DUE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM tasks WHERE ",
    swept_at!(),
    " <= ?1 AND ",
    is_swept!(),
    " ORDER BY ",
    swept_at!(),
    " LIMIT ?2"
);

pub(super) const HAS_DUE: &str =
    concat!("SELECT 1 FROM tasks WHERE ", swept_at!(), " <= ?1 AND ", is_swept!(), " LIMIT 1");

pub(super) const STEPS: &str = concat!("SELECT ", step_columns!(), " FROM steps WHERE task = ?1");

pub(super) const SEEN_STEPS: &str = concat!("SELECT ", seen_columns!(), " FROM steps WHERE task = ?1");

pub(super) const STEP: &str = concat!("SELECT ", step_columns!(), " FROM steps WHERE task = ?1 AND key = ?2");

pub(super) const QUESTIONS: &str =
    concat!("SELECT ", step_columns!(), " FROM steps WHERE task = ?1 AND state = 1 ORDER BY asked");

pub(super) const LAST_ASKED: &str = "SELECT ifnull(max(asked), 0) FROM steps WHERE task = ?1 AND state = 1";

pub(super) const PUT_STEP: &str = "INSERT INTO steps (task, key, fingerprint, state, name, asked, asked_at, until, \
    json) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (task, key) DO UPDATE SET state = ?4, name = ?5, \
    asked = ?6, asked_at = ?7, until = ?8, json = ?9";

pub(super) const FORGET_STEP: &str = "DELETE FROM steps WHERE task = ?1 AND key = ?2";

pub(super) const REMOVE_STEPS: &str = "DELETE FROM steps WHERE task = ?1";

pub(super) const PARTS: &str =
    "SELECT kind, text FROM parts WHERE task = ?1 AND nth > ?2 ORDER BY nth LIMIT ?3";

/// Of tasks from the first one on, what is left of forgotten ones, too.
pub(super) const WHOLE_TASKS: &str =
    concat!("SELECT ", columns!(), " FROM tasks WHERE ord > ?1 ORDER BY ord LIMIT ?2");

/// Whose account is not what their tasks weigh, as [`Record::weight`](crate::Record::weight) has it.
pub(super) const MISCOUNTED: &str = "SELECT accounts.owner, task_bytes, ifnull(has, 0) FROM accounts LEFT JOIN \
    (SELECT owner, sum(octet_length(arguments) + octet_length(caller) \
        + CASE WHEN phase < 8 THEN (step_bytes + part_bytes) / 65536 * 65536 \
          ELSE step_bytes + part_bytes + ifnull(octet_length(outcome_text), 0) + ifnull(octet_length(outcome_json), 0) \
            + ifnull(octet_length(status_message), 0) + ifnull(octet_length(progress_message), 0) \
            + ifnull(octet_length(cancel_reason), 0) END) AS has \
    FROM tasks WHERE phase < 9 GROUP BY owner) AS weighed ON weighed.owner = accounts.owner \
    WHERE task_bytes <> ifnull(has, 0)";

pub(super) const WHOLE_PARTS: &str = "SELECT kind, text, key FROM parts WHERE task = ?1 ORDER BY nth";

pub(super) const WHOLE_ENTRIES: &str = "SELECT ord, is_own, owner, kind, name, expires_at, value \
    FROM entries WHERE ord > ?1 ORDER BY ord LIMIT ?2";

pub(super) const WHOLE_STREAMS: &str = "SELECT ord, owner, session, name, last, kept, expires_at \
    FROM streams WHERE ord > ?1 ORDER BY ord LIMIT ?2";

pub(super) const HAS_PART: &str = "SELECT 1 FROM parts WHERE task = ?1 AND key = ?2";

pub(super) const ADD_PART: &str =
    "INSERT INTO parts (task, nth, key, kind, text) VALUES (?1, ?2, ?3, ?4, ?5)";

pub(super) const REMOVE_PARTS: &str = "DELETE FROM parts WHERE task = ?1";

pub(super) const STREAM: &str = "SELECT ord, last, kept, bytes, expires_at FROM streams \
    WHERE owner = ?1 AND session = ?2 AND name = ?3";

pub(super) const ADD_STREAM: &str = "INSERT INTO streams (owner, session, name, last, kept, bytes, expires_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

pub(super) const UPDATE_STREAM: &str =
    "UPDATE streams SET last = ?2, kept = ?3, bytes = ?4, expires_at = ?5 WHERE ord = ?1";

pub(super) const PROLONG_STREAM: &str = "UPDATE streams SET expires_at = max(expires_at, ?2) WHERE ord = ?1";

pub(super) const STREAMS_OF_SESSION: &str =
    "SELECT ord, owner, bytes FROM streams WHERE owner = ?1 AND session = ?2";

pub(super) const DUE_STREAMS: &str =
    "SELECT ord, owner, bytes FROM streams WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

pub(super) const HAS_DUE_STREAMS: &str = "SELECT 1 FROM streams WHERE expires_at <= ?1 LIMIT 1";

pub(super) const REMOVE_STREAM: &str = "DELETE FROM streams WHERE ord = ?1";

pub(super) const ADD_EVENT: &str = "INSERT INTO events (stream, nth, room, text) VALUES (?1, ?2, ?3, ?4)";

pub(super) const ROOMS: &str = "SELECT room FROM events WHERE stream = ?1 ORDER BY nth";

pub(super) const REMOVE_EVENTS: &str = "DELETE FROM events WHERE stream = ?1 AND nth < ?2";

/// The stream and what follows in one statement, so that no event can go between two.
pub(super) const REPLAY: &str = "SELECT last, kept, bytes, nth, text FROM streams \
    LEFT JOIN events ON stream = streams.ord AND nth > ?5 \
    WHERE owner = ?1 AND session = ?2 AND name = ?3 AND expires_at > ?4 ORDER BY nth LIMIT ?6";

pub(super) const ENTRY: &str = "SELECT ord, version, expires_at, value FROM entries \
    WHERE is_own = ?1 AND owner = ?2 AND kind = ?3 AND name = ?4";

pub(super) const NAMES: &str = "SELECT name FROM entries WHERE is_own = ?1 AND owner = ?2 AND kind = ?3 \
    AND (?4 IS NULL OR name > ?4) AND (expires_at IS NULL OR expires_at > ?5) ORDER BY name LIMIT ?6";

pub(super) const ADD_ENTRY: &str = "INSERT INTO entries (is_own, owner, kind, name, version, expires_at, value) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

pub(super) const UPDATE_ENTRY: &str =
    "UPDATE entries SET version = ?2, expires_at = ?3, value = ?4 WHERE ord = ?1";

pub(super) const REMOVE_ENTRY: &str = "DELETE FROM entries WHERE ord = ?1";

pub(super) const DUE_ENTRIES: &str =
    "SELECT ord, is_own, owner FROM entries WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

pub(super) const HAS_DUE_ENTRIES: &str = "SELECT 1 FROM entries WHERE expires_at <= ?1 LIMIT 1";

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::sqlite::schema;

    const ALL: &[&str] = &[
        BY_ID,
        UPDATE,
        UPDATE_REPORT,
        UPDATE_ORPHAN,
        COUNT_BELOW,
        CHILDREN,
        RENEW,
        UPDATE_ENDED,
        ERASE,
        GET,
        LIST_OWN,
        LIST_OWN_OPEN,
        LIST_ALL,
        LIST_ALL_OPEN,
        LIST_ONE,
        IS_TAKEN,
        ACCOUNT,
        OF_SHARE,
        SEQ,
        JOINABLE,
        CALLED,
        AGAIN,
        REMOVE,
        LEASE_HOLDER,
        WAITING,
        OVERDUE,
        DUE,
        HAS_DUE,
        STEPS,
        SEEN_STEPS,
        STEP,
        QUESTIONS,
        LAST_ASKED,
        FORGET_STEP,
        REMOVE_STEPS,
        PARTS,
        HAS_PART,
        REMOVE_PARTS,
        STREAM,
        UPDATE_STREAM,
        PROLONG_STREAM,
        STREAMS_OF_SESSION,
        DUE_STREAMS,
        HAS_DUE_STREAMS,
        REMOVE_STREAM,
        ROOMS,
        REMOVE_EVENTS,
        REPLAY,
        ENTRY,
        NAMES,
        UPDATE_ENTRY,
        REMOVE_ENTRY,
        DUE_ENTRIES,
        HAS_DUE_ENTRIES,
    ];

    /// A connection as a store has, to nothing but the tables.
    fn connection() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        keep_plans(&conn).unwrap();
        schema::migrate(&conn, 0, schema::MIGRATIONS).unwrap();
        conn
    }

    #[test]
    fn no_statement_is_planned_again_for_another_value() {
        let conn = connection();
        let planned_again = |sql: &str| {
            let mut statement = conn.prepare(sql).unwrap();
            for value in [1, 2, 3] {
                (1..=statement.parameter_count())
                    .for_each(|nth| statement.raw_bind_parameter(nth, value).unwrap());
                let mut rows = statement.raw_query();
                while rows.next().unwrap().is_some() {}
            }
            statement.get_status(StatementStatus::RePrepare) > 0
        };
        let found: Vec<&str> = ALL.iter().copied().filter(|sql| planned_again(sql)).collect();
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn no_statement_looks_at_every_task() {
        let conn = connection();
        for &sql in ALL {
            let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let count = statement.parameter_count();
            let values = rusqlite::params_from_iter((0..count).map(|_| "1"));
            let plan: Vec<String> =
                statement.query_map(values, |row| row.get(3)).unwrap().map(|step| step.unwrap()).collect();
            // The open tasks are few by the limits; everything else must be found, not looked for.
            let looks = |step: &&String| step.contains("SCAN") && !step.contains("open_tasks");
            assert_eq!(plan.iter().find(looks), None, "{sql}: {plan:?}");
            let sorts = |step: &&String| step.contains("TEMP B-TREE") && sql != LIST_ALL_OPEN;
            assert_eq!(plan.iter().find(sorts), None, "{sql}: {plan:?}");
        }
    }
}
