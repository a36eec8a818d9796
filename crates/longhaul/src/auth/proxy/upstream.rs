//! The authorization server that people sign in at, to which this one is a client like any other.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::super::basic::basic;
use super::super::fetch::{self, Bounds, FetchError, InvalidUrl};
use super::super::jwt::Jwt;
use super::super::keys::{Keys, Source};
use super::super::metadata;
use super::form;

/// The authorization server that people sign in at, with a client of the operator's: OpenID Connect, or plain OAuth
/// with an address that says [whose a token is](Self::asked_at).
#[derive(Clone)]
pub struct Upstream {
    pub(super) issuer: String,
    url: Url,
    plain: Option<Plain>,
    client_id: String,
    secret: String,
    pub(super) scope: String,
}

/// Where a server without metadata is asked.
#[derive(Clone, Debug)]
struct Plain {
    authorize: Url,
    token: Url,
    user: Url,
    subject: String,
}

impl Upstream {
    /// The issuer that calls itself `issuer` and knows this server as `client_id` with `secret`. Where its endpoints
    /// are is found out from its metadata. There this server's address for `redirect_uri` is the origin of its
    /// resource, and `/authorize/callback`.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] when it is none of `https`, or of `http` on this machine.
    pub fn new(issuer: impl Into<String>, client_id: &str, secret: &str) -> Result<Self, InvalidUrl> {
        let issuer = issuer.into();
        let url = fetch::url(&issuer)?;
        let (client_id, secret) = (client_id.to_owned(), secret.to_owned());
        Ok(Self { issuer, url, plain: None, client_id, secret, scope: OPENID.to_owned() })
    }

    /// Asks it for this, besides who signs in. Default nothing: what it gives is looked at once, and let go of.
    #[must_use]
    pub fn scope(mut self, scope: &str) -> Self {
        let own = self.plain.is_none().then_some(OPENID);
        let others = scope.split(' ').filter(|scope| !scope.is_empty() && *scope != OPENID);
        self.scope = own.into_iter().chain(others).collect::<Vec<_>>().join(" ");
        self
    }

    /// Goes without OpenID Connect and without metadata: its endpoints are these, and the JSON at `user` says whose a
    /// token is, in its member `subject`, which never changes and is nobody else's. At GitHub that is `id`.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] when one is none of `https`, or of `http` on this machine.
    pub fn asked_at(
        mut self,
        authorize: &str,
        token: &str,
        user: &str,
        subject: impl Into<String>,
    ) -> Result<Self, InvalidUrl> {
        let (authorize, token, user) = (fetch::url(authorize)?, fetch::url(token)?, fetch::url(user)?);
        self.plain = Some(Plain { authorize, token, user, subject: subject.into() });
        let scope = std::mem::take(&mut self.scope);
        Ok(self.scope(&scope))
    }

    pub(super) fn door(self) -> Result<Door, FetchError> {
        let http = fetch::client(&self.url)?;
        Ok(Door { of: self, http, found: Arc::default(), places: Semaphore::new(MAX_ASKED) })
    }
}

/// Without the secret.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// The way there and back.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) of: Upstream,
    http: Client,
    found: Arc<Mutex<Search>>,
    places: Semaphore,
}

#[derive(Debug, Default)]
struct Search {
    endpoints: Option<Arc<Endpoints>>,
    failed: Option<Instant>,
}

/// Where to go.
#[derive(Debug)]
struct Endpoints {
    authorize: Url,
    token: Url,
    whose: Whose,
    says_issuer: bool,
    secret_in_form: bool,
}

/// What says who has signed in.
#[derive(Debug)]
enum Whose {
    /// An id token, signed with one of these.
    IdToken(Keys),
    /// Whoever is asked there with the token; the member that names its owner.
    Asked(Client, Url, String),
}

const OPENID: &str = "openid";

/// What goes with one sign-in, and must come back with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round<'r> {
    pub(super) state: &'r str,
    pub(super) nonce: &'r str,
    pub(super) verifier: &'r str,
    pub(super) back: &'r str,
}

/// Who has signed in.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) subject: String,
    pub(super) claims: Map<String, Value>,
}

