//! Keys, and what is sealed with them.
//!
//! Sealing is XChaCha20-Poly1305. What is sealed twice at one place comes out the same, so that a write that is made again is
//! the same write: the nonce is an HMAC of the place and of what is sealed, under a key of its own, so that no nonce serves
//! two contents.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The keys of a sealed store: the newest seals, and what any of them has sealed is opened.
///
/// ```
/// use longhaul_store::sealed::SealingKeys;
///
/// // `openssl rand -base64 32` makes one.
/// let keys = SealingKeys::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
/// assert!(SealingKeys::new("too short").is_err());
/// # drop(keys);
/// # Ok::<_, longhaul_store::sealed::InvalidSealingKey>(())
/// ```
#[derive(Clone)]
pub struct SealingKeys(Arc<[Key]>);

/// A key that is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a key is 32 random bytes in base64, as `openssl rand -base64 32` makes them")]
#[non_exhaustive]
pub struct InvalidSealingKey;

/// Why something does not open.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Unopened {
    /// It was sealed with a key of this name, which is not among ours.
    NoKey(String),
    /// It is not what was sealed for this place.
    Damaged,
}

/// What is sealed belongs to a place, and opens there alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// What it is.
    pub(super) kind: &'static str,
    /// Of what: a task, an entry.
    pub(super) of: &'a str,
}

#[derive(Clone)]
struct Key {
    id: [u8; KEY_ID],
    cipher: XChaCha20Poly1305,
    nonces: Hmac<Sha256>,
}

/// What every sealed text begins with.
pub(super) const MARK: &str = "sealed1.";

const KEY_ID: usize = 4;
const NONCE: usize = 24;
const TAG: usize = 16;

/// Bytes that sealing adds, before a third of all for base64.
pub(super) const OVERHEAD: usize = KEY_ID + NONCE + TAG;

impl SealingKeys {
    /// This key alone.
    ///
    /// # Errors
    ///
    /// When it is not 32 bytes in base64.
    pub fn new(newest: &str) -> Result<Self, InvalidSealingKey> {
        Ok(Self([Key::read(newest)?].into()))
    }

    /// Older ones too, with which nothing more is sealed.
    #[must_use]
    pub fn or(self, older: Self) -> Self {
        Self(self.0.iter().chain(older.0.iter()).cloned().collect())
    }

    /// Seals with the newest; `like` tells it from what else is sealed for this place, and need not be known to open it.
    pub(super) fn seal(&self, place: Place<'_>, like: &str, plain: &[u8]) -> Vec<u8> {
        // There is one at least.
        let key = &self.0[0];
        let bound = place.bytes();
        let nonce = key.nonce(&bound, like, plain);
        let payload = Payload { msg: plain, aad: &bound };
        let sealed = key.cipher.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.expect("no content is as long as the cipher allows");
        [&key.id[..], &nonce, &sealed].concat()
    }

    /// What was sealed for this place, by any of the keys.
    pub(super) fn open(&self, place: Place<'_>, sealed: &[u8]) -> Result<Vec<u8>, Unopened> {
        let (id, rest) = sealed.split_first_chunk::<KEY_ID>().ok_or(Unopened::Damaged)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>().ok_or(Unopened::Damaged)?;
        let key = self.0.iter().find(|key| key.id == *id).ok_or_else(|| Unopened::NoKey(name(id)))?;
        let payload = Payload { msg: sealed, aad: &place.bytes() };
        key.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| Unopened::Damaged)
    }

    /// As a text, which shows that it is sealed.
    pub(super) fn seal_text(&self, place: Place<'_>, like: &str, plain: &str) -> String {
        let mut text = MARK.to_owned();
        URL_SAFE_NO_PAD.encode_string(self.seal(place, like, plain.as_bytes()), &mut text);
        text
    }

    /// What a text was before it was sealed; `None` if it does not look like one that is.
    pub(super) fn open_text(&self, place: Place<'_>, text: &str) -> Option<Result<String, Unopened>> {
        let sealed = text.strip_prefix(MARK)?;
        Some(
            URL_SAFE_NO_PAD.decode(sealed).map_err(|_| Unopened::Damaged).and_then(|sealed| {
                String::from_utf8(self.open(place, &sealed)?).map_err(|_| Unopened::Damaged)
            }),
        )
    }

    /// Whether the newest has sealed this.
    pub(super) fn is_newest(&self, sealed: &[u8]) -> bool {
        sealed.starts_with(&self.0[0].id)
    }
}

