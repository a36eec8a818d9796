//! Every statement on tasks and what belongs to them.

use crate::{
    networked::look::FEW,
    row::{
        columns,
        step::{seen_columns, step_columns},
    },
};

/// Other transactions change what this one has not touched; what it depends on it locks.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

pub(super) const COMMIT: &str = "COMMIT";

/// The same where a standby must have it. A commit that were cancelled while it waits for the standby would be answered as any other, and what
/// it wrote be there for all to see. PostgreSQL ends the time of a statement before that; this says so of every version.
pub(super) const COMMIT_REPLICATED: &str = "SET LOCAL statement_timeout = 0; COMMIT";

/// Several reads of one moment.
pub(super) const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A row to be changed is held. What its owner is charged for it stands [behind](crate::row::BEHIND) the others of its columns.
pub(super) const LOCK: &str =
    concat!("SELECT ", columns!(), ", charged FROM longhaul.tasks WHERE id = $1 FOR UPDATE");

/// The same of several, in the order in which all hold them who hold many.
pub(super) const LOCK_MANY: &str =
    concat!("SELECT ", columns!(), ", charged FROM longhaul.tasks WHERE id = ANY($1) ORDER BY id FOR UPDATE");

/// Those of these that nobody else is at.
pub(super) const LOCK_FREE: &str = concat!(
    "SELECT ",
    columns!(),
    ", charged FROM longhaul.tasks WHERE ord = ANY($1) ORDER BY not_before NULLS LAST, ord LIMIT $2 FOR UPDATE SKIP LOCKED"
);

/// The same of whatever is past its time, be it a tombstone.
pub(super) const LOCK_AGED: &str =
    concat!("SELECT ", columns!(), ", charged FROM longhaul.tasks WHERE id = ANY($1) FOR UPDATE SKIP LOCKED");

/// The topmost task above one.
pub(super) const ROOT: &str = "WITH RECURSIVE up AS (SELECT id, parent, 0 AS height FROM longhaul.tasks WHERE id = $1 \
    UNION ALL SELECT above.id, above.parent, up.height + 1 FROM up JOIN longhaul.tasks above ON above.id = up.parent) \
    SELECT id FROM up ORDER BY height DESC LIMIT 1";

pub(super) const HOLD: &str = "SELECT 1::bigint FROM longhaul.tasks WHERE id = $1 FOR UPDATE";

pub(super) const INSERT: &str = "INSERT INTO longhaul.tasks (ord, id, owner, nth, seq, phase, not_before, lease_node, \
    lease_until, epoch, attempt, started, rerun, dialect, retention, retention_ms, expires_at, created_at, \
    status_changed_at, updated_at, poll_interval_ms, join_digest, tool, status_message, caller, arguments, \
    once_key, once_digest, asked, steps, step_bytes, tool_version, owed, parent, parent_step, depth, outlives, essential, \
    cancel_grace_ms, orphan_at, on_orphan, share, host, charged) \
    VALUES ($1, $2, $3, $4, $1, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17, $17, $18, $19, \
    $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41) \
    ON CONFLICT (id) DO NOTHING RETURNING ord";

pub(super) const UPDATE: &str = "UPDATE longhaul.tasks SET seq = nextval('longhaul.seq'), phase = $2, not_before = $3, \
    lease_node = $4, lease_until = $5, epoch = $6, attempt = $7, started = $8, expires_at = $9, status_changed_at = $10, \
    updated_at = $11, terminal_at = $12, progress = $13, progress_total = $14, progress_message = $15, \
    outcome = $16, outcome_code = $17, outcome_text = $18, outcome_json = $19, status_message = $20, asked = $21, \
    steps = $22, step_bytes = $23, owed = $24, undo_attempt = $25, undo_until = $26, \
    parts = $27, part_bytes = $28, children = $29, children_ended = $30, below = $31, cancel_reason = $32, \
    orphan_at = $33, spells = $34, share = $35, host = $36, charged = $37 WHERE ord = $1 RETURNING seq";

/// What changes of a task while it is undone, and when it is erased meanwhile.
pub(super) const UPDATE_ENDED: &str = "UPDATE longhaul.tasks SET not_before = $2, lease_node = $3, lease_until = $4, \
    epoch = $5, expires_at = $6, steps = $7, step_bytes = $8, owed = $9, undo_attempt = $10, undo_failed = $11, \
    undo_until = $12, charged = $13 WHERE ord = $1";

