//! Who a client is to an authorization server: registered beforehand, by the address of its metadata, or on the spot.

use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::AuthError;
use super::issuer::AuthorizationServer;
use super::key::SigningKey;
use super::secret::Secret;
use super::web::Web;
use crate::transport::http::client::is_loopback;

/// What a client was registered with beforehand.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(super) id: String,
    pub(super) issuer: Option<String>,
    secret: Option<Secret>,
    key: Option<SigningKey>,
}

impl Credentials {
    /// The client that an authorization server knows under this id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), issuer: None, secret: None, key: None }
    }

    /// Says which authorization server that is, as it writes its own name. It alone gets to see the secret. Without this
    /// it is the first that the server names, so say it wherever you do not trust the server with that.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Proves who it is with a shared secret.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Secret>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Proves who it is by signing with its private key (RFC 7523).
    #[must_use]
    pub fn key(mut self, key: SigningKey) -> Self {
        self.key = Some(key);
        self
    }

    /// The client, as `server` wants it to prove itself.
    pub(super) fn at(&self, server: &AuthorizationServer) -> Client {
        let proof = match (&self.key, &self.secret) {
            (Some(key), _) => Proof::Key(key.clone()),
            // What a server that says nothing takes is `Basic` (RFC 8414, 2).
            (None, Some(secret)) => match (server.takes(BASIC), server.takes(POST)) {
                (Some(false), Some(true)) => Proof::Post(secret.clone()),
                _ => Proof::Basic(secret.clone()),
            },
            (None, None) => Proof::None,
        };
        Client { id: self.id.clone(), proof }
    }
}

/// A client, as one authorization server knows it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) proof: Proof,
}

/// How it proves who it is.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// Not at all: it could keep no secret.
    None,
    /// With its secret in a header.
    Basic(Secret),
    /// With its secret among the parameters.
    Post(Secret),
    /// With a signature.
    Key(SigningKey),
}

const NONE: &str = "none";
const BASIC: &str = "client_secret_basic";
const POST: &str = "client_secret_post";

/// What came of registering. It is kept for its issuer alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Registration {
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret_expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_endpoint_auth_method: Option<String>,
    /// Where it comes back to; ours, whatever the answer says.
    #[serde(default)]
    redirect_uri: String,
}

const WHAT: &str = "registering the client";

impl Registration {
    /// Registers a client that comes back to `redirect` (RFC 7591; OpenID Connect Dynamic Client Registration).
    pub(super) async fn make(
        web: &Web,
        server: &AuthorizationServer,
        name: &str,
        redirect: &str,
    ) -> Result<Self, AuthError> {
        let no_client = || AuthError::no_client(&server.issuer);
        let url = server.register.as_ref().ok_or_else(no_client)?;
        // A program on its user's machine keeps no secret; whoever insists on one gives it one.
        let methods = [NONE, BASIC, POST];
        let method = methods.into_iter().find(|method| server.takes(method) != Some(false)).unwrap_or(BASIC);
        let native = Url::parse(redirect).is_ok_and(|redirect| is_loopback(&redirect));
        let metadata = json!({
            "client_name": name,
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": if native { "native" } else { "web" },
        });
        let request = web.post(url).header(CONTENT_TYPE, "application/json").body(metadata.to_string());
        let reply = web.reply(request, url).await.map_err(AuthError::fetch("the registration"))?;
        if !reply.status.is_success() {
            return Err(reply.refusal(WHAT));
        }
        let mut made: Self = reply.read(WHAT)?;
        redirect.clone_into(&mut made.redirect_uri);
        if made.token_endpoint_auth_method.is_none() && made.client_secret.is_none() {
            made.token_endpoint_auth_method = Some(NONE.to_owned());
        }
        Ok(made)
    }

    /// Whether it still serves a client that comes back to `redirect`.
    pub(super) fn serves(&self, redirect: &str, now: u64) -> bool {
        let lasts = self.client_secret_expires_at.is_none_or(|end| end == 0 || now < end);
        self.redirect_uri == redirect && lasts
    }

    /// The client that it made.
    pub(super) fn client(&self) -> Result<Client, AuthError> {
        let secret = || self.client_secret.clone();
        let proof = match (self.token_endpoint_auth_method.as_deref(), secret()) {
            (Some(NONE), _) | (None, None) => Proof::None,
            (Some(BASIC) | None, Some(secret)) => Proof::Basic(secret),
            (Some(POST), Some(secret)) => Proof::Post(secret),
            (Some(method), _) => {
                let unknown = "the client was to prove itself in a way that it cannot";
                return Err(AuthError::refused(WHAT, method, Some(unknown)));
            }
        };
        Ok(Client { id: self.client_id.clone(), proof })
    }
}

/// Whether this may be the address of a client's metadata (2026-07-28, Client ID Metadata Documents).
pub(super) fn is_document(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| {
        let plain = url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
        url.scheme() == "https" && url.path().len() > 1 && plain && url.as_str() == address
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c06_a_client_is_named_by_an_address_that_has_a_path() {
        assert!(is_document("https://app.example/client.json"));
        for bad in [
            "http://app.example/client.json",
            "https://app.example",
            "https://app.example/",
            "https://app.example/c#x",
            "https://me@app.example/c",
            "https://APP.example/c",
            "c",
        ] {
            assert!(!is_document(bad), "{bad}");
        }
    }

    #[test]
    fn c08_a_registration_serves_where_it_was_made_for_and_as_long_as_its_secret() {
        let mut made: Registration = serde_json::from_value(json!({ "client_id": "c" })).unwrap();
        made.redirect_uri = "http://127.0.0.1:1/".to_owned();
        assert!(made.serves("http://127.0.0.1:1/", 5) && !made.serves("http://127.0.0.1:2/", 5));
        made.client_secret_expires_at = Some(0);
        assert!(made.serves("http://127.0.0.1:1/", 5));
        made.client_secret_expires_at = Some(5);
        assert!(!made.serves("http://127.0.0.1:1/", 5));
    }
}
