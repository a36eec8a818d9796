//! The one session that a node keeps: it listens to hints of other nodes' changes, proves by that that the node is alive, and
//! keeps the time.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, mpsc::SyncSender},
    time::Duration,
};

use ::redis::{
    Msg, RedisError, RedisResult, Script,
    aio::{PubSub, PubSubSink, PubSubStream},
    pipe,
};
use futures_util::StreamExt as _;
use tokio::{
    sync::oneshot,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    Site,
    fault::Fault,
    link::script_in_want,
    read::{self, NODES},
    row::HINTS,
    settings,
};
use crate::{StoreError, TaskId, Time};

/// What the keeper works with.
pub(super) struct Keeper {
    pub(super) site: Arc<Site>,
    /// Asks it to end.
    pub(super) stop: oneshot::Receiver<()>,
    /// Told when it has.
    pub(super) ended: SyncSender<()>,
    /// The latest change of each task that somebody here waits for, as polling has seen it.
    pub(super) seen: HashMap<TaskId, u64>,
}

/// What is heard on a connection, and how it is told what to listen to.
pub(super) struct Session {
    sink: PubSubSink,
    heard: PubSubStream,
}

impl Keeper {
    /// Keeps the session, and makes another whenever it is lost, until it is asked to end.
    pub(super) async fn run(mut self, mut session: Session) {
        loop {
            match self.keep(&mut session).await {
                Ok(()) => {
                    if timeout(GOODBYE, leave(&self.site, session)).await.is_err() {
                        tracing::debug!("this node's place stays behind until it is noticed");
                    }
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the session with the server is lost; another is made");
                    self.site.link.forget().await;
                    // Whoever waits looks for itself, and meets the same.
                    self.site.hub.wake_all();
                }
            }
            match self.reconnect().await {
                Some(made) => session = made,
                None => break,
            }
            tracing::info!(store = %self.site.place, "there is a session with the server again");
            self.site.hub.wake_all();
        }
        let _nobody_may_wait = self.ended.send(());
    }

    async fn reconnect(&mut self) -> Option<Session> {
        loop {
            tokio::select! {
                _ = &mut self.stop => return None,
                made = enter(&self.site) => match made {
                    Ok(session) => return Some(session),
                    Err(error) => tracing::debug!(%error, "the server cannot be reached yet"),
                },
            }
            tokio::select! {
                _ = &mut self.stop => return None,
                () = sleep(RETRY) => {}
            }
        }
    }

