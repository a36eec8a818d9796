//! Tasks that tasks make: what ties a child to its parent, and what the parent learns of its end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::{Fingerprint, Json, NewTask, Outcome, TaskId};

/// A task that does not exist yet, and that a task makes by a report.
///
/// It belongs to its parent's owner and is seen where its parent is, whatever it says itself, and is made once: under the
/// key of the parent's step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewChild {
    /// The key of the parent's step that it is.
    pub step: Arc<str>,
    /// What that step is.
    pub of: Fingerprint,
    /// The task.
    pub task: NewTask,
    /// It goes on when its parent has ended; otherwise it is cancelled then. Default `false`.
    pub outlives: bool,
    /// Its parent fails at once if it ends without success. Default `false`.
    pub essential: bool,
}

impl NewChild {
    /// A child that ends with its parent, and whose failure is the parent's to judge.
    #[must_use]
    pub fn new(step: impl Into<Arc<str>>, of: Fingerprint, task: NewTask) -> Self {
        Self { step: step.into(), of, task, outlives: false, essential: false }
    }
}

/// What ties a task to the one that made it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Parent {
    /// Which that is. It may be forgotten by now.
    pub task: TaskId,
    /// The key of the step that it is there.
    pub step: Arc<str>,
    /// How many generations it is from a call's own task: 1 or more.
    pub depth: u32,
    /// It goes on when its parent has ended.
    pub outlives: bool,
    /// Its parent fails if it ends without success.
    pub essential: bool,
}

impl Parent {
    /// A parent whose end is its child's, and to whom the child's failure is told.
    #[must_use]
    pub fn new(task: TaskId, step: impl Into<Arc<str>>, depth: u32) -> Self {
        Self { task, step: step.into(), depth, outlives: false, essential: false }
    }
}

/// How many tasks a task has made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Children {
    /// Those of its own that have not ended. When it has ended itself: as many as there were then.
    pub open: u32,
    /// Those of its own that have ended while it had not.
    pub ended: u32,
    /// Of one above which no task is open: how many were made below it, in all generations, while that was so. Bytes count
    /// too, as [`max_descendant_bytes`](crate::Limits::max_descendant_bytes) says: of any other it is those of what has ended
    /// below it, which pass to its parent when it ends.
    pub below: u32,
}

/// How a child has ended, as the step of its parent keeps it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChildEnd {
    /// Which child.
    pub task: TaskId,
    /// What came of it.
    pub outcome: Outcome,
}

/// The same as JSON.
#[derive(Deserialize, Serialize)]
struct Kept {
    task: String,
    how: How,
    /// A result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    /// Of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    /// The message of an error, or why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum How {
    Result,
    Failed,
    Error,
    Cancelled,
    Lost,
}

impl ChildEnd {
    /// The end of this task.
    #[must_use]
    pub fn new(task: TaskId, outcome: Outcome) -> Self {
        Self { task, outcome }
    }

    /// What a parent is told whose journal has no room for what came of its child.
    #[must_use]
    pub fn too_large(task: TaskId, outcome: &Outcome) -> Self {
        let message = format!(
            "what it came to, {} bytes, does not fit into its parent's steps: read the task",
            outcome.len()
        );
        let data = Json::parse(r#"{"reason":"child_outcome_too_large"}"#).ok();
        Self::new(task, Outcome::error(INTERNAL_ERROR, message, data))
    }

    /// Whether it did what it was made for.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome.is_success()
    }

    /// As a step keeps it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let task = self.task.as_str().to_owned();
        let mut kept = Kept { task, how: How::Result, value: None, code: None, why: None, data: None };
        match &self.outcome {
            Outcome::Result { value, is_error } => {
                kept.how = if *is_error { How::Failed } else { How::Result };
                kept.value = Some((**value).to_owned());
            }
            Outcome::Error { code, message, data } => {
                (kept.how, kept.code, kept.why) = (How::Error, Some(*code), Some(message.to_string()));
                kept.data = data.as_ref().map(|data| (**data).to_owned());
            }
            Outcome::Cancelled { reason } => {
                (kept.how, kept.why) = (How::Cancelled, reason.as_deref().map(str::to_owned));
            }
            Outcome::Lost { reason } => (kept.how, kept.why) = (How::Lost, Some(reason.to_string())),
        }
        to_raw_value(&kept).map_or_else(|_| Json::null(), Json::from)
    }

    /// The end that a step has kept.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn read(json: &Json) -> Result<Self, serde_json::Error> {
        use serde::de::Error as _;
        let Kept { task, how, value, code, why, data } = serde_json::from_str(json.as_str())?;
        // A value that is `null` is read as none.
        let value = value.map_or_else(Json::null, Json::from);
        let outcome = match how {
            How::Result => Outcome::result(value, false),
            How::Failed => Outcome::result(value, true),
            How::Error => {
                Outcome::error(code.unwrap_or(INTERNAL_ERROR), why.unwrap_or_default(), data.map(Json::from))
            }
            How::Cancelled => Outcome::cancelled(why.map(Arc::from)),
            How::Lost => Outcome::lost(why.unwrap_or_default()),
        };
        let task = TaskId::new(task).map_err(serde_json::Error::custom)?;
        Ok(Self { task, outcome })
    }
}

/// JSON-RPC "internal error".
const INTERNAL_ERROR: i64 = -32603;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_read_as_it_was_written() {
        let json = |text: &str| Json::parse(text).unwrap();
        let outcomes = [
            Outcome::result(json(r#"{"content": [1.0]}"#), false),
            Outcome::result(json("null"), true),
            Outcome::error(-32602, "no such crate", Some(json(r#"{"reason":"x"}"#))),
            Outcome::error(-1, "", None),
            Outcome::cancelled(None),
            Outcome::cancelled(Some("enough".into())),
            Outcome::lost("gone"),
        ];
        for outcome in outcomes {
            let end = ChildEnd::new(TaskId::new("t").unwrap(), outcome);
            assert_eq!(ChildEnd::read(&end.to_json()).unwrap(), end);
        }
        assert!(ChildEnd::read(&json(r#"{"refused":{}}"#)).is_err());
    }
}