pub(super) const UPDATE_REPORT: &str = "UPDATE longhaul.tasks SET seq = nextval('longhaul.seq'), updated_at = $2, \
    progress = $3, progress_total = $4, progress_message = $5, status_message = $6, status_changed_at = $7, asked = $8, \
    steps = $9, step_bytes = $10, owed = $11, parts = $12, part_bytes = $13, attempt = $14, \
    charged = $15 WHERE ord = $1 RETURNING seq";

/// Whether somebody came back for a task.
pub(super) const UPDATE_ORPHAN: &str =
    "UPDATE longhaul.tasks SET orphan_at = $2, came_back_at = $3 WHERE ord = $1";

/// How many tasks were made below one.
pub(super) const COUNT_BELOW: &str = "UPDATE longhaul.tasks SET below = $2 WHERE ord = $1";

/// The open tasks that one has made.
pub(super) const CHILDREN: &str =
    "SELECT id FROM longhaul.tasks WHERE parent = $1 AND phase < 8 ORDER BY ord";

/// Prolongs the leases of those of these tasks that are held at these epochs. All who renew the same hold them in one order, so that
/// no two wait for each other.
pub(super) const RENEW: &str = "WITH held AS (SELECT ord FROM longhaul.tasks JOIN unnest($1::text[], $2::bigint[]) \
        AS believed (of, at) ON id = of AND epoch = at WHERE lease_node IS NOT NULL ORDER BY id FOR UPDATE OF tasks) \
    UPDATE longhaul.tasks SET lease_until = greatest(lease_until, $3) FROM held WHERE tasks.ord = held.ord \
    RETURNING id, epoch";

pub(super) const ERASE: &str = "UPDATE longhaul.tasks SET phase = 9, not_before = NULL, lease_node = NULL, lease_until = NULL, \
    expires_at = $2, undo_until = NULL, arguments = 'null', caller = 'null', outcome = NULL, outcome_code = NULL, \
    outcome_text = NULL, outcome_json = NULL, status_message = NULL, progress_message = NULL, cancel_reason = NULL, \
    join_digest = NULL, spells = NULL, share = NULL, charged = 0 WHERE ord = ANY($1)";

pub(super) const REMOVE: &str = "DELETE FROM longhaul.tasks WHERE ord = ANY($1)";

/// Nobody else changes what an owner has until this transaction is over.
pub(super) const HOLD_ACCOUNT: &str =
    "SELECT open, retained, last, task_bytes FROM longhaul.accounts WHERE who = sha256($1) FOR UPDATE";

pub(super) const MAKE_ACCOUNT: &str = "INSERT INTO longhaul.accounts (who) VALUES (sha256($1)) \
    ON CONFLICT (who) DO UPDATE SET open = accounts.open \
    RETURNING open, retained, last, task_bytes";

/// Counts anew what an owner is charged for its tasks, without what this transaction has yet to add. While its account is held nobody
/// else adds to it: whoever has charged a task has added that, or has yet to add it and is not seen here.
pub(super) const COUNT_ANEW: &str = "UPDATE longhaul.accounts SET task_bytes = \
    (SELECT coalesce(sum(charged), 0)::bigint - $2 FROM longhaul.tasks WHERE sha256(owner) = sha256($1)) \
    WHERE who = sha256($1) RETURNING task_bytes";

pub(super) const ACCOUNT: &str = "SELECT event_bytes, entries FROM longhaul.accounts WHERE who = sha256($1)";

pub(super) const ADD_TO_ACCOUNT: &str = "INSERT INTO longhaul.accounts AS a \
    (who, open, retained, last, event_bytes, entries, task_bytes) VALUES (sha256($1), $2, $3, $4, $5, $6, $7) \
    ON CONFLICT (who) DO UPDATE SET open = a.open + $2, retained = a.retained + $3, last = a.last + $4, \
    event_bytes = a.event_bytes + $5, entries = a.entries + $6, task_bytes = a.task_bytes + $7";

pub(super) const REMOVE_EMPTY_ACCOUNT: &str = "DELETE FROM longhaul.accounts WHERE who = sha256($1) AND open = 0 \
    AND retained = 0 AND event_bytes = 0 AND entries = 0";

pub(super) const ADD_TO_TOTALS: &str = "UPDATE longhaul.totals SET open = open + $2, retained = retained + $3, \
    event_bytes = event_bytes + $4, entries = entries + $5 WHERE shard = $1";

/// What our tables take up, with their indexes and what is kept beside them.
pub(super) const SIZE: &str = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'longhaul' AND c.relkind = 'r'";

pub(super) const TOTALS: &str = "SELECT coalesce(sum(open), 0)::bigint, coalesce(sum(retained), 0)::bigint, \
    coalesce(sum(event_bytes), 0)::bigint, coalesce(sum(entries), 0)::bigint FROM longhaul.totals";

