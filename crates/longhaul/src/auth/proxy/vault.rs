//! What an authorization server remembers: sealed, with whoever it concerns, or in the store that the nodes share.
//!
//! Nothing is stored for somebody who has not signed in. What a stranger begins travels with the stranger, sealed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul_tasks::store::{EntryKey, Registry, StoreError, Swap, Value, Version};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use crate::seal::{Sealer, Unopened, random};

/// What something is sealed for. It opens for nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A client that registered itself: its id is what it registered.
    Client,
    /// What a page asks its reader to approve.
    Consent,
    /// Which browser such a page was shown to.
    Browser,
    /// A sign-in upstream, under way.
    SignIn,
    /// What a browser has approved before.
    Approved,
    /// A token that lets in.
    Access,
    /// A token that gets another.
    Refresh,
}

impl Purpose {
    /// What is sealed outlives a release, and so does its name.
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "Client",
            Self::Consent => "Consent",
            Self::Browser => "Browser",
            Self::SignIn => "SignIn",
            Self::Approved => "Approved",
            Self::Access => "Access",
            Self::Refresh => "Refresh",
        }
    }
}

/// What is kept in the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A code, until it is redeemed, and for a while after.
    Code,
    /// What somebody who signed in has granted a client.
    Grant,
    /// A sign-in that has come to its end.
    Spent,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Code => "auth-code",
            Self::Grant => "auth-grant",
            Self::Spent => "auth-spent",
        }
    }
}

/// What the store answered, with what it takes to change it.
#[derive(Debug)]
pub(super) struct Kept<T> {
    pub(super) value: T,
    pub(super) version: Version,
}

/// How many entries are removed at once, and how often in a row.
const SWEEP: usize = 100;
const SWEEPS: usize = 100;

pub(super) struct Vault {
    issuer: String,
    sealer: Sealer,
    registry: Arc<dyn Registry>,
    ready: OnceCell<()>,
}

impl Vault {
    pub(super) fn new(issuer: &str, registry: Arc<dyn Registry>) -> Self {
        Self { issuer: issuer.to_owned(), sealer: Sealer::new(), registry, ready: OnceCell::new() }
    }

    /// Takes the key that the nodes share; before that nothing of theirs opens.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        let share = || self.sealer.share_through(&*self.registry, "authorization");
        self.ready.get_or_try_init(share).await.copied()
    }

    /// `None` when it is too long to travel.
    pub(super) fn seal<T: Serialize>(
        &self,
        purpose: Purpose,
        value: &T,
        lasting: Duration,
    ) -> Option<String> {
        self.sealer.seal(&serde_json::to_vec(value).ok()?, &self.binding(purpose), lasting)
    }

    pub(super) fn open<T: DeserializeOwned>(&self, purpose: Purpose, text: &str) -> Result<T, Unopened> {
        let bytes = self.sealer.open(text, &self.binding(purpose))?;
        serde_json::from_slice(&bytes).map_err(|_| Unopened::NotOurs)
    }

    /// Another server on the same store is another issuer.
    fn binding(&self, purpose: Purpose) -> Vec<u8> {
        format!("{} {}", purpose.name(), self.issuer).into_bytes()
    }

    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        kind: Kind,
        name: &str,
    ) -> Result<Option<Kept<T>>, StoreError> {
        let name = self.name(name);
        let Some(entry) = self.registry.entry(EntryKey::of_server(kind.name(), &name)).await? else {
            return Ok(None);
        };
        // One that an older release wrote otherwise is as good as none: whoever it is for signs in again.
        let value = serde_json::from_slice(&entry.value).ok();
        Ok(value.map(|value| Kept { value, version: entry.version }))
    }

    /// Makes or changes an entry that is as expected; says whether it was.
    pub(super) async fn put<T: Serialize>(
        &self,
        kind: Kind,
        name: &str,
        expected: Option<Version>,
        value: &T,
        lasting: Duration,
    ) -> Result<bool, StoreError> {
        let name = self.name(name);
        let unwritable = |source| StoreError::Backend { doing: "writing an entry", source: Arc::new(source) };
        let bytes = serde_json::to_vec(value).map_err(unwritable)?;
        let value = Value::lasting(&bytes, lasting);
        let key = EntryKey::of_server(kind.name(), &name);
        Ok(self.registry.compare_and_set(key, expected, Some(value)).await?.is_done())
    }

    /// Removes an entry, whatever it has become meanwhile.
    pub(super) async fn remove(&self, kind: Kind, name: &str) -> Result<(), StoreError> {
        let name = self.name(name);
        let key = EntryKey::of_server(kind.name(), &name);
        while let Some(entry) = self.registry.entry(key).await? {
            if let Swap::Done(_) = self.registry.compare_and_set(key, Some(entry.version), None).await? {
                break;
            }
        }
        Ok(())
    }

    /// Makes room where what was kept is past its time: some of it, if there is very much.
    pub(super) async fn sweep(&self) -> Result<(), StoreError> {
        for _ in 0..SWEEPS {
            if self.registry.sweep_entries(SWEEP).await? < SWEEP {
                break;
            }
        }
        Ok(())
    }

    /// Who reads the store cannot use what is in it.
    fn name(&self, secret: &str) -> String {
        digest(&format!("{}\n{secret}", self.issuer))
    }
}

/// Neither its key nor what it keeps.
impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// A text that nobody can guess.
pub(super) fn secret() -> String {
    URL_SAFE_NO_PAD.encode(random::<32>())
}

/// SHA-256, as PKCE writes it (RFC 7636, 4.2).
pub(super) fn digest(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use longhaul_tasks::store::Memory;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_is_sealed_opens_for_its_own_purpose_at_its_own_issuer_and_at_every_node() {
        let registry: Arc<dyn Registry> = Arc::new(Memory::new());
        let vault = async |issuer: &str| {
            let vault = Vault::new(issuer, Arc::clone(&registry));
            vault.ready().await.unwrap();
            vault
        };
        let ours = vault("https://mcp.example").await;
        let sealed = ours.seal(Purpose::Access, &"x", MINUTE).unwrap();
        let opened = |vault: &Vault, purpose| vault.open::<String>(purpose, &sealed);
        assert_eq!(opened(&ours, Purpose::Access), Ok("x".to_owned()));
        assert_eq!(opened(&vault("https://mcp.example").await, Purpose::Access), Ok("x".to_owned()));
        assert_eq!(opened(&vault("https://other.example").await, Purpose::Access), Err(Unopened::NotOurs));
        for other in [
            Purpose::Client,
            Purpose::Consent,
            Purpose::Browser,
            Purpose::SignIn,
            Purpose::Approved,
            Purpose::Refresh,
        ] {
            assert_eq!(opened(&ours, other), Err(Unopened::NotOurs), "{other:?}");
        }
        let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
        assert!(
            ours.put(Kind::Grant, "a", None, &unwritable, MINUTE).await.is_err(),
            "nothing is kept for it"
        );
        ours.put(Kind::Grant, "a", None, &1, MINUTE).await.unwrap();
        let found = async |vault: &Vault, kind| vault.find::<i32>(kind, "a").await.unwrap().is_some();
        assert!(found(&ours, Kind::Grant).await && !found(&ours, Kind::Code).await);
        assert!(!found(&vault("https://other.example").await, Kind::Grant).await);
    }
}
