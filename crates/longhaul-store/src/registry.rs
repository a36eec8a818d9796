//! The contract: small facts that nodes share and that pass away: sessions, keys, spent nonces, buckets.

use std::{fmt, sync::Arc, time::Duration};

use crate::{Limits, Owner, Quota, StoreError, StoreFuture, Time};

/// Whose an entry is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(clippy::exhaustive_enums, reason = "an entry is a caller's or the server's own")]
pub enum Holder<'a> {
    /// A caller's.
    Owner(&'a Owner),
    /// A caller's, too, but one that can be done without: it is counted apart from the others, up to as many again
    /// ([`Limits::max_entries_per_owner`]), and refused once half of the room of all is taken. So it takes no room of theirs.
    Spare(&'a Owner),
    /// The server's own: its keys, what it remembers of no caller in particular.
    Server,
}

impl Holder<'_> {
    /// Among whose entries it is kept and counted; the server's own are nobody's.
    pub(crate) fn account(self) -> Option<Owner> {
        match self {
            Holder::Owner(owner) => Some(owner.clone()),
            Holder::Spare(owner) => {
                let name = match owner {
                    Owner::Principal(principal) => principal.as_str(),
                    Owner::Anonymous => "",
                };
                // Whoever's name leaves no room for that has them counted with the others.
                let spare = Owner::principal(format!("{SPARE}{name}"));
                Some(spare.unwrap_or_else(|_| owner.clone()))
            }
            Holder::Server => None,
        }
    }
}

/// How the names of accounts begin in which entries are that can be done without.
const SPARE: &str = "spare\0";

/// Which entry: whose, of what kind, and its name among those.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct EntryKey<'a> {
    /// Whose it is.
    pub holder: Holder<'a>,
    /// What it is: one word of the layer that keeps it, such as `session`.
    pub kind: &'a str,
    /// Its name among the holder's entries of this kind.
    pub name: &'a str,
}

impl<'a> EntryKey<'a> {
    /// The longest kind and the longest name, in bytes.
    pub const MAX_NAME: usize = 256;
    /// The most names of a [`Registry::names`].
    pub const LONGEST_NAMES: usize = 1000;

    /// An entry of a caller.
    #[must_use]
    pub fn of(owner: &'a Owner, kind: &'a str, name: &'a str) -> Self {
        Self { holder: Holder::Owner(owner), kind, name }
    }

    /// An entry of a caller that can be done without.
    #[must_use]
    pub fn spare(owner: &'a Owner, kind: &'a str, name: &'a str) -> Self {
        Self { holder: Holder::Spare(owner), kind, name }
    }

    /// An entry of the server's own.
    #[must_use]
    pub fn of_server(kind: &'a str, name: &'a str) -> Self {
        Self { holder: Holder::Server, kind, name }
    }
}

/// What an entry is to hold.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Value<'a> {
    /// The bytes, which nobody here reads.
    pub bytes: &'a [u8],
    /// How long it lasts from now on; `None` for ever.
    pub ttl: Option<Duration>,
}

impl<'a> Value<'a> {
    /// These bytes, for this long.
    #[must_use]
    pub fn lasting(bytes: &'a [u8], ttl: Duration) -> Self {
        Self { bytes, ttl: Some(ttl) }
    }

    /// These bytes, for ever.
    #[must_use]
    pub fn for_ever(bytes: &'a [u8]) -> Self {
        Self { bytes, ttl: None }
    }
}

/// Values may be secrets.
impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes, {:?})", self.bytes.len(), self.ttl)
    }
}

/// Tells one state of an entry from every other, also after it was removed and made anew.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Version(u64);

impl Version {
    /// The version with this number, which a store hands out once.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// An entry as it is stored.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Its bytes.
    pub value: Arc<[u8]>,
    /// What a [`Registry::compare_and_set`] must show to change it.
    pub version: Version,
    /// When it is gone.
    pub expires_at: Option<Time>,
}

