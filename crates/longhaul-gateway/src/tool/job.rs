//! A command as a job that outlives its server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul::proto::model::CallToolResult;
use longhaul::server::JobTool;
use longhaul::store::{HostId, Json, Outcome, TaskId};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::job::{Attached, ExternalJob, JobError, JobRun, NotStarted};
use longhaul::tasks::project;
use longhaul::tasks::report::Reporter;

use super::copies::Copies;
use super::result::Terms;
use super::run::{Follower, blocking, cancel, ends_with_this_process, find, lost};
use crate::causes::in_words;
use crate::command::{Run, RunError, RunsDir, RunsError, Spec, StartError};
use crate::config::{Bound, CommandTool, Machine};

/// A configured command: each call of it is a run under a supervisor of its own.
#[derive(Debug)]
pub struct CommandJob {
    command: Arc<CommandTool>,
    runs: RunsDir,
    copies: Copies,
    starting: Starts,
}

impl CommandJob {
    /// The command, its runs kept in `runs`.
    pub fn new(command: Arc<CommandTool>, runs: RunsDir) -> Self {
        Self { command, runs, copies: Copies::none(), starting: Starts::default() }
    }

    /// The same, what it writes for a task copied for the nodes of other hosts.
    #[must_use]
    pub fn copied_to(mut self, copies: Copies) -> Self {
        self.copies = copies;
        self
    }

    fn follower(&self, reporter: Reporter) -> Follower<'_> {
        Follower { runs: &self.runs, copies: &self.copies, terms: Terms::of(&self.command), reporter }
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
            .with_max_output(command.max_output)
            .with_note(Terms::note(command));
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

    /// Starts the command, or finds it where it was started before.
    async fn launch(&self, key: &TaskId, arguments: &Json, durable: bool) -> Result<Run, NotStarted> {
        let spec = self.spec(arguments.as_str()).map_err(failed)?;
        let starting = self.starting.enter(key);
        let error = match self.try_launch(key, spec, durable, &starting).await {
            Ok(run) => return Ok(run),
            Err(error) => error,
        };
        Err(match error {
            StartError::AlreadyStarted => return Ok(find(&self.runs, key).await.map_err(lost)?),
            StartError::Withdrawn => Outcome::cancelled(None).into(),
            StartError::ShuttingDown => ends_with_this_process().await,
            error if error.is_passing() => NotStarted::Overloaded(in_words(&error).into()),
            error => {
                let text = format!("{} did not start: {}", self.command.name, in_words(&error));
                failed(CallToolResult::error(text)).into()
            }
        })
    }

    async fn try_launch(
        &self,
        key: &TaskId,
        spec: Spec,
        durable: bool,
        starting: &Starting<'_>,
    ) -> Result<Run, StartError> {
        let id = key.as_str().to_owned();
        let prepared = blocking(&self.runs, move |runs| {
            let prepared =
                if durable { runs.prepare_committed(&id, &spec) } else { runs.prepare(&id, &spec) };
            match prepared {
                // An earlier try, or an earlier process, prepared it and went no further, durable or not.
                Err(RunsError::Exists { .. }) if durable => runs.commit_prepared(&id),
                Err(RunsError::Exists { .. }) | Ok(_) => Ok(()),
                Err(error) => Err(error),
            }
        });
        prepared.await?;
        // A cancel that comes from here on finds the directory.
        if starting.is_cancelled() {
            return Err(StartError::Withdrawn);
        }
        Run::launch(&self.runs, key.as_str()).await
    }
}

/// The calls that are being started, and which of them were cancelled meanwhile.
#[derive(Debug, Default)]
struct Starts(Mutex<HashMap<TaskId, Start>>);

/// A call that is being started, by one or by several at once.
#[derive(Debug, Default)]
struct Start {
    /// How many start it.
    by: usize,
    is_cancelled: bool,
}

/// A call that is being started, until dropped.
struct Starting<'s> {
    starts: &'s Starts,
    key: TaskId,
}

impl Starts {
    fn enter(&self, key: &TaskId) -> Starting<'_> {
        self.lock().entry(key.clone()).or_default().by += 1;
        Starting { starts: self, key: key.clone() }
    }

    fn cancel(&self, key: &TaskId) {
        if let Some(start) = self.lock().get_mut(key) {
            start.is_cancelled = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Start>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Starting<'_> {
    fn is_cancelled(&self) -> bool {
        self.starts.lock().get(&self.key).is_some_and(|start| start.is_cancelled)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        let mut starts = self.starts.lock();
        if let Some(start) = starts.get_mut(&self.key) {
            start.by -= 1;
            if start.by == 0 {
                starts.remove(&self.key);
            }
        }
    }
}

fn failed(result: CallToolResult) -> Outcome {
    project::stored(&result.failed(true))
}

impl JobTool for CommandJob {
    fn check(&self, arguments: &str) -> Result<Json, CallToolResult> {
        let bound = self.bind(arguments)?;
        Json::parse(bound.arguments).map_err(|error| CallToolResult::error(error.to_string()))
    }

    fn secret(&self) -> Vec<String> {
        let secret = self.command.inputs().iter().filter(|input| input.secret);
        secret.map(|input| input.name.clone()).collect()
    }
}

impl ExternalJob for CommandJob {
    fn host(&self) -> Option<&HostId> {
        self.runs.host()
    }

    fn start<'a>(
        &'a self,
        key: &'a TaskId,
        arguments: &'a Json,
        durable: bool,
        reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        Box::pin(async move {
            let run = self.launch(key, arguments, durable).await?;
            let follower = self.follower(reporter);
            Ok(if durable { follower.follow_task(run) } else { follower.follow(run) })
        })
    }

    fn attach<'a>(&'a self, key: &'a TaskId, begun: bool, reporter: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(async move {
            match find(&self.runs, key).await {
                Ok(run) => self.follower(reporter).attached(run),
                Err(RunError::NotStarted { .. } | RunError::Absent { .. }) if !begun => {
                    Attached::NeverStarted
                }
                Err(error) => Attached::Lost { reason: error.to_string().into() },
            }
        })
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        // Noted before the directory is looked for: see `try_launch`.
        self.starting.cancel(key);
        Box::pin(async move { cancel(&self.runs, key.as_str()).await.map_err(JobError::new) })
    }

    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()> {
        let id = key.as_str().to_owned();
        Box::pin(async move {
            if let Err(error) = blocking(&self.runs, move |runs| runs.remove(&id)).await {
                tracing::debug!(%error, %key, "a run's files stay until they are swept");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_reaches_every_start_of_one_call() {
        let (starts, key) = (Starts::default(), TaskId::new("key").unwrap());
        let first = starts.enter(&key);
        starts.cancel(&key);
        let second = starts.enter(&key);
        assert!(first.is_cancelled() && second.is_cancelled(), "whoever comes later does not call it off");
        drop(first);
        assert!(second.is_cancelled(), "nor does whoever is done first");
        drop(second);
        assert!(!starts.enter(&key).is_cancelled(), "what is started anew is another start");
    }
}