/// Why nobody has signed in.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the authorization server could not be asked")]
    Fetch(#[from] FetchError),
    #[error("too many sign in at once")]
    Busy,
    #[error("the authorization server could not be asked a moment ago, and is asked again soon")]
    JustFailed,
    #[error("what the authorization server says of who signed in does not count: {0}")]
    Identity(&'static str),
}

/// How many sign-ins are completed at once.
const MAX_ASKED: usize = 32;

/// How soon its metadata is looked for again when it was not to be had.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// How far its clock and ours may differ.
const LEEWAY: u64 = 60;

/// What handlers may know of whoever signed in. Everything else is let go of.
const TOLD: [&str; 5] = ["email", "email_verified", "name", "preferred_username", "groups"];

/// The most bytes of that which are kept.
const MOST_TOLD: usize = 8 << 10;

impl Door {
    /// Where to send whoever is to sign in.
    pub(super) async fn address(&self, round: Round<'_>) -> Result<String, UpstreamError> {
        let mut url = self.endpoints().await?.authorize.clone();
        let challenge = super::vault::digest(round.verifier);
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.of.client_id)
            .append_pair("redirect_uri", round.back)
            .append_pair("scope", &self.of.scope)
            .append_pair("state", round.state)
            .append_pair("nonce", round.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Whether an answer with this `iss` may be its answer (RFC 9207, 2.4).
    pub(super) async fn is_of(&self, issuer: Option<&str>) -> Result<bool, UpstreamError> {
        let says_issuer = self.endpoints().await?.says_issuer;
        Ok(issuer.map_or(!says_issuer, |issuer| issuer == self.of.issuer))
    }

    /// Who has signed in. The tokens that say so go no further.
    pub(super) async fn identity(&self, code: &str, round: Round<'_>) -> Result<Identity, UpstreamError> {
        #[derive(Deserialize)]
        struct Tokens {
            id_token: Option<String>,
            access_token: Option<String>,
        }
        let _place = self.places.try_acquire().map_err(|_| UpstreamError::Busy)?;
        let endpoints = self.endpoints().await?;
        let mut parameters = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", round.back),
            ("code_verifier", round.verifier),
        ];
        let mut request = self.http.post(endpoints.token.clone());
        if endpoints.secret_in_form {
            parameters
                .extend([("client_id", self.of.client_id.as_str()), ("client_secret", &self.of.secret)]);
        } else {
            request = request.header(http::header::AUTHORIZATION, self.credentials());
        }
        let request = request.header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let tokens: Tokens = fetch::json(request.body(form::encode(parameters)), &endpoints.token).await?;
        let nothing = || UpstreamError::Identity("there is no token that says it");
        match &endpoints.whose {
            Whose::IdToken(keys) => {
                self.check(&tokens.id_token.ok_or_else(nothing)?, keys, round.nonce).await
            }
            Whose::Asked(http, url, subject) => {
                let request = http.get(url.clone()).bearer_auth(tokens.access_token.ok_or_else(nothing)?);
                // Some answer nobody who does not say what it is.
                let request = request.header(http::header::USER_AGENT, "longhaul");
                let says: Map<String, Value> = fetch::json(request, url).await?;
                let subject = match says.get(subject) {
                    Some(Value::String(subject)) if !subject.is_empty() => subject.clone(),
                    Some(Value::Number(number)) => number.to_string(),
                    _ => return Err(UpstreamError::Identity("it names nobody")),
                };
                Ok(Identity { subject, claims: told(says) })
            }
        }
    }

    /// Whom an id token proves to have signed in (OpenID Connect Core, 3.1.3.7).
    async fn check(&self, token: &str, keys: &Keys, nonce: &str) -> Result<Identity, UpstreamError> {
        let wrong = |what| UpstreamError::Identity(what);
        let jwt = Jwt::take_apart(token).ok_or_else(|| wrong("the id token is no JWT"))?;
        jwt.check_kind().map_err(|_| wrong("the id token is of another kind"))?;
        let key = keys.find(&jwt.header).await.map_err(|_| wrong("its key is not known"))?;
        jwt.check_signature(&key).map_err(|_| wrong("its signature is not its issuer's"))?;
        let claims = jwt.claims;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&self.of.issuer) {
            return Err(wrong("it is of another issuer"));
        }
        let ours = Some(self.of.client_id.as_str());
        let for_us = match claims.get("aud") {
            Some(Value::String(audience)) => Some(audience.as_str()) == ours,
            Some(Value::Array(all)) => {
                all.iter().any(|one| one.as_str() == ours) && (all.len() == 1 || text("azp") == ours)
            }
            _ => false,
        };
        if !for_us || text("azp").is_some_and(|azp| Some(azp) != ours) {
            return Err(wrong("it is for another client"));
        }
        if text("nonce") != Some(nonce) {
            return Err(wrong("it is of another sign-in"));
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let end = claims.get("exp").and_then(Value::as_u64);
        if end.is_none_or(|end| now.as_secs() >= end.saturating_add(LEEWAY)) {
            return Err(wrong("it has expired"));
        }
        let subject =
            text("sub").filter(|subject| !subject.is_empty()).ok_or_else(|| wrong("it names nobody"))?;
        let subject = subject.to_owned();
        Ok(Identity { subject, claims: told(claims) })
    }

    fn credentials(&self) -> HeaderValue {
        basic(&self.of.client_id, &self.of.secret)
    }

    async fn endpoints(&self) -> Result<Arc<Endpoints>, UpstreamError> {
        let mut search = Arc::clone(&self.found).lock_owned().await;
        if let Some(endpoints) = &search.endpoints {
            return Ok(Arc::clone(endpoints));
        }
        if search.failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER) {
            return Err(UpstreamError::JustFailed);
        }
        let (of, http) = (self.of.clone(), self.http.clone());
        // Whoever asked first may go away in the middle: the others wait for the answer all the same.
        let looked = tokio::spawn(async move {
            let found = of.endpoints(&http).await.map(Arc::new);
            match &found {
                Ok(endpoints) => search.endpoints = Some(Arc::clone(endpoints)),
                Err(_) => search.failed = Some(Instant::now()),
            }
            found
        });
        // It ends otherwise only with the whole process.
        Ok(looked.await.map_err(|_| UpstreamError::JustFailed)??)
    }
}

