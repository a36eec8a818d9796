//! Tasks that the work of a task makes.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    Cancellation, Fingerprint, Json, NewChild, NewTask, Owner, Rerun, Retention, Scope, Start, Step,
    StepState, TaskId, ToolVersion,
};
use serde_json::value::RawValue;

use super::keeper::{Keeper, StepError};
use super::operation::is_final;
use super::pause::Pauses;
use super::recovery::wake_by_id;
use crate::machine::Refusal;
use crate::note::Note;

/// A call that the work of a task makes, which is a task from its first moment on.
#[derive(Debug)]
#[non_exhaustive]
pub struct ChildCall {
    /// The key of the step that it is of its parent.
    pub step: Arc<str>,
    /// What that step is.
    pub of: Fingerprint,
    /// The tool.
    pub tool: Arc<str>,
    /// Its version, which whoever works on it must accept.
    pub version: ToolVersion,
    /// What it is called with.
    pub arguments: Json,
    /// The names of those arguments that nobody is to be shown.
    pub secret: Vec<String>,
    /// What may be done when the process is gone that works on it.
    pub rerun: Rerun,
    /// For how long its work may go on once it is asked to end; `None` where a cancel ends it at once.
    pub cancel_grace: Option<Duration>,
    /// How long it is kept.
    pub retention: Retention,
    /// How often it should be asked after, in milliseconds.
    pub poll_interval_ms: Option<u64>,
    /// What is to be written of the caller: a JSON value.
    pub context: Option<Box<RawValue>>,
    /// It goes on when its parent has ended.
    pub outlives: bool,
    /// Its parent fails at once if it ends without success.
    pub essential: bool,
}

impl ChildCall {
    /// A call of `tool` that is never run twice, is kept for ever, and ends with its parent.
    pub fn new(
        step: impl Into<Arc<str>>,
        of: Fingerprint,
        tool: impl Into<Arc<str>>,
        arguments: Json,
    ) -> Self {
        Self {
            step: step.into(),
            of,
            tool: tool.into(),
            version: ToolVersion::default(),
            arguments,
            secret: Vec::new(),
            rerun: Rerun::Never,
            cancel_grace: None,
            retention: Retention::Unlimited,
            poll_interval_ms: None,
            context: None,
            outlives: false,
            essential: false,
        }
    }
}

impl Keeper {
    /// Makes the task that a call is, and records in the same moment that it is this step; what must be a task for that
    /// becomes one first. Gives what stands under its key. When this returns, a crash loses neither.
    ///
    /// # Errors
    ///
    /// Whatever [`StepError`] there is: [`StepError::Refused`] when there is no room for it.
    pub async fn spawn(&self, call: ChildCall) -> Result<StepState, StepError> {
        self.become_durable(false).await?;
        let Some(inner) = self.engine().filter(|_| self.is_durable()) else {
            return Err(StepError::NotDurable(Refusal::new("a call that becomes no task makes none", false)));
        };
        let id = inner.mint(&call.tool);
        // Whose it is, is its parent's.
        let mut task = NewTask::new(id.clone(), Owner::Anonymous, call.tool, call.arguments);
        let note = Note { caller: call.context, secret: call.secret, ..Note::default() };
        (task.caller, task.version, task.rerun) = (note.json(), call.version, call.rerun);
        (task.retention, task.poll_interval_ms) = (call.retention, call.poll_interval_ms);
        task.cancel_grace = call.cancel_grace;
        task.start = Start::Queued { not_before: inner.store.now() };
        let mut child = NewChild::new(call.step.clone(), call.of, task);
        (child.outlives, child.essential) = (call.outlives, call.essential);
        let step = Step::new(call.step, call.of, StepState::Child(id.clone()));
        let stands = self.note_child(step, child).await?;
        // Where another node runs its tool, that one finds it.
        let engine = Arc::clone(inner);
        inner.environment.spawn(Box::pin(async move { wake_by_id(&engine, &id).await }));
        Ok(stands)
    }

    /// Cancels a task that this one has made, however long the store takes to be writable again; nothing happens if it
    /// has ended.
    pub async fn cancel_child(&self, id: &TaskId, reason: &str) {
        let Some(inner) = self.engine() else { return };
        let mut pauses = Pauses::of_store();
        let cancelled = loop {
            match inner.store.request_cancel(Scope::Operator, id, Some(reason)).await {
                Ok(cancelled) => break cancelled,
                Err(error) if is_final(&error) => {
                    return tracing::error!(task = %id, %error, "a cancellation cannot be written: the task stays open");
                }
                Err(error) => {
                    tracing::warn!(task = %id, %error, "a cancellation could not be written yet");
                    pauses.wait(inner).await;
                }
            }
        };
        if let Cancellation::Cancelled(record) = cancelled
            && let Some(job) = inner.workers.job_of(&record)
            && let Err(error) = job.cancel(id).await
        {
            // Its node, or the next one, ends it when it looks.
            tracing::warn!(task = %id, ?error, "a cancelled job could not be reached");
        }
    }
}
