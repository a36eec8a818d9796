//! How a run ended: [`Exit`], and the `exit` file that holds it.

use std::{fmt, fs::File, os::unix::fs::FileExt as _};

use serde::{Deserialize, Serialize};

use super::{
    crash::crash_point,
    layout::{EXIT, EXIT_RESERVED, EXIT_SIZE, FileError, RunDir},
    record::{self, Content},
};

/// How a run ended, as its supervisor recorded it. Durable once seen.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Exit {
    /// Why it ended.
    pub cause: Cause,
    /// The exit code of the command, when it exited.
    pub code: Option<i32>,
    /// The signal that ended the command, when one did.
    pub signal: Option<i32>,
    /// From the start of the command to its end, in milliseconds.
    pub duration_ms: u64,
    /// When the command started, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// When the command ended, in milliseconds since 1970.
    pub ended_at_ms: u64,
    /// What became of its standard output.
    pub stdout: StreamSummary,
    /// What became of its standard error.
    pub stderr: StreamSummary,
    /// How many of its processes could not be ended, even by SIGKILL: they hang in the kernel.
    pub survivors: u32,
    /// How many processes it had left when it ended by itself, which were ended then, but for those that did so themselves a
    /// moment later. On Linux; elsewhere they are not counted.
    #[serde(default)]
    pub left: u32,
    /// Why the command could not be started, with [`Cause::NotStarted`].
    pub failure: Option<StartFailure>,
}

impl Exit {
    /// Whether the command ran to its own end with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.cause == Cause::Exited && self.code == Some(0)
    }

    /// Whether some output of either stream was not kept.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.stdout.is_truncated() || self.stderr.is_truncated()
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The command ended by itself, or by a signal that did not come from its supervisor.
    Exited,
    /// It ran longer than its timeout and was ended.
    TimedOut,
    /// Somebody cancelled it.
    Cancelled,
    /// Its server went away before the run was committed.
    Abandoned,
    /// The command could not be started; nothing ran.
    NotStarted,
    /// A cause that a later release knows.
    #[serde(other)]
    Unknown,
}

/// What became of one output stream.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StreamSummary {
    /// How many bytes the command wrote.
    pub total: u64,
    /// How many of them are kept.
    pub kept: u64,
    /// The bytes that are not kept, if any.
    pub gap: Option<Gap>,
    /// Why the file took no more bytes than this, when that was not the limit: a full disk, most likely.
    pub fault: Option<String>,
}

impl StreamSummary {
    /// Whether some of the stream was not kept.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.kept < self.total
    }
}

/// A stretch of a stream that is not kept: the bytes `from..to`, counted from the stream's beginning.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Gap {
    /// The first byte that is missing.
    pub from: u64,
    /// The first byte after it that is there, or would come next.
    pub to: u64,
}

impl Gap {
    pub(crate) const fn between(from: u64, to: u64) -> Option<Self> {
        if from < to { Some(Self { from, to }) } else { None }
    }

    /// How many bytes are missing.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.to - self.from
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes not kept, from byte {} to byte {}", self.bytes(), self.from, self.to)
    }
}

/// Why a command could not be started. Each says what to do.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StartFailure {
    /// No such program.
    #[error("{}", not_found(program, searched))]
    NotFound {
        /// The program as given.
        program: String,
        /// Where it was looked for: the `PATH` of the command, or the one path that was given.
        searched: String,
    },
    /// The program is there and may not be executed.
    #[error("{path} is not an executable file: make it one with `chmod +x`, or name its interpreter first")]
    NotExecutable {
        /// The file.
        path: String,
    },
    /// The directory to start in is not there, or no directory.
    #[error("the directory {cwd} cannot be entered ({problem}): create it or correct `cwd`")]
    Directory {
        /// The directory.
        cwd: String,
        /// What the system said.
        problem: String,
    },
    /// The file is executable by its mode but not by its content.
    #[error(
        "{path} is no program that this machine can run: begin a script with `#!`, or build it for this machine"
    )]
    NotAProgram {
        /// The file.
        path: String,
    },
    /// Arguments and environment together are beyond what the system takes.
    #[error(
        "the arguments and the environment are too long for the system: pass the data through stdin or a file"
    )]
    TooLong,
    /// Anything else.
    #[error("the command could not be started ({problem}): correct it and call again")]
    System {
        /// What the system said.
        problem: String,
    },
}

/// A path is looked for nowhere else, so it is named once.
fn not_found(program: &str, searched: &str) -> String {
    if program.contains('/') {
        format!("there is no program {searched}: install it, or correct its path")
    } else {
        format!(
            "there is no program {program:?} in {searched}: install it, correct the name, or set PATH for this tool"
        )
    }
}

/// What the directory says about the end of its run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Recorded {
    /// Nothing: it runs, or its supervisor was killed.
    Nothing,
    /// This.
    Exit(Box<Exit>),
    /// A file that is no record. The supervisor renames whole ones only, so the disk lost it.
    Damaged,
}

