//! What the work of a task has recorded, step by step.

use longhaul::store::{Phase, Record, Step, StepState, StoreError};
use serde::Serialize;

use super::Admin;

/// A step of a task, without what was learnt.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownStep {
    /// By which name its work knows it, with those of the scopes around it.
    pub(crate) name: String,
    /// How far it is.
    pub(crate) state: &'static str,
    /// The task that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task_id: Option<String>,
}

impl ShownStep {
    fn of(step: &Step) -> Option<Self> {
        let (state, task_id) = match &step.state {
            // It is shown as a question.
            StepState::Asked(_) => return None,
            StepState::Begun => ("begun", None),
            StepState::Due(_) => ("waits", None),
            StepState::Child(task) => ("task", Some(task.to_string())),
            StepState::Owed => ("owed", None),
            StepState::Learnt { is_error: false, .. } => ("recorded", None),
            StepState::Learnt { is_error: true, .. } => ("failed", None),
        };
        Some(Self { name: named(&step.key), state, task_id })
    }
}

impl Admin {
    /// The steps of a task in the order in which they began, of a task that is worked on. Those of one that is put aside or has
    /// ended cannot be had: `None`.
    pub(crate) async fn steps(&self, record: &Record) -> Option<Vec<ShownStep>> {
        if record.steps == 0 || !matches!(record.phase, Phase::Running { .. }) {
            return None;
        }
        match self.store().steps(&record.id, record.epoch).await {
            Ok(steps) => Some(steps.iter().filter_map(ShownStep::of).collect()),
            // Since it was read it has ended, or somebody else works on it.
            Err(StoreError::Fenced { .. }) => None,
            Err(error) => {
                tracing::debug!(%error, "the steps of a task cannot be shown for now");
                None
            }
        }
    }
}

/// The words of a key: its kind goes where the name says enough.
fn named(key: &str) -> String {
    let part = |part: &str| {
        let bare = ["step:", "scope:", "spawn:"].iter().find_map(|kind| part.strip_prefix(kind));
        bare.unwrap_or(part).replace("%2F", "/").replace("%25", "%")
    };
    key.split('/').map(part).collect::<Vec<_>>().join(" › ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_called_as_its_author_calls_it() {
        for (key, name) in [
            ("step:fetch", "fetch"),
            ("scope:mirror/step:a%2Fb%25", "mirror › a/b%"),
            ("sleep", "sleep"),
            ("spawn:build", "build"),
        ] {
            assert_eq!(named(key), name);
        }
    }
}
