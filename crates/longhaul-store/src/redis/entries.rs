//! The entries of the registry.

use std::sync::LazyLock;

use ::redis::{Script, pipe};

use super::{
    Redis, Site,
    events::SWEPT_AT_ONCE,
    fault::{Fault, damaged},
    keys,
    link::{script, script_in_want},
    read::Field,
    row::{int, text},
};
use crate::{
    Entry, EntryKey, Holder, Owner, Registry, StoreError, StoreFuture, Swap, Time, Value, Version,
    registry::check,
};

static ENTRY: LazyLock<Script> = LazyLock::new(|| script(include_str!("entry.lua")));
static ENTRY_IN_WANT: LazyLock<Script> = LazyLock::new(|| script_in_want(include_str!("entry.lua")));

impl Registry for Redis {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        self.on_own(move |site| {
            let named = Named::of(key);
            async move { named.find(&site).await.map_err(|fault| site.place.error(fault)) }
        })
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        if let Err(refusal) = check(key, Some(value), &self.handle.site.node.settings.limits) {
            return Box::pin(async { Err(refusal) });
        }
        self.on_own(move |site| {
            let change = Change::of(key, Expected::Anything, Some(value));
            async move {
                match change.make_with_room(&site).await? {
                    Swap::Done(Some(entry)) => Ok(entry),
                    _ => Err(site.place.error(damaged("an answer of a script"))),
                }
            }
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        if let Err(refusal) = check(key, value, &self.handle.site.node.settings.limits) {
            return Box::pin(async { Err(refusal) });
        }
        self.on_own(move |site| {
            let change = Change::of(key, Expected::Entry(expected), value);
            async move { change.make_with_room(&site).await }
        })
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        let limit = limit.min(EntryKey::LONGEST_NAMES);
        self.on_own(move |site| {
            let of = Named::of(EntryKey { holder, kind, name: "" });
            let after = after.map(str::to_owned);
            async move { names(&site, &of, after, limit).await.map_err(|fault| site.place.error(fault)) }
        })
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.on_own(
            move |site| async move { sweep(&site, limit).await.map_err(|fault| site.place.error(fault)) },
        )
    }
}

/// An entry's name that can be kept.
pub(super) struct Named {
    owner: Option<Owner>,
    kind: String,
    name: String,
}

impl Named {
    pub(super) fn of(key: EntryKey<'_>) -> Self {
        Self { owner: key.holder.account(), kind: key.kind.to_owned(), name: key.name.to_owned() }
    }

    fn holder(&self) -> Holder<'_> {
        self.owner.as_ref().map_or(Holder::Server, Holder::Owner)
    }

    fn word(&self) -> String {
        keys::entry(EntryKey { holder: self.holder(), kind: &self.kind, name: &self.name })
    }

    fn row(&self, site: &Site) -> String {
        site.keys.one(&format!("entry:{}", self.word()))
    }

    /// The entry, if it is there.
    pub(super) async fn find(&self, site: &Site) -> Result<Option<Entry>, Fault> {
        let mut asked = pipe();
        asked.cmd("HMGET").arg(self.row(site)).arg(&["version", "ends", "value"]);
        let (fields,): (Vec<Field>,) = site.link.ask("reading an entry", &asked).await?;
        Ok(stored(&fields)?.filter(|entry| entry.lives(site.node.clock.now())))
    }
}

/// What an entry must be for a change to be made.
enum Expected {
    Anything,
    Entry(Option<Version>),
}

struct Change {
    key: Named,
    expected: Expected,
    value: Option<(Vec<u8>, Option<std::time::Duration>)>,
}

impl Change {
    fn of(key: EntryKey<'_>, expected: Expected, value: Option<Value<'_>>) -> Self {
        let value = value.map(|value| (value.bytes.to_owned(), value.ttl));
        Self { key: Named::of(key), expected, value }
    }

    async fn make_with_room(&self, site: &Site) -> Result<Swap, StoreError> {
        loop {
            // What is past its time makes some room, before it is refused for want of that.
            let fault = match self.make(site).await {
                Ok(swap) => return Ok(swap),
                Err(fault) => fault,
            };
            let is_full = matches!(fault, Fault::Refused(StoreError::Overloaded { .. }));
            if !is_full || sweep(site, SWEPT_AT_ONCE).await.map_err(|fault| site.place.error(fault))? == 0 {
                return Err(site.place.error(fault));
            }
        }
    }

