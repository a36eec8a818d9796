//! Tokens that an operator hands out: for a small deployment without an authorization server.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::guard::is_bearer_token;
use super::rules::Rules;
use super::verify::{Verified, Verify, VerifyFuture};
use crate::server::{Principal, Scopes};

/// Tokens that an operator hands out, each with the name of its principal. Only their digests are kept.
#[derive(Clone, Default)]
pub struct StaticTokens(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    digest: [u8; 32],
    principal: Principal,
    scopes: Option<Scopes>,
}

/// Why a token cannot be handed out.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidToken {
    /// It could be guessed.
    #[error("the token of {name:?} is shorter than {least} characters: make one with `openssl rand -hex 32`", least = StaticTokens::SHORTEST)]
    #[non_exhaustive]
    Short {
        /// Its principal.
        name: String,
    },
    /// It cannot be sent.
    #[error("the token of {name:?} has a character that no bearer token has, such as a space")]
    #[non_exhaustive]
    Unsendable {
        /// Its principal.
        name: String,
    },
    /// Its principal has no name, or too long a one.
    #[error("a token must name whoever shows it, in at most 1024 characters")]
    Nameless,
    /// Two names, one token.
    #[error("{name:?} has the token of somebody else")]
    #[non_exhaustive]
    Shared {
        /// The second principal.
        name: String,
    },
}

impl StaticTokens {
    /// The fewest characters of a token.
    pub const SHORTEST: usize = 20;

    /// No tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whoever shows `token` is the principal `token:NAME` and may do what `scopes` allow; everything if `None`.
    ///
    /// # Errors
    ///
    /// [`InvalidToken`] when it is short enough to be guessed, cannot be sent, names nobody, or is another's.
    pub fn token(mut self, name: &str, token: &str, scopes: Option<Scopes>) -> Result<Self, InvalidToken> {
        let name = name.to_owned();
        if token.len() < Self::SHORTEST {
            return Err(InvalidToken::Short { name });
        }
        if !is_bearer_token(token) {
            return Err(InvalidToken::Unsendable { name });
        }
        if name.is_empty() || name.len() > 1024 {
            return Err(InvalidToken::Nameless);
        }
        let digest = digest(token);
        if self.find(&digest).is_some() {
            return Err(InvalidToken::Shared { name });
        }
        let principal = Principal::new(format!("token:{name}")).map_err(|_| InvalidToken::Nameless)?;
        self.0.push(Entry { digest, principal, scopes });
        Ok(self)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token of that digest. How long it takes says nothing of which.
    fn find(&self, digest: &[u8; 32]) -> Option<&Entry> {
        let mut found = None;
        for entry in &self.0 {
            if bool::from(entry.digest.ct_eq(digest)) {
                found = Some(entry);
            }
        }
        found
    }
}

pub(super) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl Verify for StaticTokens {
    fn verify<'a>(&'a self, token: &'a str, _: &'a Rules) -> VerifyFuture<'a> {
        let entry = self.find(&digest(token));
        let verified = entry.map(|entry| Verified::new(entry.principal.clone(), entry.scopes.clone()));
        Box::pin(std::future::ready(Ok(verified)))
    }
}

/// A digest helps whoever guesses: only the names are shown.
impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|entry| entry.principal.as_str())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_principal_and_is_kept_as_a_digest() {
        let tokens = StaticTokens::new().token("ci", "0123456789abcdefghij", None).unwrap();
        assert_eq!(tokens.find(&digest("0123456789abcdefghij")).unwrap().principal.as_str(), "token:ci");
        assert!(tokens.find(&digest("0123456789abcdefghiJ")).is_none());
        assert_eq!(format!("{tokens:?}"), r#"["token:ci"]"#);
    }

    #[test]
    fn a_token_that_cannot_protect_anything_is_refused() {
        let add = |name: &str, token: &str| StaticTokens::new().token(name, token, None).map(drop);
        assert!(matches!(add("a", "short"), Err(InvalidToken::Short { .. })));
        assert!(matches!(add("a", "with a space in the middle"), Err(InvalidToken::Unsendable { .. })));
        assert_eq!(add("", "0123456789abcdefghij"), Err(InvalidToken::Nameless));
        let twice = StaticTokens::new().token("a", "0123456789abcdefghij", None).unwrap();
        assert!(matches!(
            twice.token("b", "0123456789abcdefghij", None),
            Err(InvalidToken::Shared { name }) if name == "b"
        ));
    }
}
