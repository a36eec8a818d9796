//! Starts a supervisor and hears from it that the command runs.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{net::UnixStream, time::timeout};

use super::{
    blocking::blocking,
    crash::{VARIABLES, crash_point},
    exit::{Cause, Exit, StartFailure},
    layout::{FileError, supervise_args},
    link::{Lines, withdraw},
    protocol::{Event, Refusal},
    runs::RunsError,
    state::{self, State},
};

/// What is executed as a supervisor: a program that calls [`supervise`](super::supervise) when its arguments are
/// these and the run directory. By default this very program with `supervise`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SupervisorProgram {
    program: PathBuf,
}

impl SupervisorProgram {
    /// A program other than this one, such as `longhaul` or `longhaul-supervise`, by its path.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }
}

impl Default for SupervisorProgram {
    /// This program, as it is running: on Linux even after the file was replaced by an upgrade.
    fn default() -> Self {
        let running = || PathBuf::from("/proc/self/exe");
        let program = if cfg!(target_os = "linux") {
            running()
        } else {
            std::env::current_exe().unwrap_or_else(|_| running())
        };
        Self { program }
    }
}

/// A run that was not started. No command runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The run directory could not be made: see [`RunsError`].
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The command could not be started: the caller's or the operator's to correct.
    #[error(transparent)]
    Command(#[from] StartFailure),
    /// The run was started before, by this server or another.
    #[error("the run was started already: attach to it")]
    AlreadyStarted,
    /// The supervisor's program could not be executed.
    #[error("the supervisor {} cannot be executed", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The supervisor could not start the command, and said why.
    #[error("the supervisor did not start the command: {message}")]
    Supervisor {
        /// What it said.
        message: String,
    },
    /// Supervisors ended before they had begun, every one that was tried.
    #[error("the supervisor did not start the command: it ended without a word, killed or not a supervisor")]
    Died,
    /// The supervisor said nothing for [`StartError::PATIENCE`].
    #[error("the supervisor did not answer within {} s: the machine is overloaded or the disk hangs, try again", Self::PATIENCE.as_secs())]
    NoAnswer,
    /// Somebody withdrew the run before it started.
    #[error("the run was cancelled before it started")]
    Withdrawn,
    /// The runtime is shutting down.
    #[error("this process is ending and starts nothing any more")]
    ShuttingDown,
}

impl StartError {
    /// How long a new supervisor may take to start its command.
    pub const PATIENCE: Duration = Duration::from_secs(60);

    /// Whether this process or the machine had too much open, running or kept at that moment, so that it may do
    /// later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        use rustix::io::Errno;
        match self {
            Self::Runs(RunsError::File(error)) => error.is_passing(),
            // What is larger than the whole limit never fits.
            Self::Runs(RunsError::Full { needed, max, .. }) => needed <= max,
            Self::Spawn { source, .. } => {
                let number = source.raw_os_error().map(Errno::from_raw_os_error);
                matches!(number, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN))
            }
            _ => false,
        }
    }

    /// Whether space on the disk, the quota, or [`RunsDir::with_max_bytes`](super::RunsDir::with_max_bytes) was
    /// the reason.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::Runs(RunsError::File(error)) => error.is_disk_full(),
            Self::Runs(RunsError::Full { .. }) => true,
            _ => false,
        }
    }
}

/// A supervisor that runs its command, with the connection that owns it.
pub(super) enum Launched {
    Running(Lines),
    /// So quick that it ended before it was said to run.
    Ended(Box<Exit>),
}

/// Executes a supervisor and waits until its command runs. Dropping the future ends the run.
pub(super) async fn launch(program: &SupervisorProgram, dir: &Path) -> Result<Launched, StartError> {
    for _in_case_it_is_killed in 1..ATTEMPTS {
        match launch_once(program, dir).await {
            Err(StartError::Died) => {}
            done => return done,
        }
    }
    launch_once(program, dir).await
}

