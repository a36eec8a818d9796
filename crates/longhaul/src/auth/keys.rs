//! The keys of an issuer: fetched when they are first needed, kept, and fetched again when they are old or when a
//! token names one that is not among them. How often is ours to say, not the tokens'.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{self, FetchError};
use super::jwt::{Header, Jwk, Key};
use super::metadata;
use super::refusal::Refusal;

/// The keys of one issuer.
#[derive(Debug)]
pub(super) struct Keys {
    http: Client,
    source: Source,
    known: RwLock<Option<Arc<KeySet>>>,
    /// Held while fetching, so that it is done once however many ask.
    attempts: Mutex<Attempts>,
}

/// Where the keys are.
#[derive(Debug)]
pub(super) enum Source {
    /// There.
    At(Url),
    /// Where the metadata of this issuer says.
    Of {
        /// The issuer, as its tokens and its metadata must write it.
        issuer: String,
        /// Where its metadata may be, in order.
        metadata: Vec<Url>,
    },
}

#[derive(Debug)]
struct KeySet {
    keys: Vec<Key>,
    fetched: Instant,
}

#[derive(Debug, Default)]
struct Attempts {
    /// When they could not be fetched, if that was the last attempt.
    failed: Option<Instant>,
    /// When they were last fetched because a token named another.
    looked: Option<Instant>,
}

/// How long keys are new. An issuer that takes one back has this long to wait.
const NEW_FOR: Duration = Duration::from_secs(60 * 60);

/// How long keys are used that could not be fetched again.
const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// How soon keys are fetched again for a token that names another.
const AGAIN_AFTER: Duration = Duration::from_secs(5 * 60);

/// How soon they are fetched again when they could not be.
const RETRY_AFTER: Duration = Duration::from_secs(10);

impl Keys {
    pub(super) fn new(http: Client, source: Source) -> Self {
        Self { http, source, known: RwLock::default(), attempts: Mutex::default() }
    }

    /// The key that made a token with this header, if there is one.
    ///
    /// Dropping the future ends a fetch under way; the next who asks fetches again.
    pub(super) async fn find(&self, header: &Header) -> Result<Key, Refusal> {
        if let Some(set) = self.known() {
            let age = set.fetched.elapsed();
            if let Some(key) = set.find(header)
                && age < KEPT_FOR
            {
                // Who finds them old fetches them; everybody else goes on with what is there.
                if age >= NEW_FOR
                    && let Ok(mut attempts) = self.attempts.try_lock()
                    && attempts.may_try()
                {
                    self.fetch(&mut attempts).await;
                    return self.known().and_then(|set| set.find(header)).ok_or(UNKNOWN);
                }
                return Ok(key);
            }
        }
        let mut attempts = self.attempts.lock().await;
        // Somebody else may have fetched them meanwhile.
        let known = self.known().filter(|set| set.fetched.elapsed() < KEPT_FOR);
        if let Some(key) = known.as_ref().and_then(|set| set.find(header)) {
            return Ok(key);
        }
        let looks_for_another = known.is_some();
        if attempts.may_try() && (!looks_for_another || attempts.may_look()) {
            let fetched = self.fetch(&mut attempts).await;
            if fetched && looks_for_another {
                attempts.looked = Some(Instant::now());
            }
        }
        let known = self.known().filter(|set| set.fetched.elapsed() < KEPT_FOR);
        known.ok_or(Refusal::Unavailable)?.find(header).ok_or(UNKNOWN)
    }

    /// Fetches the keys; says whether that went well.
    async fn fetch(&self, attempts: &mut Attempts) -> bool {
        // Also if whoever waits for it goes away in the middle.
        attempts.failed = Some(Instant::now());
        match self.fetched().await {
            Ok(keys) => {
                attempts.failed = None;
                let set = Arc::new(KeySet { keys, fetched: Instant::now() });
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(set);
                true
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the keys of an issuer could not be fetched");
                false
            }
        }
    }

    async fn fetched(&self) -> Result<Vec<Key>, FetchError> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Box<RawValue>>,
        }
        let url = match &self.source {
            Source::At(url) => url.clone(),
            Source::Of { issuer, metadata } => {
                #[derive(Deserialize)]
                struct Found {
                    jwks_uri: String,
                }
                let found = metadata::discover::<Found>(&self.http, issuer, metadata).await?;
                found.url(&found.document.jwks_uri)?
            }
        };
        let document: Document = fetch::json(self.http.get(url.clone()), &url).await?;
        // One key of a kind to come must not cost the others.
        let jwks = document.keys.iter().filter_map(|key| serde_json::from_str::<Jwk>(key.get()).ok());
        Ok(jwks.filter_map(|jwk| Key::of(&jwk)).collect())
    }

    fn known(&self) -> Option<Arc<KeySet>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

const UNKNOWN: Refusal = Refusal::Invalid("the key of the token is none of its issuer's");

impl KeySet {
    /// The key that a header names; without a name, the only one that fits.
    fn find(&self, header: &Header) -> Option<Key> {
        let mut fitting = self.keys.iter().filter(|key| key.fits(header));
        let first = fitting.next()?;
        (header.kid.is_some() || fitting.next().is_none()).then(|| first.clone())
    }
}

impl Attempts {
    fn may_try(&self) -> bool {
        self.failed.is_none_or(|failed| failed.elapsed() >= RETRY_AFTER)
    }

    fn may_look(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= AGAIN_AFTER)
    }
}
