//! An authorization server before another: for clients that cannot be known to the one people sign in at.
//!
//! Clients register here, or publish who they are; people approve each of them here, sign in upstream, and are sent
//! back with a code of ours. Upstream knows one client, this server. Its tokens say who has signed in and go no
//! further; clients get ours, which count here and nowhere else.
//!
//! (2026-07-28, Authorization and Security Best Practices, Confused Deputy Problem; OAuth 2.1; RFC 7009, 7591, 8414,
//! 9207.)

mod answer;
mod authorize;
mod client;
mod cookie;
mod document;
mod redirect;
mod token;
mod turns;
mod upstream;
mod vault;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use longhaul_tasks::store::Registry;
use serde_json::json;

use super::fetch::FetchError;
use super::resource::Resource;
use crate::oauth::form;
use crate::server::Scopes;
pub(crate) use answer::Answer;
use client::{Client, Source};
use document::Documents;
use upstream::Door;
pub use upstream::Upstream;
use vault::Vault;

/// An authorization server before an [`Upstream`]: for a server's own clients, whoever they are.
///
/// Its issuer is the origin of the server's resource; its endpoints are `/authorize`, `/token`, `/register` and
/// `/revoke` there. What has to survive a restart is in the registry, which nodes may share.
#[derive(Clone, Debug)]
pub struct Proxy {
    upstream: Upstream,
    registry: Arc<dyn Registry>,
    scopes: Scopes,
    clients: Vec<Client>,
    registration: bool,
    documents: Option<bool>,
    access: Duration,
    grant: Duration,
}

/// A client that an operator knows. It has no secret: what it shows is that it began what it ends.
#[derive(Clone, Debug)]
pub struct KnownClient(Client);

impl KnownClient {
    /// The client with this id; what people call it, and where it may be called back.
    ///
    /// # Errors
    ///
    /// [`InvalidClient`] when it could be taken for another, or an address is none of `https`, or of `http` on the
    /// user's own machine.
    pub fn new(id: &str, name: impl Into<String>, redirects: &[&str]) -> Result<Self, InvalidClient> {
        if !client::is_plain_id(id) {
            return Err(InvalidClient::Id { id: id.to_owned() });
        }
        if let Some(bad) = redirects.iter().find(|text| !redirect::may_be_registered(text)) {
            return Err(InvalidClient::Redirect { redirect: (*bad).to_owned() });
        }
        let redirects = redirects.iter().map(|text| (*text).to_owned()).collect();
        Ok(Self(Client { handle: id.to_owned(), name: name.into(), redirects, source: Source::Operator }))
    }
}

/// A client that cannot be as it is named.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidClient {
    /// Its id could be another's.
    #[error("`{}` is no id of a client: it has 1 to 100 of the letters, digits and `-._`", id.escape_debug())]
    #[non_exhaustive]
    Id {
        /// The id.
        id: String,
    },
    /// It cannot be called back there.
    #[error("`{}` is no address to call a client back at: it is https, or http on the user's own machine, without fragment and user", redirect.escape_debug())]
    #[non_exhaustive]
    Redirect {
        /// The address.
        redirect: String,
    },
}

impl Proxy {
    /// People sign in at `upstream`; grants are kept in `registry`. Clients that publish who they are come in, others
    /// not yet.
    pub fn new(upstream: Upstream, registry: Arc<dyn Registry>) -> Self {
        Self {
            upstream,
            registry,
            scopes: Scopes::default(),
            clients: Vec::new(),
            registration: false,
            documents: Some(false),
            access: Duration::from_secs(10 * 60),
            grant: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }

    /// Gives clients these scopes when they ask, besides those that [every caller needs](super::Protection::require).
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// Knows this client.
    #[must_use]
    pub fn client(mut self, client: KnownClient) -> Self {
        self.clients.push(client.0);
        self
    }

    /// Lets clients register themselves (RFC 7591), as most had to before 2026-07-28. Default no. Nothing is kept of
    /// those that do, however many.
    #[must_use]
    pub fn registration(mut self, registration: bool) -> Self {
        self.registration = registration;
        self
    }

    /// Whether clients may publish who they are (Client ID Metadata Documents). Default yes. The documents are fetched
    /// from the public internet, and from nowhere else.
    #[must_use]
    pub fn documents(mut self, documents: bool) -> Self {
        self.documents = documents.then_some(false);
        self
    }

    /// Fetches documents of clients from this machine as well: for trying them out.
    #[must_use]
    pub fn local_documents(mut self) -> Self {
        self.documents = Some(true);
        self
    }

    /// How long a token lets its client in before it is refreshed. Default 10 minutes.
    #[must_use]
    pub fn access(mut self, access: Duration) -> Self {
        self.access = access;
        self
    }

    /// How long a client may go on before its user has to sign in again. Default 7 days: nobody is told of what
    /// changes upstream meanwhile.
    #[must_use]
    pub fn grant(mut self, grant: Duration) -> Self {
        self.grant = grant;
        self
    }

    pub(super) fn broker(self, resource: &Resource, required: &Scopes) -> Result<Broker, FetchError> {
        let issuer = resource.origin().to_owned();
        let scopes = self.scopes.union(required);
        let documents = self.documents.map(Documents::new).transpose()?;
        Ok(Broker {
            callback: format!("{issuer}/authorize/callback"),
            vault: Vault::new(&issuer, self.registry),
            metadata: metadata(&issuer, &scopes, self.registration, documents.is_some()),
            upstream: self.upstream.door()?,
            resource: resource.clone(),
            required: required.clone(),
            scopes,
            issuer,
            clients: self.clients,
            registration: self.registration,
            documents,
            access: self.access,
            grant: self.grant,
        })
    }
}

/// The authorization server, running.
#[derive(Debug)]
pub(super) struct Broker {
    pub(super) issuer: String,
    callback: String,
    resource: Resource,
    /// What a client gets that asks for nothing in particular.
    required: Scopes,
    /// All that it may ask for.
    scopes: Scopes,
    clients: Vec<Client>,
    registration: bool,
    documents: Option<Documents>,
    upstream: Door,
    vault: Vault,
    access: Duration,
    grant: Duration,
    metadata: Bytes,
}

/// A place of the authorization server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Endpoint {
    /// What it says of itself.
    Metadata,
    Authorize,
    Consent,
    Callback,
    Token,
    Register,
    Revoke,
}