pub(super) const NEXT_SEQ: &str = "SELECT nextval('longhaul.seq')";

pub(super) const NEXT_VERSION: &str = "SELECT nextval('longhaul.version')";

pub(super) const GET: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM longhaul.tasks WHERE id = $1 AND ($2::bytea IS NULL OR owner = $2)"
);

const _: () = assert!(FEW == 64, "the bound of a list is how many rows come at once");

/// The first `$2` of what stands in this order, which are [`FEW`] at most. The planner takes a bound
/// whose value it does not know for a tenth of all there is, and so makes a plan anew for each page; this one it knows.
macro_rules! first_of {
    ($order:literal, $from:literal) => {
        concat!(
            "SELECT * FROM (SELECT ",
            columns!(),
            " FROM longhaul.tasks WHERE ",
            $from,
            " ORDER BY ",
            $order,
            " LIMIT 64) AS few ORDER BY ",
            $order,
            " LIMIT $2"
        )
    };
}

pub(super) const LIST_OWN: &str = first_of!("nth DESC", "sha256(owner) = sha256($3) AND nth < $1");

pub(super) const LIST_OWN_OPEN: &str =
    first_of!("nth DESC", "sha256(owner) = sha256($3) AND nth < $1 AND phase < 8");

pub(super) const LIST_ALL: &str = first_of!("ord DESC", "ord < $1 AND $3::bytea IS NULL");

pub(super) const LIST_ALL_OPEN: &str = first_of!("ord DESC", "ord < $1 AND $3::bytea IS NULL AND phase < 8");

pub(super) const LIST_AMONG: &str =
    concat!("SELECT ", columns!(), " FROM longhaul.tasks WHERE ord = ANY($1) ORDER BY ord DESC");

pub(super) const IS_TAKEN: &str = "SELECT 1::bigint FROM longhaul.tasks WHERE id = $1";

/// How many open tasks are counted together. No more are made while the account of all strangers is held.
pub(super) const OF_SHARE: &str = "SELECT count(*) FROM longhaul.tasks WHERE share = $1 AND phase < 8";

pub(super) const SEQS: &str = "SELECT id, seq FROM longhaul.tasks WHERE id = ANY($1)";

pub(super) const JOINABLE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM longhaul.tasks WHERE sha256(owner) = sha256($1) AND join_digest = $2 AND phase < 8"
);

pub(super) const CALLED: &str =
    concat!("SELECT ", columns!(), " FROM longhaul.tasks WHERE sha256(owner) = sha256($1) AND once_key = $2");

/// Every node that holds a lease, each found by one step into the index of leases; of those but `$1`, whether it says that
/// it is there, and whether it no longer proves itself alive.
pub(super) const HOLDERS: &str = "WITH RECURSIVE holders AS (\
    (SELECT lease_node FROM longhaul.tasks WHERE lease_node IS NOT NULL ORDER BY lease_node LIMIT 1) \
    UNION ALL SELECT (SELECT lease_node FROM longhaul.tasks WHERE lease_node > holders.lease_node \
        ORDER BY lease_node LIMIT 1) FROM holders WHERE holders.lease_node IS NOT NULL) \
    SELECT lease_node, node IS NOT NULL, CASE WHEN lease_node = $1 THEN false WHEN node IS NULL OR holds_lock \
        THEN pg_try_advisory_xact_lock_shared(hashtextextended(lease_node, 0)) ELSE false END \
    FROM holders LEFT JOIN longhaul.nodes ON node = lease_node WHERE lease_node IS NOT NULL";

/// What is worth claiming: an open task whose time is not up, or one that is to be undone.
macro_rules! worth_claiming {
    () => {
        "coalesce(undo_until, expires_at, $1::bigint + 1) > $1"
    };
}

/// Queued or parked, or ended and to be undone: nothing else has a time to wait for. Of phases below `$2` alone, and of
/// these tools, behind a place.
pub(super) const WAITING: &str = concat!(
    "SELECT ord, not_before, id, tool, tool_version, host FROM longhaul.tasks WHERE not_before <= $1 AND phase < $2 \
    AND ($3::bytea[] IS NULL OR tool = ANY($3)) AND (not_before, ord) > ($4, $5) AND ",
    worth_claiming!(),
    " ORDER BY not_before, ord LIMIT $6"
);

/// Held by the node `$7`, whose leases until `$8` have run out.
pub(super) const OVERDUE: &str = concat!(
    "SELECT ord, lease_until, id, tool, tool_version, host FROM longhaul.tasks WHERE lease_node = $7 AND lease_until <= $8 \
    AND phase < $2 AND ($3::bytea[] IS NULL OR tool = ANY($3)) AND (lease_until, ord) > ($4, $5) AND ",
    worth_claiming!(),
    " ORDER BY lease_until, ord LIMIT $6"
);

