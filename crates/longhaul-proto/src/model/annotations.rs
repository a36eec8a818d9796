//! For whom a piece of content is, and how much it matters.

use serde::{Deserialize, Serialize};

use super::members::{Members, read_by_member};
use super::meta::Meta;

/// Who speaks, or who is spoken to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the specification's two roles")]
pub enum Role {
    /// The person, or the program that speaks for it.
    User,
    /// The model.
    Assistant,
}

/// Hints of a server about content or a resource (2026-07-28, Server, Resources, Annotations).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// For whom it is; for anybody when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// How much it matters, from 0 (not at all) to 1 (nothing works without it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it was last changed, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

read_by_member! {
    Annotations {
        audience: take_or_default "audience",
        priority: take "priority",
        last_modified: take "lastModified",
    }
}

impl Annotations {
    /// For `audience`.
    pub fn for_audience(audience: impl Into<Vec<Role>>) -> Self {
        Self { audience: audience.into(), ..Self::default() }
    }

    /// The same with a priority, from 0 to 1; what lies outside is moved to the nearer end.
    #[must_use]
    pub fn with_priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority.clamp(0.0, 1.0));
        self
    }

    /// The same, last changed at that time, in ISO 8601.
    #[must_use]
    pub fn with_last_modified(mut self, at: impl Into<String>) -> Self {
        self.last_modified = Some(at.into());
        self
    }
}