/// Reads `exit`.
pub(super) fn read(run: &RunDir) -> Result<Recorded, FileError> {
    let file = match run.read(EXIT) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(Recorded::Nothing),
        Err(error) => return Err(error),
    };
    match record::read(&file, EXIT_SIZE).map_err(FileError::at("read", &run.file_path(EXIT)))? {
        Content::Whole(exit) => Ok(Recorded::Exit(exit)),
        Content::Empty | Content::Damaged => Ok(Recorded::Damaged),
    }
}

/// The reserved `exit` file, to be filled once.
#[derive(Debug)]
pub(super) struct ExitFile {
    file: File,
}

impl ExitFile {
    pub(super) fn open(run: &RunDir) -> Result<Self, FileError> {
        Ok(Self { file: run.write(EXIT_RESERVED)? })
    }

    /// Makes `exit` durable and visible. May be tried again when it failed.
    pub(super) fn publish(&self, run: &RunDir, exit: &Exit) -> Result<(), FileError> {
        crash_point("supervisor.exit.before");
        let path = run.file_path(EXIT_RESERVED);
        record::write(&self.file, EXIT_SIZE, exit).map_err(FileError::at("write", &path))?;
        self.file.sync_all().map_err(FileError::at("flush", &path))?;
        crash_point("supervisor.exit.after");
        crash_point("supervisor.publish.before");
        run.rename(EXIT_RESERVED, EXIT)?;
        crash_point("supervisor.publish.after");
        Ok(())
    }
}

/// Makes the reserved file, flushed.
pub(super) fn reserve(run: &RunDir) -> Result<(), FileError> {
    let file = run.create(EXIT_RESERVED, b"")?;
    let path = run.file_path(EXIT_RESERVED);
    file.write_all_at(&record::reserved(EXIT_SIZE), 0).map_err(FileError::at("reserve", &path))?;
    file.sync_all().map_err(FileError::at("flush", &path))
}

/// Shortens a text, and takes its control characters, so that a record with it always fits.
pub(super) fn clip(text: &str, bytes: usize) -> String {
    let cut = text.floor_char_boundary(bytes);
    let mut short: String =
        text[..cut].chars().map(|char| if char.is_control() { '?' } else { char }).collect();
    if cut < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit() -> Exit {
        Exit {
            cause: Cause::Exited,
            code: Some(0),
            signal: None,
            duration_ms: 1,
            started_at_ms: 2,
            ended_at_ms: 3,
            stdout: StreamSummary::default(),
            stderr: StreamSummary::default(),
            survivors: 0,
            left: 0,
            failure: None,
        }
    }

    fn run_dir() -> (tempfile::TempDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        reserve(&run).unwrap();
        (dir, run)
    }

    #[test]
    fn a_program_that_is_not_there_is_named_once() {
        let missing = |program: &str, searched: &str| {
            let (program, searched) = (program.to_owned(), searched.to_owned());
            StartFailure::NotFound { program, searched }.to_string()
        };
        let path = missing("/nonexistent/prog", "/nonexistent/prog");
        assert_eq!(path, "there is no program /nonexistent/prog: install it, or correct its path");
        assert!(
            missing("prog", "/bin:/usr/bin").starts_with("there is no program \"prog\" in /bin:/usr/bin: ")
        );
    }

    #[test]
    fn an_exit_is_nothing_until_it_is_whole() {
        let (_dir, run) = run_dir();
        assert_eq!(read(&run).unwrap(), Recorded::Nothing);
        ExitFile::open(&run).unwrap().publish(&run, &exit()).unwrap();
        assert_eq!(read(&run).unwrap(), Recorded::Exit(Box::new(exit())));
    }

    #[test]
    fn an_exit_that_the_disk_tore_is_told() {
        let (dir, run) = run_dir();
        ExitFile::open(&run).unwrap().publish(&run, &exit()).unwrap();
        let file = File::options().write(true).open(dir.path().join(EXIT)).unwrap();
        file.write_all_at(b"#", 20).unwrap();
        assert_eq!(read(&run).unwrap(), Recorded::Damaged);
    }

    #[test]
    fn the_greatest_record_fits_the_reserved_space() {
        let long = clip(&"\"\u{1}".repeat(4000), 1000);
        let summary = StreamSummary {
            total: u64::MAX,
            kept: u64::MAX,
            gap: Gap::between(1, u64::MAX),
            fault: Some(long.clone()),
        };
        let failure = StartFailure::NotFound { program: long.clone(), searched: long };
        let exit = Exit { stdout: summary.clone(), stderr: summary, failure: Some(failure), ..exit() };
        assert!(serde_json::to_vec(&exit).unwrap().len() > 8000 / 2);
        let (_dir, run) = run_dir();
        ExitFile::open(&run).unwrap().publish(&run, &exit).unwrap();
    }

    #[test]
    fn an_exit_of_an_earlier_release_is_one_that_left_nothing() {
        let mut json = serde_json::to_value(exit()).unwrap();
        json.as_object_mut().unwrap().remove("left").unwrap();
        assert_eq!(serde_json::from_value::<Exit>(json).unwrap(), exit());
    }

    #[test]
    fn a_cause_of_a_later_release_is_still_an_exit() {
        let mut json = serde_json::to_value(exit()).unwrap();
        json["cause"] = "teleported".into();
        assert_eq!(serde_json::from_value::<Exit>(json).unwrap().cause, Cause::Unknown);
    }
}
