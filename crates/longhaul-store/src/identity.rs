//! Names of things in a store: a task, a node, the host of some nodes, and the fencing number of one attempt.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::Time;

/// The name of one task, unique in its store.
///
/// 1 to 128 visible ASCII characters other than those a header value or a URL segment would have to escape,
/// so that an id can stand in a header, a path and a terminal as it is.
/// An id that was [minted](TaskId::minted) cannot be guessed; for a caller without a principal it *is* the key to the task.
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

    /// Mints the id of a task that is made `at` this time from 160 random bits, which the caller draws from a cryptographic
    /// source: the first sixteen characters of a name and a dash, for people (letters become small ones, and what is neither a
    /// letter nor a digit an underscore), then the time, then the bits.
    ///
    /// Tasks that are made together have ids that lie together: an index over a million of them is changed and read in one
    /// place, not all over. The time counts 64 milliseconds.
    ///
    /// ```
    /// use longhaul_store::{TaskId, Time};
    ///
    /// let [one, two] = [0, 64].map(|at| TaskId::minted("Build.All", Time::from_unix_ms(at), [0xff; 20]));
    /// assert_eq!(one.as_str(), "build_all-22222222zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
    /// assert_eq!(two.as_str(), "build_all-22222223zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
    /// ```
    #[must_use]
    pub fn minted(name: &str, at: Time, bits: [u8; 20]) -> Self {
        // Nothing is allocated but the id, and nothing checked that cannot be wrong.
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
        let [.., a, b, c, d, e] = (at.unix_ms() >> TICK).to_be_bytes();
        let mut bytes = [0; 25];
        bytes[..5].copy_from_slice(&[a, b, c, d, e]);
        bytes[5..].copy_from_slice(&bits);
        base32(&bytes, &mut id[length..length + MINTED]);
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
        plain(name.into(), NODE_NAME, Self::MAX_LEN).map(Self)
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

/// The name of a place that work outside the processes of nodes is bound to: what runs there is reached by the nodes that are
/// there and by no other. It lasts as long as the place.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostId(Arc<str>);

impl HostId {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Takes a name, of the alphabet of a [`NodeId`].
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if it is empty, too long, starts with a dot, or has a character outside `A-Z a-z 0-9 - _ .`.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        plain(name.into(), HOST_NAME, Self::MAX_LEN).map(Self)
    }

    /// Mints a name from 80 random bits.
    #[must_use]
    pub fn from_entropy(bits: [u8; 10]) -> Self {
        Self(NodeId::from_entropy(bits).0)
    }

    /// The name as it is written everywhere.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostId {
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
    if what == NODE_NAME || what == HOST_NAME { "" } else { " ~ :" }
}

const NODE_NAME: &str = "node name";

const HOST_NAME: &str = "host name";

/// A name that may become a file's.
fn plain(name: Arc<str>, what: &'static str, max: usize) -> Result<Arc<str>, InvalidName> {
    let name = checked(name, what, max)?;
    if name.starts_with('.') || name.contains(['~', ':']) {
        return Err(InvalidName { what, max });
    }
    Ok(name)
}

fn checked(name: Arc<str>, what: &'static str, max: usize) -> Result<Arc<str>, InvalidName> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~' | b':');
    if name.is_empty() || name.len() > max || !name.bytes().all(allowed) {
        return Err(InvalidName { what, max });
    }
    Ok(name)
}

/// The longest part of a name that an id repeats.
const PREFIX: usize = 16;

/// How long 40 bits of time and 160 random ones are in base 32.
const MINTED: usize = 40;

/// How many bits of a time in milliseconds an id leaves out.
const TICK: u32 = 6;

/// Lower-case base 32 of whole 40-bit groups, so no padding arises; `text` has eight bytes for each five. Text is in the
/// order of the bytes.
fn base32(bytes: &[u8], text: &mut [u8]) {
    const ALPHABET: &[u8; 32] = b"234567abcdefghijklmnopqrstuvwxyz";
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
        let minted_before = "build_all-2222223abcdefghijklmnopqrstuvwxy";
        assert!(TaskId::new(minted_before).is_ok(), "of 128 bits, as it once was");
        assert_eq!("a:b~c".parse::<TaskId>().unwrap().as_str(), "a:b~c");
    }

    #[test]
    fn a_node_name_is_a_plain_file_name() {
        for bad in ["..", ".hidden", "a:b", "a~", "a/b", ""] {
            assert!(NodeId::new(bad).is_err() && HostId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(NodeId::from_entropy([0; 10]).as_str(), "2222222222222222");
    }

    #[test]
    fn a_minted_id_is_one_whatever_its_name_is() {
        for (name, prefix) in
            [("Build.All", "build_all-"), ("", ""), ("é", "__-"), (&"x".repeat(200), "xxxxxxxxxxxxxxxx-")]
        {
            let id = TaskId::minted(name, Time::from_unix_ms(0), [0; 20]);
            assert_eq!(id.as_str(), format!("{prefix}{}", "2".repeat(40)));
            assert!(TaskId::new(id.as_str()).is_ok(), "{id}");
        }
    }

    #[test]
    fn ids_lie_in_the_order_of_their_times_and_every_bit_tells_two_apart() {
        let minted = |at, bits| TaskId::minted("build", Time::from_unix_ms(at), bits);
        let ids = [0, 64, 128, 64 << 5, 64 << 20, 64 << 32, (1 << 46) - 64].map(|at| minted(at, [0xff; 20]));
        assert!(ids.is_sorted_by(|one, two| one < two), "{ids:?}");
        assert_eq!(
            minted(1 << 46, [0; 20]),
            minted(0, [0; 20]),
            "the time begins anew, after two thousand years"
        );
        assert_eq!(minted(0, [0; 20]), minted(63, [0; 20]), "made together");
        let other = |bit: usize| {
            let mut bits = [0; 20];
            bits[bit / 8] = 1 << (bit % 8);
            minted(0, bits)
        };
        let mut others: Vec<_> = (0..160).map(other).chain([minted(0, [0; 20])]).collect();
        others.sort();
        others.dedup();
        assert_eq!(others.len(), 161);
    }
}
