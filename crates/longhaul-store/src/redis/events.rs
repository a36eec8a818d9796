//! Streams and their events.

use std::sync::LazyLock;

use ::redis::{Script, pipe};

use super::{
    Redis, Site,
    fault::{Fault, damaged},
    keys,
    link::{reading, script, script_in_want},
};
use crate::{
    Event, EventStore, Owner, StoreError, StoreFuture, Stream,
    event_store::{Kept, LARGEST_REPLAY, LONGEST_REPLAY, room},
};

static APPEND: LazyLock<Script> = LazyLock::new(|| script(include_str!("append.lua")));
static REPLAY: LazyLock<Script> = LazyLock::new(|| reading(include_str!("replay.lua")));
static PROLONG: LazyLock<Script> = LazyLock::new(|| script_in_want(include_str!("prolong.lua")));
static FORGET: LazyLock<Script> = LazyLock::new(|| script_in_want(include_str!("forget.lua")));

impl EventStore for Redis {
    fn append<'a>(&'a self, stream: Stream<'a>, text: &'a str) -> StoreFuture<'a, u64> {
        if let Err(refusal) = stream.check() {
            return Box::pin(async { Err(refusal) });
        }
        self.on_own(move |site| {
            let (stream, text) = (Named::of(stream), text.to_owned());
            async move {
                loop {
                    // What is past its time makes some room, before it is refused for want of that.
                    match append(&site, &stream, &text).await {
                        Err(Fault::Refused(StoreError::Overloaded { .. }))
                            if sweep(&site, SWEPT_AT_ONCE).await? > 0 => {}
                        appended => return appended.map_err(|fault| site.place.error(fault)),
                    }
                }
            }
        })
    }

    fn replay<'a>(
        &'a self,
        stream: Stream<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>> {
        let limit = limit.clamp(1, LONGEST_REPLAY);
        self.on_own(move |site| {
            let stream = Named::of(stream);
            async move {
                let args = [
                    site.node.clock.now().unix_ms().to_string(),
                    after.to_string(),
                    limit.to_string(),
                    LARGEST_REPLAY.to_string(),
                ];
                let args = args.map(String::into_bytes);
                let keys = stream.keys(&site);
                let read = site.link.read("reading events", &REPLAY, &keys[..2], &args);
                let found: Option<Vec<String>> = read.await.map_err(|fault| site.place.error(fault))?;
                Ok(found.map(|texts| (after + 1..).zip(texts).map(|(n, text)| Event::new(n, text)).collect()))
            }
        })
    }

    fn prolong<'a>(&'a self, stream: Stream<'a>) -> StoreFuture<'a, Option<u64>> {
        self.on_own(move |site| {
            let stream = Named::of(stream);
            async move {
                let now = site.node.clock.now();
                let until = now.after(site.node.settings.event_retention);
                let args = [stream.word(), now.unix_ms().to_string(), until.unix_ms().to_string()];
                let args = args.map(String::into_bytes);
                let [of_stream, _, _, streams, ..] = stream.keys(&site);
                let keys = [of_stream, streams];
                let prolonged = site.link.write("keeping a stream", &PROLONG, &keys, &args);
                prolonged.await.map_err(|fault| site.place.error(fault))
            }
        })
    }

    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize> {
        self.on_own(move |site| {
            let of_session = site.keys.session(owner, session);
            async move {
                let mut asked = pipe();
                asked.cmd("SMEMBERS").arg(of_session);
                remove(&site, &asked, i64::MAX).await
            }
        })
    }

    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.on_own(move |site| async move { sweep(&site, limit).await })
    }
}

/// A stream's name that can be kept.
pub(super) struct Named {
    pub(super) owner: Owner,
    pub(super) session: String,
    pub(super) name: String,
}

impl Named {
    fn of(stream: Stream<'_>) -> Self {
        Self { owner: stream.owner.clone(), session: stream.session.to_owned(), name: stream.name.to_owned() }
    }

    pub(super) fn word(&self) -> String {
        keys::stream(Stream::new(&self.owner, &self.session, &self.name))
    }

    pub(super) fn keys(&self, site: &Site) -> [String; 6] {
        let (keys, word) = (&site.keys, self.word());
        [
            keys.one(&format!("stream:{word}")),
            keys.one(&format!("events:{word}")),
            keys.session(&self.owner, &self.session),
            keys.one("streams"),
            keys.one("event-bytes-of"),
            keys.one("event-bytes"),
        ]
    }
}

async fn append(site: &Site, stream: &Named, text: &str) -> Result<u64, Fault> {
    let (limits, now) = (&site.node.settings.limits, site.node.clock.now());
    let takes = room(text);
    // One that is too large by itself is told from one for which there is no room.
    Kept::default().push(takes, limits, || Ok(None))?;
    let args = [
        stream.word(),
        keys::word(&stream.owner),
        text.to_owned(),
        now.unix_ms().to_string(),
        now.after(site.node.settings.event_retention).unix_ms().to_string(),
        limits.max_stream_events.to_string(),
        limits.max_stream_bytes.to_string(),
        limits.max_event_bytes_per_owner.to_string(),
        limits.max_event_bytes.to_string(),
        (takes - text.len() as u64).to_string(),
    ];
    let args = args.map(String::into_bytes);
    let written: [u64; 3] = site.link.write("adding an event", &APPEND, &stream.keys(site), &args).await?;
    match written {
        [0, own, all] => {
            limits.admit_events(own, all)?;
            Err(damaged("an answer of a script"))
        }
        [number, ..] => Ok(number),
    }
}

async fn sweep(site: &Site, limit: usize) -> Result<usize, StoreError> {
    let now = site.node.clock.now().unix_ms();
    let mut asked = pipe();
    asked.cmd("ZRANGE").arg(site.keys.one("streams")).arg("-inf").arg(now).arg("BYSCORE");
    asked.arg("LIMIT").arg(0).arg(i64::try_from(limit).unwrap_or(i64::MAX));
    remove(site, &asked, now).await
}

/// Removes the streams that are found so, if they end by a time.
async fn remove(site: &Site, asked: &::redis::Pipeline, until: i64) -> Result<usize, StoreError> {
    let all = async {
        let (found,): (Vec<String>,) = site.link.ask("looking for streams", asked).await?;
        let mut gone = 0;
        for word in found {
            let (owner, session, name) = serde_json::from_str(&word).map_err(damaged)?;
            let stream = Named { owner, session, name };
            let args = [word, keys::word(&stream.owner), until.to_string()].map(String::into_bytes);
            let removed: usize =
                site.link.write("removing a stream", &FORGET, &stream.keys(site), &args).await?;
            gone += removed;
        }
        Ok(gone)
    };
    all.await.map_err(|fault| site.place.error(fault))
}

/// How much that is past its time goes at once to make room.
pub(super) const SWEPT_AT_ONCE: usize = 256;