async fn launch_once(program: &SupervisorProgram, dir: &Path) -> Result<Launched, StartError> {
    crash_point("run.spawn.before");
    let (owner, theirs) =
        StdStream::pair().map_err(FileError::at("connect to", dir)).map_err(RunsError::File)?;
    let unusable = |error| RunsError::File(FileError::at("connect to", dir)(error));
    owner.set_nonblocking(true).map_err(unusable)?;
    spawn(program, dir, theirs)?;
    let mut lines = Lines::new(UnixStream::from_std(owner).map_err(unusable)?);
    crash_point("run.spawn.after");
    let heard = match timeout(StartError::PATIENCE, first_word(&mut lines, dir)).await {
        Ok(heard) => heard?,
        Err(_elapsed) => return Err(unheard(dir).await),
    };
    match heard {
        None => Ok(Launched::Running(lines)),
        Some(exit) if exit.cause == Cause::NotStarted => {
            let problem = || StartFailure::System { problem: "the supervisor does not say why".to_owned() };
            Err(StartError::Command(exit.failure.unwrap_or_else(problem)))
        }
        Some(exit) => Ok(Launched::Ended(Box::new(exit))),
    }
}

fn spawn(program: &SupervisorProgram, dir: &Path, owner: StdStream) -> Result<(), StartError> {
    let failed = |source| StartError::Spawn { program: program.program.clone(), source };
    let mut command = Command::new(&program.program);
    std::os::unix::process::CommandExt::arg0(&mut command, "longhaul");
    command
        .args(supervise_args(dir))
        // The supervisor needs nothing of it, and the command gets its own from the spec.
        .env_clear()
        .envs(LOADER_VARIABLES.iter().chain(VARIABLES).filter_map(variable))
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(owner)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = tokio::process::Command::from(command).kill_on_drop(false).spawn().map_err(failed)?;
    // Reaped when it ends; if this runtime ends first, by whoever inherits it.
    tokio::spawn(async move {
        let _recorded_by_itself = child.wait().await;
    });
    Ok(())
}

fn variable(name: &&str) -> Option<(OsString, OsString)> {
    Some((OsString::from(name), std::env::var_os(name)?))
}

/// `None` when the command runs.
async fn first_word(lines: &mut Lines, dir: &Path) -> Result<Option<Exit>, StartError> {
    loop {
        match lines.next().await {
            Ok(Some(Event::Running { .. })) => return Ok(None),
            Ok(Some(Event::Exit(exit))) => return Ok(Some(exit)),
            Ok(Some(Event::Refused { reason: Refusal::AlreadyStarted, .. })) => {
                return Err(StartError::AlreadyStarted);
            }
            Ok(Some(Event::Refused { message, .. })) => return Err(StartError::Supervisor { message }),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                let dir = dir.to_owned();
                return blocking(move || closed_early(&dir)).await.unwrap_or(Err(StartError::ShuttingDown));
            }
        }
    }
}

/// A supervisor that was given up on must not start the command when it comes to life again.
async fn unheard(dir: &Path) -> StartError {
    let dir = dir.to_owned();
    match blocking(move || withdraw(&dir)).await {
        Some(Ok(State::Fresh | State::Absent)) => StartError::NoAnswer,
        // It had begun: whoever attaches learns what becomes of it.
        Some(Ok(State::Alive { .. } | State::Exited(_) | State::Lost)) => StartError::AlreadyStarted,
        Some(Err(error)) => {
            tracing::warn!(%error, "a run that may still start could not be withdrawn");
            StartError::NoAnswer
        }
        None => StartError::ShuttingDown,
    }
}

fn closed_early(dir: &Path) -> Result<Option<Exit>, StartError> {
    match state::of(dir).map_err(RunsError::File)? {
        State::Exited(exit) => Ok(Some(*exit)),
        // The command may run or have run: whoever attaches ends what is left and learns that the run is lost.
        State::Alive { .. } | State::Lost => Err(StartError::AlreadyStarted),
        State::Absent | State::Fresh => Err(StartError::Died),
    }
}

/// How many supervisors are tried that end before they have begun: until then another may.
const ATTEMPTS: u32 = 3;

/// What a dynamically linked supervisor may need to start at all.
const LOADER_VARIABLES: &[&str] = &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];
