//! Resources: what a server lets its clients read.

use serde::{Deserialize, Serialize};

use super::annotations::Annotations;
use super::content::ResourceContents;
use super::icon::Icon;
use super::meta::Meta;
use crate::dialect::ResultWriter;

/// A resource as the list shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// Where it is.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What it is.
    #[serde(default)]
    pub description: Option<String>,
    /// What kind of thing it is.
    #[serde(default)]
    pub mime_type: Option<String>,
    /// How large it is, in bytes before any encoding.
    #[serde(default)]
    pub size: Option<u64>,
    /// Pictures of it.
    #[serde(default)]
    pub icons: Vec<Icon>,
    /// For whom it is.
    #[serde(default)]
    pub annotations: Option<Annotations>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", default)]
    pub meta: Meta,
}

impl Resource {
    /// The resource at `uri`, called `name`.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// The same with a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same, named for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same, saying what kind of thing it is.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// A family of resources, by a URI template (RFC 6570).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The template.
    pub uri_template: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What its resources are.
    #[serde(default)]
    pub description: Option<String>,
    /// What kind of things they are, if all are of one kind.
    #[serde(default)]
    pub mime_type: Option<String>,
    /// Pictures of them.
    #[serde(default)]
    pub icons: Vec<Icon>,
    /// For whom they are.
    #[serde(default)]
    pub annotations: Option<Annotations>,
    /// What else there is to say of them.
    #[serde(rename = "_meta", default)]
    pub meta: Meta,
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

    /// The same, named for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same, saying what kind of things they are.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
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
        Self::new(vec![contents])
    }

    /// The same of several parts.
    pub fn new(contents: Vec<ResourceContents>) -> Self {
        Self { contents, ttl_ms: 0 }
    }

    /// The same, that may be kept so many milliseconds.
    #[must_use]
    pub fn with_ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.ttl_ms = ttl_ms;
        self
    }

    /// Writes the result.
    pub fn write(&self, out: &mut ResultWriter<'_>) {
        out.field("contents", &self.contents);
        out.cacheable(self.ttl_ms, CacheScope::Private);
    }
}
