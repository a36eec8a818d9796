//! The format of the database, and what makes each version of it from the one before.

use super::{fault::Fault, link::Direct};
use crate::{Format, StoreError, error::corrupt};

/// What makes a version of the format from the one before.
pub(super) struct Version {
    pub(super) name: &'static str,
    /// All of it, in one transaction.
    pub(super) sql: &'static str,
    /// The same while others work on the store, where that would hold them up for longer than a moment. Whatever is broken
    /// off is begun again, so each statement may be made several times.
    pub(super) beside: &'static [Statement],
}

/// What is made in no transaction with anything else.
pub(super) enum Statement {
    /// Whoever comes while it waits for its turn, or runs, waits as well: it takes no longer than a moment.
    Brief(&'static str),
    /// These may wait for others and run for long, and nobody waits for them. All are made again where one is broken off.
    Long(&'static [&'static str]),
}

/// Every version. Entries are never changed, only added; each says in `store.readable_by` which releases can go on beside
/// it, so that nodes are replaced one by one.
pub(super) const VERSIONS: &[Version] = &[
    Version { name: "V1__store", sql: V1, beside: &[] },
    Version { name: "V2__spells", sql: V2, beside: &[] },
    Version { name: "V3__shares", sql: V3, beside: V3_BESIDE },
    Version { name: "V4__hosts", sql: V4, beside: &[] },
    Version { name: "V5__bytes", sql: V5, beside: V5_BESIDE },
];

/// Phases below 8 are open; the number stands in partial indexes, so it is part of the format.
///
/// What anybody may have written lies as bytes, for text of the database holds no NUL. What may be long is found by its
/// digest, for an index holds only so much.
const V1: &str = r#"
CREATE TABLE longhaul.store (
    one         bigint PRIMARY KEY CHECK (one = 1),
    readable_by bigint NOT NULL,            -- the oldest format whose releases can work with this one
    time        bigint NOT NULL             -- the greatest time stored
);

INSERT INTO longhaul.store VALUES (1, 1, 0);

CREATE SEQUENCE longhaul.seq;               -- changes of tasks
CREATE SEQUENCE longhaul.version;           -- changes of entries

-- Each transaction adds to one of many, so that they do not wait for one another; the sums are what there is.
CREATE TABLE longhaul.totals (
    shard       bigint PRIMARY KEY,
    open        bigint NOT NULL DEFAULT 0,
    retained    bigint NOT NULL DEFAULT 0,
    event_bytes bigint NOT NULL DEFAULT 0,
    entries     bigint NOT NULL DEFAULT 0
);

INSERT INTO longhaul.totals (shard) SELECT generate_series(0, 15);

