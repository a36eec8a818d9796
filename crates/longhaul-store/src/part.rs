//! Parts of what a task comes to, which its work gives before its end.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::Json;

/// A part of what a task comes to, under the key by which it is given once.
///
/// What serde makes of it is a row, as that of a [`Record`](crate::Record), and no format for anything else.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// Its key, of which there is one in the task: what is given under it again is passed over.
    pub key: Arc<str>,
    /// What it is.
    pub content: PartContent,
}

impl Part {
    /// A part.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, content: PartContent) -> Self {
        Self { key: key.into(), content }
    }

    /// Bytes that it takes, as the limits count them.
    #[must_use]
    pub fn size(&self) -> usize {
        self.key.len() + self.content.as_str().len()
    }
}

/// What a part is. `Debug` shows only its size, for it belongs to its owner and not in a log.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
#[expect(clippy::exhaustive_enums, reason = "whoever shows one must know how")]
pub enum PartContent {
    /// Text for a person or a model.
    Text(Arc<str>),
    /// A JSON value.
    Json(Json),
}

impl PartContent {
    /// The text, or that of the value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Json(json) => json.as_str(),
        }
    }
}

impl fmt::Debug for PartContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Json(json) => json.fmt(f),
        }
    }
}

/// A stretch of a task's parts, in the order in which they were given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parts {
    /// How many were given before these.
    pub start: u64,
    /// These.
    pub parts: Vec<PartContent>,
    /// How many there are in all.
    pub total: u64,
    /// Whether the task has ended: no more will come.
    pub ended: bool,
}

impl Parts {
    /// Those that come behind `start` others, of so many in all.
    #[must_use]
    pub fn new(start: u64, parts: Vec<PartContent>, total: u64, ended: bool) -> Self {
        Self { start, parts, total, ended }
    }

    /// How many were given up to the last of these: the cursor of the next read.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.start + self.parts.len() as u64
    }

    /// Whether nothing follows, now or later.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ended && self.next() >= self.total
    }
}

/// The most parts that one read gives.
pub(crate) const LONGEST_STRETCH: usize = 1000;

/// The bytes of parts after which a read ends.
pub(crate) const LARGEST_STRETCH: usize = 256 << 10;
