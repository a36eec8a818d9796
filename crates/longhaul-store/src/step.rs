//! What the work of a task has learnt from outside itself, so that it can be entered again and go on where it was.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Json, Owner, Scope, TaskId, Time};

/// One step of a task's work, under the key by which the work finds it again.
///
/// A step begins and is learnt, each once: what was learnt never changes.
///
/// What serde makes of it is a row, as that of a [`Record`](crate::Record), and no format for anything else.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// Its key, of which there is one in the task.
    pub key: Arc<str>,
    /// What it is, so that another step under the same key is told from it.
    pub of: Fingerprint,
    /// Who gave the answer that it was learnt by. `None` of one that was not asked, of an answer that the work itself brought, and of
    /// one that an earlier release has noted.
    // Before `state`: what is behind that is short, which `redis/seen_steps.lua` relies upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Answerer>,
    /// How far it is.
    pub state: StepState,
    /// When it began, by the store's time; of a question, when it was asked. `None` where that is not known: of one that
    /// was learnt before anybody had noted that it began, and of one that an earlier release has noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Time>,
    /// When it was learnt, by the store's time; `None` as long as it is not, and where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt_at: Option<Time>,
}

impl Step {
    /// A step. The store says when it began and was learnt.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, of: Fingerprint, state: StepState) -> Self {
        Self { key: key.into(), of, answered_by: None, state, began_at: None, learnt_at: None }
    }

    /// The same, of which the worker knows better: it tells of it when it is learnt, and not when it begins.
    #[must_use]
    pub fn between(mut self, began: Option<Time>, learnt: Option<Time>) -> Self {
        (self.began_at, self.learnt_at) = (began, learnt);
        self
    }

    /// The same, learnt by an answer of theirs.
    #[must_use]
    pub fn answered(mut self, by: Option<Answerer>) -> Self {
        self.answered_by = by;
        self
    }

    /// Whether the other is this step, as far as this is, whenever that was.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        (&self.key, self.of, &self.state) == (&other.key, other.of, &other.state)
    }

    /// Bytes that it takes, as the limits count them.
    #[must_use]
    pub fn size(&self) -> usize {
        let state = match &self.state {
            StepState::Begun | StepState::Due(_) => 0,
            // Room for what it will come to, which must not be refused.
            StepState::Owed | StepState::Child(_) => OWED,
            StepState::Asked(question) => question.key.len() + question.request.as_str().len(),
            StepState::Learnt { value, .. } => value.as_str().len(),
        };
        self.key.len() + Fingerprint::LEN + state
    }
}

/// Bytes that a step takes which is owed, or is a task.
const OWED: usize = 512;

/// How far a step is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[expect(clippy::exhaustive_enums, reason = "whoever enters work again must decide on each")]
pub enum StepState {
    /// It may have had its effect, and nothing is known of it.
    Begun,
    /// Somebody is to answer.
    Asked(Question),
    /// It is over at this time.
    Due(Time),
    /// It is this task, which was made with it: it is learnt when that ends. See [`ChildEnd`](crate::ChildEnd).
    Child(TaskId),
    /// It is to be done if the task does not succeed, once that has ended: it undoes another.
    Owed,
    /// It came to this.
    Learnt {
        /// What was learnt: a result, an answer, or an error.
        value: Json,
        /// Whether it is an error.
        is_error: bool,
    },
}

impl StepState {
    /// A step that came to `value`.
    #[must_use]
    pub fn learnt(value: Json) -> Self {
        Self::Learnt { value, is_error: false }
    }
}

/// A question to whoever follows the task.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Question {
    /// Its public name: random, so that it means this question for ever and no other.
    pub key: Arc<str>,
    /// The key of its step.
    pub step: Arc<str>,
    /// What its step is.
    pub of: Fingerprint,
    /// What is asked; not read here.
    pub request: Json,
    /// When it was asked, by the store's time.
    pub asked_at: Time,
    /// Until when it can be answered.
    pub deadline: Option<Time>,
}

impl Question {
    /// A question without a deadline. The store says when it was asked, and of which step.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, request: Json) -> Self {
        Self {
            key: key.into(),
            step: "".into(),
            of: Fingerprint::new([0; Fingerprint::LEN]),
            request,
            asked_at: Time::from_unix_ms(0),
            deadline: None,
        }
    }

    /// The same, to be answered by then.
    #[must_use]
    pub fn until(mut self, deadline: Option<Time>) -> Self {
        self.deadline = deadline;
        self
    }
}

/// An answer to a question of a task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The question's public name.
    pub key: Arc<str>,
    /// The answer.
    pub value: Json,
    /// Whether it is an error instead.
    pub is_error: bool,
}

impl Reply {
    /// The answer `value` to the question `key`.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, value: Json) -> Self {
        Self { key: key.into(), value, is_error: false }
    }

    /// An error in place of an answer.
    #[must_use]
    pub fn error(key: impl Into<Arc<str>>, value: Json) -> Self {
        Self { is_error: true, ..Self::new(key, value) }
    }
}

/// Who gave an answer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(clippy::exhaustive_enums, reason = "an answer is given as whom a task is read")]
pub enum Answerer {
    /// The caller whose task it is.
    Caller(Owner),
    /// The operator.
    Operator,
}

impl From<Scope<'_>> for Answerer {
    fn from(scope: Scope<'_>) -> Self {
        match scope {
            Scope::Owner(owner) => Self::Caller(owner.clone()),
            Scope::Operator => Self::Operator,
        }
    }
}

/// When the work of a task that is put aside goes on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Park {
    /// The public names of the questions it waits for: if one is no longer open, the task is due at once.
    pub on: Vec<Arc<str>>,
    /// The keys of the steps whose tasks it waits for: if one has ended, the task is due at once.
    pub children: Vec<Arc<str>>,
    /// It goes on at this time in any case.
    pub until: Option<Time>,
}

impl Park {
    /// Until one of these questions is answered, or that time has come.
    #[must_use]
    pub fn new(on: Vec<Arc<str>>, until: Option<Time>) -> Self {
        Self { on, children: Vec::new(), until }
    }

    /// Or until one of its tasks ends, which are the steps of these keys.
    #[must_use]
    pub fn or_children(mut self, steps: Vec<Arc<str>>) -> Self {
        self.children = steps;
        self
    }
}

/// Tells one step from another: the first bytes of a digest of all there is to it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Fingerprint([u8; Self::LEN]);

impl Fingerprint {
    /// How many bytes it has.
    pub const LEN: usize = 16;

    /// The fingerprint with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
