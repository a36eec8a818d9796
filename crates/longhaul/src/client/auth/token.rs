//! The token endpoint: what is asked there, how a client proves who it is, and what comes of it (RFC 6749, 5).

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::AuthError;
use super::issuer::AuthorizationServer;
use super::proof::Proofs;
use super::registration::{Client, Proof};
use super::secret::Secret;
use super::web::{Reply, Web};
use super::{now, random_text};
use crate::oauth::basic::basic;
use crate::oauth::fetch::FetchError;
use crate::oauth::form;

/// The parameters of a request.
pub(super) type Parameters<'p> = Vec<(&'p str, String)>;

/// What was granted.
#[derive(Debug, Deserialize)]
pub(super) struct Granted {
    pub(super) access_token: Secret,
    pub(super) token_type: String,
    #[serde(default)]
    pub(super) refresh_token: Option<Secret>,
    /// Seconds; some write them as text.
    #[serde(default)]
    expires_in: Value,
}

impl Granted {
    /// For how many seconds it counts, if that is said.
    pub(super) fn lasts(&self) -> Option<u64> {
        self.expires_in.as_u64().or_else(|| self.expires_in.as_str()?.parse().ok())
    }
}

const WHAT: &str = "a token";

/// How long an assertion of ours counts, in seconds.
const ASSERTED_FOR: u64 = 60;

/// Asks the token endpoint of `server`. `proofs` binds what it grants to a key.
///
/// # Errors
///
/// [`AuthError::Refused`] has the code that the server answered with.
pub(super) async fn ask(
    web: &Web,
    server: &AuthorizationServer,
    client: &Client,
    parameters: Parameters<'_>,
    proofs: Option<&Proofs>,
) -> Result<Granted, AuthError> {
    let mut has_nonce = false;
    loop {
        let mut form = parameters.clone();
        let mut request = web.post(&server.token).header(CONTENT_TYPE, FORM);
        match &client.proof {
            Proof::None => form.push(("client_id", client.id.clone())),
            Proof::Basic(secret) => {
                request = request.header(AUTHORIZATION, basic(&client.id, secret.reveal()));
            }
            Proof::Post(secret) => {
                form.push(("client_id", client.id.clone()));
                form.push(("client_secret", secret.reveal().to_owned()));
            }
            Proof::Key(key) => {
                // RFC 7523, 3; the audience is the issuer, for an endpoint may be several servers'.
                let claims = json!({ "iss": client.id, "sub": client.id, "aud": server.issuer,
                    "jti": random_text(), "iat": now(), "exp": now() + ASSERTED_FOR });
                form.push(("client_id", client.id.clone()));
                form.push(("client_assertion_type", ASSERTION.to_owned()));
                form.push(("client_assertion", key.sign(json!({ "typ": "JWT" }), &claims)?));
            }
        }
        if let Some(proofs) = proofs {
            request = request.header("dpop", proofs.make("POST", &server.token, None)?);
        }
        let body = form::encode(form.iter().map(|(name, value)| (*name, value.as_str())));
        let reply = web.reply(request.body(body), &server.token).await.map_err(AuthError::fetch(WHAT))?;
        if let Some(proofs) = proofs {
            proofs.learn(&server.token, &reply.headers);
        }
        if reply.status.is_success() {
            return reply.read(WHAT);
        }
        let wants_nonce = reply.code().as_deref() == Some("use_dpop_nonce");
        if !(wants_nonce && proofs.is_some() && !has_nonce) {
            return Err(reply.refusal(WHAT));
        }
        has_nonce = true;
    }
}

/// Takes a token back, so that it counts no more (RFC 7009). That one which is not known does not is no error.
pub(super) async fn revoke(
    web: &Web,
    server: &AuthorizationServer,
    client: &Client,
    token: &Secret,
) -> Result<(), AuthError> {
    let Some(url) = &server.revoke else { return Ok(()) };
    let mut form = vec![("token", token.reveal())];
    let mut request = web.post(url).header(CONTENT_TYPE, FORM);
    match &client.proof {
        Proof::Basic(secret) => request = request.header(AUTHORIZATION, basic(&client.id, secret.reveal())),
        Proof::Post(secret) => {
            form.extend([("client_id", client.id.as_str()), ("client_secret", secret.reveal())])
        }
        Proof::None | Proof::Key(_) => form.push(("client_id", &client.id)),
    }
    let what = "taking back a token";
    let reply = web.reply(request.body(form::encode(form)), url).await.map_err(AuthError::fetch(what))?;
    if reply.status.is_success() { Ok(()) } else { Err(reply.refusal(what)) }
}

pub(super) const FORM: &str = "application/x-www-form-urlencoded";

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

#[derive(Deserialize)]
struct Refusal {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl Reply {
    /// What it says, if that is what was asked for. What is in it stays out of the error: it may be a token.
    pub(super) fn read<T: DeserializeOwned>(&self, what: &'static str) -> Result<T, AuthError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let reason = format!("{:?} error in line {}", error.classify(), error.line());
            AuthError::fetch(what)(FetchError::Malformed { url: "the answer".to_owned(), reason })
        })
    }

    /// Its error code.
    pub(super) fn code(&self) -> Option<String> {
        serde_json::from_slice::<Refusal>(&self.body).ok().map(|refusal| refusal.error)
    }

    /// Why what was asked for is not given.
    pub(super) fn refusal(&self, what: &'static str) -> AuthError {
        match serde_json::from_slice::<Refusal>(&self.body) {
            Ok(refusal) => AuthError::refused(what, &refusal.error, refusal.error_description.as_deref()),
            Err(_) => AuthError::refused(what, &format!("HTTP {}", self.status.as_u16()), None),
        }
    }
}
