//! What an authorization server says of itself (RFC 8414; OpenID Connect Discovery), and what is taken for granted of
//! one that says nothing.

use reqwest::Url;
use serde::Deserialize;

use super::error::AuthError;
use super::web::Web;
use crate::oauth::fetch::FetchError;

/// An authorization server, once what it says of itself was found to be its own.
#[derive(Clone, Debug)]
pub(super) struct AuthorizationServer {
    /// What it calls itself, byte for byte.
    pub(super) issuer: String,
    pub(super) authorize: Option<Url>,
    pub(super) token: Url,
    pub(super) register: Option<Url>,
    pub(super) revoke: Option<Url>,
    /// How clients may prove who they are; `None` if it does not say.
    pub(super) methods: Option<Vec<String>>,
    /// Whether every answer of it says whose it is (RFC 9207).
    pub(super) says_issuer: bool,
    /// Whether the id of a client may be the address of its metadata.
    pub(super) takes_documents: bool,
    /// Whether it can give a token that gets others.
    pub(super) offline: bool,
    /// Whether it binds tokens to keys as ours are (RFC 9449).
    pub(super) binds: bool,
    /// Whether a code is worth nothing to whoever steals it.
    proves: bool,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    #[serde(default)]
    registration_endpoint: Option<String>,
    #[serde(default)]
    revocation_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    dpop_signing_alg_values_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
}

const WHAT: &str = "the authorization server's metadata";

impl AuthorizationServer {
    /// The authorization server that calls itself `issuer`.
    pub(super) async fn find(web: &Web, issuer: &str) -> Result<Self, AuthError> {
        let url = web.address(issuer)?;
        let found = web.metadata::<Document>(&url, issuer).await;
        Self::read(web, issuer, found.map_err(AuthError::fetch(WHAT))?)
    }

    /// The one at the origin of `server`, which has no metadata of its own and may have none at all (2025-03-26,
    /// Server Metadata Discovery).
    pub(super) async fn beside(web: &Web, server: &Url) -> Result<Self, AuthError> {
        let mut origin = server.clone();
        origin.set_path("/");
        origin.set_query(None);
        let issuer = origin.origin().ascii_serialization();
        match web.metadata::<Document>(&origin, &issuer).await {
            Ok(document) => Self::read(web, &issuer, document),
            Err(FetchError::Status { status: 400..=499, .. }) => {
                let at = |path: &str| {
                    let mut url = origin.clone();
                    url.set_path(path);
                    url
                };
                Ok(Self {
                    issuer,
                    authorize: Some(at("/authorize")),
                    token: at("/token"),
                    register: Some(at("/register")),
                    revoke: None,
                    methods: None,
                    says_issuer: false,
                    takes_documents: false,
                    offline: false,
                    binds: false,
                    // Of that revision every authorization server does.
                    proves: true,
                })
            }
            Err(error) => Err(AuthError::fetch(WHAT)(error)),
        }
    }

    fn read(web: &Web, issuer: &str, document: Document) -> Result<Self, AuthError> {
        let address = |text: Option<String>| text.map(|text| web.address(&text)).transpose();
        let has = |all: &[String], one: &str| all.iter().any(|other| other == one);
        Ok(Self {
            issuer: issuer.to_owned(),
            authorize: address(document.authorization_endpoint)?,
            token: web.address(&document.token_endpoint)?,
            register: address(document.registration_endpoint)?,
            revoke: address(document.revocation_endpoint)?,
            methods: document.token_endpoint_auth_methods_supported,
            says_issuer: document.authorization_response_iss_parameter_supported,
            takes_documents: document.client_id_metadata_document_supported,
            offline: has(&document.scopes_supported, "offline_access"),
            binds: has(&document.dpop_signing_alg_values_supported, "ES256"),
            proves: has(&document.code_challenge_methods_supported, "S256"),
        })
    }

    /// Where users sign in. Whoever does not say that a code is bound to its client gets nobody (2026-07-28,
    /// Authorization Code Protection).
    pub(super) fn authorize(&self) -> Result<&Url, AuthError> {
        let unsupported = |lacks| AuthError::unsupported(&self.issuer, lacks);
        let authorize = self.authorize.as_ref().ok_or_else(|| unsupported("has no page to sign in at"))?;
        // Two readers could take two values, and one of them a stranger's.
        if authorize.query_pairs().any(|(name, _)| OURS.contains(&&*name)) {
            return Err(unsupported("names a page to sign in at that speaks for its clients"));
        }
        if self.proves {
            Ok(authorize)
        } else {
            Err(unsupported("does not say that it supports PKCE with S256"))
        }
    }

    /// Whether a client may prove itself in this way, as far as is said.
    pub(super) fn takes(&self, method: &str) -> Option<bool> {
        self.methods.as_ref().map(|methods| methods.iter().any(|one| one == method))
    }
}

/// What a request says itself, and no address that somebody else has written.
const OURS: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "scope",
    "prompt",
];
