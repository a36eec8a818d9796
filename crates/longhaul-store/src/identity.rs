//! Names of things in a store: a task, a node, and the fencing number of one attempt.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The name of one task, unique in its store.
///
/// 1 to 128 visible ASCII characters other than those a header value or a URL segment would have to escape,
/// so that an id can stand in a header, a path and a terminal as it is.
/// An id minted from [`TaskId::from_entropy`] cannot be guessed; for a caller without a principal it *is* the key
/// to the task.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskId(Arc<str>);

impl TaskId {
    /// The longest id, in bytes.
    pub const MAX_LEN: usize = 128;

    /// Takes an id that came from outside.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if it is empty, too long, or has a character outside `A-Z a-z 0-9 - _ . ~ :`.
    ///
    /// ```
    /// use longhaul_store::TaskId;
    /// assert!(TaskId::new("task_01").is_ok());
    /// assert!(TaskId::new("no spaces").is_err());
    /// ```
    pub fn new(id: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        checked(id.into(), "task id", Self::MAX_LEN).map(Self)
    }

    /// Mints an id from 160 random bits, which the caller draws from a cryptographic source.
    ///
    /// ```
    /// use longhaul_store::TaskId;
    /// let id = TaskId::from_entropy([0xff; 20]);
    /// assert_eq!(id.as_str(), "77777777777777777777777777777777");
    /// ```
    #[must_use]
    pub fn from_entropy(bits: [u8; 20]) -> Self {
        Self::from_entropy_of("", bits)
    }

    /// The same behind the first sixteen characters of a name and a dash, for people: letters become small ones, and what is
    /// neither a letter nor a digit an underscore.
    ///
    /// ```
    /// use longhaul_store::TaskId;
    /// let id = TaskId::from_entropy_of("Build.All", [0xff; 20]);
    /// assert_eq!(id.as_str(), "build_all-77777777777777777777777777777777");
    /// ```
    #[must_use]
    pub fn from_entropy_of(name: &str, bits: [u8; 20]) -> Self {
        // Each call that could become a task has one: nothing is allocated but the id, and nothing checked that cannot be
        // wrong.
        let mut id = [0; PREFIX + 1 + MINTED];
        let mut length = 0;
        for byte in name.bytes().take(PREFIX) {
            id[length] = if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'_' };
            length += 1;
        }
        if length > 0 {
            id[length] = b'-';
            length += 1;
        }
        base32(&bits, &mut id[length..length + MINTED]);
        let id = std::str::from_utf8(&id[..length + MINTED]).expect("every byte is ASCII");
        Self(id.into())
    }

    /// The id as it is written everywhere.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for TaskId {
    type Err = InvalidName;

    fn from_str(id: &str) -> Result<Self, InvalidName> {
        Self::new(id)
    }
}

/// The name of one open store handle: random, never used twice, dead once its handle is gone.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Takes a name; it may become a file name, so the alphabet is that of [`TaskId`] less `~` and `:`.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if it is empty, too long, starts with a dot, or has a character outside `A-Z a-z 0-9 - _ .`.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        let name = checked(name.into(), NODE_NAME, Self::MAX_LEN)?;
        if name.starts_with('.') || name.contains(['~', ':']) {
            return Err(InvalidName { what: NODE_NAME, max: Self::MAX_LEN });
        }
        Ok(Self(name))
    }

    /// Mints a name from 80 random bits.
    #[must_use]
    pub fn from_entropy(bits: [u8; 10]) -> Self {
        let mut name = [0; 16];
        base32(&bits, &mut name);
        Self(std::str::from_utf8(&name).expect("every byte is ASCII").into())
    }

    /// The name as it is written everywhere.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fencing number of one attempt: every claim, release, cancel and expiry raises it, and a write that
/// carries an older one is refused.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Epoch(u64);

impl Epoch {
    /// Under which a task is held by whoever made it.
    pub const FIRST: Self = Self(1);

    /// The epoch with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether whoever held a task at `held`, and holds it at this one, has held it all the while: every claim and every
    /// release is an epoch more, so that another's would show.
    ///
    /// ```
    /// use longhaul_store::Epoch;
    ///
    /// let held = Epoch::FIRST;
    /// assert!(held.succeeds(held) && held.next().succeeds(held), "its own claim is one");
    /// assert!(!held.next().next().succeeds(held), "somebody else's came between");
    /// ```
    #[must_use]
    pub const fn succeeds(self, held: Self) -> bool {
        self.0 == held.0 || self.0 == held.next().0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that cannot be one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("invalid {what}: use 1 to {max} of the characters A-Z a-z 0-9 - _ .{}", others(what))]
#[non_exhaustive]
pub struct InvalidName {
    what: &'static str,
    max: usize,
}

/// What else a name may hold; a node's may become a file's.
fn others(what: &str) -> &'static str {
    if what == NODE_NAME { "" } else { " ~ :" }
}

const NODE_NAME: &str = "node name";

fn checked(name: Arc<str>, what: &'static str, max: usize) -> Result<Arc<str>, InvalidName> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~' | b':');
    if name.is_empty() || name.len() > max || !name.bytes().all(allowed) {
        return Err(InvalidName { what, max });
    }
    Ok(name)
}

/// The longest part of a name that an id repeats.
const PREFIX: usize = 16;

/// How long 160 bits are in base 32.
const MINTED: usize = 32;

/// Lower-case base 32 of whole 40-bit groups, so no padding arises; `text` has eight bytes for each five.
fn base32(bytes: &[u8], text: &mut [u8]) {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    for (group, text) in bytes.chunks_exact(5).zip(text.chunks_exact_mut(8)) {
        let bits = group.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (nth, place) in text.iter_mut().enumerate() {
            *place = ALPHABET[(bits >> (35 - nth * 5) & 31) as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_safe_in_a_header_a_path_and_a_terminal() {
        for bad in ["", "a b", "a/b", "a\nb", "é", "a%b", "\"", "a{b}"] {
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
        assert!(TaskId::new("x".repeat(128)).is_ok());
        assert!(TaskId::new("x".repeat(129)).is_err());
        assert_eq!("a:b~c".parse::<TaskId>().unwrap().as_str(), "a:b~c");
    }

    #[test]
    fn a_node_name_is_a_plain_file_name() {
        for bad in ["..", ".hidden", "a:b", "a~", "a/b", ""] {
            assert!(NodeId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(NodeId::from_entropy([0; 10]).as_str(), "aaaaaaaaaaaaaaaa");
    }

    #[test]
    fn a_minted_id_is_one_whatever_its_name_is() {
        for (name, prefix) in
            [("Build.All", "build_all-"), ("", ""), ("é", "__-"), (&"x".repeat(200), "xxxxxxxxxxxxxxxx-")]
        {
            let id = TaskId::from_entropy_of(name, [0; 20]);
            assert_eq!(id.as_str(), format!("{prefix}{}", "a".repeat(32)));
            assert!(TaskId::new(id.as_str()).is_ok(), "{id}");
        }
    }

    #[test]
    fn entropy_is_spread_over_the_whole_id() {
        let mut bits = [0; 20];
        bits[19] = 1;
        assert!(TaskId::from_entropy(bits).as_str().ends_with('b'));
        bits[0] = 0x80;
        assert!(TaskId::from_entropy(bits).as_str().starts_with('q'));
    }
}
