//! The one session that a node keeps: it proves the node alive, brings hints of other nodes' changes and sends ours, and
//! keeps the time.

use std::{
    collections::HashMap,
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Row, types::ToSql};

use super::{Site, fault::Fault, link::Connection, sql, value::Value};
use crate::{Durability, StoreError, TaskId, Time, row::signed};

/// What the keeper works with.
pub(super) struct Keeper {
    pub(super) site: Arc<Site>,
    /// Tasks that this node has changed.
    pub(super) hints: mpsc::Receiver<TaskId>,
    /// Asks it to end.
    pub(super) stop: oneshot::Receiver<()>,
    /// Told when it has.
    pub(super) ended: SyncSender<()>,
    /// The latest change of each task that somebody here waits for, as polling has seen it.
    pub(super) seen: HashMap<TaskId, i64>,
}

impl Keeper {
    /// Keeps the session, and makes another whenever it is lost, until it is asked to end.
    pub(super) async fn run(mut self, mut connection: Connection) {
        loop {
            match self.keep(&mut connection).await {
                Ok(()) => {
                    if let Err(error) = timeout(GOODBYE, leave(&self.site, &connection)).await {
                        tracing::debug!(%error, "this node's place stays behind until it is noticed");
                    }
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the session with the database is lost; another is made");
                    // Whoever waits looks for itself, and meets the same.
                    self.site.hub.wake_all();
                }
            }
            match self.reconnect().await {
                Some(made) => connection = made,
                None => break,
            }
            tracing::info!(store = %self.site.place, "there is a session with the database again");
            self.site.hub.wake_all();
        }
        drop(connection);
        let _nobody_may_wait = self.ended.send(());
    }

    async fn reconnect(&mut self) -> Option<Connection> {
        loop {
            let again = async {
                let connection = self.site.direct.connect().await?;
                enter(&self.site, &connection).await?;
                Ok::<_, StoreError>(connection)
            };
            tokio::select! {
                _ = &mut self.stop => return None,
                made = again => match made {
                    Ok(connection) => return Some(connection),
                    Err(error) => tracing::debug!(%error, "the database cannot be reached yet"),
                },
            }
            tokio::select! {
                _ = &mut self.stop => return None,
                () = sleep(RETRY) => {}
            }
        }
    }

