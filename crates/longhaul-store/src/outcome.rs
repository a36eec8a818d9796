//! How a task ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Json;

/// How a task ended: written once, never changed. Which status a revision shows for it is decided above.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Outcome {
    /// The work answered; a tool that says it failed has answered too.
    Result {
        /// The result object, as it goes on the wire, without what a revision adds to it.
        value: Json,
        /// Whether the tool itself reports a failure.
        is_error: bool,
    },
    /// The request failed as a request.
    Error {
        /// The JSON-RPC error code.
        code: i64,
        /// What went wrong, in one sentence.
        message: Arc<str>,
        /// Anything further a program may want to read.
        data: Option<Json>,
    },
    /// Someone who may said stop.
    Cancelled {
        /// Their words, if they gave any.
        reason: Option<Arc<str>>,
    },
    /// Whoever did the work is gone, and it must not be done twice.
    Lost {
        /// What is known of it.
        reason: Arc<str>,
    },
}

impl Outcome {
    /// A tool's answer.
    #[must_use]
    pub fn result(value: Json, is_error: bool) -> Self {
        Self::Result { value, is_error }
    }

    /// A failed request.
    #[must_use]
    pub fn error(code: i64, message: impl Into<Arc<str>>, data: Option<Json>) -> Self {
        Self::Error { code, message: message.into(), data }
    }

    /// A stopped task.
    #[must_use]
    pub fn cancelled(reason: Option<Arc<str>>) -> Self {
        Self::Cancelled { reason }
    }

    /// Work that vanished.
    #[must_use]
    pub fn lost(reason: impl Into<Arc<str>>) -> Self {
        Self::Lost { reason: reason.into() }
    }

    /// What an open task gets when its time is up.
    #[must_use]
    pub fn expired() -> Self {
        Self::error(INTERNAL_ERROR, "task expired", None)
    }

    /// Whether the work answered and did not say that it failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Result { is_error: false, .. })
    }

    /// Bytes of payload in it, as the limit on outcomes counts them.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Result { value, .. } => value.as_str().len(),
            Self::Error { message, data, .. } => {
                message.len() + data.as_ref().map_or(0, |d| d.as_str().len())
            }
            Self::Cancelled { reason } => reason.as_ref().map_or(0, |r| r.len()),
            Self::Lost { reason } => reason.len(),
        }
    }

    /// Whether it carries no payload at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// JSON-RPC "internal error".
const INTERNAL_ERROR: i64 = -32603;
