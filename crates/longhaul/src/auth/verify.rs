//! The seam between the guard and whoever can tell a good token from a bad one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::rules::Rules;
use crate::server::{Principal, Scopes};

/// A check under way.
pub type VerifyFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Verified>, Refusal>> + Send + 'a>>;

/// Tells whose tokens are good.
pub trait Verify: fmt::Debug + Send + Sync + 'static {
    /// Checks a token; `None` leaves it to the next. Nothing of the token may be kept but its digest.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`] for a token of its own that is not good, [`Refusal::Unavailable`] when that cannot be
    /// told now.
    fn verify<'a>(&'a self, token: &'a str, rules: &'a Rules) -> VerifyFuture<'a>;
}

/// Whom a token proves to call, and what it lets the caller do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// Who calls.
    pub principal: Principal,
    /// What it may do; `None` when nothing is out of its reach.
    pub scopes: Option<Scopes>,
    /// What its issuer says of it.
    pub claims: Map<String, Value>,
}

impl Verified {
    /// A caller with these scopes, of whom nothing more is said.
    pub fn new(principal: Principal, scopes: Option<Scopes>) -> Self {
        Self { principal, scopes, claims: Map::new() }
    }

    /// With what its issuer says of it.
    #[must_use]
    pub fn claims(mut self, claims: Map<String, Value>) -> Self {
        self.claims = claims;
        self
    }
}