    /// Until it is asked to end; or an error, if the session is lost.
    async fn keep(&mut self, connection: &mut Connection) -> Result<(), StoreError> {
        let ticks = |every| {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let polls = if self.site.is_pooled { POLL_ALONE } else { POLL };
        let (mut beat, mut poll, mut said) = (ticks(BEAT), ticks(polls), ticks(REFRESH));
        loop {
            tokio::select! {
                _ = &mut self.stop => return Ok(()),
                message = connection.messages.recv() => match message {
                    Some(AsyncMessage::Notification(hint)) => self.hear(hint.payload()),
                    Some(_) => {}
                    None => return Err(self.site.place.unreachable(std::io::Error::other("the session has ended"))),
                },
                Some(first) = self.hints.recv() => self.tell(connection, first).await?,
                _ = beat.tick() => keep_time(&self.site, connection).await?,
                _ = poll.tick() => self.poll(connection).await?,
                _ = said.tick() => refresh(&self.site, connection).await?,
            }
        }
    }

    /// Another node has changed these tasks.
    fn hear(&self, payload: &str) {
        let mut words = payload.split(' ');
        if words.next() == Some(self.site.node.as_str()) {
            return;
        }
        for id in words.filter_map(|word| TaskId::new(word).ok()) {
            self.site.wake(&id);
        }
    }

    /// Tells the other nodes what has changed, some tasks at once. It is told after the commit and by itself, for commits
    /// that tell wait for one another.
    async fn tell(&mut self, connection: &Connection, first: TaskId) -> Result<(), StoreError> {
        let mut payload = format!("{} {first}", self.site.node);
        while payload.len() < LONGEST_PAYLOAD
            && let Ok(next) = self.hints.try_recv()
        {
            payload.push(' ');
            payload.push_str(next.as_str());
        }
        ask(&self.site, connection, "SELECT pg_notify('longhaul', $1)", &[Value::text(&payload)])
            .await
            .map(drop)
    }

    /// Looks for changes that no hint has told of, while anybody waits for one.
    async fn poll(&mut self, connection: &Connection) -> Result<(), StoreError> {
        if !self.site.hub.is_waited_for() {
            self.seen.clear();
            return Ok(());
        }
        let watched = self.site.hub.watched();
        let mut seen = HashMap::with_capacity(watched.len());
        for some in watched.chunks(POLLED_AT_ONCE) {
            let ids: Vec<&str> = some.iter().map(TaskId::as_str).collect();
            let rows = ask(&self.site, connection, sql::SEQS, &[Value::Texts(&ids)]).await?;
            for row in rows {
                let (id, seq) = (row.get::<_, String>(0), row.get::<_, i64>(1));
                if let Ok(id) = TaskId::new(id) {
                    seen.insert(id, seq);
                }
            }
        }
        for id in &watched {
            // What is seen for the first time may have changed since it is watched.
            if self.seen.get(id) != seen.get(id) || !self.seen.contains_key(id) {
                self.site.wake(id);
            }
        }
        self.seen = seen;
        Ok(())
    }
}

/// Makes this node known on a new session: it is alive as long as that.
pub(super) async fn enter(site: &Site, connection: &Connection) -> Result<(), StoreError> {
    if !site.is_pooled {
        // It waits for whoever just looks whether we live, and for an earlier session of ours to be noticed to be over.
        let hold = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
        ask(site, connection, hold, &[Value::text(site.node.as_str())]).await?;
        ask(site, connection, "LISTEN longhaul", &[]).await?;
    }
    refresh(site, connection).await
}

/// Says that this node is there, and learns how the database is set.
async fn refresh(site: &Site, connection: &Connection) -> Result<(), StoreError> {
    let (me, now) = (Value::text(site.node.as_str()), site.clock.now().unix_ms());
    let here = "INSERT INTO longhaul.nodes (node, holds_lock, seen_at) VALUES ($1, $2 = 1, $3) \
        ON CONFLICT (node) DO UPDATE SET holds_lock = $2 = 1, seen_at = $3";
    ask(site, connection, here, &[me, Value::int(!site.is_pooled), Value::int(now)]).await?;
    let gone = "DELETE FROM longhaul.nodes WHERE seen_at < $1";
    ask(site, connection, gone, &[Value::int(now - FORGOTTEN_MS)]).await?;
    site.set_durability(durability(site, connection).await?);
    keep_time(site, connection).await
}

/// Says that this node goes: its leases are void at once.
async fn leave(site: &Site, connection: &Connection) {
    let me = Value::text(site.node.as_str());
    let gone = async {
        ask(site, connection, "DELETE FROM longhaul.nodes WHERE node = $1", &[me]).await?;
        if !site.is_pooled {
            ask(site, connection, "SELECT pg_advisory_unlock_all()", &[]).await?;
        }
        Ok::<_, StoreError>(())
    };
    if let Err(error) = gone.await {
        tracing::debug!(%error, "this node's place stays behind until it is noticed");
    }
}

/// Learns the greatest time that was stored and what the database's clock says, and keeps the time for those who come.
async fn keep_time(site: &Site, connection: &Connection) -> Result<(), StoreError> {
    let asked = Instant::now();
    let look = "SELECT time, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM longhaul.store";
    let rows = ask(site, connection, look, &[]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    if let Some(server) = &site.server_clock {
        // It was said somewhere on the way.
        server.set(Time::from_unix_ms(row.get(1)).after(asked.elapsed() / 2));
    }
    let stored: i64 = row.get(0);
    site.clock.observe(Time::from_unix_ms(stored));
    let now = site.clock.now().unix_ms();
    if stored < now - signed(BEAT.as_millis() as u64) {
        let store = "UPDATE longhaul.store SET time = $1 WHERE time < $1";
        ask(site, connection, store, &[Value::int(now)]).await?;
    }
    Ok(())
}

/// What the database says that its commits survive.
async fn durability(site: &Site, connection: &Connection) -> Result<(Durability, String), StoreError> {
    let settings = "SELECT current_setting('fsync'), current_setting('synchronous_commit'), \
        current_setting('synchronous_standby_names')";
    let rows = ask(site, connection, settings, &[]).await?;
    let Some(row) = rows.first() else { return Ok((Durability::Process, String::new())) };
    let (fsync, commit, standbys): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    let level = level(&fsync, &commit, &standbys);
    let mut words = format!("synchronous_commit = {commit}");
    if fsync != "on" {
        words.push_str(", fsync = off");
    }
    if level == Durability::Replicated {
        words.push_str(&format!(", synchronous_standby_names = {standbys}"));
    }
    Ok((level, words))
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
    match timeout(site.patience, connection.client.query_typed(sql, &typed)).await {
        Ok(answer) => answer.map_err(|error| site.place.error(Fault::database("keeping its session", error))),
        Err(late) => Err(site.place.unreachable(late)),
    }
}

/// How often the time is kept.
const BEAT: Duration = Duration::from_secs(1);

/// How often changes are looked for that no hint has told of.
const POLL: Duration = Duration::from_secs(2);

/// The same where there are no hints.
const POLL_ALONE: Duration = Duration::from_millis(200);

/// How often a node says that it is there.
const REFRESH: Duration = Duration::from_secs(60);

/// What has not been said for so long is forgotten.
const FORGOTTEN_MS: i64 = 24 * 60 * 60 * 1000;

/// The time between two tries to make a session; less than after which a node is taken for dead.
const RETRY: Duration = Duration::from_millis(100);

/// How long the end of a node may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// A hint has room for 8,000 bytes; one more id fits behind.
const LONGEST_PAYLOAD: usize = 7_800;

/// How many tasks one poll asks for.
const POLLED_AT_ONCE: usize = 1_000;

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
