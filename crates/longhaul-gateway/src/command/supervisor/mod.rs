//! The supervisor: a small process that starts one command, outlives the server, and records how it ended.
//!
//! One thread, one loop, no runtime. [`supervise`] takes the process over; [`watch`] is the loop. What it keeps on
//! the disk is described where each file is read.

mod board;
mod channel;
mod descriptors;
mod ending;
mod peers;
mod program;
mod reap;
mod signals;
#[cfg(target_os = "linux")]
mod tend;
mod watch;

use std::{
    io::Write as _,
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    process::ExitCode,
    time::SystemTime,
};

#[cfg(target_os = "linux")]
pub use tend::{tend, tend_group};

use super::{
    crash::crash_point,
    exit::{Cause, Exit, ExitFile, StartFailure, StreamSummary, clip},
    layout::{CANCEL, COMMITTED, FileError, PANIC, RunDir, SOCKET, STARTED, Stream},
    leftover::PidFacts,
    lock::Lock,
    process::Process,
    protocol::{Event, Refusal, line},
    spec::{StoredSpec, compile},
    state,
    stream::StreamFile,
};
use crate::causes::in_words;

/// Runs the command of a run directory to its end, as its only supervisor. This is what `longhaul supervise DIR`
/// does; a server starts it, people do not.
///
/// It must be the first thing that `main` does: it expects a single-threaded process, **closes every descriptor
/// that it did not open** (except 0, 1 and 2, which become `/dev/null`), starts a session of its own, handles
/// SIGTERM as a cancel and ignores SIGHUP, SIGINT and SIGQUIT. A Unix socket on descriptor 0 is taken for its
/// server's: until the run is committed, its end is the end of the run.
///
/// The exit code is for people: 0 when the run ended and was recorded, 3 when another supervisor has it, 1 when
/// nothing could be started or recorded.
pub fn supervise(dir: &Path) -> ExitCode {
    name_this_process();
    let descriptors = match descriptors::take_over() {
        Ok(descriptors) => descriptors,
        // Nobody can be told: the server sees its socket close and says that the supervisor did not start.
        Err(_problem) => return ExitCode::FAILURE,
    };
    let owner = descriptors.owner;
    match claim(dir) {
        Ok(claimed) => claimed.run(owner, descriptors.third),
        Err(refused) => {
            let code =
                if refused.reason == Refusal::AlreadyStarted { ExitCode::from(3) } else { ExitCode::FAILURE };
            if let Some(mut owner) = owner {
                let event = Event::Refused { reason: refused.reason, message: refused.message };
                // The owner may be gone; then there is nobody to tell.
                let _told = owner.write_all(&line(&event));
            }
            code
        }
    }
}

/// Why this supervisor does not run the directory.
struct Refused {
    reason: Refusal,
    message: String,
}

impl From<FileError> for Refused {
    fn from(error: FileError) -> Self {
        Self { reason: Refusal::Failed, message: with_causes(&error) }
    }
}

/// A run directory that is this process's alone.
struct Claimed {
    run: RunDir,
    spec: StoredSpec,
    lock: Lock,
    listener: UnixListener,
    signals: signals::Signals,
    exit_file: ExitFile,
}

/// Becomes the one supervisor of `dir`, or learns that it is not. Nothing has an effect outside `dir` before
/// `started` is on the disk, and everything that can fail for want of space comes before it.
fn claim(dir: &Path) -> Result<Claimed, Refused> {
    let failed = |message: String| Refused { reason: Refusal::Failed, message };
    let signals =
        signals::Signals::handle().map_err(|error| failed(format!("signals cannot be handled: {error}")))?;
    rustix::process::setsid().map_err(|error| {
        failed(format!("the supervisor cannot have a session of its own ({error}): let a server start it"))
    })?;
    let run = RunDir::open(dir)?;
    note_panics(&run);
    let spec = state::spec(&run)?;

    crash_point("supervisor.lock.before");
    let lock = Lock::take(&run, || !run.exists(STARTED).unwrap_or(true))?;
    crash_point("supervisor.lock.after");
    let another = || Refused {
        reason: Refusal::AlreadyStarted,
        message: format!("the run in {} was started by another supervisor: attach to it", dir.display()),
    };
    let lock = lock.ok_or_else(another)?;
    if run.exists(STARTED)? {
        return Err(another());
    }

    crash_point("supervisor.socket.before");
    let listener = listen(&run)?;
    crash_point("supervisor.socket.after");
    let exit_file = ExitFile::open(&run)?;

    crash_point("supervisor.started.before");
    match run.create_flushed(STARTED, b"").and_then(|()| run.sync()) {
        Ok(()) => {}
        Err(error) if error.is_already_exists() => return Err(another()),
        Err(error) => return Err(error.into()),
    }
    crash_point("supervisor.started.after");
    Ok(Claimed { run, spec, lock, listener, signals, exit_file })
}

impl Claimed {
    fn run(self, owner: Option<UnixStream>, third: std::os::fd::OwnedFd) -> ExitCode {
        let Self { run, spec, lock, listener, signals, exit_file } = self;
        let peers = peers::Peers::new(owner, listener);
        let started = wishes(&run).and_then(|committed| Ok((start(&run, spec, third)?, committed)));
        let code = match started {
            Ok((started, committed)) => {
                watch::Watch::new(&run, started, committed, peers, signals).watch_to_the_end(&exit_file)
            }
            Err(never_ran) => watch::record(&run, &exit_file, peers, &never_ran.into()),
        };
        // The name goes before the lock: who finds the lock free must not find a socket that seems to serve.
        let _gone_or_stale = run.unlink(SOCKET);
        drop(lock);
        code
    }
}