/// What time demands something of, as [`Record::swept_at`](crate::Record::swept_at) has it, and the index.
pub(super) const DUE: &str = "SELECT id FROM longhaul.tasks \
    WHERE coalesce(orphan_at, greatest(expires_at, coalesce(undo_until, 0))) <= $1 \
    AND (expires_at IS NOT NULL OR orphan_at IS NOT NULL) \
    ORDER BY coalesce(orphan_at, greatest(expires_at, coalesce(undo_until, 0))) LIMIT $2";

pub(super) const STEPS: &str =
    concat!("SELECT ", step_columns!(), " FROM longhaul.steps WHERE task = $1 ORDER BY ord");

pub(super) const SEEN_STEPS: &str = concat!(
    "SELECT ",
    seen_columns!(),
    " FROM longhaul.steps WHERE task = $1 ORDER BY ord OFFSET $2 LIMIT $3"
);

pub(super) const STEPS_OF: &str = concat!(
    "SELECT ",
    step_columns!(),
    " FROM longhaul.steps WHERE task = $1 AND sha256(key) IN (SELECT sha256(k) FROM unnest($2::bytea[]) AS k)"
);

/// What some tasks ask, and which of them does. The planner does not look into what is selected, so that it has one plan however
/// many they are.
pub(super) const QUESTIONS: &str = concat!(
    "SELECT ",
    step_columns!(),
    ", task FROM longhaul.steps WHERE task = ANY((SELECT $1::bigint[])::bigint[]) AND state = 1 ORDER BY task, asked"
);

pub(super) const LAST_ASKED: &str =
    "SELECT coalesce(max(asked), 0) FROM longhaul.steps WHERE task = $1 AND state = 1";

pub(super) const PUT_STEP: &str = "INSERT INTO longhaul.steps (task, key, fingerprint, state, name, asked, asked_at, \
    until, json) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (task, sha256(key)) DO UPDATE SET state = $4, \
    name = $5, asked = $6, asked_at = $7, until = $8, json = $9";

pub(super) const FORGET_STEP: &str =
    "DELETE FROM longhaul.steps WHERE task = $1 AND sha256(key) = sha256($2)";

pub(super) const REMOVE_STEPS: &str = "DELETE FROM longhaul.steps WHERE task = ANY($1)";

pub(super) const PARTS: &str =
    "SELECT kind, text FROM longhaul.parts WHERE task = $1 AND nth > $2 ORDER BY nth LIMIT $3";

pub(super) const PARTS_OF: &str = "SELECT key FROM longhaul.parts WHERE task = $1 \
    AND sha256(key) IN (SELECT sha256(k) FROM unnest($2::bytea[]) AS k)";

pub(super) const ADD_PART: &str =
    "INSERT INTO longhaul.parts (task, nth, key, kind, text) VALUES ($1, $2, $3, $4, $5)";

pub(super) const REMOVE_PARTS: &str = "DELETE FROM longhaul.parts WHERE task = ANY($1)";

/// Holds a stream, which begins if there is none.
pub(super) const HOLD_STREAM: &str = "INSERT INTO longhaul.streams (owner, session, name, last, kept, bytes, expires_at) \
    VALUES ($1, $2, $3, 0, 0, 0, 0) ON CONFLICT (sha256(owner), session, name) DO UPDATE SET last = streams.last \
    RETURNING ord, last, kept, bytes, expires_at";

pub(super) const UPDATE_STREAM: &str =
    "UPDATE longhaul.streams SET last = $2, kept = $3, bytes = $4, expires_at = $5 WHERE ord = $1";

pub(super) const PROLONG_STREAM: &str = "UPDATE longhaul.streams SET expires_at = greatest(expires_at, $5) \
    WHERE sha256(owner) = sha256($1) AND session = $2 AND name = $3 AND expires_at > $4 RETURNING last";

pub(super) const STREAMS_OF_SESSION: &str = "SELECT ord, owner, bytes FROM longhaul.streams \
    WHERE sha256(owner) = sha256($1) AND session = $2 ORDER BY ord FOR UPDATE";

pub(super) const DUE_STREAMS: &str = "SELECT ord, owner, bytes FROM longhaul.streams WHERE expires_at <= $1 \
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED";

pub(super) const HAS_DUE_STREAMS: &str =
    "SELECT 1::bigint FROM longhaul.streams WHERE expires_at <= $1 LIMIT 1";

