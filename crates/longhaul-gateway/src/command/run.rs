//! A run as the server holds it: [`Run`].

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use super::{
    blocking::blocking,
    crash::crash_point,
    exit::Exit,
    launch::{Launched, StartError, launch},
    layout::{FileError, RunDir, Stream},
    link::{Ask, Lines, Link, Outcome},
    output::Output,
    protocol::Request,
    runs::RunsDir,
    spec::Spec,
    state::{self, State},
    status::{self, Status},
};

/// A run that this server started or found again.
///
/// **Dropping it before [`commit`](Self::commit) has returned ends the command** when this `Run` started it; after,
/// or when it was attached to, the command goes on and only the watching ends.
pub struct Run {
    id: String,
    dir: PathBuf,
    asks: mpsc::Sender<Ask>,
    outcome: watch::Receiver<Option<Outcome>>,
    status: watch::Receiver<Status>,
    link: JoinHandle<()>,
}

/// How many of a run's processes are left, if any are.
fn left(survivors: usize) -> String {
    match survivors {
        0 => String::new(),
        _ => format!(" ({survivors} of its processes could not be ended)"),
    }
}

/// What became of a run when it is not an [`Exit`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its supervisor was killed. What was left of its processes was ended; how the command would have ended is not
    /// known, and it must not be run again unasked.
    #[error(
        "the supervisor of the run {id} was killed, so its end is not known{}: look at its output before calling again",
        left(*survivors)
    )]
    Lost {
        /// The run.
        id: String,
        /// How many of its processes are still there.
        survivors: usize,
    },
    /// Its directory is there and nothing was started.
    #[error("the run {id} was never started: start it, or remove it")]
    NotStarted {
        /// The run.
        id: String,
    },
    /// There is no directory.
    #[error("there is no run {id}: it was removed, or belongs to another state directory")]
    Absent {
        /// The run.
        id: String,
    },
    /// The supervisor could not put the commit on the disk. The run still ends with its server.
    #[error("the run cannot be committed: {message}")]
    Commit {
        /// What the supervisor said.
        message: String,
    },
    /// The run directory could not be read or written.
    #[error(transparent)]
    Files(Arc<FileError>),
    /// The runtime that watched the run is shutting down. The run may well go on.
    #[error("the run is not watched any more, for this process is ending: attach again from the next")]
    Unwatched,
}

impl Run {
    /// Makes the directory of run `id` and starts its command. Returns once the command runs.
    ///
    /// The run ends with this process, or when the returned `Run` is dropped, until it is committed. Dropping the
    /// future ends it too.
    ///
    /// # Errors
    ///
    /// When no command runs. Unless it is a [`StartError::Runs`], the directory was made and may be removed.
    pub async fn start(runs: &RunsDir, id: &str, spec: &Spec) -> Result<Self, StartError> {
        let (name, spec) = (id.to_owned(), spec.clone());
        let prepared = runs.blocking(move |runs| runs.prepare(&name, &spec)).await;
        prepared.ok_or(StartError::ShuttingDown)??;
        Self::launch(runs, id).await
    }

    /// Starts the command of a directory that was [prepared](RunsDir::prepare) and in which nothing was started.
    /// As with [`Run::start`], dropping the future ends it.
    ///
    /// # Errors
    ///
    /// As [`Run::start`]; [`StartError::AlreadyStarted`] when somebody else did: of any number of callers, in any
    /// number of processes, one starts it.
    pub async fn launch(runs: &RunsDir, id: &str) -> Result<Self, StartError> {
        let dir = runs.dir(id)?;
        match launch(runs.supervisor(), &dir).await? {
            Launched::Running(lines) => Ok(Self::watch(id, dir, Some(lines), Status::default())),
            Launched::Ended(exit) => Ok(Self::over(id, dir, *exit, Status::default())),
        }
    }

