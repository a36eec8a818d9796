//! Why no token is to be had.

use std::sync::Arc;
use std::time::Duration;

use crate::oauth::fetch::{FetchError, shown};

/// A cause from below.
type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a server cannot be signed in to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// Whoever listens on the way could read the token.
    #[error(
        "{url} is reached without TLS, so no token is shown there; use https, or a server of this machine"
    )]
    #[non_exhaustive]
    Insecure {
        /// Where it would be shown.
        url: String,
    },
    /// A user has to sign in, and no browser is at hand.
    #[error("a user has to sign in first")]
    SignInNeeded,
    /// A user has to sign in again, for more than before, and no browser is at hand.
    #[error("the server wants a token with the scope `{scope}`, for which a user has to sign in again")]
    #[non_exhaustive]
    ScopeNeeded {
        /// What it wants.
        scope: String,
    },
    /// Another program that keeps its tokens in the same place has been changing them for too long.
    #[error(
        "another program has been renewing the token for {} s; end it if it hangs, and try again",
        after.as_secs()
    )]
    #[non_exhaustive]
    Busy {
        /// For how long it was waited.
        after: Duration,
    },
    /// The server sends us where no server may send its clients.
    #[error(
        "{url} is no address that a server may send its clients to; if it is in your own network, allow that"
    )]
    #[non_exhaustive]
    Forbidden {
        /// Where we were sent.
        url: String,
    },
    /// The browser would bring the code back where others can read it.
    #[error("users come back to {redirect}, where others could listen; it is https, or http on this machine")]
    #[non_exhaustive]
    UnsafeRedirect {
        /// Where they come back to.
        redirect: String,
    },
    /// Something could not be had.
    #[error("{what} could not be had")]
    #[non_exhaustive]
    Fetch {
        /// What it was.
        what: &'static str,
        /// Why.
        #[source]
        source: Arc<FetchError>,
    },
    /// The server's metadata is of another server.
    #[error(
        "the server says that tokens for it are for {resource}, which is not where it is; do not sign in to it"
    )]
    #[non_exhaustive]
    WrongResource {
        /// The resource that it names.
        resource: String,
    },
    /// The server's metadata names no authorization server.
    #[error("the server does not say who grants tokens for it; ask who operates it for one")]
    NoIssuer,
    /// The authorization server cannot do what is needed.
    #[error("the authorization server {issuer} {lacks}; ask who operates it")]
    #[non_exhaustive]
    Unsupported {
        /// Who it is.
        issuer: String,
        /// What it does not do.
        lacks: &'static str,
    },
    /// The authorization server does not know us, and lets nobody register.
    #[error("{issuer} lets no client register itself; register one there, and give its id")]
    #[non_exhaustive]
    NoClient {
        /// Who it is.
        issuer: String,
    },
    /// The client was registered with another authorization server.
    #[error(
        "the client is registered with {registered}, and the server now takes tokens of {issuer}; register one there"
    )]
    #[non_exhaustive]
    OtherIssuer {
        /// Who knows the client.
        registered: String,
        /// Whose tokens the server takes.
        issuer: String,
    },
    /// An authorization server refused.
    #[error("{what} was refused: {error}{}{description}", if description.is_empty() { "" } else { ": " })]
    #[non_exhaustive]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The error code (RFC 6749, 5.2), or the status.
        error: String,
        /// What else it says, made fit to be shown.
        description: String,
    },
    /// What came back belongs to another sign-in, or to none.
    #[error("what the browser brought back was dropped: {reason}; sign in again")]
    #[non_exhaustive]
    Mismatch {
        /// What was wrong with it.
        reason: &'static str,
    },
    /// The user did not come back.
    #[error("nobody has signed in")]
    #[non_exhaustive]
    Browser {
        /// Why not.
        #[source]
        cause: Cause,
    },
    /// The server refuses a token that was granted for it a moment ago.
    #[error("the server refuses the token that was just granted for it; ask who operates it")]
    TokenRefused,
    /// The server wants scopes that were asked for and not granted, or that were granted and do not do.
    #[error(
        "the server wants a token with the scope `{scope}`, and the one that it is shown was asked for with it; whoever signs in must have that right"
    )]
    #[non_exhaustive]
    Scope {
        /// What it wants.
        scope: String,
    },
    /// Tokens cannot be kept or found.
    #[error("the store of tokens failed")]
    #[non_exhaustive]
    Store {
        /// Why.
        #[source]
        cause: Cause,
    },
    /// A key cannot sign.
    #[error("the key cannot be used: {reason}")]
    #[non_exhaustive]
    Key {
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl AuthError {
    /// Makes an error of what keeps tokens.
    pub fn store(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Store { cause: Arc::new(cause) }
    }

    /// Makes an error of what shows a user where to sign in.
    pub fn browser(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Browser { cause: Arc::new(cause) }
    }

    pub(super) fn fetch(what: &'static str) -> impl Fn(FetchError) -> Self {
        move |source| Self::Fetch { what, source: Arc::new(source) }
    }

    pub(super) fn forbidden(url: &str) -> Self {
        Self::Forbidden { url: shown(url) }
    }

    pub(super) fn wrong_resource(resource: &str) -> Self {
        Self::WrongResource { resource: shown(resource) }
    }

    pub(super) fn unsupported(issuer: &str, lacks: &'static str) -> Self {
        Self::Unsupported { issuer: shown(issuer), lacks }
    }

    pub(super) fn no_client(issuer: &str) -> Self {
        Self::NoClient { issuer: shown(issuer) }
    }

    pub(super) fn other_issuer(registered: &str, issuer: &str) -> Self {
        Self::OtherIssuer { registered: shown(registered), issuer: shown(issuer) }
    }

    /// A refusal in the words of a stranger, which end up in terminals and logs.
    pub(super) fn refused(what: &'static str, error: &str, description: Option<&str>) -> Self {
        Self::Refused { what, error: shown(error), description: shown(description.unwrap_or_default()) }
    }
}
