//! A task as one caller may see it.

use serde_json::value::RawValue;

use super::call::CallToolResult;
use super::meta::Meta;
use crate::jsonrpc::ErrorObject;

/// The five statuses that 2025-11-25 and the tasks extension share, and the one that the draft had before them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the specification's five, and the draft's")]
pub enum TaskStatus {
    /// Nobody has begun it yet (D1).
    Submitted,
    /// Under way.
    Working,
    /// Waiting for an answer.
    InputRequired,
    /// Ended with a result.
    Completed,
    /// Ended without one, or (2025-11-25) with a result that is an error.
    Failed,
    /// Ended because somebody asked.
    Cancelled,
}

impl TaskStatus {
    /// Its word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == word)
    }

    /// Whether nothing can follow.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task, projected for one dialect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Words on where it stands, or why it failed.
    pub status_message: Option<String>,
    /// When it was created, RFC 3339; empty of a drafted one, which says nothing of it (D1).
    pub created_at: String,
    /// When it last changed, RFC 3339; empty as that is.
    pub last_updated_at: String,
    /// How long it is kept, in milliseconds from its creation, or (D1) from its end; `None` means without limit for now.
    pub ttl_ms: Option<u64>,
    /// How often to ask, in milliseconds.
    pub poll_interval_ms: Option<u64>,
    /// What it asks, by the questions' keys: each its method and parameters, as they are put to a client.
    pub questions: Vec<(String, Box<RawValue>)>,
    /// The result it ended with.
    pub result: Option<CallToolResult>,
    /// The error it ended with.
    pub error: Option<ErrorObject>,
    /// What else an answer about it says.
    pub meta: Meta,
}

impl Task {
    /// A task with its id, status and times.
    pub fn new(
        id: impl Into<String>,
        status: TaskStatus,
        created_at: String,
        last_updated_at: String,
    ) -> Self {
        Self {
            id: id.into(),
            status,
            status_message: None,
            created_at,
            last_updated_at,
            ttl_ms: None,
            poll_interval_ms: None,
            questions: Vec::new(),
            result: None,
            error: None,
            meta: Meta::new(),
        }
    }
}
