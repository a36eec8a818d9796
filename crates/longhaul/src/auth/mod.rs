//! Protecting a server: whoever calls shows a bearer token, and who it proves to call is the principal of
//! everything that follows.
//!
//! A [`Protection`] says which tokens count: those of an [`Issuer`] (JWTs, checked with its published keys),
//! those that an [`Introspection`] endpoint vouches for, and [`StaticTokens`]. Its [`Guard`] is given to the
//! HTTP server, which then lets nobody in without one: every method of every path, but for the metadata that
//! tells clients where to get a token (RFC 9728).
//!
//! ```no_run
//! use longhaul::auth::{Issuer, Protection, Resource};
//! use longhaul::server::Scopes;
//! use longhaul::transport::http::server::Options;
//!
//! # fn options() -> Result<Options, Box<dyn std::error::Error>> {
//! let guard = Protection::new()
//!     .resource(Resource::parse("https://mcp.example.com/mcp")?)
//!     .issuer(Issuer::new("https://login.example.com")?)
//!     .require(Scopes::parse("mcp")?)
//!     .guard()?;
//! # Ok(
//! Options::default().guard(guard)
//! # )
//! # }
//! ```
//!
//! Where the issuer knows none of a server's clients and lets none register, a [`Proxy`] stands before it: an
//! authorization server of the server's own, at which people approve each client and then sign in [`Upstream`].
//!
//! A token is looked at and let go of: it is not logged, stored or passed on. What a handler gets is
//! [`Cx::principal`](crate::Cx::principal) and [`Cx::grant`](crate::Cx::grant).
//!
//! (2026-07-28, Authorization; RFC 6750, 7662, 8707, 9068, 9728.)

mod attempts;
mod guard;
mod introspection;
mod issuer;
mod jwt;
mod keys;
mod protection;
mod proxy;
mod refusal;
mod resource;
mod rules;
mod self_test;
mod static_tokens;
mod verify;

pub use crate::oauth::fetch::{FetchError, InvalidUrl};
pub use guard::Guard;
pub use introspection::Introspection;
pub use issuer::Issuer;
pub use protection::{Protection, ProtectionError};
pub(crate) use proxy::{Endpoint, LONGEST_BODY};
pub use proxy::{InvalidClient, KnownClient, Proxy, Upstream};
pub use refusal::Refusal;
pub use resource::{InvalidResource, Resource};
pub use rules::{Lifetime, Rules};
pub use static_tokens::{InvalidToken, StaticTokens};
pub use verify::{Verified, Verify, VerifyFuture};

use crate::oauth::{basic, fetch, metadata};