    /// Until it is asked to end; or an error, if the session is lost.
    async fn keep(&mut self, session: &mut Session) -> Result<(), StoreError> {
        let ticks = |every| {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let (mut beat, mut poll, mut said) = (ticks(BEAT), ticks(POLL), ticks(REFRESH));
        loop {
            tokio::select! {
                _ = &mut self.stop => return Ok(()),
                message = session.heard.next() => match message {
                    Some(message) => self.hear(&message),
                    None => return Err(self.site.place.unreachable(std::io::Error::other("the session has ended"))),
                },
                _ = beat.tick() => keep_time(&self.site).await?,
                _ = poll.tick() => self.poll().await?,
                _ = said.tick() => refresh(&self.site).await?,
            }
        }
    }

    /// A node has changed these tasks.
    fn hear(&self, message: &Msg) {
        let Ok(payload) = std::str::from_utf8(message.get_payload_bytes()) else { return };
        let mut words = payload.split(' ');
        if words.next() == Some(self.site.node.as_str()) {
            return;
        }
        for id in words.filter_map(|word| TaskId::new(word).ok()) {
            self.site.wake(&id);
        }
    }

    /// Looks for changes that no hint has told of, while anybody waits for one.
    async fn poll(&mut self) -> Result<(), StoreError> {
        if !self.site.hub.is_waited_for() {
            self.seen.clear();
            return Ok(());
        }
        let watched = self.site.hub.watched();
        let mut seen = HashMap::with_capacity(watched.len());
        for some in watched.chunks(POLLED_AT_ONCE) {
            let seqs = self.site.within(read::seqs(&self.site, some)).await?;
            seen.extend(some.iter().cloned().zip(seqs).filter_map(|(id, seq)| Some((id, seq?))));
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

/// Both are said though the server has no memory left: a node lives for all that.
static HERE: LazyLock<Script> = LazyLock::new(|| {
    script_in_want("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return redis.call('HGETALL', KEYS[1])")
});
static KEEP: LazyLock<Script> =
    LazyLock::new(|| script_in_want("return redis.call('ZADD', KEYS[1], 'GT', ARGV[1], 'time')"));

/// Makes this node known on a new session: it is alive as long as it listens there.
pub(super) async fn enter(site: &Site) -> Result<Session, StoreError> {
    let listen = async {
        let mut session: PubSub = site.link.client().get_async_pubsub().await?;
        session.subscribe(site.keys.one(HINTS)).await?;
        session.subscribe(site.keys.node(site.node.as_str())).await?;
        let (sink, heard) = session.split();
        Ok::<_, RedisError>(Session { sink, heard })
    };
    let listening =
        site.within(async { listen.await.map_err(|error| Fault::Redis { doing: "listening", error }) });
    let session = listening.await?;
    refresh(site).await?;
    Ok(session)
}

/// Says that this node is there, and learns how the server is set.
async fn refresh(site: &Site) -> Result<(), StoreError> {
    let now = site.clock.now().unix_ms();
    let said = [site.node.as_str().as_bytes().to_vec(), now.to_string().into_bytes()];
    let nodes = [site.keys.one(NODES)];
    let asked = site.link.read("saying that this node is there", &HERE, &nodes, &said);
    let known: HashMap<String, i64> = site.within(asked).await?;
    let gone: Vec<String> =
        known.into_iter().filter(|(_, at)| *at < now - FORGOTTEN_MS).map(|(node, _)| node).collect();
    if !gone.is_empty() {
        let mut forget = pipe();
        forget.cmd("HDEL").arg(site.keys.one(NODES)).arg(gone).ignore();
        site.within(site.link.ask::<()>("forgetting nodes", &forget)).await?;
    }
    let found = site.within(settings::look(&site.link)).await?;
    if !found.is_noeviction() {
        tracing::error!(store = %site.place, policy = found.policy, "the server may throw away what it was told to keep: set maxmemory-policy to noeviction");
    }
    site.set_durability(found.durability(site.replicas));
    keep_time(site).await
}

/// Says that this node goes: its leases are void at once.
async fn leave(site: &Site, mut session: Session) {
    let gone = async {
        session.sink.unsubscribe(&[site.keys.node(site.node.as_str())]).await?;
        let mut forget = pipe();
        forget.cmd("HDEL").arg(site.keys.one(NODES)).arg(site.node.as_str()).ignore();
        let left: RedisResult<()> = match site.link.ask("leaving", &forget).await {
            Ok(()) => Ok(()),
            Err(Fault::Redis { error, .. }) => Err(error),
            Err(_) => Ok(()),
        };
        left
    };
    if let Err(error) = gone.await {
        tracing::debug!(%error, "this node's place stays behind until it is noticed");
    }
}

/// Learns the greatest time that was stored and what the server's clock says, and keeps the time for those who come.
pub(super) async fn keep_time(site: &Site) -> Result<(), StoreError> {
    let asked_at = Instant::now();
    let (stored, said) = site.within(times(site)).await?;
    if let Some(server) = &site.server_clock {
        // It was said somewhere on the way.
        server.set(said.after(asked_at.elapsed() / 2));
    }
    site.clock.observe(stored);
    let now = site.clock.now();
    if stored.unix_ms() < now.unix_ms() - BEAT.as_millis() as i64 {
        let (keys, args) = ([site.keys.one(TIME)], [now.unix_ms().to_string().into_bytes()]);
        let _changed: i64 = site.within(site.link.read("keeping the time", &KEEP, &keys, &args)).await?;
    }
    Ok(())
}

/// The greatest time stored, and what the server's clock says.
async fn times(site: &Site) -> Result<(Time, Time), Fault> {
    let mut asked = pipe();
    asked.cmd("ZSCORE").arg(site.keys.one(TIME)).arg("time");
    asked.cmd("TIME");
    let (stored, (seconds, micros)): (Option<f64>, (i64, i64)) =
        site.link.ask("reading the time", &asked).await?;
    let said = Time::from_unix_ms(seconds.saturating_mul(1000).saturating_add(micros / 1000));
    Ok((Time::from_unix_ms(stored.unwrap_or(0.0) as i64), said))
}

/// The greatest time that was stored.
const TIME: &str = "time";

/// How often the time is kept.
const BEAT: Duration = Duration::from_secs(1);

/// How often changes are looked for that no hint has told of.
const POLL: Duration = Duration::from_secs(2);

/// How often a node says that it is there.
const REFRESH: Duration = Duration::from_secs(60);

/// What has not been said for so long is forgotten.
const FORGOTTEN_MS: i64 = 24 * 60 * 60 * 1000;

/// The time between two tries to make a session; less than after which a node is taken for dead.
const RETRY: Duration = Duration::from_millis(100);

/// How long the end of a node may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// How many tasks one poll asks for.
const POLLED_AT_ONCE: usize = 1_000;