    /// Finds a run again: one that goes on, that has ended, or that is lost. Of a lost one it first ends what is
    /// left, which may take its grace. Dropping the future changes nothing for the run.
    ///
    /// # Errors
    ///
    /// [`RunError::Absent`], [`RunError::NotStarted`], [`RunError::Lost`], or the directory cannot be read.
    pub async fn attach(runs: &RunsDir, id: &str) -> Result<Self, RunError> {
        let dir = runs.dir(id).map_err(|_no_id| RunError::Absent { id: id.to_owned() })?;
        let looked = loop {
            let dir = dir.clone();
            match blocking(move || look(&dir)).await.ok_or(RunError::Unwatched)? {
                // Says nothing of the run, and passes.
                Err(error) if error.is_passing() => tokio::time::sleep(PAUSE).await,
                looked => break looked.map_err(|error| RunError::Files(Arc::new(error))),
            }
        };
        let (state, status) = looked?;
        match state {
            State::Exited(exit) => Ok(Self::over(id, dir, *exit, status)),
            State::Alive { .. } => Ok(Self::watch(id, dir, None, status)),
            // The task finds the same, ends what is left, and says which it is. Should a supervisor begin at this
            // very moment, it is watched.
            State::Absent | State::Fresh | State::Lost => {
                let run = Self::watch(id, dir, None, status);
                run.wait().await?;
                Ok(run)
            }
        }
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The run's directory.
    #[must_use]
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// Tells the supervisor that the run is to live on without this server. When this returns, the supervisor has
    /// heard it and it is on the disk. A run that has ended needs no commit and gets `Ok`.
    ///
    /// It takes as long as the supervisor takes to flush a directory, and for ever if that process is stopped.
    /// Dropping the future leaves it open whether the run is committed.
    ///
    /// # Errors
    ///
    /// [`RunError::Commit`] when the disk refuses, [`RunError::Lost`] when the supervisor was killed.
    pub async fn commit(&self) -> Result<(), RunError> {
        crash_point("run.commit.before");
        self.ask(Request::Commit).await?;
        crash_point("run.commit.after");
        Ok(())
    }

    /// Asks the supervisor to end the whole tree: SIGTERM, the grace, SIGKILL. Returns once it has been asked; the
    /// tree is gone when [`wait`](Self::wait) returns. A run that has ended gets `Ok`.
    ///
    /// Dropping the future may leave the request on its way.
    ///
    /// # Errors
    ///
    /// [`RunError::Lost`] when the supervisor was killed (and what was left was ended); or it cannot be reached and
    /// the request cannot be left in the directory.
    pub async fn cancel(&self) -> Result<(), RunError> {
        self.ask(Request::Cancel).await
    }

    /// Waits for the end of the run, which is on the disk when this returns. May be called any number of times, by
    /// several; dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`RunError::Lost`] when the supervisor was killed; what was left of the tree is gone then.
    pub async fn wait(&self) -> Result<Exit, RunError> {
        let mut outcome = self.outcome.clone();
        let known = outcome.wait_for(Option::is_some).await.map_err(|_closed| RunError::Unwatched)?;
        known.clone().unwrap_or(Err(RunError::Unwatched))
    }

    /// Whether it is known how the run has ended: [`wait`](Self::wait) returns at once.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// The latest news, and each that follows: at most one a second. The channel closes when the run is over.
    #[must_use]
    pub fn updates(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Opens one of the command's output streams for reading.
    ///
    /// # Errors
    ///
    /// When its files cannot be opened.
    pub fn output(&self, stream: Stream) -> Result<Output, FileError> {
        Output::open(&self.dir, stream)
    }

    fn watch(id: &str, dir: PathBuf, connection: Option<Lines>, status: Status) -> Self {
        let (asks, asked) = mpsc::channel(16);
        let (outcome_sender, outcome) = watch::channel(None);
        let (status_sender, status) = watch::channel(status);
        let link = Link {
            dir: dir.clone(),
            asks: asked,
            outcome: outcome_sender,
            status: status_sender,
            open: Vec::new(),
        };
        Self { id: id.to_owned(), dir, asks, outcome, status, link: tokio::spawn(link.keep(connection)) }
    }

    fn over(id: &str, dir: PathBuf, exit: Exit, status: Status) -> Self {
        let (asks, _nobody_asks) = mpsc::channel(1);
        let (_, outcome) = watch::channel(Some(Ok(exit)));
        let (_, status) = watch::channel(status);
        Self { id: id.to_owned(), dir, asks, outcome, status, link: tokio::spawn(async {}) }
    }

    async fn ask(&self, request: Request) -> Result<(), RunError> {
        let (answer, answered) = oneshot::channel();
        if self.asks.send(Ask { request, answer }).await.is_ok()
            && let Ok(answer) = answered.await
        {
            return answer;
        }
        // The task takes no questions any more: the run is over.
        self.wait().await.map(|_exit| ())
    }
}

impl Drop for Run {
    /// Closes the connection, at which an uncommitted run that this server started ends.
    fn drop(&mut self) {
        self.link.abort();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.id).field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Between two tries while too much is open.
const PAUSE: Duration = Duration::from_millis(200);

fn look(dir: &std::path::Path) -> Result<(State, Status), FileError> {
    match state::of(dir)? {
        State::Absent => Ok((State::Absent, Status::default())),
        state => Ok((state, status::read(&RunDir::open(dir)?)?)),
    }
}
