//! Triggers of PostgreSQL, which note in the transaction of each change what it was and which connection made it: each node
//! has a name of its own there.

use anyhow::{Context, Result};
use tokio_postgres::{NoTls, Row};

use super::{Seen, Standing};

/// What is noted, in a schema of its own: the store takes no other relations for its own.
const INSTALL: &str = r#"
CREATE SCHEMA witness;

CREATE TABLE witness.changes (
    n          bigserial PRIMARY KEY,
    task       text NOT NULL,
    writer     text NOT NULL DEFAULT current_setting('application_name'),
    step       text,                  -- the key of a step that is recorded
    is_another boolean NOT NULL DEFAULT false,
    was_epoch  bigint,
    was_holder text,
    was_end    text,
    was_erased boolean,
    epoch      bigint,
    holder     text,
    ended      text,
    is_erased  boolean
);

CREATE FUNCTION witness.how(t longhaul.tasks) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN t.phase = 8 THEN md5(ROW(t.outcome, t.outcome_code, t.outcome_text, t.outcome_json, t.terminal_at,
        t.status_changed_at)::text) END
$$;

CREATE FUNCTION witness.task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO witness.changes (task, epoch, holder, ended, is_erased)
            VALUES (NEW.id, NEW.epoch, NEW.lease_node, witness.how(NEW), NEW.phase > 8);
    ELSIF (OLD.epoch, OLD.lease_node, OLD.phase, witness.how(OLD))
        IS DISTINCT FROM (NEW.epoch, NEW.lease_node, NEW.phase, witness.how(NEW)) THEN
        INSERT INTO witness.changes
            (task, was_epoch, was_holder, was_end, was_erased, epoch, holder, ended, is_erased)
            VALUES (NEW.id, OLD.epoch, OLD.lease_node, witness.how(OLD), OLD.phase > 8,
                NEW.epoch, NEW.lease_node, witness.how(NEW), NEW.phase > 8);
    END IF;
    RETURN NULL;
END $$;

-- 0, 2 and 5 are begun, due and owed, of which its worker alone knows; 3 and 4 are learnt.
CREATE FUNCTION witness.step() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    its record;
    was bigint := 0;
    was_json text;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        was := OLD.state;
        was_json := OLD.json;
    END IF;
    IF was IN (3, 4) AND (was, was_json) IS DISTINCT FROM (NEW.state, NEW.json)
        OR was IN (0, 2, 5) AND NEW.state IN (3, 4) THEN
        SELECT id, lease_node INTO its FROM longhaul.tasks WHERE ord = NEW.task;
        INSERT INTO witness.changes (task, step, is_another, holder)
            VALUES (its.id, encode(NEW.key, 'escape'), was IN (3, 4), its.lease_node);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER witness AFTER INSERT OR UPDATE ON longhaul.tasks FOR EACH ROW EXECUTE FUNCTION witness.task();
CREATE TRIGGER witness AFTER INSERT OR UPDATE ON longhaul.steps FOR EACH ROW EXECUTE FUNCTION witness.step();
"#;

const READ: &str = "SELECT task, writer, step, is_another, was_epoch, was_holder, was_end, was_erased, epoch, holder, ended, \
    is_erased FROM witness.changes ORDER BY n";

/// Those of one database.
#[derive(Debug)]
pub(in super::super) struct Triggers {
    url: String,
}

impl Triggers {
    pub(super) fn install(url: &str) -> Result<Self> {
        asked(url, async |client| client.batch_execute(INSTALL).await)
            .context("the store cannot be witnessed")?;
        Ok(Self { url: url.to_owned() })
    }

    pub(super) fn read(&self) -> Result<Seen> {
        let rows = asked(&self.url, async |client| client.query(READ, &[]).await);
        let mut seen = Seen::default();
        for row in rows.context("what was witnessed cannot be read")? {
            see(&mut seen, &row)?;
        }
        Ok(seen)
    }
}

fn see(seen: &mut Seen, row: &Row) -> Result<()> {
    let (task, by): (&str, &str) = (row.try_get("task")?, row.try_get("writer")?);
    if let Some(step) = row.try_get::<_, Option<&str>>("step")? {
        match row.try_get("is_another")? {
            true => seen.recorded_otherwise(task, by, step),
            false => seen.recorded(task, by, step, row.try_get("holder")?),
        }
        return Ok(());
    }
    let standing = |epoch: i64, [holder, end, is_erased]: [&str; 3]| {
        anyhow::Ok(Standing {
            epoch: u64::try_from(epoch)?,
            holder: row.try_get(holder)?,
            end: row.try_get(end)?,
            is_erased: row.try_get(is_erased)?,
        })
    };
    let before = row.try_get::<_, Option<i64>>("was_epoch")?;
    let before = before.map(|epoch| standing(epoch, ["was_holder", "was_end", "was_erased"])).transpose()?;
    let now = standing(row.try_get("epoch")?, ["holder", "ended", "is_erased"])?;
    seen.changed(task, by, before.as_ref(), &now);
    Ok(())
}

/// Does this with a connection of its own.
pub(in super::super) fn asked<T>(
    url: &str,
    doing: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // Whatever befalls it, whoever asks hears of it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(doing(&client).await?)
    })
}
