//! What is seen of the steps of a task by whoever does not work on it: all but what was learnt and what is asked.

use std::sync::Arc;

use crate::{
    Answerer, Step, StepState, TaskId, Time,
    part::{LARGEST_STRETCH, LONGEST_STRETCH},
};

/// A step of a task, without what was learnt and what is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SeenStep {
    /// Its key, of which there is one in the task.
    pub key: Arc<str>,
    /// How far it is.
    pub state: SeenState,
    /// When it began, as [`Step::began_at`].
    pub began_at: Option<Time>,
    /// When it was learnt, as [`Step::learnt_at`].
    pub learnt_at: Option<Time>,
    /// Who answered, as [`Step::answered_by`].
    pub answered_by: Option<Answerer>,
}

impl SeenStep {
    /// What is seen of this step.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        let state = match &step.state {
            StepState::Begun => SeenState::Begun,
            StepState::Asked(_) => SeenState::Asked,
            StepState::Due(at) => SeenState::Due(*at),
            StepState::Child(task) => SeenState::Child(task.clone()),
            StepState::Owed => SeenState::Owed,
            StepState::Learnt { is_error: false, .. } => SeenState::Learnt,
            StepState::Learnt { is_error: true, .. } => SeenState::Failed,
        };
        Self {
            key: step.key.clone(),
            state,
            began_at: step.began_at,
            learnt_at: step.learnt_at,
            answered_by: step.answered_by.clone(),
        }
    }
}

/// How far a step is, as a [`StepState`] without what belongs to its work.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "whoever shows one must know how")]
pub enum SeenState {
    /// It may have had its effect, and nothing is known of it.
    Begun,
    /// Somebody is to answer.
    Asked,
    /// It is over at this time.
    Due(Time),
    /// It is this task.
    Child(TaskId),
    /// It is to be done if the task does not succeed.
    Owed,
    /// It came to something.
    Learnt,
    /// It came to an error.
    Failed,
}

/// A stretch of a task's steps, in the order in which they began.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SeenSteps {
    /// How many are before these.
    pub start: u64,
    /// These.
    pub steps: Vec<SeenStep>,
    /// How many there are in all.
    pub total: u64,
}

impl SeenSteps {
    /// Those that come behind `start` others, of so many in all: as many as may be read at once, and one at least.
    #[must_use]
    pub fn new(start: u64, mut steps: Vec<SeenStep>, total: u64) -> Self {
        let mut bytes = 0;
        let fit = steps.iter().take_while(|step| {
            bytes += step.key.len();
            bytes <= LARGEST_STRETCH
        });
        let fit = fit.count().max(1);
        steps.truncate(fit);
        Self { start, steps, total }
    }

    /// How many there are up to the last of these: behind so many the next read begins.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.start + self.steps.len() as u64
    }

    /// Behind how many of `total` a stretch begins that is asked for behind `after`, and how long it may be.
    pub(crate) fn bounds(total: u64, after: u64, limit: usize) -> (u64, usize) {
        (after.min(total), limit.clamp(1, LONGEST_STRETCH))
    }

    /// A stretch of all of them.
    pub(crate) fn among(all: impl ExactSizeIterator<Item = SeenStep>, after: u64, limit: usize) -> Self {
        let total = all.len() as u64;
        let (start, limit) = Self::bounds(total, after, limit);
        Self::new(start, all.skip(usize::try_from(start).unwrap_or(usize::MAX)).take(limit).collect(), total)
    }
}
