//! A run as the engine follows it, whichever process started it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longhaul::store::{Outcome, Progress, TaskId};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::job::{Attached, JobError, JobRun};
use longhaul::tasks::report::Reporter;
use tokio::sync::watch;

use super::copies::{Copies, Copying};
use super::result::{self, Terms};
use crate::command::{Run, RunError, RunsDir, State, Status};

/// Finds a run wherever it stands; waits for ever once this process is ending and watches nothing any more.
pub(super) async fn find(runs: &RunsDir, key: &TaskId) -> Result<Run, RunError> {
    match Run::attach(runs, key.as_str()).await {
        Err(RunError::Unwatched) => ends_with_this_process().await,
        found => found,
    }
}

/// How runs are followed.
pub(super) struct Follower<'f> {
    pub(super) runs: &'f RunsDir,
    pub(super) copies: &'f Copies,
    /// The terms of a result that notes none.
    pub(super) terms: Terms,
    /// To whom goes what a supervisor says of its command.
    pub(super) reporter: Reporter,
}

impl Follower<'_> {
    /// The run as the engine sees it.
    pub(super) fn follow(self, run: Run) -> Arc<dyn JobRun> {
        Arc::new(self.watch(run))
    }

    /// The same of one that is a task already.
    pub(super) fn follow_task(self, run: Run) -> Arc<dyn JobRun> {
        let run = self.watch(run);
        run.copy();
        Arc::new(run)
    }

    /// A run that was found, as the engine sees it.
    pub(super) fn attached(self, run: Run) -> Attached {
        let ended = run.has_ended();
        let run = self.follow_task(run);
        if ended { Attached::Ended(run) } else { Attached::Running(run) }
    }

    fn watch(self, run: Run) -> CommandRun {
        tokio::spawn(relay(run.updates(), self.reporter));
        let (runs, copies) = (self.runs.clone(), self.copies.clone());
        CommandRun { run, runs, copies, copying: OnceLock::new(), terms: self.terms }
    }
}

/// Passes on what the supervisor says of the command, until it has ended.
async fn relay(mut updates: watch::Receiver<Status>, reporter: Reporter) {
    loop {
        let status = updates.borrow_and_update().clone();
        let said = status.progress.as_ref().and_then(|progress| progress.message.clone());
        if let Some(progress) = &status.progress {
            let message = said.as_deref().map(Arc::from);
            reporter.progress(Progress::new(progress.value, progress.total, message));
        }
        // What the command says of itself on purpose comes before what it happens to print.
        if let Some(status) = said.or(status.line) {
            reporter.status(status);
        }
        if updates.changed().await.is_err() {
            return;
        }
    }
}

/// Ends a run and waits until its whole tree is gone. A task that runs no command has no run: that is done at
/// once.
///
/// # Errors
///
/// When the run may go on.
pub async fn cancel(runs: &RunsDir, id: &str) -> Result<(), RunError> {
    let name = id.to_owned();
    let state = blocking(runs, move |runs| runs.withdraw(&name)).await?;
    if matches!(state, State::Absent | State::Fresh | State::Exited(_)) {
        return Ok(());
    }
    let run = match Run::attach(runs, id).await {
        Ok(run) => run,
        // What was left of a lost run has been ended by looking at it.
        Err(RunError::Lost { .. } | RunError::NotStarted { .. } | RunError::Absent { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    match run.cancel().await {
        Ok(()) | Err(RunError::Lost { .. }) => {}
        Err(error) => return Err(error),
    }
    match run.wait().await {
        Ok(_) | Err(RunError::Lost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What is known of a run that was lost.
pub(super) fn lost(error: RunError) -> Outcome {
    Outcome::lost(error.to_string())
}

/// Does something that blocks. While this process is ending it never completes: what it was for is found again by
/// the next.
pub(super) async fn blocking<T: Send + 'static>(
    runs: &RunsDir,
    work: impl FnOnce(&RunsDir) -> T + Send + 'static,
) -> T {
    match runs.blocking(work).await {
        Some(done) => done,
        None => ends_with_this_process().await,
    }
}

/// Nothing can be said any more of a run that may well go on: that is for whoever takes it up.
pub(super) async fn ends_with_this_process<T>() -> T {
    std::future::pending().await
}

/// One run of a command.
#[derive(Debug)]
struct CommandRun {
    run: Run,
    runs: RunsDir,
    copies: Copies,
    /// The copying of what it writes, from the moment on in which it is a task.
    copying: OnceLock<Option<Copying>>,
    terms: Terms,
}

impl CommandRun {
    fn copy(&self) {
        self.copying.get_or_init(|| self.copies.keep(&self.runs, &self.run));
    }
}

/// Between two tries to read what a run has written, while too much is open.
const PAUSE: Duration = Duration::from_millis(200);

impl JobRun for CommandRun {
    fn keep(&self) -> BoxFuture<'_, Result<(), JobError>> {
        Box::pin(async move {
            if !self.runs.outlive_server() {
                return Ok(());
            }
            self.run.commit().await.map_err(JobError::new)?;
            self.copy();
            Ok(())
        })
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(RunError::Unwatched) = self.run.wait().await {
                ends_with_this_process().await
            }
        })
    }

    fn outcome(&self, kept: bool) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let exit = match self.run.wait().await {
                Ok(exit) => exit,
                Err(error) => return lost(error),
            };
            // Who sees that it has ended, at whichever node, finds what it wrote.
            if let Some(Some(copying)) = self.copying.get() {
                copying.caught_up().await;
            }
            loop {
                let (id, dir) = (self.run.id().to_owned(), self.run.dir().to_owned());
                let (exit, terms) = (exit.clone(), self.terms.clone());
                match blocking(&self.runs, move |_| result::of(&id, &dir, &exit, kept, terms)).await {
                    Ok(outcome) => return outcome,
                    Err(error) => {
                        tracing::debug!(%error, "what a run has written cannot be read now");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        })
    }
}
