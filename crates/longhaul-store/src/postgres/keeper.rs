//! The one session that a node keeps: a lock on it proves the node alive, and it brings and sends hints.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Row, types::ToSql};

use super::{Site, entries::values, fault::Fault, link::Connection, sql, value::Value};
use crate::{
    Durability, StoreError, TaskId, Time,
    error::corrupt,
    networked::{
        keeper::{Keeps, Next},
        node::Standing,
    },
    row::entry::Key,
    transfer::Mark,
};

impl Keeps for Site {
    type Session = Connection;

    fn polls(&self) -> Duration {
        if self.is_pooled { self.poll.min(POLL_ALONE) } else { self.poll }
    }

    async fn enter(&self) -> Result<Connection, StoreError> {
        let connection = self.direct.connect().await?;
        hold(self, &connection).await?;
        Ok(connection)
    }

    async fn leave(&self, connection: Connection) -> Result<(), StoreError> {
        let me = Value::text(self.node.id.as_str());
        ask(self, &connection, "DELETE FROM longhaul.nodes WHERE node = $1", &[me]).await?;
        if !self.is_pooled {
            ask(self, &connection, "SELECT pg_advisory_unlock_all()", &[]).await?;
        }
        Ok(())
    }

    async fn next(&self, connection: &mut Connection) -> Result<Next, StoreError> {
        let mut hints = self.hints.1.lock().await;
        tokio::select! {
            message = connection.messages.recv() => match message {
                Some(AsyncMessage::Notification(hint)) => Ok(Next::Hint(hint.payload().to_owned())),
                Some(_) => Ok(Next::Nothing),
                None => Err(self.place.unreachable(std::io::Error::other("the session has ended"))),
            },
            Some(changed) = hints.recv() => Ok(Next::Change(changed)),
        }
    }

    /// Some tasks at once. It is told after the commit and by itself, for commits that tell wait for one another.
    async fn tell(&self, connection: &mut Connection, first: TaskId) -> Result<(), StoreError> {
        let mut payload = format!("{} {first}", self.node.id);
        {
            let mut hints = self.hints.1.lock().await;
            while payload.len() < LONGEST_PAYLOAD
                && let Ok(next) = hints.try_recv()
            {
                payload.push(' ');
                payload.push_str(next.as_str());
            }
        }
        let tell = "SELECT pg_notify('longhaul', $1)";
        ask(self, connection, tell, &[Value::text(&payload)]).await.map(drop)
    }

    async fn say(&self, connection: &mut Connection, now: Time, gone: Time) -> Result<Standing, StoreError> {
        let (me, now) = (Value::text(self.node.id.as_str()), Value::int(now.unix_ms()));
        let here = "INSERT INTO longhaul.nodes (node, holds_lock, seen_at) VALUES ($1, $2 = 1, $3) \
            ON CONFLICT (node) DO UPDATE SET holds_lock = $2 = 1, seen_at = $3";
        ask(self, connection, here, &[me, Value::int(!self.is_pooled), now]).await?;
        let forget = "DELETE FROM longhaul.nodes WHERE seen_at < $1";
        ask(self, connection, forget, &[Value::int(gone.unix_ms())]).await?;
        standing(self, connection).await
    }

    async fn prove(&self, connection: &mut Connection) -> Result<(), StoreError> {
        // It answers, so it holds its lock.
        ask(self, connection, "SELECT 1", &[]).await.map(drop)
    }

    async fn times(&self, connection: &mut Connection) -> Result<(Time, Time), StoreError> {
        let look = "SELECT time, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM longhaul.store";
        let rows = ask(self, connection, look, &[]).await?;
        let row = rows.first().ok_or_else(|| corrupt("the time of the store"))?;
        let time = |at| row.try_get(at).map(Time::from_unix_ms).map_err(corrupt);
        Ok((time(0)?, time(1)?))
    }

    async fn store_time(&self, connection: &mut Connection, now: Time) -> Result<(), StoreError> {
        let store = "UPDATE longhaul.store SET time = $1 WHERE time < $1";
        ask(self, connection, store, &[Value::int(now.unix_ms())]).await.map(drop)
    }