impl Upstream {
    async fn endpoints(&self, http: &Client) -> Result<Endpoints, FetchError> {
        match &self.plain {
            Some(plain) => plain.endpoints(),
            None => self.discover(http).await,
        }
    }

    async fn discover(&self, http: &Client) -> Result<Endpoints, FetchError> {
        #[derive(Deserialize)]
        struct Document {
            authorization_endpoint: String,
            token_endpoint: String,
            jwks_uri: String,
            #[serde(default)]
            authorization_response_iss_parameter_supported: bool,
            #[serde(default)]
            token_endpoint_auth_methods_supported: Option<Vec<String>>,
        }
        let places = metadata::places(&self.url);
        let found = metadata::discover::<Document>(http, &self.issuer, &places, Bounds::default()).await?;
        let document = &found.document;
        let keys = found.url(&document.jwks_uri)?;
        let takes = |method: &str| {
            let methods = document.token_endpoint_auth_methods_supported.as_ref();
            methods.map(|methods| methods.iter().any(|one| one == method))
        };
        Ok(Endpoints {
            authorize: found.url(&document.authorization_endpoint)?,
            token: found.url(&document.token_endpoint)?,
            whose: Whose::IdToken(Keys::new(fetch::client(&keys)?, Source::At(keys))),
            says_issuer: document.authorization_response_iss_parameter_supported,
            // What a server that says nothing takes is `Basic` (RFC 8414, 2).
            secret_in_form: takes("client_secret_basic") == Some(false)
                && takes("client_secret_post") == Some(true),
        })
    }
}

impl Plain {
    fn endpoints(&self) -> Result<Endpoints, FetchError> {
        let Self { authorize, token, user, subject } = self.clone();
        let whose = Whose::Asked(fetch::client(&user)?, user, subject);
        Ok(Endpoints { authorize, token, whose, says_issuer: false, secret_in_form: true })
    }
}

/// Of all that is said of somebody, what handlers may know.
fn told(claims: Map<String, Value>) -> Map<String, Value> {
    let mut told: Map<String, Value> = claims
        .into_iter()
        .filter(|(name, value)| TOLD.contains(&name.as_str()) && !value.is_null())
        .collect();
    if serde_json::to_vec(&told).is_ok_and(|text| text.len() > MOST_TOLD) {
        told.clear();
    }
    told
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn who_goes_away_while_the_endpoints_are_looked_for_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let door = Upstream::new(url.as_str(), "x", "y").unwrap().door().unwrap();
        let round = Round { state: "s", nonce: "n", verifier: "v", back: "b" };
        let mut stream = {
            let mut first = std::pin::pin!(door.address(round));
            tokio::select! {
                _ = &mut first => panic!("nobody has answered yet"),
                accepted = listener.accept() => accepted.unwrap().0,
            }
        };
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        let document = serde_json::json!({"issuer": url, "authorization_endpoint": format!("{url}/a"),
            "token_endpoint": format!("{url}/t"), "jwks_uri": format!("{url}/k")});
        let document = document.to_string();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{document}",
            document.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        let address = door.address(round).await.unwrap();
        assert!(address.starts_with(&format!("{url}/a?")), "{address}");
    }
}
