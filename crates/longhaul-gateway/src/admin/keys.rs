//! Keys that are good once, and the sessions of browsers that came with one.
//!
//! Both are entries of the registry by their digests: any node knows them, a restart forgets none, and who reads the store
//! learns none.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul::server::{Caller, Grant, Scopes};
use longhaul::store::{EntryKey, Owner, Principal, Registry, StoreError, Value};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Viewer;

/// How long a key waits for whoever comes with it.
pub const KEY_LASTS: Duration = Duration::from_secs(60 * 60);

/// How long the operator's browser stays signed in.
const SESSION_LASTS: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long somebody's does who came with a token, unless that ends before: whoever takes it back waits so long at most.
const TOKEN_SESSION_LASTS: Duration = Duration::from_secs(60 * 60);

const KEY: &str = "page-key";
const SESSION: &str = "page-session";

/// A new key that opens the pages of every server on this store once, to its operator, within [`KEY_LASTS`].
///
/// # Errors
///
/// When the store cannot be written.
pub async fn new_key(registry: &dyn Registry) -> Result<String, StoreError> {
    let key = secret();
    let value = Value::lasting(b"", KEY_LASTS);
    registry.put(EntryKey::of_server(KEY, &digest(&key)), value).await?;
    Ok(key)
}

/// Who is let in.
#[derive(Debug)]
pub(crate) struct Sessions(Arc<dyn Registry>);

/// What is kept of one.
#[derive(Deserialize, Serialize)]
struct Kept {
    /// `None`: the operator, who came with a key.
    principal: Option<String>,
    is_operator: bool,
    scopes: Option<String>,
    claims: serde_json::Map<String, serde_json::Value>,
}

impl Sessions {
    pub(super) fn new(registry: Arc<dyn Registry>) -> Self {
        Self(registry)
    }

    /// Spends a key; whether it was good.
    ///
    /// # Errors
    ///
    /// When the store cannot be used: it may be good still.
    pub(crate) async fn spend(&self, key: &str) -> Result<bool, StoreError> {
        let name = digest(key);
        let entry = EntryKey::of_server(KEY, &name);
        match self.0.entry(entry).await? {
            Some(found) => Ok(self.0.compare_and_set(entry, Some(found.version), None).await?.is_done()),
            None => Ok(false),
        }
    }

    /// Opens a session for the operator, or for a caller; gives what its browser shows from now on, and for how long.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub(crate) async fn open(&self, viewer: Option<&Viewer>) -> Result<(String, Duration), StoreError> {
        let caller = viewer.map(Viewer::caller);
        let grant = caller.and_then(|caller| caller.grant.as_deref());
        let kept = Kept {
            principal: caller.and_then(|caller| Some(caller.principal.as_ref()?.to_string())),
            is_operator: viewer.is_none_or(Viewer::is_operator),
            scopes: grant.and_then(Grant::scopes).map(ToString::to_string),
            claims: grant.map(|grant| grant.claims().clone()).unwrap_or_default(),
        };
        let bytes = serde_json::to_vec(&kept).expect("names and claims are JSON");
        let lasts = if viewer.is_some() { token_lasts(grant) } else { SESSION_LASTS };
        let token = match &kept.principal {
            Some(principal) => format!("{}.{}", secret(), digest(principal)),
            None => secret(),
        };
        self.0.put(Place::of(&token).key(), Value::lasting(&bytes, lasts)).await?;
        Ok((token, lasts))
    }

    /// Whose session it is. One that a key opened counts if `by_key`.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub(crate) async fn find(&self, token: &str, by_key: bool) -> Result<Option<Viewer>, StoreError> {
        let Some(entry) = self.0.entry(Place::of(token).key()).await? else { return Ok(None) };
        // One of another release is none.
        Ok(serde_json::from_slice(&entry.value).ok().and_then(|kept| viewer(kept, by_key)))
    }

    /// Ends a session; whether it was one.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub(crate) async fn end(&self, token: &str) -> Result<bool, StoreError> {
        let place = Place::of(token);
        let Some(entry) = self.0.entry(place.key()).await? else { return Ok(false) };
        self.0.compare_and_set(place.key(), Some(entry.version), None).await?;
        Ok(true)
    }
}

/// Where a session is kept: the operator's with what is the server's own, a caller's with those of the same caller, of which
/// there may be as many as of anybody's entries. The token names the caller by a digest, for names can be long.
struct Place {
    owner: Option<Owner>,
    name: String,
}

impl Place {
    fn of(token: &str) -> Self {
        let caller = token.split_once('.').map(|(_, caller)| Owner::principal(format!("page:{caller}")));
        Self { owner: caller.and_then(Result::ok), name: digest(token) }
    }

    fn key(&self) -> EntryKey<'_> {
        match &self.owner {
            Some(owner) => EntryKey::of(owner, SESSION, &self.name),
            None => EntryKey::of_server(SESSION, &self.name),
        }
    }
}

