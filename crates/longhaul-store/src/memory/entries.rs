//! The entries of the registry.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::{
    Entry, EntryKey, Holder, Limits, Owner, StoreError, Swap, Time, Value, Version, registry::check,
};

#[derive(Debug, Default)]
pub(super) struct Entries {
    entries: BTreeMap<Key, Entry>,
    count_of: HashMap<Owner, u64>,
    version: u64,
}

/// The holder's account, where `None` is the server; the kind and the name.
type Key = (Option<Owner>, Box<str>, Box<str>);

impl Entries {
    pub(super) fn entry(&self, key: EntryKey<'_>, now: Time) -> Option<Entry> {
        self.entries.get(&owned(key)).filter(|entry| entry.lives(now)).cloned()
    }

    pub(super) fn put(
        &mut self,
        key: EntryKey<'_>,
        value: Value<'_>,
        now: Time,
        limits: &Limits,
    ) -> Result<Entry, StoreError> {
        check(key, Some(value), limits)?;
        let key = owned(key);
        if !self.entries.contains_key(&key) {
            if let Err(refusal) = self.admit(&key, limits) {
                // Those past their time make room first.
                if self.sweep(usize::MAX, now) == 0 {
                    return Err(refusal);
                }
                self.admit(&key, limits)?;
            }
            if let Some(owner) = &key.0 {
                *self.count_of.entry(owner.clone()).or_default() += 1;
            }
        }
        self.version += 1;
        let until = value.ttl.map(|ttl| now.after(ttl));
        let entry = Entry::new(value.bytes, Version::new(self.version), until);
        self.entries.insert(key, entry.clone());
        Ok(entry)
    }

    pub(super) fn compare_and_set(
        &mut self,
        key: EntryKey<'_>,
        expected: Option<Version>,
        value: Option<Value<'_>>,
        now: Time,
        limits: &Limits,
    ) -> Result<Swap, StoreError> {
        check(key, value, limits)?;
        let found = self.entry(key, now);
        if found.as_ref().map(|entry| entry.version) != expected {
            return Ok(Swap::Found(found));
        }
        let Some(value) = value else {
            self.remove(&owned(key));
            return Ok(Swap::Done(None));
        };
        self.put(key, value, now, limits).map(|entry| Swap::Done(Some(entry)))
    }

    pub(super) fn names(
        &self,
        holder: Holder<'_>,
        kind: &str,
        after: Option<&str>,
        limit: usize,
        now: Time,
    ) -> Vec<String> {
        let first = owned(EntryKey { holder, kind, name: after.unwrap_or_default() });
        let from = if after.is_some() { Bound::Excluded(&first) } else { Bound::Included(&first) };
        let among = self.entries.range::<Key, _>((from, Bound::Unbounded));
        let among = among.take_while(|(key, _)| (&key.0, &key.1) == (&first.0, &first.1));
        let living = among.filter(|(_, entry)| entry.lives(now)).map(|(key, _)| String::from(&*key.2));
        living.take(limit).collect()
    }

    pub(super) fn sweep(&mut self, limit: usize, now: Time) -> usize {
        let due = self.entries.iter().filter(|(_, entry)| !entry.lives(now)).take(limit);
        let gone: Vec<Key> = due.map(|(key, _)| key.clone()).collect();
        for key in &gone {
            self.remove(key);
        }
        gone.len()
    }

    fn admit(&self, key: &Key, limits: &Limits) -> Result<(), StoreError> {
        let account = key.0.as_ref();
        let own = account.and_then(|owner| self.count_of.get(owner)).copied().unwrap_or(0);
        limits.admit_entry(account, own, self.entries.len() as u64)
    }

    fn remove(&mut self, key: &Key) {
        if self.entries.remove(key).is_none() {
            return;
        }
        if let Some(owner) = &key.0
            && let Some(count) = self.count_of.get_mut(owner)
        {
            *count -= 1;
            if *count == 0 {
                self.count_of.remove(owner);
            }
        }
    }
}

fn owned(key: EntryKey<'_>) -> Key {
    (key.holder.account(), key.kind.into(), key.name.into())
}
