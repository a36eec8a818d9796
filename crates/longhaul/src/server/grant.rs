//! What a caller may do: the scopes that its credential carries, and those that a tool asks for.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A set of OAuth scopes, in the order of their names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scopes(Arc<[Box<str>]>);

/// A scope with a character that no scope has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{}` is no scope: scopes are visible ASCII characters but `\"` and `\\`, with spaces between them", scope.escape_debug())]
#[non_exhaustive]
pub struct InvalidScope {
    /// The text.
    pub scope: String,
}

impl Scopes {
    /// Reads scopes as OAuth writes them: with spaces between them (RFC 6749, 3.3).
    ///
    /// # Errors
    ///
    /// [`InvalidScope`] for one with a character that no scope has.
    ///
    /// ```
    /// use longhaul::server::Scopes;
    ///
    /// let scopes = Scopes::parse("deploy read")?;
    /// assert!(scopes.contains_all(&Scopes::parse("read")?));
    /// assert_eq!(scopes.to_string(), "deploy read");
    /// # Ok::<_, longhaul::server::InvalidScope>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidScope> {
        let scopes = text.split(' ').filter(|scope| !scope.is_empty());
        match scopes.clone().find(|scope| !is_scope(scope)) {
            Some(wrong) => Err(InvalidScope { scope: wrong.to_owned() }),
            None => Ok(scopes.collect()),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The scopes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Whether this is one of them.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.binary_search_by(|one| one.as_ref().cmp(scope)).is_ok()
    }

    /// Whether all of `others` are among them.
    pub fn contains_all(&self, others: &Self) -> bool {
        others.iter().all(|scope| self.contains(scope))
    }

    /// These and `others`.
    #[must_use]
    pub fn union(&self, others: &Self) -> Self {
        self.iter().chain(others.iter()).collect()
    }
}

fn is_scope(scope: &str) -> bool {
    !scope.is_empty() && scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// What is no scope is left out: nothing can ask for it.
impl<'s> FromIterator<&'s str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'s str>>(scopes: I) -> Self {
        let mut scopes: Vec<&str> = scopes.into_iter().filter(|scope| is_scope(scope)).collect();
        scopes.sort_unstable();
        scopes.dedup();
        Self(scopes.into_iter().map(Box::from).collect())
    }
}

/// With spaces between them.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(scope)?;
        }
        Ok(())
    }
}

/// What the credential of a caller lets it do, and what its issuer says of the caller. The credential itself
/// is not in it.
#[derive(Clone)]
pub struct Grant {
    scopes: Option<Scopes>,
    claims: Map<String, Value>,
}

impl Grant {
    /// What `scopes` allow; everything if `None`.
    pub fn new(scopes: Option<Scopes>, claims: Map<String, Value>) -> Self {
        Self { scopes, claims }
    }

    /// The scopes; `None` when nothing is out of reach.
    pub fn scopes(&self) -> Option<&Scopes> {
        self.scopes.as_ref()
    }

    /// Whether it reaches all of `needed`.
    pub fn allows(&self, needed: &Scopes) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains_all(needed))
    }

    /// Everything the issuer says of the caller, unread.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// What the issuer says of the caller under this name, if it says it in the shape of `T`.
    pub fn claim<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.claims.get(name)?).ok()
    }
}

/// The claims are about a person: only their names are shown.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claims: Vec<&String> = self.claims.keys().collect();
        f.debug_struct("Grant").field("scopes", &self.scopes).field("claims", &claims).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_a_set_whatever_their_order() {
        let scopes = Scopes::parse("write  read write").unwrap();
        assert_eq!(scopes, Scopes::parse("read write").unwrap());
        assert!(scopes.contains("read") && !scopes.contains("rea"));
        assert!(scopes.contains_all(&Scopes::default()));
        assert_eq!(scopes.union(&Scopes::parse("admin").unwrap()).to_string(), "admin read write");
    }

    #[test]
    fn what_could_end_a_header_is_no_scope() {
        for wrong in ["a\"b", "a\\b", "a\tb", "a\r\nb", "é"] {
            assert!(Scopes::parse(wrong).is_err(), "{wrong:?}");
            assert!([wrong].into_iter().collect::<Scopes>().is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn claims_are_read_as_what_they_are() {
        let Value::Object(claims) = serde_json::json!({"email": "ann@example.com", "level": 3}) else {
            panic!()
        };
        let grant = Grant::new(None, claims);
        assert_eq!(grant.claim::<String>("email").as_deref(), Some("ann@example.com"));
        assert_eq!(grant.claim::<String>("level"), None);
        assert!(grant.allows(&Scopes::parse("anything").unwrap()));
        assert!(!format!("{grant:?}").contains("ann@"));
    }
}
