//! Roots: the places a client lets a server work in.

use serde::{Deserialize, Serialize};

use super::meta::Meta;

/// A place a server may work in (2025-11-25, Client, Roots).
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Root {
    /// Where it is: a `file:` URI.
    pub uri: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

impl Root {
    /// The place at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }
}

/// What a client answers to `roots/list`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ListRootsResult {
    /// The places.
    pub roots: Vec<Root>,
}
