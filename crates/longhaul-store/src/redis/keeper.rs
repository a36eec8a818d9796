//! The one session that a node keeps: it listens to hints of other nodes' changes, and proves by that that the node is alive.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use ::redis::{
    RedisError, Script,
    aio::{PubSub, PubSubSink, PubSubStream},
    pipe,
};
use futures_util::StreamExt as _;

use super::{
    Site, entries,
    fault::Fault,
    link::script_in_want,
    read::{self, NODES},
    row::HINTS,
    settings,
};
use crate::{
    StoreError, TaskId, Time,
    networked::{
        keeper::{Keeps, Next},
        node::Standing,
    },
    transfer::Mark,
};

/// What is heard on a connection, and how it is told what to listen to.
pub(super) struct Session {
    sink: PubSubSink,
    heard: PubSubStream,
}

/// Both are said though the server has no memory left: a node lives for all that.
static HERE: LazyLock<Script> = LazyLock::new(|| {
    script_in_want("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return redis.call('HGETALL', KEYS[1])")
});
static KEEP: LazyLock<Script> =
    LazyLock::new(|| script_in_want("return redis.call('ZADD', KEYS[1], 'GT', ARGV[1], 'time')"));

/// Changes are told of by the script that makes them.
impl Keeps for Site {
    type Session = Session;

    fn polls(&self) -> Duration {
        self.poll
    }

    async fn enter(&self) -> Result<Session, StoreError> {
        let listen = async {
            let mut session: PubSub = self.link.client().get_async_pubsub().await?;
            session.subscribe(self.keys.one(HINTS)).await?;
            session.subscribe(self.keys.node(self.node.id.as_str())).await?;
            let (sink, heard) = session.split();
            Ok::<_, RedisError>(Session { sink, heard })
        };
        self.within(async { listen.await.map_err(|error| Fault::Redis { doing: "listening", error }) }).await
    }

    async fn leave(&self, mut session: Session) -> Result<(), StoreError> {
        let gone = async {
            let ended = session.sink.unsubscribe(&[self.keys.node(self.node.id.as_str())]).await;
            ended.map_err(|error| Fault::Redis { doing: "leaving", error })?;
            let mut forget = pipe();
            forget.cmd("HDEL").arg(self.keys.one(NODES)).arg(self.node.id.as_str()).ignore();
            self.link.ask("leaving", &forget).await
        };
        self.within(gone).await
    }

    async fn lost(&self) {
        self.link.forget().await;
    }

    async fn next(&self, session: &mut Session) -> Result<Next, StoreError> {
        let Some(message) = session.heard.next().await else {
            return Err(self.place.unreachable(std::io::Error::other("the session has ended")));
        };
        let hint = std::str::from_utf8(message.get_payload_bytes());
        Ok(hint.map_or(Next::Nothing, |hint| Next::Hint(hint.to_owned())))
    }

    async fn say(&self, _: &mut Session, now: Time, gone: Time) -> Result<Standing, StoreError> {
        let said = [self.node.id.as_str().as_bytes().to_vec(), now.unix_ms().to_string().into_bytes()];
        let nodes = [self.keys.one(NODES)];
        let asked = self.link.read("saying that this node is there", &HERE, &nodes, &said);
        let known: HashMap<String, i64> = self.within(asked).await?;
        let gone: Vec<String> =
            known.into_iter().filter(|(_, at)| *at < gone.unix_ms()).map(|(node, _)| node).collect();
        if !gone.is_empty() {
            let mut forget = pipe();
            forget.cmd("HDEL").arg(self.keys.one(NODES)).arg(gone).ignore();
            self.within(self.link.ask::<()>("forgetting nodes", &forget)).await?;
        }
        let found = self.within(settings::look(&self.link)).await?;
        let at_risk = found.throws_away();
        if let Some(why) = &at_risk {
            tracing::error!(store = %self.place, why, "the server may throw away what it was told to keep");
        }
        let (durability, settings) = found.durability(self.replicas);
        Ok(Standing { durability, settings, at_risk: at_risk.map(Into::into) })
    }

    async fn prove(&self, _: &mut Session) -> Result<(), StoreError> {
        let mut asked = pipe();
        asked.cmd("PUBSUB").arg("NUMSUB").arg(self.keys.node(self.node.id.as_str()));
        let ((_, listening),): ((String, u64),) =
            self.within(self.link.ask("proving that it lives", &asked)).await?;
        match listening {
            0 => Err(self
                .place
                .unreachable(std::io::Error::other("the server does not hold this session any more"))),
            _ => Ok(()),
        }
    }

    async fn times(&self, _: &mut Session) -> Result<(Time, Time), StoreError> {
        let mut asked = pipe();
        asked.cmd("ZSCORE").arg(self.keys.one(TIME)).arg("time");
        asked.cmd("TIME");
        let (stored, (seconds, micros)): (Option<f64>, (i64, i64)) =
            self.within(self.link.ask("reading the time", &asked)).await?;
        let said = Time::from_unix_ms(seconds.saturating_mul(1000).saturating_add(micros / 1000));
        Ok((Time::from_unix_ms(stored.unwrap_or(0.0) as i64), said))
    }

    async fn store_time(&self, _: &mut Session, now: Time) -> Result<(), StoreError> {
        let (keys, args) = ([self.keys.one(TIME)], [now.unix_ms().to_string().into_bytes()]);
        let _changed: i64 = self.within(self.link.read("keeping the time", &KEEP, &keys, &args)).await?;
        Ok(())
    }

    async fn mark(&self, _: &mut Session) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.within(entries::Named::of(Mark::KEY).find(self)).await?;
        Ok(found.map(|entry| entry.value.to_vec()))
    }

    async fn seqs(&self, _: &mut Session, ids: &[TaskId]) -> Result<Vec<(TaskId, u64)>, StoreError> {
        let seqs = self.within(read::seqs(self, ids)).await?;
        Ok(ids.iter().cloned().zip(seqs).filter_map(|(id, seq)| Some((id, seq?))).collect())
    }
}

/// The greatest time that was stored.
const TIME: &str = "time";