pub(super) const REMOVE_STREAM: &str = "DELETE FROM longhaul.streams WHERE ord = $1";

pub(super) const ADD_EVENT: &str =
    "INSERT INTO longhaul.events (stream, nth, room, text) VALUES ($1, $2, $3, $4)";

pub(super) const ROOMS: &str = "SELECT room FROM longhaul.events WHERE stream = $1 ORDER BY nth";

pub(super) const REMOVE_EVENTS: &str = "DELETE FROM longhaul.events WHERE stream = $1 AND nth < $2";

/// The stream and what follows in one statement, so that no event can go between two.
pub(super) const REPLAY: &str = "SELECT last, kept, bytes, nth, text FROM longhaul.streams \
    LEFT JOIN longhaul.events ON stream = streams.ord AND nth > $5 \
    WHERE sha256(owner) = sha256($1) AND session = $2 AND name = $3 AND expires_at > $4 ORDER BY nth LIMIT $6";

pub(super) const ENTRY: &str = "SELECT ord, version, expires_at, value FROM longhaul.entries \
    WHERE is_own = $1 AND sha256(owner) = sha256($2) AND kind = $3 AND name = $4";

pub(super) const HOLD_ENTRY: &str = "SELECT ord, version, expires_at, value FROM longhaul.entries \
    WHERE is_own = $1 AND sha256(owner) = sha256($2) AND kind = $3 AND name = $4 FOR UPDATE";

pub(super) const NAMES: &str = "SELECT name FROM longhaul.entries \
    WHERE is_own = $1 AND sha256(owner) = sha256($2) AND kind = $3 \
    AND ($4::bytea IS NULL OR name > $4) AND (expires_at IS NULL OR expires_at > $5) ORDER BY name LIMIT $6";

pub(super) const ADD_ENTRY: &str = "INSERT INTO longhaul.entries (is_own, owner, kind, name, version, expires_at, value) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (is_own, sha256(owner), kind, name) DO NOTHING RETURNING ord";

pub(super) const UPDATE_ENTRY: &str =
    "UPDATE longhaul.entries SET version = $2, expires_at = $3, value = $4 WHERE ord = $1";

pub(super) const REMOVE_ENTRY: &str = "DELETE FROM longhaul.entries WHERE ord = $1";

pub(super) const DUE_ENTRIES: &str = "SELECT ord, is_own, owner FROM longhaul.entries WHERE expires_at <= $1 \
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED";

/// Who else is there, or was lately and has not said that it goes.
pub(super) const OTHERS: &str = "SELECT node FROM longhaul.nodes WHERE node <> $1 AND (seen_at > $2 \
    OR holds_lock AND NOT pg_try_advisory_xact_lock_shared(hashtextextended(node, 0)))";

/// What owners are charged for, by the digests of their names.
pub(super) const ACCOUNTS: &str =
    "SELECT who, task_bytes, encode(who, 'hex') FROM longhaul.accounts WHERE who > $1 ORDER BY who LIMIT $2";

/// For what tasks are charged, in the same order. What is left of a forgotten one may have the number of another.
pub(super) const CHARGED_TASKS: &str = "SELECT sha256(owner), coalesce(charged, 0), nth, ord FROM longhaul.tasks \
    WHERE (sha256(owner), nth, ord) > ($1, $2, $3) ORDER BY sha256(owner), nth, ord LIMIT $4";

/// How many tasks come behind a place, and where the last of them is.
pub(super) const ROWS: &str = "SELECT count(*), coalesce(max(ord), 0)::bigint FROM (SELECT ord FROM longhaul.tasks \
    WHERE ord > $1 ORDER BY ord LIMIT $2) AS next";

/// Of tasks from the first one on, what is left of forgotten ones, too.
pub(super) const WHOLE_TASKS: &str =
    concat!("SELECT ", columns!(), " FROM longhaul.tasks WHERE ord > $1 ORDER BY ord LIMIT $2");

pub(super) const WHOLE_PARTS: &str =
    "SELECT kind, text, key FROM longhaul.parts WHERE task = $1 ORDER BY nth";

pub(super) const WHOLE_ENTRIES: &str = "SELECT ord, is_own, owner, kind, name, expires_at, value \
    FROM longhaul.entries WHERE ord > $1 ORDER BY ord LIMIT $2";

pub(super) const WHOLE_STREAMS: &str = "SELECT ord, owner, session, name, last, kept, expires_at \
    FROM longhaul.streams WHERE ord > $1 ORDER BY ord LIMIT $2";

pub(super) const HAS_DUE_ENTRIES: &str =
    "SELECT 1::bigint FROM longhaul.entries WHERE expires_at <= $1 LIMIT 1";
