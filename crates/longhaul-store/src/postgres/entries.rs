//! The entries of the registry.

use tokio_postgres::Row;

use super::{
    Postgres, SWEPT_AT_ONCE,
    events::IsAnyDue,
    fault::{Fault, damaged},
    read::Moment,
    sql,
    tx::{Tx, int, text, time},
    value::Value,
};
use crate::{
    Entry, EntryKey, Holder, Owner, Registry, StoreFuture, Swap, Time, Value as Wanted, Version,
    networked::{
        look::Look,
        transaction::{Operation, Transaction as _},
    },
    registry::check,
    row::{
        Cells as _, decode_owner, encode_owner,
        entry::{Bytes, Key},
    },
};

impl Registry for Postgres {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        self.0.look(move || Find(Key::of(key)))
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Wanted<'a>) -> StoreFuture<'a, Entry> {
        if let Err(refusal) = check(key, Some(value), &self.0.site.node.settings.limits) {
            return Box::pin(async { Err(refusal) });
        }
        let put = move || Put { key: Key::of(key), value: Bytes::of(value) };
        self.change_with_room(put, |this| this.sweep_entries(SWEPT_AT_ONCE))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Wanted<'a>>,
    ) -> StoreFuture<'a, Swap> {
        if let Err(refusal) = check(key, value, &self.0.site.node.settings.limits) {
            return Box::pin(async { Err(refusal) });
        }
        let swap = move || CompareAndSet { key: Key::of(key), expected, value: value.map(Bytes::of) };
        self.change_with_room(swap, |this| this.sweep_entries(SWEPT_AT_ONCE))
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        let limit = limit.min(EntryKey::LONGEST_NAMES);
        self.0.look(move || Names {
            of: Key::of(EntryKey { holder, kind, name: "" }),
            after: after.map(str::to_owned),
            limit,
        })
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            if !self.0.look(|| IsAnyDue(sql::HAS_DUE_ENTRIES)).await? {
                return Ok(0);
            }
            self.0.change(move || Sweep(limit)).await
        })
    }
}

/// Whose, of what kind, and its name.
pub(super) fn values(key: &Key) -> [Value<'_>; 4] {
    let owner = key.owner.as_ref().map_or("", encode_owner);
    let is_own = Value::int(key.owner.is_some());
    [is_own, Value::words(owner), Value::words(&key.kind), Value::words(&key.name)]
}

struct Find(Key);

impl Look<Moment> for Find {
    type Found = Option<Entry>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Option<Entry>, Fault> {
        let rows = session.query("reading an entry", sql::ENTRY, &values(&self.0)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(stored(row)?.1).filter(|entry| entry.lives(site.node.clock.now())))
    }
}

struct Put {
    key: Key,
    value: Bytes,
}

impl Operation<Tx> for Put {
    type Done = Entry;

    async fn run(&self, tx: &mut Tx) -> Result<Entry, Fault> {
        let found = find(tx, &self.key).await?;
        set(tx, &self.key, found, &self.value).await
    }
}

struct CompareAndSet {
    key: Key,
    expected: Option<Version>,
    value: Option<Bytes>,
}

impl Operation<Tx> for CompareAndSet {
    type Done = Swap;

    async fn run(&self, tx: &mut Tx) -> Result<Swap, Fault> {
        let (found, now) = (find(tx, &self.key).await?, tx.now());
        let living = found.as_ref().map(|(_, entry)| entry).filter(|entry| entry.lives(now));
        if living.map(|entry| entry.version) != self.expected {
            return Ok(Swap::Found(living.cloned()));
        }
        match (&self.value, found) {
            (Some(value), found) => Ok(Swap::Done(Some(set(tx, &self.key, found, value).await?))),
            (None, Some((ord, _))) => {
                remove(tx, ord, self.key.owner.as_ref()).await?;
                Ok(Swap::Done(None))
            }
            (None, None) => Ok(Swap::Done(None)),
        }
    }
}

struct Names {
    of: Key,
    after: Option<String>,
    limit: usize,
}

impl Look<Moment> for Names {
    type Found = Vec<String>;

    const SEVERAL: bool = false;

    async fn look(&self, Moment { session, site }: &Moment) -> Result<Vec<String>, Fault> {
        let [is_own, owner, kind, _] = values(&self.of);
        let after = Value::maybe_words(self.after.as_deref());
        let now = Value::int(site.node.clock.now().unix_ms());
        let values = [is_own, owner, kind, after, now, Value::count(self.limit as u64)];
        let rows = session.query("listing entries", sql::NAMES, &values).await?;
        rows.iter().map(|row| Ok(text(row, 0)?.to_owned())).collect()
    }
}

struct Sweep(usize);

impl Operation<Tx> for Sweep {
    type Done = usize;

    async fn run(&self, tx: &mut Tx) -> Result<usize, Fault> {
        let values = [Value::int(tx.now().unix_ms()), Value::count(self.0 as u64)];
        let due = tx.query("looking for expired entries", sql::DUE_ENTRIES, &values).await?;
        for row in &due {
            let owner = if int(row, 1)? == 0 { None } else { Some(decode_owner(text(row, 2)?)?) };
            remove(tx, int(row, 0)?, owner.as_ref()).await?;
        }
        Ok(due.len())
    }
}

fn stored(row: &Row) -> Result<(i64, Entry), Fault> {
    let version = Version::new(u64::try_from(int(row, 1)?).unwrap_or(0));
    let expires_at = row.int(2).map_err(damaged)?.map(Time::from_unix_ms);
    let value = row.bytes(3).map_err(damaged)?.unwrap_or_default();
    Ok((int(row, 0)?, Entry::new(value, version, expires_at)))
}

/// The row of an entry, be it past its time, which is held.
async fn find(tx: &Tx, key: &Key) -> Result<Option<(i64, Entry)>, Fault> {
    let rows = tx.query("reading an entry", sql::HOLD_ENTRY, &values(key)).await?;
    rows.first().map(stored).transpose()
}

async fn set(tx: &mut Tx, key: &Key, found: Option<(i64, Entry)>, value: &Bytes) -> Result<Entry, Fault> {
    if found.is_none() {
        tx.charge_entry(key.owner.as_ref()).await?;
    }
    let version = Version::new(tx.next_version().await?);
    let until = value.ttl.map(|ttl| tx.now().after(ttl));
    let (number, expires_at, bytes) =
        (Value::count(version.get()), time(until), Value::Bytes(Some(&value.bytes)));
    match found {
        Some((ord, _)) => {
            tx.execute(sql::UPDATE_ENTRY, &[Value::int(ord), number, expires_at, bytes]).await?;
        }
        None => {
            let [is_own, owner, kind, name] = values(key);
            let values = [is_own, owner, kind, name, number, expires_at, bytes];
            if tx.execute(sql::ADD_ENTRY, &values).await?.is_empty() {
                // Somebody else has just made it.
                return Err(Fault::Again);
            }
        }
    }
    Ok(Entry::new(value.bytes.as_slice(), version, until))
}

async fn remove(tx: &mut Tx, ord: i64, owner: Option<&Owner>) -> Result<(), Fault> {
    tx.credit_entry(owner);
    tx.execute(sql::REMOVE_ENTRY, &[Value::int(ord)]).await.map(drop)
}
