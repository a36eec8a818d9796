//! Tasks for which nobody ever comes back: whoever made one may never have heard that there is one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a task is an orphan, and what becomes of it then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct OrphanRule {
    /// How long after it was created its owner may first [come back](crate::TaskStore::came_back) for it.
    /// Default 60 s.
    pub grace: Duration,
    /// What becomes of it if it is open then, and nobody has come.
    pub then: OnOrphan,
}

impl OrphanRule {
    /// After `grace` this becomes of it.
    #[must_use]
    pub fn new(grace: Duration, then: OnOrphan) -> Self {
        Self { grace, then }
    }
}

impl Default for OrphanRule {
    /// After 60 s it is one, and is kept.
    fn default() -> Self {
        Self::new(Duration::from_secs(60), OnOrphan::Keep)
    }
}

/// What becomes of an open task that is an orphan.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "a backend does something else in each case")]
pub enum OnOrphan {
    /// It goes on, for its owner may come yet.
    #[default]
    Keep,
    /// It is cancelled, so that it takes nobody's place.
    Cancel,
}
