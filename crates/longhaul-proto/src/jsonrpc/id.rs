//! Request ids: an integer or a string, never null, echoed exactly.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// The id of a request, chosen by whoever sends it.
///
/// MCP narrows JSON-RPC here: null and fractions are refused (2026-07-28, Basic, Requests).
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum RequestId {
    /// An integer id.
    Number(i64),
    /// A string id.
    String(Box<str>),
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::Number(id)
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self::String(id.into())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(id) => write!(f, "{id}"),
            Self::String(id) => write!(f, "{id:?}"),
        }
    }
}

/// The token a caller attaches to a request to be told of its progress: the same shapes as an id.
pub type ProgressToken = RequestId;

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RequestId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer or a string")
    }

    fn visit_i64<E: de::Error>(self, id: i64) -> Result<RequestId, E> {
        Ok(RequestId::Number(id))
    }

    fn visit_u64<E: de::Error>(self, id: u64) -> Result<RequestId, E> {
        i64::try_from(id).map(RequestId::Number).map_err(|_| E::custom("integer id past 2^63 - 1"))
    }

    fn visit_str<E: de::Error>(self, id: &str) -> Result<RequestId, E> {
        Ok(RequestId::from(id))
    }
}
