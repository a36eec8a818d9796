//! What was sent in streams.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::{
    Event, Owner, Settings, StoreError, Stream, Time,
    event_store::{Kept, LARGEST_REPLAY, room},
};

#[derive(Debug, Default)]
pub(super) struct Streams {
    logs: BTreeMap<Key, Log>,
    bytes: u64,
    bytes_of: HashMap<Owner, u64>,
}

type Key = (Owner, Box<str>, Box<str>);

#[derive(Debug)]
struct Log {
    kept: Kept,
    events: VecDeque<Event>,
    expires_at: Time,
}

impl Streams {
    pub(super) fn append(
        &mut self,
        stream: Stream<'_>,
        text: &str,
        now: Time,
        settings: &Settings,
    ) -> Result<u64, StoreError> {
        stream.check()?;
        match self.try_append(stream, text, now, settings) {
            // Those past their time make room first.
            Err(StoreError::Overloaded { .. }) if self.sweep(usize::MAX, now) > 0 => {
                self.try_append(stream, text, now, settings)
            }
            appended => appended,
        }
    }

    fn try_append(
        &mut self,
        stream: Stream<'_>,
        text: &str,
        now: Time,
        settings: &Settings,
    ) -> Result<u64, StoreError> {
        let (key, limits) = (key(stream), &settings.limits);
        let found = self.logs.get(&key);
        let freed = found.map_or(0, |log| log.kept.bytes);
        let live = found.filter(|log| log.expires_at > now);
        let mut kept = live.map(|log| log.kept).unwrap_or_default();
        let mut rooms = live.iter().flat_map(|log| &log.events).map(|event| room(&event.text));
        kept.push(room(text), limits, || Ok(rooms.next()))?;
        if kept.bytes > freed {
            let own = self.bytes_of.get(stream.owner).copied().unwrap_or(0);
            limits.admit_events(own - freed + kept.bytes, self.bytes - freed + kept.bytes)?;
        }
        let mut events =
            self.remove(&key).filter(|log| log.expires_at > now).map(|log| log.events).unwrap_or_default();
        events.retain(|event| event.number >= kept.first());
        events.push_back(Event::new(kept.last, text));
        self.bytes += kept.bytes;
        *self.bytes_of.entry(stream.owner.clone()).or_default() += kept.bytes;
        self.logs.insert(key, Log { kept, events, expires_at: now.after(settings.event_retention) });
        Ok(kept.last)
    }

    pub(super) fn replay(
        &self,
        stream: Stream<'_>,
        after: u64,
        limit: usize,
        now: Time,
    ) -> Option<Vec<Event>> {
        let log = self.logs.get(&key(stream)).filter(|log| log.expires_at > now)?;
        if !log.kept.follows(after) {
            return None;
        }
        let (mut events, mut bytes) = (Vec::new(), 0);
        for event in log.events.iter().filter(|event| event.number > after).take(limit) {
            bytes += event.text.len();
            events.push(event.clone());
            if bytes >= LARGEST_REPLAY {
                break;
            }
        }
        Some(events)
    }

    pub(super) fn prolong(&mut self, stream: Stream<'_>, now: Time, until: Time) -> Option<u64> {
        let log = self.logs.get_mut(&key(stream)).filter(|log| log.expires_at > now)?;
        log.expires_at = log.expires_at.max(until);
        Some(log.kept.last)
    }

    pub(super) fn trim(&mut self, owner: &Owner, session: &str) -> usize {
        let of_session = |key: &&Key| key.0 == *owner && *key.1 == *session;
        let gone: Vec<Key> = self.logs.keys().filter(of_session).cloned().collect();
        gone.iter().filter_map(|key| self.remove(key)).count()
    }

    pub(super) fn sweep(&mut self, limit: usize, now: Time) -> usize {
        let due = self.logs.iter().filter(|(_, log)| log.expires_at <= now).take(limit);
        let gone: Vec<Key> = due.map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| self.remove(key)).count()
    }

    fn remove(&mut self, key: &Key) -> Option<Log> {
        let log = self.logs.remove(key)?;
        self.bytes -= log.kept.bytes;
        if let Some(bytes) = self.bytes_of.get_mut(&key.0) {
            *bytes -= log.kept.bytes;
            if *bytes == 0 {
                self.bytes_of.remove(&key.0);
            }
        }
        Some(log)
    }
}

fn key(stream: Stream<'_>) -> Key {
    (stream.owner.clone(), stream.session.into(), stream.name.into())
}
