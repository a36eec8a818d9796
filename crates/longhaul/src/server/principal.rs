//! Who a caller is proven to be.

use std::fmt;
use std::sync::Arc;

/// Who a caller is proven to be: never what it says of itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Principal(Arc<str>);

impl Principal {
    /// A principal by its canonical name, such as `issuer|subject|client`.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The user this process runs as: whoever holds the other end of its standard input.
    ///
    /// On systems without user ids it is always the same principal.
    pub fn local_user() -> Self {
        #[cfg(unix)]
        return Self::new(format!("local:{}", rustix::process::getuid().as_raw()));
        #[cfg(not(unix))]
        return Self::new("local");
    }

    /// Its canonical name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
