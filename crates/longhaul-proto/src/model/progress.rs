//! How far a request or task has come.

use serde::{Deserialize, Serialize};

/// A point of progress. `value` must rise from one point to the next.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// How far, in whatever unit `total` is in.
    #[serde(rename = "progress")]
    pub value: f64,
    /// How far it goes, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// Progress to `value`, with neither total nor message.
    pub fn new(value: f64) -> Self {
        Self { value, total: None, message: None }
    }

    /// The same point, of `total`.
    #[must_use]
    pub fn of(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// The same point, with words.
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}
