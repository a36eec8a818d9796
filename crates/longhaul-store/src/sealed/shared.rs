//! What nodes share and what was sent, sealed; and the entry by which a key is known for the store's.

use super::keys::{Place, SealingKeys};
use super::{Sealed, Sealing, refusal};
use crate::{
    Entry, EntryKey, Event, EventStore, Holder, Owner, Registry, StoreError, StoreFuture, Stream, Swap,
    Value, Version,
};

/// Where it is written with which key the store is sealed.
pub(super) const PROOF: EntryKey<'static> =
    EntryKey { holder: Holder::Server, kind: "sealed", name: "proof" };
const PROVEN: Place<'static> = Place { kind: "proof", of: "" };

/// What a sealed value begins with: no text does.
pub(super) const MARK: [u8; 2] = [0xff, 1];

/// Whether a store is sealed, so that nobody should read or write it but through [`Sealed`]. Who goes on without keys if it is not
/// asks [`is_being_sealed`](super::is_being_sealed), too, and is there by then.
///
/// # Errors
///
/// What reading it gives.
pub async fn is_sealed(store: &dyn Registry) -> Result<bool, StoreError> {
    Ok(store.entry(PROOF).await?.is_some())
}

/// A value that says nothing, and is sealed.
pub(super) fn sealed_nothing(keys: &SealingKeys) -> Vec<u8> {
    [&MARK[..], &keys.seal(PROVEN, "", b"")].concat()
}

/// Finds out whether these are the keys of the store, and makes the newest known; if it has none yet, they are.
pub(super) async fn prove(store: &dyn Registry, keys: &SealingKeys) -> Result<(), StoreError> {
    let proof = keys.seal(PROVEN, "", b"");
    let mut found = store.entry(PROOF).await?;
    loop {
        let version = match &found {
            Some(entry) => {
                prove_one(keys, entry)?;
                if keys.is_newest(&entry.value) {
                    return Ok(());
                }
                Some(entry.version)
            }
            None => None,
        };
        match store.compare_and_set(PROOF, version, Some(Value::for_ever(&proof))).await? {
            Swap::Done(_) => return Ok(()),
            // Another node was quicker, maybe with another key.
            Swap::Found(other) => found = other,
        }
    }
}

/// Finds out whether these are the keys of the store, which has some.
pub(super) async fn try_keys(store: &dyn Registry, keys: &SealingKeys) -> Result<(), StoreError> {
    match store.entry(PROOF).await? {
        Some(entry) => prove_one(keys, &entry),
        None => Err(StoreError::NotSealed { what: "the store".to_owned() }),
    }
}

fn prove_one(keys: &SealingKeys, proof: &Entry) -> Result<(), StoreError> {
    let opened = keys.open(PROVEN, &proof.value);
    opened.map(drop).map_err(|why| refusal("the store".to_owned(), why))
}

impl Sealing {
    pub(super) fn seal_value(&self, key: EntryKey<'_>, value: Value<'_>) -> Vec<u8> {
        let name = name(key);
        let place = Place { kind: "entry", of: &name };
        [&MARK[..], &self.keys.seal(place, "", value.bytes)].concat()
    }

    fn open_entry(&self, key: EntryKey<'_>, mut entry: Entry) -> Result<Entry, StoreError> {
        let what = || format!("entry {} of {}", key.name, key.kind);
        let Some(sealed) = entry.value.strip_prefix(&MARK) else {
            return if self.reads_plain { Ok(entry) } else { Err(StoreError::NotSealed { what: what() }) };
        };
        let name = name(key);
        let opened = self.keys.open(Place { kind: "entry", of: &name }, sealed);
        entry.value = opened.map_err(|why| refusal(what(), why))?.into();
        Ok(entry)
    }

    fn open_event(&self, place: Place<'_>, mut event: Event) -> Result<Event, StoreError> {
        let what = || format!("event {} of a stream", event.number);
        event.text = match self.keys.open_text(place, &event.text) {
            Some(opened) => opened.map_err(|why| refusal(what(), why))?.into(),
            None if event.text.is_empty() || self.reads_plain => event.text,
            None => return Err(StoreError::NotSealed { what: what() }),
        };
        Ok(event)
    }
}

/// No two entries have the same.
fn name(key: EntryKey<'_>) -> String {
    let owner = key.holder.account().map_or_else(|| "server".to_owned(), |account| of(&account));
    format!("{}:{}{}:{owner}{}", key.kind.len(), key.kind, owner.len(), key.name)
}

fn of(owner: &Owner) -> String {
    match owner {
        Owner::Principal(principal) => format!("={}", principal.as_str()),
        Owner::Anonymous => "anonymous".to_owned(),
    }
}

impl<S: Registry> Registry for Sealed<S> {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        Box::pin(async move {
            let entry = self.store.entry(key).await?;
            entry.map(|entry| self.sealing.open_entry(key, entry)).transpose()
        })
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        Box::pin(async move {
            let sealed = self.sealing.seal_value(key, value);
            let entry = self.store.put(key, Value { bytes: &sealed, ttl: value.ttl }).await?;
            self.sealing.open_entry(key, entry)
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            let sealed = value.map(|value| (self.sealing.seal_value(key, value), value.ttl));
            let value = sealed.as_ref().map(|(bytes, ttl)| Value { bytes, ttl: *ttl });
            let open =
                |entry: Option<Entry>| entry.map(|entry| self.sealing.open_entry(key, entry)).transpose();
            Ok(match self.store.compare_and_set(key, expected, value).await? {
                Swap::Done(entry) => Swap::Done(open(entry)?),
                Swap::Found(entry) => Swap::Found(open(entry)?),
            })
        })
    }

    /// Names are kept as they are.
    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        self.store.names(holder, kind, after, limit)
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.store.sweep_entries(limit)
    }
}

impl<S: EventStore> EventStore for Sealed<S> {
    fn append<'a>(&'a self, stream: Stream<'a>, text: &'a str) -> StoreFuture<'a, u64> {
        if text.is_empty() {
            return self.store.append(stream, text);
        }
        Box::pin(async move {
            let of = stream_name(stream);
            // Equal texts of a stream look equal, which events seldom are.
            let sealed = self.sealing.keys.seal_text(Place { kind: "event", of: &of }, "", text);
            self.store.append(stream, &sealed).await
        })
    }

    fn replay<'a>(
        &'a self,
        stream: Stream<'a>,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Option<Vec<Event>>> {
        Box::pin(async move {
            let of = stream_name(stream);
            let open = |event| self.sealing.open_event(Place { kind: "event", of: &of }, event);
            let events = self.store.replay(stream, after, limit).await?;
            events.map(|events| events.into_iter().map(open).collect()).transpose()
        })
    }

    fn prolong<'a>(&'a self, stream: Stream<'a>) -> StoreFuture<'a, Option<u64>> {
        self.store.prolong(stream)
    }

    fn trim<'a>(&'a self, owner: &'a Owner, session: &'a str) -> StoreFuture<'a, usize> {
        self.store.trim(owner, session)
    }

    fn sweep_streams(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.store.sweep_streams(limit)
    }
}

/// No two streams have the same.
fn stream_name(stream: Stream<'_>) -> String {
    let owner = of(stream.owner);
    format!("{}:{owner}{}:{}{}", owner.len(), stream.session.len(), stream.session, stream.name)
}
