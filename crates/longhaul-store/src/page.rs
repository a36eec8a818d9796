//! Lists in pieces.

use std::fmt;

use crate::{Record, Scope, StoreError};

/// A piece of a list.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The tasks, newest first.
    pub tasks: Vec<Record>,
    /// Where the next piece begins, if there may be one.
    pub next: Option<Cursor>,
    /// How many tasks there are besides that are not shown, for they do not open with the keys of who reads.
    pub unopened: usize,
}

impl Page {
    /// The most tasks of one page.
    pub const MAX: usize = 1000;

    /// A piece, and where the next begins.
    #[must_use]
    pub fn new(tasks: Vec<Record>, next: Option<Cursor>) -> Self {
        Self { tasks, next, unopened: 0 }
    }
}

/// A place in a list, to be given back unread.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cursor(String);

impl Cursor {
    /// Takes a cursor back from a caller; whether it is one is found out when it is used.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to give to a caller.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place behind the entry numbered `number`, of the list this scope has.
    ///
    /// An owner's entries are numbered per owner, so that a cursor tells nobody how busy others are.
    #[must_use]
    pub fn behind(scope: Scope<'_>, number: u64) -> Self {
        Self(format!("{}{number:x}", kind(scope)))
    }

    /// The number given to [`Cursor::behind`].
    ///
    /// # Errors
    ///
    /// [`StoreError::InvalidCursor`] if it never came from there, or from another kind of list.
    pub fn number(&self, scope: Scope<'_>) -> Result<u64, StoreError> {
        let digits = self.0.strip_prefix(kind(scope)).ok_or(StoreError::InvalidCursor)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(StoreError::InvalidCursor);
        }
        u64::from_str_radix(digits, 16).map_err(|_| StoreError::InvalidCursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn kind(scope: Scope<'_>) -> char {
    match scope {
        Scope::Owner(_) => 'o',
        Scope::Operator => 'a',
    }
}

/// The most rows one page looks at.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) const LONGEST_SCAN: usize = 5000;

/// The payload bytes after which a page ends.
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) const LARGEST_PAGE: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Owner;

    #[test]
    fn a_cursor_is_good_for_its_own_kind_of_list_only() {
        let ann = Owner::principal("ann").unwrap();
        let cursor = Cursor::behind(Scope::Owner(&ann), 300);
        assert_eq!(cursor.number(Scope::Owner(&ann)).unwrap(), 300);
        assert!(cursor.number(Scope::Operator).is_err());
        for bad in ["", "o", "o-1", "o+1", "oxyz", "offffffffffffffffff", "é"] {
            assert!(Cursor::from_text(bad).number(Scope::Owner(&ann)).is_err(), "{bad:?}");
        }
    }
}
