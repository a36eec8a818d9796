//! Resources: what a server lets its clients read.

use serde::{Deserialize, Serialize};

use super::annotations::Annotations;
use super::content::ResourceContents;
use super::icon::Icon;
use super::members::{Members, read_by_member};
use super::meta::Meta;
use crate::dialect::ResultWriter;

/// A resource as the list shows it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Resource {
    /// Where it is.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// What kind of thing it is.
    pub mime_type: Option<String>,
    /// How large it is, in bytes before any encoding.
    pub size: Option<u64>,
    /// Pictures of it.
    pub icons: Vec<Icon>,
    /// For whom it is.
    pub annotations: Option<Annotations>,
    /// What else there is to say of it.
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    pub others: Meta,
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
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The template.
    pub uri_template: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What its resources are.
    pub description: Option<String>,
    /// What kind of things they are, if all are of one kind.
    pub mime_type: Option<String>,
    /// Pictures of them.
    pub icons: Vec<Icon>,
    /// For whom they are.
    pub annotations: Option<Annotations>,
    /// What else there is to say of them.
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    pub others: Meta,
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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// One or more parts.
    pub contents: Vec<ResourceContents>,
    /// How long it may be kept, in milliseconds.
    pub ttl_ms: u64,
    /// What else there is to say.
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    pub others: Meta,
}

read_by_member! {
    Resource {
        uri: need "uri",
        name: need "name",
        title: take "title",
        description: take "description",
        mime_type: take "mimeType",
        size: take "size",
        icons: take_or_default "icons",
        annotations: take "annotations",
        meta: take_or_default "_meta",
    }
    ResourceTemplate {
        uri_template: need "uriTemplate",
        name: need "name",
        title: take "title",
        description: take "description",
        mime_type: take "mimeType",
        icons: take_or_default "icons",
        annotations: take "annotations",
        meta: take_or_default "_meta",
    }
    ReadResourceResult {
        contents: need "contents",
        ttl_ms: take_or_default "ttlMs",
        meta: take_or_default "_meta",
        // Both are written anew.
        ; "cacheScope" "resultType"
    }
}

impl ReadResourceResult {
    /// Contents that are stale at once and nobody else's to see.
    pub fn fresh(contents: ResourceContents) -> Self {
        Self::new(vec![contents])
    }

    /// The same of several parts.
    pub fn new(contents: Vec<ResourceContents>) -> Self {
        Self { contents, ttl_ms: 0, meta: Meta::new(), others: Meta::new() }
    }

    /// The same, that may be kept so many milliseconds.
    #[must_use]
    pub fn with_ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.ttl_ms = ttl_ms;
        self
    }

    /// Writes the result.
    pub fn write(&self, out: &mut ResultWriter<'_>) {
        out.contents(&self.contents);
        out.others(&self.others);
        out.cacheable(self.ttl_ms, CacheScope::Private);
        out.meta(&self.meta);
    }
}
