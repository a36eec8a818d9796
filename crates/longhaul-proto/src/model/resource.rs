//! Resources: what a server lets its clients read.

use serde::{Deserialize, Serialize};

use super::content::ResourceContents;
use crate::dialect::ResultWriter;

/// A resource as the list shows it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// Where it is.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What kind of thing it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A family of resources, by a URI template (RFC 6570).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The template.
    pub uri_template: String,
    /// Its name for programs.
    pub name: String,
    /// What its resources are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What kind of things they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl ResourceTemplate {
    /// The family `uri_template`, called `name`.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }

    /// The same with a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// Who may share a cached answer (modern era).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "HTTP's two scopes")]
pub enum CacheScope {
    /// Anybody.
    Public,
    /// Only callers of the same authorization.
    Private,
}

/// What reading a resource gives.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// One or more parts.
    pub contents: Vec<ResourceContents>,
    /// How long it may be kept, in milliseconds.
    #[serde(default)]
    pub ttl_ms: u64,
}

impl ReadResourceResult {
    /// Contents that are stale at once and nobody else's to see.
    pub fn fresh(contents: ResourceContents) -> Self {
        Self { contents: vec![contents], ttl_ms: 0 }
    }

    /// Writes the result.
    pub fn write(&self, out: &mut ResultWriter<'_>) {
        out.field("contents", &self.contents);
        out.cacheable(self.ttl_ms, CacheScope::Private);
    }
}
