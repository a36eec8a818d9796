//! JSON text that passes through the store unread.

use std::{fmt, ops::Deref, sync::Arc};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value kept as the text it came in: shared, never parsed here, stored byte for byte.
///
/// It serialises as itself, so an answer embeds it without reading it again. `Debug` shows only its size, for
/// payloads belong to their owner and not in a log.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Takes text that should be one JSON value.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, and where.
    ///
    /// ```
    /// use longhaul_store::Json;
    /// assert_eq!(Json::parse(r#"{"a":1}"#)?.as_str(), r#"{"a":1}"#);
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self::from)
    }

    /// `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<Box<RawValue>> for Json {
    fn from(value: Box<RawValue>) -> Self {
        Self(value.into())
    }
}

impl From<Arc<RawValue>> for Json {
    fn from(value: Arc<RawValue>) -> Self {
        Self(value)
    }
}

impl Deref for Json {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        &self.0
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Eq for Json {}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.as_str().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_byte_for_byte_and_never_logged() {
        let json = Json::parse(r#"{ "secret" : 1.0 }"#).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), r#"{ "secret" : 1.0 }"#);
        assert_eq!(format!("{json:?}"), "Json(18 bytes)");
        assert!(Json::parse("{").is_err());
    }
}