    async fn mark(&self, connection: &mut Connection) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = ask(self, connection, sql::ENTRY, &values(&Key::of(Mark::KEY))).await?;
        rows.first().map(|row| row.try_get(3).map_err(corrupt)).transpose()
    }

    async fn seqs(
        &self,
        connection: &mut Connection,
        ids: &[TaskId],
    ) -> Result<Vec<(TaskId, u64)>, StoreError> {
        let ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
        let rows = ask(self, connection, sql::SEQS, &[Value::Texts(&ids)]).await?;
        let seq = |row: &Row| {
            let (id, seq) = (row.get::<_, String>(0), row.get::<_, i64>(1));
            Some((TaskId::new(id).ok()?, u64::try_from(seq).ok()?))
        };
        Ok(rows.iter().filter_map(seq).collect())
    }
}

/// Makes this node one that is alive as long as this connection is.
pub(super) async fn hold(site: &Site, connection: &Connection) -> Result<(), StoreError> {
    if site.is_pooled {
        return Ok(());
    }
    // It waits for whoever just looks whether we live, and for an earlier session of ours to be noticed to be over.
    let hold = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
    ask(site, connection, hold, &[Value::text(site.node.id.as_str())]).await?;
    ask(site, connection, "LISTEN longhaul", &[]).await.map(drop)
}

/// What the database says that its commits survive.
async fn standing(site: &Site, connection: &Connection) -> Result<Standing, StoreError> {
    let settings = "SELECT current_setting('fsync'), current_setting('synchronous_commit'), \
        current_setting('synchronous_standby_names')";
    let rows = ask(site, connection, settings, &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(Standing { durability: Durability::Process, ..Standing::default() });
    };
    let (fsync, commit, standbys): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    let durability = level(&fsync, &commit, &standbys);
    let mut settings = format!("synchronous_commit = {commit}");
    if fsync != "on" {
        settings.push_str(", fsync = off");
    }
    if durability == Durability::Replicated {
        settings.push_str(&format!(", synchronous_standby_names = {standbys}"));
    }
    Ok(Standing { durability, settings, at_risk: None })
}

fn level(fsync: &str, commit: &str, standbys: &str) -> Durability {
    match commit {
        _ if fsync != "on" => Durability::Process,
        "off" => Durability::Process,
        "on" | "remote_apply" if !standbys.trim().is_empty() => Durability::Replicated,
        // A standby that has it in memory only adds nothing to this disk.
        _ => Durability::Disk,
    }
}

/// Runs a statement in one piece, within the node's patience.
async fn ask(
    site: &Site,
    connection: &Connection,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, StoreError> {
    let typed: Vec<_> = values.iter().map(|value| (value as &(dyn ToSql + Sync), value.of_type())).collect();
    match timeout(site.node.patience, connection.client.query_typed(sql, &typed)).await {
        Ok(answer) => answer.map_err(|error| site.place.error(Fault::database("keeping its session", error))),
        Err(late) => Err(site.place.unreachable(late)),
    }
}

/// How often changes are looked for at least where there are no hints.
const POLL_ALONE: Duration = Duration::from_millis(200);

/// A hint has room for 8,000 bytes; one more id fits behind.
const LONGEST_PAYLOAD: usize = 7_800;

#[cfg(test)]
mod tests {
    use super::*;

    /// N6 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn the_level_is_what_the_settings_say() {
        assert_eq!(level("on", "on", ""), Durability::Disk);
        assert_eq!(level("on", "local", "*"), Durability::Disk);
        assert_eq!(level("on", "remote_write", "*"), Durability::Disk);
        assert_eq!(level("on", "on", "ANY 1 (a, b)"), Durability::Replicated);
        assert_eq!(level("on", "remote_apply", "a"), Durability::Replicated);
        assert_eq!(level("on", "remote_apply", " "), Durability::Disk);
        assert_eq!(level("on", "off", "a"), Durability::Process);
        assert_eq!(level("off", "on", "a"), Durability::Process);
    }
}
