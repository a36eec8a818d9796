//! The keys of an issuer: fetched when they are first needed, kept, and fetched again when they are old or when a
//! token names one that is not among them. How often is ours to say, not the tokens'.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::fetch::{self, Bounds, FetchError};
use super::jwt::{Header, Jwk, Key};
use super::metadata;
use super::refusal::Refusal;

/// The keys of one issuer.
#[derive(Debug)]
pub(super) struct Keys {
    fetcher: Arc<Fetcher>,
    /// Held while fetching, so that it is done once however many ask.
    attempts: Arc<Mutex<Attempts>>,
}

#[derive(Debug)]
struct Fetcher {
    http: Client,
    source: Source,
    known: RwLock<Option<Arc<KeySet>>>,
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
        let fetcher = Arc::new(Fetcher { http, source, known: RwLock::default() });
        Self { fetcher, attempts: Arc::default() }
    }

    /// The key that made a token with this header, if there is one.
    ///
    /// A fetch under way goes on when the future is dropped: others wait for it.
    pub(super) async fn find(&self, header: &Header) -> Result<Key, Refusal> {
        let known = || self.fetcher.known();
        if let Some(set) = known() {
            let age = set.fetched.elapsed();
            if let Some(key) = set.find(header)
                && age < KEPT_FOR
            {
                // Who finds them old fetches them; everybody else goes on with what is there.
                if age >= NEW_FOR
                    && let Ok(attempts) = Arc::clone(&self.attempts).try_lock_owned()
                    && attempts.may_try()
                {
                    self.fetch(attempts, false).await;
                    return known().and_then(|set| set.find(header)).ok_or(UNKNOWN);
                }
                return Ok(key);
            }
        }
        let attempts = Arc::clone(&self.attempts).lock_owned().await;
        // Somebody else may have fetched them meanwhile.
        let usable = || known().filter(|set| set.fetched.elapsed() < KEPT_FOR);
        let set = usable();
        if let Some(key) = set.as_ref().and_then(|set| set.find(header)) {
            return Ok(key);
        }
        let looks_for_another = set.is_some();
        if attempts.may_try() && (!looks_for_another || attempts.may_look()) {
            self.fetch(attempts, looks_for_another).await;
        }
        usable().ok_or(Refusal::Unavailable)?.find(header).ok_or(UNKNOWN)
    }

    /// Fetches the keys, also if whoever waits for it goes away in the middle.
    async fn fetch(&self, mut attempts: OwnedMutexGuard<Attempts>, looks_for_another: bool) {
        let fetcher = Arc::clone(&self.fetcher);
        let fetching = tokio::spawn(async move {
            match fetcher.fetched().await {
                Ok(keys) => {
                    let now = Instant::now();
                    attempts.failed = None;
                    if looks_for_another {
                        attempts.looked = Some(now);
                    }
                    fetcher.learn(KeySet { keys, fetched: now });
                }
                Err(error) => {
                    attempts.failed = Some(Instant::now());
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the keys of an issuer could not be fetched");
                }
            }
        });
        if let Err(error) = fetching.await {
            tracing::warn!(%error, "the keys of an issuer were not fetched to the end");
        }
    }
}

impl Fetcher {
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
                let found =
                    metadata::discover::<Found>(&self.http, issuer, metadata, Bounds::default()).await?;
                found.url(&found.document.jwks_uri)?
            }
        };
        let document: Document = fetch::json(self.http.get(url.clone()), &url).await?;
        // One key of a kind to come must not cost the others.
        let jwks = document.keys.iter().filter_map(|key| serde_json::from_str::<Jwk>(key.get()).ok());
        Ok(jwks.filter_map(|jwk| Key::of(&jwk)).collect())
    }

    fn learn(&self, set: KeySet) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(set));
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn who_goes_away_while_the_keys_are_fetched_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = fetch::url(&format!("http://{}/keys", listener.local_addr().unwrap())).unwrap();
        let keys = Keys::new(fetch::client(&url).unwrap(), Source::At(url));
        let header: Header = serde_json::from_value(serde_json::json!({"alg": "EdDSA", "kid": "k"})).unwrap();
        let mut stream = {
            let mut first = std::pin::pin!(keys.find(&header));
            tokio::select! {
                _ = &mut first => panic!("nobody has answered yet"),
                accepted = listener.accept() => accepted.unwrap().0,
            }
        };
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
        stream.write_all(format!("{head} {}\r\n\r\n{key}", key.len()).as_bytes()).await.unwrap();
        assert!(keys.find(&header).await.is_ok());
    }
}
