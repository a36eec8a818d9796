//! Finds the command's program and starts it.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, PipeReader},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{self, Stdio},
    time::Instant,
};

use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    io::{Errno, ioctl_fionbio},
    process::Pid,
};

use super::{unix_milliseconds, with_causes};
use crate::command::{
    exit::{StartFailure, clip},
    layout::{RunDir, STDIN},
    program::{DEFAULT_PATH, is_executable},
    spec::{MARKER_VARIABLE, StoredSpec},
};

/// A started command. It leads a process group of its own in the supervisor's session.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) pid: Pid,
    pub(super) started: Instant,
    pub(super) started_at_ms: u64,
    /// Our ends of its stdout and stderr; reading does not block.
    pub(super) outputs: [File; 2],
    /// Our end of its descriptor 3.
    pub(super) progress: PipeReader,
}

/// Starts the command: `third`, which is descriptor 3, becomes its progress pipe and is closed here.
pub(super) fn start(run: &RunDir, spec: &StoredSpec, mut third: OwnedFd) -> Result<Command, StartFailure> {
    check_directory(spec.cwd())?;
    let program = resolve(spec)?;
    let system = |error: io::Error| StartFailure::System { problem: clip(&error.to_string(), 1000) };

    let stdin = if spec.stdin {
        let file = run.read(STDIN).map_err(|error| StartFailure::System { problem: with_causes(&error) })?;
        Stdio::from(file)
    } else {
        Stdio::null()
    };
    let (progress, progress_writer) = io::pipe().map_err(system)?;
    // Only now, in a process of one thread, is there a descriptor that a child inherits.
    rustix::io::dup2(&progress_writer, &mut third).map_err(|error| system(error.into()))?;
    drop(progress_writer);

    let (started, started_at_ms) = (Instant::now(), unix_milliseconds());
    let spawned = process::Command::new(&program)
        .arg0(&spec.argv[0].0)
        .args(spec.argv.iter().skip(1).map(|argument| &argument.0))
        .env_clear()
        .envs(spec.env.iter().map(|(key, value)| (&key.0, &value.0)))
        .env(MARKER_VARIABLE, &spec.marker)
        .current_dir(spec.cwd())
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    drop(third);
    let mut child = spawned.map_err(|error| explain(&error, &program))?;

    // Not ours to wait with: the loop reaps every child, this one and what it leaves behind, by number.
    let pid = Pid::from_child(&child);
    let stdout = child.stdout.take().expect("stdout was piped above");
    let stderr = child.stderr.take().expect("stderr was piped above");
    let outputs = [File::from(OwnedFd::from(stdout)), File::from(OwnedFd::from(stderr))];
    for fd in &outputs {
        ioctl_fionbio(fd, true).map_err(|error| system(error.into()))?;
    }
    ioctl_fionbio(&progress, true).map_err(|error| system(error.into()))?;
    Ok(Command { pid, started, started_at_ms, outputs, progress })
}

fn check_directory(cwd: &Path) -> Result<(), StartFailure> {
    let entered = std::fs::metadata(cwd).and_then(|metadata| {
        if metadata.is_dir() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
    });
    let entered = entered.and_then(|()| Ok(accessat(CWD, cwd, Access::EXEC_OK, AtFlags::EACCESS)?));
    entered.map_err(|error| StartFailure::Directory {
        cwd: shown(cwd.as_os_str()),
        problem: clip(&error.to_string(), 200),
    })
}

/// The file to execute, absolute: looked up in the command's own `PATH`, not in ours.
fn resolve(spec: &StoredSpec) -> Result<PathBuf, StartFailure> {
    let name = spec.argv[0].0.as_os_str();
    let not_found =
        |searched: &OsStr| StartFailure::NotFound { program: shown(name), searched: shown(searched) };
    if name.as_bytes().contains(&b'/') {
        let path = spec.cwd().join(name);
        return match is_executable(&path) {
            Ok(true) => Ok(path),
            Ok(false) => Err(StartFailure::NotExecutable { path: shown(path.as_os_str()) }),
            Err(_) => Err(not_found(path.as_os_str())),
        };
    }
    let searched = spec.variable("PATH").unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let mut blocked = None;
    for dir in std::env::split_paths(searched) {
        let path = spec.cwd().join(dir).join(name);
        match is_executable(&path) {
            Ok(true) => return Ok(path),
            Ok(false) => blocked = blocked.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(blocked.map_or_else(
        || not_found(searched),
        |path| StartFailure::NotExecutable { path: shown(path.as_os_str()) },
    ))
}

fn explain(error: &io::Error, program: &Path) -> StartFailure {
    let path = || shown(program.as_os_str());
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOEXEC) => StartFailure::NotAProgram { path: path() },
        Some(Errno::ACCESS | Errno::PERM) => StartFailure::NotExecutable { path: path() },
        Some(Errno::TOOBIG) => StartFailure::TooLong,
        // The file was there a moment ago, so it is what its first line names that is missing.
        Some(Errno::NOENT) => StartFailure::NotFound {
            program: "the interpreter".to_owned(),
            searched: clip(&format!("the first line of {}", program.display()), 1000),
        },
        _ => StartFailure::System { problem: clip(&error.to_string(), 1000) },
    }
}

fn shown(text: &OsStr) -> String {
    clip(&text.to_string_lossy(), 1000)
}
