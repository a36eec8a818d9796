//! The entries of the registry.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    SWEPT_AT_ONCE, Sqlite, WRITE,
    events::is_any_due,
    sql,
    tx::{Site, Tx},
};
use crate::{
    Entry, EntryKey, Holder, Owner, Registry, StoreError, StoreFuture, Swap, Time, Value, Version,
    registry::check,
    row::{
        decode_owner, encode_owner,
        entry::{Bytes, Key},
        signed,
    },
};

impl Registry for Sqlite {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        self.read_with(move |conn, site| read(conn, site, key))
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        if let Err(refusal) = check(key, Some(value), &self.site.settings.limits) {
            return Box::pin(async { Err(refusal) });
        }
        let (key, value) = (Key::of(key), Bytes::of(value));
        let put = move |tx: &mut Tx<'_>| {
            let found = find(tx, &key)?;
            set(tx, &key, found, &value)
        };
        self.write_with_room(put, |this| this.sweep_entries(SWEPT_AT_ONCE))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        if let Err(refusal) = check(key, value, &self.site.settings.limits) {
            return Box::pin(async { Err(refusal) });
        }
        let (key, value) = (Key::of(key), value.map(Bytes::of));
        let swap = move |tx: &mut Tx<'_>| {
            let (found, now) = (find(tx, &key)?, tx.now());
            let living = found.as_ref().map(|(_, entry)| entry).filter(|entry| entry.lives(now));
            if living.map(|entry| entry.version) != expected {
                return Ok(Swap::Found(living.cloned()));
            }
            match (&value, found) {
                (Some(value), found) => set(tx, &key, found, value).map(|entry| Swap::Done(Some(entry))),
                (None, Some((ord, _))) => {
                    remove(tx, ord, key.owner.as_ref())?;
                    Ok(Swap::Done(None))
                }
                (None, None) => Ok(Swap::Done(None)),
            }
        };
        self.write_with_room(swap, |this| this.sweep_entries(SWEPT_AT_ONCE))
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        let limit = signed(limit.min(EntryKey::LONGEST_NAMES) as u64);
        self.read_with(move |conn, site| {
            let account = holder.account();
            let (is_own, owner) = columns(account.as_ref());
            conn.prepare_cached(sql::NAMES)
                .and_then(|mut statement| {
                    let values = params![is_own, owner, kind, after, site.clock.now().unix_ms(), limit];
                    statement.query_map(values, |row| row.get(0))?.collect()
                })
                .map_err(|error| site.error("listing entries", error))
        })
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            if !self.read_with(|conn, site| is_any_due(conn, site, sql::HAS_DUE_ENTRIES)).await? {
                return Ok(0);
            }
            self.write_with(&WRITE, move |tx| sweep(tx, limit)).await
        })
    }
}

pub(super) fn read(conn: &Connection, site: &Site, key: EntryKey<'_>) -> Result<Option<Entry>, StoreError> {
    let account = key.holder.account();
    let (is_own, owner) = columns(account.as_ref());
    conn.prepare_cached(sql::ENTRY)
        .and_then(|mut statement| {
            statement.query_row(params![is_own, owner, key.kind, key.name], stored).optional()
        })
        .map(|found| found.map(|(_, entry)| entry).filter(|entry| entry.lives(site.clock.now())))
        .map_err(|error| site.error("reading an entry", error))
}

fn columns(account: Option<&Owner>) -> (bool, &str) {
    account.map_or((false, ""), |owner| (true, encode_owner(owner)))
}

fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, Entry)> {
    let version = Version::new(u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0));
    let expires_at = row.get::<_, Option<i64>>(2)?.map(Time::from_unix_ms);
    Ok((row.get(0)?, Entry::new(row.get::<_, Vec<u8>>(3)?, version, expires_at)))
}

/// The row of an entry, be it past its time.
fn find(tx: &Tx<'_>, key: &Key) -> Result<Option<(i64, Entry)>, StoreError> {
    let (is_own, owner) = columns(key.owner.as_ref());
    tx.prepare(sql::ENTRY)?
        .query_row(params![is_own, owner, key.kind, key.name], stored)
        .optional()
        .map_err(|error| tx.site.error("reading an entry", error))
}

fn set(tx: &mut Tx<'_>, key: &Key, found: Option<(i64, Entry)>, value: &Bytes) -> Result<Entry, StoreError> {
    if found.is_none() {
        tx.charge_entry(key.owner.as_ref())?;
    }
    let version = Version::new(tx.next_version());
    let until = value.ttl.map(|ttl| tx.now().after(ttl));
    let (number, expires_at) = (signed(version.get()), until.map(Time::unix_ms));
    match found {
        Some((ord, _)) => tx.execute(sql::UPDATE_ENTRY, params![ord, number, expires_at, value.bytes])?,
        None => {
            let (is_own, owner) = columns(key.owner.as_ref());
            let values = params![is_own, owner, key.kind, key.name, number, expires_at, value.bytes];
            tx.execute(sql::ADD_ENTRY, values)?
        }
    };
    Ok(Entry::new(value.bytes.as_slice(), version, until))
}

fn remove(tx: &mut Tx<'_>, ord: i64, owner: Option<&Owner>) -> Result<(), StoreError> {
    tx.credit_entry(owner)?;
    tx.execute(sql::REMOVE_ENTRY, params![ord]).map(drop)
}

fn sweep(tx: &mut Tx<'_>, limit: usize) -> Result<usize, StoreError> {
    let due: Vec<(i64, bool, String)> = tx
        .prepare(sql::DUE_ENTRIES)?
        .query_map(params![tx.now().unix_ms(), signed(limit as u64)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .and_then(Iterator::collect)
        .map_err(|error| tx.site.error("looking for expired entries", error))?;
    for (ord, is_own, owner) in &due {
        let owner = if *is_own { Some(decode_owner(owner)?) } else { None };
        remove(tx, *ord, owner.as_ref())?;
    }
    Ok(due.len())
}
