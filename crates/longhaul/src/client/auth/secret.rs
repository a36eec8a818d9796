//! Texts that nobody is shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token, a secret or a key as text. It is shown to nobody: its `Debug` says only that it is one.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for whoever needs it: to send it, or to keep it where nobody else reads.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c18_a_secret_does_not_show_itself() {
        assert_eq!(
            format!("{:?} {:#?}", Secret::new("s3cret"), Secret::new("s3cret")),
            "Secret(…) Secret(…)"
        );
    }
}
