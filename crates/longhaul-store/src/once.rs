//! The key under which a call is made once, however often it is sent.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::Digest;

/// What makes a second create of the same call find the first, also after that has ended, until its tombstone goes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Once {
    /// What the caller calls its call. Each owner has its own.
    pub key: CallKey,
    /// A fingerprint of the call: the key stands for no other.
    pub of: Digest,
}

impl Once {
    /// The call with this fingerprint, under this key.
    #[must_use]
    pub fn new(key: CallKey, of: Digest) -> Self {
        Self { key, of }
    }
}

/// A caller's own name for one of its calls.
///
/// Compared byte for byte. For [`Owner::Anonymous`](crate::Owner) it is a key to the task as its id is, so that layers
/// above take only those of strangers that nobody can guess.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallKey(Arc<str>);

impl CallKey {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 320;

    /// Takes a key.
    ///
    /// # Errors
    ///
    /// [`InvalidCallKey`] if it is empty, longer than [`Self::MAX_LEN`], or has anything but visible ASCII characters.
    ///
    /// ```
    /// use longhaul_store::CallKey;
    /// assert!(CallKey::new("order/17#2").is_ok());
    /// assert!(CallKey::new("order 17").is_err());
    /// ```
    pub fn new(key: impl Into<Arc<str>>) -> Result<Self, InvalidCallKey> {
        let key = key.into();
        if key.is_empty() || key.len() > Self::MAX_LEN || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidCallKey {});
        }
        Ok(Self(key))
    }

    /// The key as it was taken.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key that cannot be one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, thiserror::Error)]
#[error("a call's key has 1 to {max} visible ASCII characters", max = CallKey::MAX_LEN)]
#[non_exhaustive]
pub struct InvalidCallKey {}
