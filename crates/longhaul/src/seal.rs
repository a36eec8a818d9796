//! States that travel through a client and come back as they were, or not at all.
//!
//! What is sealed cannot be read, changed or made by anybody without the key, and opens only for what it is bound
//! to. It says itself when it expires.
//!
//! So a server keeps nothing for whoever it gave a state to, and nodes that [share](Sealer::share_through) a key open each
//! other's.
//!
//! ```
//! use longhaul::seal::{Sealer, Unopened};
//! use std::time::Duration;
//!
//! let sealer = Sealer::new();
//! let state = sealer.seal(b"page 3", b"list of ann", Duration::from_secs(60)).ok_or("it is short")?;
//! assert_eq!(sealer.open(&state, b"list of ann"), Ok(b"page 3".to_vec()));
//! assert_eq!(sealer.open(&state, b"list of bob"), Err(Unopened::NotOurs));
//! # Ok::<(), &str>(())
//! ```

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use longhaul_tasks::store::{EntryKey, Registry, StoreError, Swap, Value};
use sha2::{Digest as _, Sha256};

/// The longest state, as text.
pub const MAX_STATE: usize = 16 << 10;

const VERSION: u8 = 1;
const KEY_ID: usize = 4;
const NONCE: usize = 24;
const HEAD: usize = 1 + KEY_ID + NONCE;

/// What seals the states of one server, or of all nodes that share a key.
pub struct Sealer(RwLock<Key>);

/// Why a state does not open.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "whose fault it is has to be decided in each case")]
pub enum Unopened {
    /// It was not sealed here for this, or was changed since.
    #[error("the state is not of this server, or of something else")]
    NotOurs,
    /// Its time is over.
    #[error("the state has expired")]
    Expired,
}

#[derive(Clone)]
struct Key {
    id: [u8; KEY_ID],
    cipher: XChaCha20Poly1305,
}

impl Key {
    fn new(bytes: &[u8; 32]) -> Self {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        let mut id = [0; KEY_ID];
        id.copy_from_slice(&digest[..KEY_ID]);
        Self { id, cipher: XChaCha20Poly1305::new(bytes.into()) }
    }
}

impl Sealer {
    /// Seals with a key of its own.
    #[must_use]
    pub fn new() -> Self {
        Self(RwLock::new(Key::new(&random())))
    }

    /// Seals with the key of this name that the nodes share, or gives them one.
    ///
    /// Dropping the future leaves the key as it was.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written.
    pub async fn share_through(&self, registry: &dyn Registry, name: &str) -> Result<(), StoreError> {
        let ours: [u8; 32] = random();
        let key = EntryKey::of_server(name, "key");
        let swap = registry.compare_and_set(key, None, Some(Value::for_ever(&ours))).await?;
        let (Swap::Done(entry) | Swap::Found(entry)) = swap;
        match entry.map(|entry| <[u8; 32]>::try_from(&*entry.value)) {
            Some(Ok(key)) => self.share(&key),
            // Another server's key would be no better: each seals with its own.
            Some(Err(_)) | None => tracing::warn!("the key of `{name}` is damaged in the store"),
        }
        Ok(())
    }

    /// Seals with this key from now on.
    fn share(&self, key: &[u8; 32]) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Key::new(key);
    }

    /// Seals `content` for what `binding` names, for so long; `None` if it is too long to travel.
    #[must_use]
    pub fn seal(&self, content: &[u8], binding: &[u8], lasting: Duration) -> Option<String> {
        let expires = now().saturating_add(lasting);
        let mut plain = Vec::with_capacity(8 + content.len());
        plain.extend_from_slice(&u64::try_from(expires.as_millis()).unwrap_or(u64::MAX).to_le_bytes());
        plain.extend_from_slice(content);
        let key = self.key();
        let nonce: [u8; NONCE] = random();
        let payload = Payload { msg: &plain, aad: binding };
        let sealed = key.cipher.encrypt(&XNonce::from(nonce), payload).ok()?;
        let state = URL_SAFE_NO_PAD.encode([&[VERSION], &key.id[..], &nonce, &sealed].concat());
        (state.len() <= MAX_STATE).then_some(state)
    }

    /// What was sealed for this.
    ///
    /// # Errors
    ///
    /// Why it does not open. A caller that is told which of the two it was learns that it was sealed here once.
    pub fn open(&self, state: &str, binding: &[u8]) -> Result<Vec<u8>, Unopened> {
        let plain = self.decrypt(state, binding).ok_or(Unopened::NotOurs)?;
        let (expires, content) = plain.split_first_chunk::<8>().ok_or(Unopened::NotOurs)?;
        if now() >= Duration::from_millis(u64::from_le_bytes(*expires)) {
            return Err(Unopened::Expired);
        }
        Ok(content.to_vec())
    }

    fn decrypt(&self, state: &str, binding: &[u8]) -> Option<Vec<u8>> {
        if state.len() > MAX_STATE {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(state).ok()?;
        let (head, sealed) = bytes.split_first_chunk::<HEAD>()?;
        let (id, nonce) = head[1..].split_first_chunk::<KEY_ID>()?;
        let nonce: [u8; NONCE] = nonce.try_into().ok()?;
        let key = self.key();
        if head[0] != VERSION || *id != key.id {
            return None;
        }
        let payload = Payload { msg: sealed, aad: binding };
        key.cipher.decrypt(&XNonce::from(nonce), payload).ok()
    }

    fn key(&self) -> Key {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for Sealer {
    fn default() -> Self {
        Self::new()
    }
}

/// The key is nobody's to see.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

/// The time that nodes share.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_state_opens_for_its_own_request_until_it_expires() {
        let sealer = Sealer::new();
        let (ours, other) = (b"a", b"b");
        let state = sealer.seal(b"journal", ours, MINUTE).unwrap();
        assert_eq!(sealer.open(&state, ours).unwrap(), b"journal");
        assert!(!URL_SAFE_NO_PAD.decode(&state).unwrap().windows(7).any(|bytes| bytes == b"journal"));
        assert_ne!(sealer.seal(b"journal", ours, MINUTE).unwrap(), state, "no two are the same");
        assert_eq!(sealer.open(&state, other).unwrap_err(), Unopened::NotOurs);
        assert!(Sealer::new().open(&state, ours).is_err(), "another server's key");
        let expired = sealer.seal(b"journal", ours, Duration::ZERO).unwrap();
        assert_eq!(sealer.open(&expired, ours), Err(Unopened::Expired));
    }

    #[test]
    fn s24_no_bit_of_a_state_can_be_changed() {
        let sealer = Sealer::new();
        let ours = b"a";
        let state = sealer.seal(b"x", ours, MINUTE).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&state).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(sealer.open(&URL_SAFE_NO_PAD.encode(changed), ours).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(sealer.open(&URL_SAFE_NO_PAD.encode(&bytes[..end]), ours).is_err(), "cut at {end}");
        }
        for wrong in ["", "!", &format!("{state}-TAMPERED"), &"A".repeat(MAX_STATE + 1)] {
            assert!(sealer.open(wrong, ours).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nodes_that_share_a_key_open_each_others_states() {
        let (one, two) = (Sealer::new(), Sealer::new());
        [&one, &two].into_iter().for_each(|sealer| sealer.share(&[7; 32]));
        let state = one.seal(b"x", b"a", MINUTE).unwrap();
        assert_eq!(two.open(&state, b"a").unwrap(), b"x");
        assert!(one.seal(&vec![0; MAX_STATE], b"a", MINUTE).is_none(), "too long to travel");
    }
}
