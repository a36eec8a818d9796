-- A file as the first releases wrote it: its format, and tasks in every state that one could have.
PRAGMA application_id = 0x4c485354;
PRAGMA user_version = 1;

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

INSERT INTO tasks (ord, id, owner, nth, seq, phase, not_before, lease_node, lease_until, epoch, attempt, started, rerun, dialect,
    retention, retention_ms, expires_at, created_at, status_changed_at, updated_at, terminal_at, poll_interval_ms, progress, outcome,
    outcome_code, join_digest, tool, status_message, caller, arguments, outcome_json) VALUES
    (1, 'queued', 'ann', 1, 1, 0, 0, NULL, NULL, 0, 0, 0, 3, 0, 2, 0, NULL, 5, 5, 5, NULL, NULL, NULL, NULL, NULL, NULL,
        'build', NULL, 'null', '{"n":1}', NULL),
    (2, 'held', 'ann', 2, 2, 1, NULL, 'gone', 9, 1, 1, 1, 3, 2, 2, 0, NULL, 5, 6, 6, NULL, 500, 0.5, NULL, NULL, zeroblob(32),
        'build', 'half way', 'null', '{"n":2}', NULL),
    (3, 'done', '', 1, 3, 8, NULL, NULL, NULL, 1, 1, 1, 3, 3, 0, 0, 9000000000000, 5, 7, 7, 7, NULL, NULL, 0, 0, NULL,
        'build', NULL, 'null', '{"n":3}', '{"content":[]}');
INSERT INTO accounts VALUES ('ann', 2, 2, 2), ('', 0, 1, 1);
UPDATE store SET seq = 3, time = 1000, steady_ms = 9, boot = 'another', open = 2, retained = 3;