/// How long the session of a caller lasts: no longer than its token.
fn token_lasts(grant: Option<&Grant>) -> Duration {
    let ends = grant.and_then(|grant| grant.claim::<f64>("exp"));
    let ends = ends.and_then(|ends| Duration::try_from_secs_f64(ends).ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let rest = ends.map_or(TOKEN_SESSION_LASTS, |ends| ends.saturating_sub(now));
    // A token counts a little longer than it says, for clocks differ: its session is over at once.
    rest.clamp(Duration::from_secs(1), TOKEN_SESSION_LASTS)
}

fn viewer(kept: Kept, by_key: bool) -> Option<Viewer> {
    let Some(principal) = kept.principal else {
        return (by_key && kept.is_operator).then(Viewer::operator);
    };
    let scopes = kept.scopes.map(|scopes| Scopes::parse(&scopes)).transpose().ok()?;
    let mut caller = Caller::new(Some(Principal::new(principal).ok()?));
    caller.grant = Some(Arc::new(Grant::new(scopes, kept.claims)));
    Some(Viewer::of(caller, kept.is_operator))
}

/// 256 bits that nobody can guess.
fn secret() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .expect("the system gives random numbers, without which there is no TLS either");
    URL_SAFE_NO_PAD.encode(bytes)
}

fn digest(secret: &str) -> String {
    let mut name = String::with_capacity(64);
    for byte in Sha256::digest(secret.as_bytes()) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use longhaul::store::{Holder, Memory, Settings, SystemClock};

    use super::*;

    #[tokio::test]
    async fn a_key_is_good_once_and_kept_nowhere() {
        let registry = Arc::new(Memory::new());
        let key = new_key(&*registry).await.unwrap();
        assert!(key.len() >= 43);
        let names = registry.names(Holder::Server, KEY, None, 10).await.unwrap();
        assert!(names.len() == 1 && !names[0].contains(&key));
        let sessions = Sessions::new(Arc::<Memory>::clone(&registry));
        assert!(!sessions.spend("another").await.unwrap());
        assert!(sessions.spend(&key).await.unwrap());
        assert!(!sessions.spend(&key).await.unwrap());
        assert_eq!(registry.names(Holder::Server, KEY, None, 10).await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn a_session_is_whose_it_was_until_it_ends() {
        let sessions = Sessions::new(Arc::new(Memory::new()));
        let (operators, _) = sessions.open(None).await.unwrap();
        let mut ann = Caller::new(Some(Principal::new("ann").unwrap()));
        ann.grant = Some(Arc::new(Grant::new(Some(Scopes::parse("read").unwrap()), Default::default())));
        let (anns, _) = sessions.open(Some(&Viewer::of(ann, false))).await.unwrap();
        assert!(sessions.find(&operators, true).await.unwrap().unwrap().is_operator());
        let found = sessions.find(&anns, false).await.unwrap().unwrap();
        assert!(!found.is_operator());
        assert_eq!(found.caller().principal.as_ref().unwrap().as_str(), "ann");
        assert!(!found.caller().grant.as_ref().unwrap().allows(&Scopes::parse("write").unwrap()));
        sessions.end(&anns).await.unwrap();
        assert!(sessions.find(&anns, true).await.unwrap().is_none());
        assert!(sessions.find("", true).await.unwrap().is_none());
        assert!(sessions.find(&operators, false).await.unwrap().is_none(), "keys count no more");
    }

    #[tokio::test]
    async fn who_signs_in_without_end_takes_nobody_elses_room() {
        let mut settings = Settings::default();
        settings.limits.max_entries_per_owner = 2;
        let sessions = Sessions::new(Arc::new(Memory::with(settings, Arc::new(SystemClock::new()))));
        let caller = |name: &str| Viewer::of(Caller::new(Some(Principal::new(name).unwrap())), false);
        let (first, _) = sessions.open(Some(&caller("ann"))).await.unwrap();
        sessions.open(Some(&caller("ann"))).await.unwrap();
        let full = sessions.open(Some(&caller("ann"))).await;
        assert!(matches!(full, Err(StoreError::Overloaded { .. })), "{full:?}");
        sessions.open(Some(&caller("bob"))).await.unwrap();
        sessions.open(None).await.unwrap();
        let (secret, _) = first.split_once('.').unwrap();
        let (bob, _) = sessions.open(Some(&caller("bob"))).await.unwrap();
        let (_, of_bob) = bob.split_once('.').unwrap();
        let forged = format!("{secret}.{of_bob}");
        assert!(sessions.find(&forged, true).await.unwrap().is_none(), "a secret is good for its own caller");
        sessions.end(&first).await.unwrap();
        sessions.open(Some(&caller("ann"))).await.unwrap();
    }

    #[test]
    fn a_session_lasts_no_longer_than_its_token() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let lasts = |ends: serde_json::Value| {
            let claims = [("exp".to_owned(), ends)].into_iter().collect();
            token_lasts(Some(&Grant::new(None, claims)))
        };
        assert!(lasts((now + 600).into()) <= Duration::from_secs(600));
        assert_eq!(lasts((now - 30).into()), Duration::from_secs(1));
        for later in [(now + 86_400).into(), "odd".into()] {
            assert_eq!(lasts(later), TOKEN_SESSION_LASTS);
        }
        assert_eq!(token_lasts(None), TOKEN_SESSION_LASTS);
    }
}
