//! Work that lives outside this process: it goes on when the process does not, and is found again.

use std::fmt;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{HostId, Json, Outcome, TaskId};

use crate::environment::BoxFuture;
use crate::report::Reporter;

/// Starts, finds and ends jobs outside this process.
///
/// Each is named by its effect key, the same in every attempt: a job started twice under one key runs
/// once.
pub trait ExternalJob: fmt::Debug + Send + Sync + 'static {
    /// Whether the row must be on disk before the job starts: it cannot be made to end with this process.
    fn row_first(&self) -> bool {
        false
    }

    /// Where its jobs are found, if only the nodes of one host find them: a task notes that before its job starts, and then no
    /// node elsewhere starts, finds or ends it. `None`, the default, where any node finds them.
    fn host(&self) -> Option<&HostId> {
        None
    }

    /// Starts the job. Unless it is `durable` from the start, it ends with this process until it is
    /// [kept](JobRun::keep).
    ///
    /// # Errors
    ///
    /// Why it did not start.
    fn start<'a>(
        &'a self,
        key: &'a TaskId,
        arguments: &'a Json,
        durable: bool,
        reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>>;

    /// Finds a job that an earlier process started. `begun`: it had started when its row was written, so
    /// that one of which there is no trace is lost, and must not be started again.
    fn attach<'a>(&'a self, key: &'a TaskId, begun: bool, reporter: Reporter) -> BoxFuture<'a, Attached>;

    /// Ends a job wherever it runs; one that has ended or never started is left as it is.
    ///
    /// # Errors
    ///
    /// When it may still run.
    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>>;

    /// The call is over and no task came of it: what the job has left behind is of no use to anybody.
    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()>;
}

/// Jobs of whichever tool, found by their keys alone: what a node can do for tools that it does not have.
pub trait FoundJobs: ExternalJob {
    /// Whether the job has begun where this node can reach it. What has not is left to a node that has its tool.
    ///
    /// # Errors
    ///
    /// When that cannot be told now.
    fn has_begun<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<bool, JobError>>;
}

/// A job that did not start.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the engine must decide on each")]
pub enum NotStarted {
    /// It cannot: this is the outcome of its call.
    Failed(Outcome),
    /// There is too much already, and nothing was done: the caller should come back later. The message is for it.
    Overloaded(Arc<str>),
}

impl From<Outcome> for NotStarted {
    fn from(outcome: Outcome) -> Self {
        Self::Failed(outcome)
    }
}

/// One running job, as this process sees it. Dropping it leaves a kept job alone.
pub trait JobRun: fmt::Debug + Send + Sync {
    /// Tells the job that it is to outlive this process, and hears back.
    ///
    /// # Errors
    ///
    /// When the job could not be told: it may end with this process.
    fn keep(&self) -> BoxFuture<'_, Result<(), JobError>>;

    /// Completes once the job has ended, for as long as this process watches it.
    fn ended(&self) -> BoxFuture<'_, ()>;

    /// Completes once this process does nothing for the job but wait, and says for how long it will: the task is put aside
    /// until then, if nobody here waits for it and its tool has no [limit](crate::runner::Worker::limit), and whichever node takes
    /// it up [finds](ExternalJob::attach) the job, at which it is to look at once. Nothing is held meanwhile, and each time costs
    /// a few writes: what waits for seconds is not worth them. Nobody is at the job meanwhile: of a cancel the node hears that is
    /// told of it, but of any other end that its task may come to nobody does, and whoever says this sees to what is left then. The
    /// default never completes.
    ///
    /// Dropping the future changes nothing.
    fn asleep(&self) -> BoxFuture<'_, Duration> {
        Box::pin(pending())
    }

    /// Whether what it need not wait for has come since it was asleep: the task was put aside, and is due all the same. The
    /// default says that nothing has.
    fn is_woken(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(false))
    }

    /// The outcome of a job that has ended. `kept`: it is a task's, and what it has left behind stays.
    fn outcome(&self, kept: bool) -> BoxFuture<'_, Outcome>;
}

/// What became of a job of an earlier process.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the engine must decide on each")]
pub enum Attached {
    /// It runs.
    Running(Arc<dyn JobRun>),
    /// It has ended, and its outcome is at hand.
    Ended(Arc<dyn JobRun>),
    /// It never started, and may.
    NeverStarted,
    /// It had started and is gone without an outcome.
    Lost {
        /// What is known of it.
        reason: Arc<str>,
    },
}

/// A job could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("the job could not be reached")]
#[non_exhaustive]
pub struct JobError {
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl JobError {
    /// For this reason.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: source.into() }
    }
}
