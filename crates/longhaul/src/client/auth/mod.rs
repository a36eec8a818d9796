//! Signing in: how a client over HTTP gets the tokens that a protected server asks for.
//!
//! [`Options::oauth`](super::Options::oauth) is given an [`OAuth`]. When the server then refuses a request, it is found
//! out who grants tokens for it, one is got and kept, and the request is sent again. A token is renewed before it ends; one
//! that lacks a scope is widened. All clients of one `OAuth` share what it keeps.
//!
//! ```no_run
//! use longhaul::client::auth::{Loopback, OAuth};
//! use longhaul::client::{Client, Options};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let browser = Loopback::bind(0, |address| {
//!     println!("sign in at {address}");
//!     Ok(())
//! });
//! let options = Options::default().oauth(OAuth::new().browser(browser.await?));
//! let client = Client::connect_with("https://mcp.example.com/mcp", options).await?;
//! # Ok(()) }
//! ```
//!
//! A user signs in with a [`Browser`], which [`Loopback`] is. A program that calls on its own behalf has
//! [`OAuth::client_credentials`]; others may vouch for who uses it ([`OAuth::workload`], [`OAuth::enterprise`]). Without either, tokens that were kept are used and renewed, and nobody is asked.
//!
//! A token is shown to the server that it was granted for, and to nobody else; redirects are not followed. Servers name
//! authorization servers, so those are asked at public addresses alone, unless
//! [`private_networks`](OAuth::private_networks) are allowed.
//!
//! The files: `challenge` reads what the server asks for, `resource` and `issuer` find out who grants it, `registration`
//! makes us known there, `authorization` asks the user, `token` the authorization server; `authorizer` puts them together.
//!
//! (2026-07-28, Authorization; RFC 6749, 7009, 7523, 7591, 7636, 8252, 8414, 8693, 8707, 9207, 9449, 9728.)

mod assertion;
mod authorization;
mod authorizer;
mod browser;
mod challenge;
mod error;
mod file;
mod issuer;
mod key;
mod limits;
mod loopback;
mod proof;
mod registration;
mod resource;
mod secret;
mod store;
mod token;
mod tokens;
mod web;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul_tasks::environment::BoxFuture;
use reqwest::Url;

use assertion::Assertions;
pub use assertion::IdentityProvider;
pub(crate) use authorizer::{Authorizer, Round};
pub use browser::Browser;
pub use error::AuthError;
pub use file::FileTokens;
pub use key::SigningKey;
pub use limits::Limits;
pub use loopback::Loopback;
pub use registration::Credentials;
pub use secret::Secret;
pub use store::{Held, MemoryTokens, TokenStore};
pub(crate) use tokens::Tokens;

pub use crate::oauth::fetch::FetchError;
use crate::server::Scopes;

/// How a client gets tokens. Clones share what is kept.
#[derive(Clone)]
pub struct OAuth {
    grant: Grant,
    credentials: Option<Credentials>,
    document: Option<String>,
    name: String,
    scopes: Scopes,
    store: Arc<dyn TokenStore>,
    private: bool,
    limits: Limits,
}

/// On whose behalf.
#[derive(Clone, Debug)]
enum Grant {
    /// A user's, who signs in with this; without it nobody can.
    User(Option<Arc<dyn Browser>>),
    /// The client's own.
    Client,
    /// Whoever somebody else vouches for.
    Vouched(Assertions),
}

impl Default for OAuth {
    fn default() -> Self {
        Self::new()
    }
}

impl OAuth {
    /// On behalf of a user. Without a [`browser`](Self::browser) only what was kept is used.
    pub fn new() -> Self {
        Self {
            grant: Grant::User(None),
            credentials: None,
            document: None,
            name: "longhaul".to_owned(),
            scopes: Scopes::default(),
            store: Arc::new(MemoryTokens::new()),
            private: false,
            limits: Limits::default(),
        }
    }

    /// On the client's own behalf, without any user (the grant `client_credentials`).
    pub fn client_credentials(credentials: Credentials) -> Self {
        Self { grant: Grant::Client, credentials: Some(credentials), ..Self::new() }
    }

    /// On behalf of a workload, for which its platform vouches: `vouch` is given the name of an authorization server, and gives
    /// a JWT that is meant for it (the grant `jwt-bearer`). Such a client is not registered by itself.
    pub fn workload<F: Future<Output = Result<Secret, AuthError>> + Send + 'static>(
        credentials: Credentials,
        vouch: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self {
        let vouch = move |issuer| -> BoxFuture<'static, _> { Box::pin(vouch(issuer)) };
        let grant = Grant::Vouched(Assertions::Workload(Arc::new(vouch)));
        Self { grant, credentials: Some(credentials), ..Self::new() }
    }

    /// On behalf of somebody who has signed in to their company's identity provider, which decides what they may use. The
    /// credentials are those of the server's own authorization server.
    pub fn enterprise(credentials: Credentials, provider: IdentityProvider) -> Self {
        let grant = Grant::Vouched(Assertions::Enterprise(provider));
        Self { grant, credentials: Some(credentials), ..Self::new() }
    }

    /// Lets users sign in with this.
    #[must_use]
    pub fn browser(mut self, browser: impl Browser + 'static) -> Self {
        self.grant = Grant::User(Some(Arc::new(browser)));
        self
    }

    /// Is a client that was registered beforehand. It comes before all other ways of being known.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Is a client that publishes its metadata at `address`, where the authorization server takes that. The document there
    /// has exactly this address as `client_id`, a `client_name`, and the browser's redirect URI among `redirect_uris`.
    ///
    /// # Errors
    ///
    /// [`AuthError::Forbidden`] when the address is not `https` with a path, written as URLs are.
    pub fn metadata_document(mut self, address: impl Into<String>) -> Result<Self, AuthError> {
        let address = address.into();
        if !registration::is_document(&address) {
            return Err(AuthError::Forbidden { url: address });
        }
        self.document = Some(address);
        Ok(self)
    }

    /// Says what users know the client by, where it registers itself. Default `longhaul`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Asks for these scopes besides those that the server wants. A token that was asked for without them is not used, so
    /// whoever has one signs in again. Default: none.
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// Keeps tokens there. Default: in memory.
    #[must_use]
    pub fn store(mut self, store: impl TokenStore + 'static) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Lets servers name authorization servers in private networks, too. Default no: a server could have us ask what only
    /// we can reach.
    #[must_use]
    pub fn private_networks(mut self, private: bool) -> Self {
        self.private = private;
        self
    }

    /// Bounds how long it may take, and how much strangers may say.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Forgets the token for the server at this address, here and where it is kept, and has the authorization server take
    /// it back. Whether there was one.
    ///
    /// # Errors
    ///
    /// When the address is none, or the store fails.
    pub async fn sign_out(&self, server: &str) -> Result<bool, AuthError> {
        let url = Url::parse(server).map_err(|_| AuthError::Forbidden { url: server.to_owned() })?;
        Authorizer::new(self.clone(), url).sign_out().await
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("grant", &self.grant)
            .field("credentials", &self.credentials)
            .field("document", &self.document)
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .field("store", &self.store)
            .field("private", &self.private)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Text that nobody can guess: 256 bits, which is as long as a verifier must be (RFC 7636, 4.1).
fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(crate::seal::random::<32>())
}

/// Seconds since 1970, by our clock.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
