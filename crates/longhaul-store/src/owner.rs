//! To whom a task belongs, and as whom a read asks.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The proven identity of a caller, as the layer above spells it (for example `iss|sub|client_id`).
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Principal(Arc<str>);

impl Principal {
    /// The longest principal, in bytes.
    pub const MAX_LEN: usize = 4096;

    /// Takes a principal's name; names are compared byte for byte.
    ///
    /// # Errors
    ///
    /// [`InvalidPrincipal`] if it is empty or longer than [`Self::MAX_LEN`].
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, InvalidPrincipal> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::MAX_LEN {
            return Err(InvalidPrincipal { found: name.len() });
        }
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A principal's name of an impossible length.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a principal's name has 1 to {max} bytes, not {found}", max = Principal::MAX_LEN)]
#[non_exhaustive]
pub struct InvalidPrincipal {
    found: usize,
}

/// To whom a task belongs.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[expect(clippy::exhaustive_enums, reason = "a caller is proven or it is not")]
pub enum Owner {
    /// A proven caller.
    Principal(Principal),
    /// Nobody in particular: whoever has the id has the task, and there is nothing to list.
    Anonymous,
}

impl Owner {
    /// The owner of this name.
    ///
    /// # Errors
    ///
    /// [`InvalidPrincipal`] if it is empty or too long.
    ///
    /// ```
    /// use longhaul_store::Owner;
    /// let owner = Owner::principal("local:1000")?;
    /// assert_ne!(owner, Owner::Anonymous);
    /// # Ok::<_, longhaul_store::InvalidPrincipal>(())
    /// ```
    pub fn principal(name: impl Into<Arc<str>>) -> Result<Self, InvalidPrincipal> {
        Principal::new(name).map(Self::Principal)
    }
}

/// As whom a task is read or cancelled. Every such operation takes one, so that forgetting it does not compile.
///
/// ```compile_fail
/// # async fn f(store: &dyn longhaul_store::TaskStore, id: &longhaul_store::TaskId) {
/// store.get(id).await; // whose?
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a caller is an owner or the operator; a third would need every check revisited"
)]
pub enum Scope<'a> {
    /// A caller: sees its own tasks; everything else does not exist.
    Owner(&'a Owner),
    /// The operator of this store (whoever may read its file or its admin key): sees every task.
    Operator,
}

impl Scope<'_> {
    /// Whether a task of `owner` exists for whoever asks.
    #[must_use]
    pub fn sees(self, owner: &Owner) -> bool {
        match self {
            Self::Owner(asking) => asking == owner,
            Self::Operator => true,
        }
    }
}

impl<'a> From<&'a Owner> for Scope<'a> {
    fn from(owner: &'a Owner) -> Self {
        Self::Owner(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_sees_its_own_and_the_operator_everything() {
        let (ann, bob) = (Owner::principal("ann").unwrap(), Owner::principal("bob").unwrap());
        assert!(Scope::Owner(&ann).sees(&ann));
        assert!(!Scope::Owner(&ann).sees(&bob));
        assert!(!Scope::Owner(&ann).sees(&Owner::Anonymous));
        assert!(!Scope::Owner(&Owner::Anonymous).sees(&ann));
        assert!(Scope::Operator.sees(&ann) && Scope::Operator.sees(&Owner::Anonymous));
    }

    #[test]
    fn nobody_is_not_a_principal() {
        assert!(Owner::principal("").is_err());
        assert!(Owner::principal("x".repeat(4097)).is_err());
    }
}
