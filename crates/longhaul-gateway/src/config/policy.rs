//! How a call becomes a task, and what becomes of it after a crash: the words of `task`, `rerun` and `join`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a call of a tool becomes a task, for callers that can take one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskPolicy {
    /// `never`: every call is answered in place.
    Never,
    /// `always`: every call is a task from its start.
    Always,
    /// `after <duration>`: a call becomes a task when it has run this long.
    After(Duration),
    /// `required`: every call is a task, and a caller that cannot take one is refused.
    Required,
}

impl TaskPolicy {
    /// How long a call runs before it is answered with a task; `None` when it never is.
    #[must_use]
    pub fn promote_after(&self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Always | Self::Required => Some(Duration::ZERO),
            Self::After(delay) => Some(*delay),
        }
    }
}

impl Default for TaskPolicy {
    fn default() -> Self {
        Self::After(Duration::from_secs(2))
    }
}

/// What becomes of a command whose server died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rerun {
    /// `reattach`: the command runs on and the next server takes its result.
    #[default]
    Reattach,
    /// `never`: nothing is taken up again; the task ends as lost.
    Never,
}

/// What a call does when the same caller has the same call open already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Join {
    /// `same-arguments`: it joins the open one.
    #[default]
    SameArguments,
    /// `never`: it starts another.
    Never,
}

/// What the standard output of a command is.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Output {
    /// `text`: text for the model.
    #[default]
    Text,
    /// `json`: one JSON value, which becomes the structured result.
    Json,
}
