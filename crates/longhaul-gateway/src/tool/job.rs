//! A command as a job that outlives its server.

use std::sync::Arc;

use longhaul::proto::model::CallToolResult;
use longhaul::server::JobTool;
use longhaul::store::{Json, Outcome, Progress, TaskId};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::job::{Attached, ExternalJob, JobError, JobRun};
use longhaul::tasks::report::Reporter;

use super::result;
use crate::command::{Run, RunError, RunsDir, RunsError, Spec, StartError, State};
use crate::config::{Bound, CommandTool, Machine, Rerun};

/// A configured command: each call of it is a run under a supervisor of its own.
#[derive(Debug)]
pub struct CommandJob {
    command: Arc<CommandTool>,
    runs: RunsDir,
}

impl CommandJob {
    /// The command, its runs kept in `runs`.
    pub fn new(command: Arc<CommandTool>, runs: RunsDir) -> Self {
        Self { command, runs }
    }

    fn spec(&self, arguments: &str) -> Result<Spec, CallToolResult> {
        let bound = self.bind(arguments)?;
        let env = bound
            .environment(&Machine)
            .map_err(|error| CallToolResult::error(format!("{} cannot run: {error}", self.command.name)))?;
        let command = &self.command;
        let mut spec = Spec::new(bound.argv, bound.cwd)
            .with_env(env)
            .with_grace(command.grace)
            .with_max_output(command.max_output);
        if let Some(stdin) = bound.stdin {
            spec = spec.with_stdin(stdin);
        }
        if let Some(timeout) = command.timeout {
            spec = spec.with_timeout(timeout);
        }
        if let Some(progress) = &command.progress {
            spec = spec.with_progress(progress.pattern.as_str());
        }
        Ok(spec)
    }

    fn bind(&self, arguments: &str) -> Result<Bound, CallToolResult> {
        self.command.bind(arguments).map_err(|errors| CallToolResult::error(errors.to_string()))
    }

    async fn launch(&self, key: &TaskId, arguments: &Json, durable: bool) -> Result<Run, Outcome> {
        let spec = self.spec(arguments.as_str()).map_err(failed)?;
        let (runs, id) = (self.runs.clone(), key.as_str().to_owned());
        let prepare =
            move || if durable { runs.prepare_committed(&id, &spec) } else { runs.prepare(&id, &spec) };
        match tokio::task::spawn_blocking(prepare).await {
            // An earlier process prepared it and went no further.
            Ok(Ok(_) | Err(RunsError::Exists { .. })) => {}
            Ok(Err(error)) => return Err(not_started(&self.command.name, &StartError::from(error))),
            Err(error) => return Err(Outcome::lost(error.to_string())),
        }
        match Run::launch(&self.runs, key.as_str()).await {
            Ok(run) => Ok(run),
            Err(StartError::AlreadyStarted) => {
                let attached = Run::attach(&self.runs, key.as_str()).await;
                attached.map_err(|error| Outcome::lost(format!("worker_lost: {error}")))
            }
            Err(error) => Err(not_started(&self.command.name, &error)),
        }
    }

    fn follow(&self, run: Run, reporter: Reporter) -> Arc<dyn JobRun> {
        let updates = run.updates();
        tokio::spawn(relay(updates, reporter));
        Arc::new(CommandRun { command: Arc::clone(&self.command), run })
    }
}

/// Passes on what the supervisor says of the command, until it has ended.
async fn relay(mut updates: tokio::sync::watch::Receiver<crate::command::Status>, reporter: Reporter) {
    loop {
        let status = updates.borrow_and_update().clone();
        if let Some(progress) = &status.progress {
            let message = progress.message.as_deref().map(Arc::from);
            reporter.progress(Progress::new(progress.value, progress.total, message));
        }
        if let Some(line) = status.line {
            reporter.status(line);
        }
        if updates.changed().await.is_err() {
            return;
        }
    }
}

fn failed(result: CallToolResult) -> Outcome {
    result::outcome(&result.failed(true))
}

fn not_started(tool: &str, error: &StartError) -> Outcome {
    failed(CallToolResult::error(format!("{tool} did not start: {error}")))
}

impl JobTool for CommandJob {
    fn check(&self, arguments: &str) -> Result<Json, CallToolResult> {
        let bound = self.bind(arguments)?;
        Json::parse(bound.arguments).map_err(|error| CallToolResult::error(error.to_string()))
    }

    fn into_job(self: Arc<Self>) -> Arc<dyn ExternalJob> {
        self
    }
}

impl ExternalJob for CommandJob {
    fn start<'a>(
        &'a self,
        key: &'a TaskId,
        arguments: &'a Json,
        durable: bool,
        reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, Outcome>> {
        Box::pin(async move {
            let run = self.launch(key, arguments, durable).await?;
            Ok(self.follow(run, reporter))
        })
    }

    fn attach<'a>(&'a self, key: &'a TaskId, begun: bool, reporter: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(async move {
            match Run::attach(&self.runs, key.as_str()).await {
                Ok(run) => Attached::Found(self.follow(run, reporter)),
                Err(RunError::NotStarted { .. } | RunError::Absent { .. })
                    if !begun && self.command.rerun == Rerun::Reattach =>
                {
                    Attached::NeverStarted
                }
                Err(error) => Attached::Lost { reason: error.to_string().into() },
            }
        })
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        Box::pin(async move { cancel(&self.runs, key.as_str()).await.map_err(JobError::new) })
    }

    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()> {
        let (runs, id) = (self.runs.clone(), key.as_str().to_owned());
        Box::pin(async move {
            let removed = tokio::task::spawn_blocking(move || runs.remove(&id)).await;
            if let Ok(Err(error)) = removed {
                tracing::debug!(%error, %key, "a run's files stay until they are swept");
            }
        })
    }
}

/// Ends a run and waits until its whole tree is gone. A task that runs no command has no run: that is done at
/// once.
///
/// # Errors
///
/// When the run may go on.
pub async fn cancel(runs: &RunsDir, id: &str) -> Result<(), RunError> {
    let state = {
        let (runs, id) = (runs.clone(), id.to_owned());
        tokio::task::spawn_blocking(move || runs.state(&id)).await
    };
    if matches!(state, Ok(Ok(State::Absent | State::Fresh | State::Exited(_)))) {
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

/// One run of a command.
#[derive(Debug)]
struct CommandRun {
    command: Arc<CommandTool>,
    run: Run,
}

impl JobRun for CommandRun {
    fn keep(&self) -> BoxFuture<'_, Result<(), JobError>> {
        Box::pin(async move { self.run.commit().await.map_err(JobError::new) })
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(RunError::Unwatched) = self.run.wait().await {
                // This process is ending and the run may well go on: there is no end to tell of.
                std::future::pending::<()>().await;
            }
        })
    }

    fn outcome(&self, kept: bool) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let exit = match self.run.wait().await {
                Ok(exit) => exit,
                Err(error) => return Outcome::lost(format!("worker_lost: {error}")),
            };
            let command = Arc::clone(&self.command);
            let (id, dir) = (self.run.id().to_owned(), self.run.dir().to_owned());
            let read = move || result::of(&command, &id, &dir, &exit, kept);
            match tokio::task::spawn_blocking(read).await {
                Ok(outcome) => outcome,
                // The runtime is shutting down; whoever takes the task up reads it again.
                Err(error) if error.is_cancelled() => std::future::pending().await,
                Err(error) => Outcome::lost(format!("worker_lost: {error}")),
            }
        })
    }
}