impl Entry {
    /// This entry.
    #[must_use]
    pub fn new(value: impl Into<Arc<[u8]>>, version: Version, expires_at: Option<Time>) -> Self {
        Self { value: value.into(), version, expires_at }
    }

    /// Whether it is still there.
    #[must_use]
    pub fn lives(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

/// Values may be secrets.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({} bytes, {:?}, {:?})", self.value.len(), self.version, self.expires_at)
    }
}

/// What became of a [`Registry::compare_and_set`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what to do in each case")]
pub enum Swap {
    /// The entry is as asked: this one, or gone.
    Done(Option<Entry>),
    /// It was otherwise, and is as it was: this one, or none.
    Found(Option<Entry>),
}

impl Swap {
    /// Whether the entry is as asked.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// Small facts that nodes share, each until its time is up.
///
/// **Atomic** and **cancel safe** as a [`TaskStore`](crate::TaskStore), at its durability.
///
/// **Scoped.** Every operation takes the holder. An entry past its time does not exist, swept or not.
///
/// A nonce is spent once, whatever nodes meet over it:
///
/// ```
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul_store::{EntryKey, Memory, Owner, Registry, Value};
/// use std::time::Duration;
///
/// let (store, ann) = (Memory::new(), Owner::principal("ann")?);
/// let nonce = EntryKey::of(&ann, "nonce", "n1");
/// let spent = Value::lasting(b"", Duration::from_secs(900));
/// assert!(store.compare_and_set(nonce, None, Some(spent)).await?.is_done());
/// assert!(!store.compare_and_set(nonce, None, Some(spent)).await?.is_done());
/// # Ok(()) }
/// ```
pub trait Registry: fmt::Debug + Send + Sync {
    /// The entry, if there is one.
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>>;

    /// Makes or replaces an entry, whatever it was.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`], [`StoreError::Overloaded`]; in each case nothing has changed.
    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry>;

    /// Makes, replaces or removes an entry if it is as `expected`: of this version, or not there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap>;

    /// The names of a holder's entries of one kind, in their order, from the one after `after` on: at most `limit`, and at
    /// most [`LONGEST_NAMES`](EntryKey::LONGEST_NAMES) at once. No name is left out for being on the next page, and
    /// none is told that no entry had since the listing began.
    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>>;

    /// Makes room by removing at most `limit` entries whose time is up; returns how many. Any node may, at any time.
    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize>;
}

/// Refuses a name or a value that is too large.
pub(crate) fn check(key: EntryKey<'_>, value: Option<Value<'_>>, limits: &Limits) -> Result<(), StoreError> {
    let name = key.kind.len().max(key.name.len());
    if name > EntryKey::MAX_NAME {
        return Err(StoreError::TooLarge { what: "an entry's name", found: name, limit: EntryKey::MAX_NAME });
    }
    match value.map_or(0, |value| value.bytes.len()) {
        found if found > limits.max_entry => {
            Err(StoreError::TooLarge { what: "an entry", found, limit: limits.max_entry })
        }
        _ => Ok(()),
    }
}

impl Limits {
    /// How many entries there may be in all for one more of that account, if it is anybody's, to be made.
    pub(crate) fn max_entries_beside(&self, account: Option<&Owner>) -> u64 {
        let is_spare = |account: &&Owner| matches!(account, Owner::Principal(principal) if principal.as_str().starts_with(SPARE));
        if account.filter(is_spare).is_some() { self.max_entries / 2 } else { self.max_entries }
    }

    /// Refuses one more entry of an account where there are these already; `own` are its, unless it is the server itself.
    pub(crate) fn admit_entry(&self, account: Option<&Owner>, own: u64, all: u64) -> Result<(), StoreError> {
        let own = if account.is_some() { own } else { 0 };
        let quotas = [
            (Quota::EntriesPerOwner, own, self.max_entries_per_owner),
            (Quota::Entries, all, self.max_entries_beside(account)),
        ];
        match quotas.into_iter().find(|(_, found, limit)| found >= limit) {
            Some((what, _, limit)) => Err(StoreError::Overloaded { what, limit }),
            None => Ok(()),
        }
    }
}