impl Endpoint {
    fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/.well-known/oauth-authorization-server" => Self::Metadata,
            "/authorize" => Self::Authorize,
            "/authorize/consent" => Self::Consent,
            "/authorize/callback" => Self::Callback,
            "/token" => Self::Token,
            "/register" => Self::Register,
            "/revoke" => Self::Revoke,
            _ => return None,
        })
    }

    /// How it is asked.
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Metadata | Self::Authorize | Self::Callback => Method::GET,
            Self::Consent | Self::Token | Self::Register | Self::Revoke => Method::POST,
        }
    }
}

impl Broker {
    /// The endpoint at this path, if there is one.
    pub(super) fn endpoint(&self, path: &str) -> Option<Endpoint> {
        Endpoint::at(path).filter(|endpoint| *endpoint != Endpoint::Register || self.registration)
    }

    /// Answers a request that came by the endpoint's own method.
    pub(super) async fn answer(
        &self,
        endpoint: Endpoint,
        headers: &HeaderMap,
        query: &str,
        body: &[u8],
    ) -> Answer {
        if let Err(error) = self.vault.ready().await {
            return answer::unavailable(&error);
        }
        match endpoint {
            Endpoint::Metadata => {
                let mut answer = Answer::new(self.metadata.clone());
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
                answer
            }
            Endpoint::Authorize => self.authorize(query, headers).await,
            Endpoint::Consent => self.decide(body, headers).await,
            Endpoint::Callback => self.come_back(query, headers).await,
            Endpoint::Register if !is_of(headers, JSON) => {
                answer::error("invalid_client_metadata", "send application/json")
            }
            Endpoint::Register => client::register(&self.vault, body),
            Endpoint::Token | Endpoint::Revoke if !is_of(headers, FORM) => {
                answer::error("invalid_request", "send application/x-www-form-urlencoded")
            }
            Endpoint::Token | Endpoint::Revoke => {
                let Some(form) = form::Form::parse(body) else {
                    return answer::error("invalid_request", "a parameter is given twice");
                };
                // Before anything is looked at: a code is not spent for it.
                if headers.contains_key(AUTHORIZATION) || form.get("client_secret").is_some() {
                    return answer::no_secrets();
                }
                if endpoint == Endpoint::Token { self.token(&form).await } else { self.revoke(&form).await }
            }
        }
    }

    /// Forgets what is past its time; a failure is made up for the next time.
    pub(super) async fn tidy(&self) {
        if let Err(error) = self.vault.sweep().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "codes and grants that are over wait for the next sweep");
        }
    }

    /// The client with this id.
    ///
    /// # Errors
    ///
    /// What to say to whoever follows it.
    async fn client(&self, id: &str) -> Result<Client, &'static str> {
        if let Some(client) = self.clients.iter().find(|client| client.handle == id) {
            return Ok(client.clone());
        }
        match &self.documents {
            Some(documents) if id.contains("://") => documents.client(id).await,
            _ => Client::registered(&self.vault, id).filter(|_| self.registration).ok_or(
                "The program that sent you here is not known to this server: it has to register again.",
            ),
        }
    }
}

/// Whether a body says that it is of this kind, and no other.
fn is_of(headers: &HeaderMap, kind: &str) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|said| said.to_str().ok()).unwrap_or_default();
    said.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// What the server says of itself (RFC 8414).
fn metadata(issuer: &str, scopes: &Scopes, registration: bool, documents: bool) -> Bytes {
    let at = |path: &str| format!("{issuer}{path}");
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "revocation_endpoint": at("/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": documents,
        "scopes_supported": scopes.iter().collect::<Vec<_>>(),
    });
    if registration {
        document["registration_endpoint"] = at("/register").into();
    }
    document.to_string().into()
}

/// The most bytes of a request to the authorization server.
pub(crate) const LONGEST_BODY: usize = 32 << 10;