impl Place<'_> {
    /// No two places have the same.
    fn bytes(self) -> Vec<u8> {
        [self.kind.as_bytes(), &[0], self.of.as_bytes()].concat()
    }
}

impl Key {
    fn read(text: &str) -> Result<Self, InvalidSealingKey> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| InvalidSealingKey)?;
        let master: [u8; 32] = bytes.try_into().map_err(|_| InvalidSealingKey)?;
        let derived =
            |what: &str| -> [u8; 32] { mac(&master).chain_update(what).finalize().into_bytes().into() };
        let mut id = [0; KEY_ID];
        id.copy_from_slice(&derived("longhaul store: name")[..KEY_ID]);
        let cipher = XChaCha20Poly1305::new(&derived("longhaul store: contents").into());
        Ok(Self { id, cipher, nonces: mac(&derived("longhaul store: nonces")) })
    }

    fn nonce(&self, bound: &[u8], like: &str, plain: &[u8]) -> [u8; NONCE] {
        let mut mac = self.nonces.clone();
        for part in [bound, like.as_bytes()] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.update(plain);
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&digest[..NONCE]);
        nonce
    }
}

fn mac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key may have any length")
}

/// How a key is called where people read it.
fn name(id: &[u8; KEY_ID]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Their names alone are anybody's to see.
impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| name(&key.id))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const OTHER: &str = "//////////////////////////////////////////8=";
    const HERE: Place<'_> = Place { kind: "a", of: "t" };

    #[test]
    fn what_is_sealed_opens_at_its_place_alone() {
        let keys = SealingKeys::new(ONE).unwrap();
        let text = keys.seal_text(HERE, "k", "secret");
        assert_eq!(keys.open_text(HERE, &text), Some(Ok("secret".to_owned())));
        assert_eq!(text, keys.seal_text(HERE, "k", "secret"), "a write that is made again is the same write");
        for (like, plain) in [("l", "secret"), ("k", "Secret")] {
            let other = keys.seal_text(HERE, like, plain);
            assert_ne!(text[..MARK.len() + 37], other[..MARK.len() + 37], "no nonce serves two contents");
        }
        for place in [Place { kind: "b", ..HERE }, Place { of: "u", ..HERE }, Place { kind: "", of: "at" }] {
            assert_eq!(keys.open_text(place, &text), Some(Err(Unopened::Damaged)), "{place:?}");
        }
        assert_eq!(keys.open_text(HERE, "secret"), None);
    }

    #[test]
    fn no_bit_of_what_is_sealed_can_be_changed() {
        let keys = SealingKeys::new(ONE).unwrap();
        let sealed = keys.seal(HERE, "", b"x");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(keys.open(HERE, &changed).is_err(), "bit {bit}");
        }
        for end in 0..sealed.len() {
            assert!(keys.open(HERE, &sealed[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn the_newest_key_seals_and_older_ones_open() {
        let (old, new) = (SealingKeys::new(ONE).unwrap(), SealingKeys::new(OTHER).unwrap());
        let both = new.clone().or(old.clone());
        let (before, after) = (old.seal(HERE, "", b"x"), both.seal(HERE, "", b"x"));
        assert_eq!(
            (both.open(HERE, &before).unwrap(), new.open(HERE, &after).unwrap()),
            (b"x".to_vec(), b"x".to_vec())
        );
        assert!(both.is_newest(&after) && !both.is_newest(&before));
        assert!(matches!(new.open(HERE, &before), Err(Unopened::NoKey(_))));
        assert!(!format!("{both:?}").contains("AAEC"));
    }
}