CREATE TABLE longhaul.accounts (
    who         bytea  PRIMARY KEY,         -- the digest of an owner's name; that of '' is nobody in particular
    open        bigint NOT NULL DEFAULT 0,
    retained    bigint NOT NULL DEFAULT 0,
    last        bigint NOT NULL DEFAULT 0,  -- the number of its newest task
    event_bytes bigint NOT NULL DEFAULT 0,
    entries     bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE longhaul.nodes (
    node        text COLLATE "C" PRIMARY KEY,
    holds_lock  boolean NOT NULL,           -- whether it proves itself alive
    seen_at     bigint NOT NULL
);

CREATE TABLE longhaul.tasks (
    ord               bigint PRIMARY KEY,   -- the change that created it
    id                text   COLLATE "C" NOT NULL UNIQUE,
    owner             bytea  NOT NULL,
    nth               bigint NOT NULL,      -- its number among its owner's
    seq               bigint NOT NULL,
    phase             bigint NOT NULL,
    not_before        bigint,
    lease_node        text   COLLATE "C",
    lease_until       bigint,
    epoch             bigint NOT NULL,
    attempt           bigint NOT NULL,
    started           bigint NOT NULL,
    rerun             bigint NOT NULL,
    dialect           bigint NOT NULL,
    retention         bigint NOT NULL,
    retention_ms      bigint NOT NULL,
    expires_at        bigint,               -- of a tombstone: when it goes
    created_at        bigint NOT NULL,
    status_changed_at bigint NOT NULL,
    updated_at        bigint NOT NULL,
    terminal_at       bigint,
    poll_interval_ms  bigint,
    progress          double precision,
    progress_total    double precision,
    outcome           bigint,
    outcome_code      bigint,
    join_digest       bytea,
    once_key          text   COLLATE "C",
    once_digest       bytea,
    asked             bigint NOT NULL,
    steps             bigint NOT NULL,
    step_bytes        bigint NOT NULL,
    parts             bigint NOT NULL DEFAULT 0,
    part_bytes        bigint NOT NULL DEFAULT 0,
    owed              bigint NOT NULL,
    undo_attempt      bigint,
    undo_failed       bigint NOT NULL DEFAULT 0,
    undo_until        bigint,
    cancel_grace_ms   bigint,
    orphan_at         bigint,
    on_orphan         bigint NOT NULL,
    came_back_at      bigint,
    depth             bigint NOT NULL,
    outlives          bigint NOT NULL,
    essential         bigint NOT NULL,
    children          bigint NOT NULL DEFAULT 0,
    children_ended    bigint NOT NULL DEFAULT 0,
    below             bigint NOT NULL DEFAULT 0,
    parent            text   COLLATE "C",
    parent_step       bytea,
    tool_version      text   COLLATE "C" NOT NULL,
    tool              bytea  NOT NULL,
    cancel_reason     bytea,
    status_message    bytea,
    progress_message  bytea,
    outcome_text      bytea,
    caller            text   NOT NULL,
    arguments         text   NOT NULL,
    outcome_json      text
) WITH (fillfactor = 80);

CREATE INDEX tasks_of_owner ON longhaul.tasks (sha256(owner), nth);
CREATE INDEX open_tasks_of_owner ON longhaul.tasks (sha256(owner), nth) WHERE phase < 8;
CREATE INDEX open_tasks ON longhaul.tasks (ord) WHERE phase < 8;
CREATE INDEX waiting_tasks ON longhaul.tasks (not_before, ord) WHERE not_before IS NOT NULL;
CREATE INDEX leased_tasks ON longhaul.tasks (lease_node, lease_until) WHERE lease_node IS NOT NULL;
CREATE INDEX open_children ON longhaul.tasks (parent) WHERE parent IS NOT NULL AND phase < 8;
CREATE INDEX expiring_tasks
    ON longhaul.tasks ((coalesce(orphan_at, greatest(expires_at, coalesce(undo_until, 0)))))
    WHERE expires_at IS NOT NULL OR orphan_at IS NOT NULL;
CREATE UNIQUE INDEX joinable_tasks ON longhaul.tasks (sha256(owner), join_digest)
    WHERE join_digest IS NOT NULL AND phase < 8;
CREATE UNIQUE INDEX tasks_by_key ON longhaul.tasks (sha256(owner), once_key) WHERE once_key IS NOT NULL;

CREATE TABLE longhaul.steps (
    ord         bigint GENERATED ALWAYS AS IDENTITY,  -- within a task, the order in which they began
    task        bigint NOT NULL,
    key         bytea  NOT NULL,
    fingerprint bytea  NOT NULL,
    state       bigint NOT NULL,
    name        bytea,                      -- of a question: its public name
    asked       bigint,                     -- of a question: its place among the others
    asked_at    bigint,
    until       bigint,                     -- when it is due, or until when it can be answered
    json        text
);

CREATE UNIQUE INDEX steps_by_key ON longhaul.steps (task, sha256(key));
CREATE INDEX open_questions ON longhaul.steps (task, asked) WHERE state = 1;

CREATE TABLE longhaul.parts (
    task bigint NOT NULL,
    nth  bigint NOT NULL,                   -- its number within its task, from 1 on
    key  bytea  NOT NULL,
    kind bigint NOT NULL,
    text bytea  NOT NULL,
    PRIMARY KEY (task, nth)
);

CREATE UNIQUE INDEX parts_by_key ON longhaul.parts (task, sha256(key));

CREATE TABLE longhaul.streams (
    ord        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner      bytea  NOT NULL,
    session    bytea  NOT NULL,
    name       bytea  NOT NULL,
    last       bigint NOT NULL,             -- the number of its newest event
    kept       bigint NOT NULL,             -- how many are kept: the newest, without a gap
    bytes      bigint NOT NULL,             -- what they take
    expires_at bigint NOT NULL
);

CREATE UNIQUE INDEX streams_by_name ON longhaul.streams (sha256(owner), session, name);
CREATE INDEX expiring_streams ON longhaul.streams (expires_at);

CREATE TABLE longhaul.events (
    stream bigint NOT NULL,
    nth    bigint NOT NULL,
    room   bigint NOT NULL,                 -- what it takes
    text   bytea  NOT NULL,
    PRIMARY KEY (stream, nth)
);

CREATE TABLE longhaul.entries (
    ord        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_own     bigint NOT NULL,             -- 0 the server's, 1 an owner's
    owner      bytea  NOT NULL,
    kind       bytea  NOT NULL,
    name       bytea  NOT NULL,
    version    bigint NOT NULL,
    expires_at bigint,
    value      bytea  NOT NULL
);

CREATE UNIQUE INDEX entries_by_name ON longhaul.entries (is_own, sha256(owner), kind, name);
CREATE INDEX expiring_entries ON longhaul.entries (expires_at) WHERE expires_at IS NOT NULL;
"#;

/// Who has worked on tasks, and when. Releases that do not know it leave it as it is.
const V2: &str = "ALTER TABLE longhaul.tasks ADD COLUMN spells text;";

/// Among whose open tasks those of strangers are counted. Releases that do not know it count those that they make among
/// those of all strangers alone.
const V3: &str = "
ALTER TABLE longhaul.tasks ADD COLUMN share bigint;
CREATE INDEX open_shares ON longhaul.tasks (share) WHERE share IS NOT NULL AND phase < 8;
";

/// An index takes a look at every task; whoever writes one would wait for that.
const V3_BESIDE: &[Statement] = &[
    Statement::Brief("ALTER TABLE longhaul.tasks ADD COLUMN IF NOT EXISTS share bigint"),
    Statement::Long(&[
        // One that was broken off is there, and is of no use.
        "DROP INDEX CONCURRENTLY IF EXISTS longhaul.open_shares",
        "CREATE INDEX CONCURRENTLY open_shares ON longhaul.tasks (share) WHERE share IS NOT NULL AND phase < 8",
    ]),
];

/// Where the work of tasks is that is bound to a host. Releases that do not know it begin tasks anywhere, and bind none.
const V4: &str = r#"ALTER TABLE longhaul.tasks ADD COLUMN host text COLLATE "C";"#;

/// What the tasks of each owner weigh, and what of that each is charged for. Releases that do not know it leave both as they are: what
/// they make is charged once a later one writes it, and an owner whose tasks they remove is charged for these until it is counted
/// anew, before anything is refused for that.
const V5: &str = "
ALTER TABLE longhaul.tasks ADD COLUMN charged bigint;
ALTER TABLE longhaul.accounts ADD COLUMN task_bytes bigint NOT NULL DEFAULT 0;
";

/// All that is there is charged for, some at a time. What others are at is left out: whoever writes it next charges it.
const V5_BESIDE: &[Statement] = &[
    Statement::Brief("ALTER TABLE longhaul.tasks ADD COLUMN IF NOT EXISTS charged bigint"),
    Statement::Brief(
        "ALTER TABLE longhaul.accounts ADD COLUMN IF NOT EXISTS task_bytes bigint NOT NULL DEFAULT 0",
    ),
    Statement::Long(&["DO $$
DECLARE
    low  bigint := 0;
    high bigint;
BEGIN
    LOOP
        SELECT max(ord) INTO high
            FROM (SELECT ord FROM longhaul.tasks WHERE ord > low ORDER BY ord LIMIT 500) AS next;
        EXIT WHEN high IS NULL;
        WITH free AS (
            SELECT ord FROM longhaul.tasks
            WHERE ord > low AND ord <= high AND phase < 9 AND charged IS NULL FOR UPDATE SKIP LOCKED
        ), weighed AS (
            UPDATE longhaul.tasks AS t SET charged = octet_length(arguments) + octet_length(caller)
                + CASE WHEN phase < 8 THEN (step_bytes + part_bytes) / 65536 * 65536
                  ELSE step_bytes + part_bytes
                    + coalesce(octet_length(outcome_text), 0) + coalesce(octet_length(outcome_json), 0)
                    + coalesce(octet_length(status_message), 0) + coalesce(octet_length(progress_message), 0)
                    + coalesce(octet_length(cancel_reason), 0) END
            FROM free WHERE t.ord = free.ord RETURNING t.owner, t.charged
        )
        UPDATE longhaul.accounts AS a SET task_bytes = a.task_bytes + owned.bytes
            FROM (SELECT sha256(owner) AS who, sum(charged)::bigint AS bytes FROM weighed GROUP BY 1) AS owned
            WHERE a.who = owned.who;
        COMMIT;
        low := high;
    END LOOP;
END $$"]),
];

/// The format that this release writes.
pub(super) fn newest() -> u32 {
    VERSIONS.len() as u32
}

/// What a database turns out to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found {
    /// Nothing yet.
    Empty,
    /// A store in this older version of the format.
    Older(u32),
    /// A store that this release works with.
    Current,
}

/// In which format the database is, which is not changed.
///
/// # Errors
///
/// As [`prepare`](super::upgrade::prepare), but for what only a change would meet.
pub(super) async fn format(direct: &Direct) -> Result<Format, StoreError> {
    let client = direct.connect().await?.client;
    look(direct, &client).await?;
    Ok(Format::new(version(direct, &client).await?, newest()))
}

/// Looks at the database without changing it.
pub(super) async fn look(direct: &Direct, client: &tokio_postgres::Client) -> Result<Found, StoreError> {
    let failed = |error| direct.place.error(Fault::database("reading the store's format", error));
    let Some(found) = version(direct, client).await? else { return Ok(Found::Empty) };
    match found.cmp(&newest()) {
        std::cmp::Ordering::Less => Ok(Found::Older(found)),
        std::cmp::Ordering::Equal => Ok(Found::Current),
        std::cmp::Ordering::Greater => {
            let row = client
                .query_typed_one("SELECT readable_by FROM longhaul.store", &[])
                .await
                .map_err(failed)?;
            if row.try_get::<_, i64>(0).map_err(failed)? <= i64::from(newest()) {
                return Ok(Found::Current);
            }
            Err(StoreError::Newer { found, supported: newest() })
        }
    }
}

/// The number of its format; `None` where nothing is kept yet.
async fn version(direct: &Direct, client: &tokio_postgres::Client) -> Result<Option<u32>, StoreError> {
    let failed = |error| direct.place.error(Fault::database("reading the store's format", error));
    let (is_kept, others): (bool, i64) = client
        .query_typed_one(
            "SELECT to_regclass('longhaul.migrations') IS NOT NULL, \
             (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('longhaul'))",
            &[],
        )
        .await
        .and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .map_err(failed)?;
    if !is_kept {
        return match others {
            0 => Ok(None),
            _ => Err(StoreError::Foreign {
                place: direct.place.to_string().into(),
                why: "its schema `longhaul` holds something else".to_owned(),
            }),
        };
    }
    let row = client
        .query_typed_one("SELECT coalesce(max(version), 0)::bigint FROM longhaul.migrations", &[])
        .await
        .map_err(failed)?;
    u32::try_from(row.try_get::<_, i64>(0).map_err(failed)?).map(Some).map_err(corrupt)
}