/// A command that runs, and what it is watched by.
struct Started {
    spec: StoredSpec,
    command: program::Command,
    files: [StreamFile; 2],
    board: board::Board,
}

fn start(run: &RunDir, spec: StoredSpec, third: std::os::fd::OwnedFd) -> Result<Started, StartFailure> {
    let file_failed = |error: FileError| system(&with_causes(&error));

    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| system(&format!("orphans cannot be adopted: {error}")))?;
    let pattern =
        spec.progress.as_deref().map(compile).transpose().map_err(|error| system(&error.to_string()))?;
    let board = board::Board::open(run, pattern).map_err(file_failed)?;
    let [stdout, stderr] = Stream::BOTH.map(|stream| StreamFile::open(run, stream, spec.max_output));
    let files = [stdout.map_err(file_failed)?, stderr.map_err(file_failed)?];

    crash_point("supervisor.pid.before");
    let mut facts = PidFacts::of_self();
    facts.write(run).map_err(file_failed)?;
    crash_point("supervisor.pid.after");

    crash_point("supervisor.command.before");
    let command = program::start(run, &spec, third)?;
    crash_point("supervisor.command.after");
    let pid = super::process::raw(command.pid);
    facts.command = Some(pid);
    facts.command_start_ticks = Process::of(pid).map(|process| process.start_ticks);
    // The command runs; that people cannot read its number is no reason to end it.
    let _for_people = facts.write(run);
    Ok(Started { spec, command, files, board })
}

/// Why the command never ran.
#[derive(Debug)]
enum NeverRan {
    /// Its server had withdrawn it.
    Withdrawn,
    Failed(StartFailure),
}

impl From<StartFailure> for NeverRan {
    fn from(failure: StartFailure) -> Self {
        Self::Failed(failure)
    }
}

/// What servers have asked of the run before it starts: nothing, or that it never starts; and whether it is to live
/// on without them. A directory that does not say so starts nothing: a withdrawal may have been acknowledged.
///
/// Asked behind `started`: see `withdraw`.
fn wishes(run: &RunDir) -> Result<bool, NeverRan> {
    let file_failed = |error: FileError| system(&with_causes(&error));
    if run.exists(CANCEL).map_err(file_failed)? {
        return Err(NeverRan::Withdrawn);
    }
    Ok(run.exists(COMMITTED).map_err(file_failed)?)
}

fn system(problem: &str) -> StartFailure {
    StartFailure::System { problem: clip(problem, 1000) }
}

impl From<NeverRan> for Exit {
    fn from(why: NeverRan) -> Self {
        let (cause, failure) = match why {
            NeverRan::Withdrawn => (Cause::Cancelled, None),
            NeverRan::Failed(failure) => (Cause::NotStarted, Some(failure)),
        };
        let now = unix_milliseconds();
        Self {
            cause,
            code: None,
            signal: None,
            duration_ms: 0,
            started_at_ms: now,
            ended_at_ms: now,
            stdout: StreamSummary::default(),
            stderr: StreamSummary::default(),
            survivors: 0,
            left: 0,
            failure,
        }
    }
}

fn listen(run: &RunDir) -> Result<UnixListener, FileError> {
    // A supervisor that died before it had started anything may have left one.
    run.unlink(SOCKET)?;
    let socket = run.file_path(SOCKET);
    let failed = || FileError::at("listen on", &socket);
    #[cfg(not(target_os = "linux"))]
    std::env::set_current_dir(run.path()).map_err(failed())?;
    let path = if cfg!(target_os = "linux") { run.socket_path() } else { SOCKET.into() };
    let listener = UnixListener::bind(path).map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    // The supervisor keeps no directory of the server's from being unmounted.
    #[cfg(target_os = "linux")]
    std::env::set_current_dir("/").map_err(FileError::at("enter", Path::new("/")))?;
    Ok(listener)
}

/// Executed through `/proc/self/exe`, the process would be shown as `exe`.
fn name_this_process() {
    let _shown_otherwise = std::fs::write("/proc/self/comm", "longhaul-run");
}

/// Nothing of the supervisor can be seen: its stderr is `/dev/null`. A panic, should there be one, is in a file.
fn note_panics(run: &RunDir) {
    let path = run.file_path(PANIC);
    std::panic::set_hook(Box::new(move |info| {
        let _nowhere_else_to_say_it = std::fs::write(&path, format!("{info}\n"));
    }));
}

fn with_causes(error: &dyn std::error::Error) -> String {
    clip(&in_words(error), 2000)
}

fn unix_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_say_what_is_wanted_starts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        assert!(!wishes(&run).unwrap());
        run.create(COMMITTED, b"").unwrap();
        assert!(wishes(&run).unwrap());
        run.create(CANCEL, b"").unwrap();
        assert!(matches!(wishes(&run), Err(NeverRan::Withdrawn)));

        let refused = wishes(&RunDir::unreadable()).unwrap_err();
        assert_eq!(Exit::from(refused).cause, Cause::NotStarted);
    }
}