    async fn make(&self, site: &Site) -> Result<Swap, Fault> {
        let (limits, now) = (&site.node.settings.limits, site.node.clock.now());
        let expected = match self.expected {
            Expected::Anything => "any".to_owned(),
            Expected::Entry(version) => version.map_or_else(String::new, |version| version.get().to_string()),
        };
        let (act, bytes, ends) = match &self.value {
            Some((bytes, ttl)) => ("put", bytes.clone(), ttl.map(|ttl| now.after(ttl))),
            None => ("remove", Vec::new(), None),
        };
        let words = [
            self.key.word(),
            self.key.name.clone(),
            self.key.owner.as_ref().map_or_else(String::new, keys::word),
            now.unix_ms().to_string(),
            expected,
            act.to_owned(),
        ];
        let mut args: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
        args.push(bytes);
        args.push(ends.map_or_else(|| "inf".to_owned(), |at| at.unix_ms().to_string()).into_bytes());
        args.push(limits.max_entries_per_owner.to_string().into_bytes());
        let most = limits.max_entries_beside(self.key.owner.as_ref());
        args.push(most.to_string().into_bytes());
        let keys = [
            self.key.row(site),
            site.keys.names(self.key.holder(), &self.key.kind),
            site.keys.one("entries"),
            site.keys.one("entries-of"),
            site.keys.one("versions"),
        ];
        let script = if self.value.is_some() { &ENTRY } else { &ENTRY_IN_WANT };
        let said: Vec<Field> = site.link.write("writing an entry", script, &keys, &args).await?;
        let Some((what, fields)) = said.split_first() else { return Err(damaged("an answer of a script")) };
        let entry = if fields.is_empty() { None } else { Some(fields) };
        match text(what)? {
            Some("done") => Ok(Swap::Done(entry.map(stored).transpose()?.flatten())),
            Some("found") => Ok(Swap::Found(entry.map(stored).transpose()?.flatten())),
            _ => {
                let own = fields.first().map(int).transpose()?.flatten().unwrap_or(0);
                limits.admit_entry(self.key.owner.as_ref(), u64::try_from(own).unwrap_or(0), u64::MAX)?;
                Err(damaged("an answer of a script"))
            }
        }
    }
}

async fn names(
    site: &Site,
    of: &Named,
    mut after: Option<String>,
    limit: usize,
) -> Result<Vec<String>, Fault> {
    let (now, mut living) = (site.node.clock.now(), Vec::new());
    while living.len() < limit {
        let few = (limit - living.len()).max(16);
        let mut asked = pipe();
        let from = after.as_ref().map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        asked.cmd("ZRANGE").arg(site.keys.names(of.holder(), &of.kind)).arg(from).arg("+").arg("BYLEX");
        asked.arg("LIMIT").arg(0).arg(few);
        let (found,): (Vec<String>,) = site.link.ask("listing entries", &asked).await?;
        let mut asked = pipe();
        for name in &found {
            let key = EntryKey { holder: of.holder(), kind: &of.kind, name };
            asked.cmd("HMGET").arg(Named::of(key).row(site)).arg(&["version", "ends"]);
        }
        let rows: Vec<Vec<Field>> =
            if found.is_empty() { Vec::new() } else { site.link.ask("listing entries", &asked).await? };
        let many = found.len();
        after = found.last().cloned();
        for (name, row) in found.into_iter().zip(rows) {
            let [version, ends] = row.as_slice() else { continue };
            let lives = version.is_some() && time(ends)?.is_none_or(|at| at > now);
            if lives && living.len() < limit {
                living.push(name);
            }
        }
        if many < few {
            break;
        }
    }
    Ok(living)
}

async fn sweep(site: &Site, limit: usize) -> Result<usize, Fault> {
    let now = site.node.clock.now().unix_ms();
    let mut asked = pipe();
    asked.cmd("ZRANGE").arg(site.keys.one("entries")).arg("-inf").arg(now).arg("BYSCORE");
    asked.arg("LIMIT").arg(0).arg(i64::try_from(limit).unwrap_or(i64::MAX));
    let (found,): (Vec<String>,) = site.link.ask("looking for expired entries", &asked).await?;
    let mut gone = 0;
    for word in found {
        let (owner, kind, name): (Option<Owner>, String, String) =
            serde_json::from_str(&word).map_err(damaged)?;
        let key = Named { owner, kind, name };
        // It is expected not to be there: if somebody has put it anew, it stays.
        let change = Change { key, expected: Expected::Entry(None), value: None };
        gone += usize::from(change.make(site).await?.is_done());
    }
    Ok(gone)
}

/// An entry of its version, its end and its value.
fn stored(fields: &[Field]) -> Result<Option<Entry>, Fault> {
    let [version, ends, value] = fields else { return Err(damaged("an entry without its fields")) };
    let Some(version) = int(version)? else { return Ok(None) };
    let version = Version::new(u64::try_from(version).map_err(damaged)?);
    Ok(Some(Entry::new(value.clone().unwrap_or_default(), version, time(ends)?)))
}

fn time(ends: &Field) -> Result<Option<Time>, Fault> {
    match text(ends)? {
        Some("inf") => Ok(None),
        _ => Ok(int(ends)?.map(Time::from_unix_ms)),
    }
}
