//! What a run directory says about its run, by lock and files alone.

use std::{io, path::Path};

use super::{
    exit::{self, Exit, Recorded},
    layout::{COMMITTED, FileError, RunDir, SPEC, STARTED},
    lock,
    spec::StoredSpec,
};

/// The state of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// There is no such run directory.
    Absent,
    /// Nothing was started; it may be.
    Fresh,
    /// Its supervisor lives.
    Alive {
        /// Whether it lives on without its server.
        committed: bool,
    },
    /// It ended, and this is how.
    Exited(Box<Exit>),
    /// It was started and its supervisor was killed: nobody knows how it ended, and it must not run again.
    Lost,
}

/// Looks at a run directory.
///
/// # Errors
///
/// When the directory is there and cannot be read.
pub(super) fn of(path: &Path) -> Result<State, FileError> {
    match RunDir::open(path) {
        Ok(run) => of_run(&run),
        Err(error) if error.is_not_found() => Ok(State::Absent),
        Err(error) => Err(error),
    }
}

/// The order matters. A supervisor takes the lock, then creates `started`, then ends with `exit`, then lets go. So
/// who sees `started` and then a free lock sees the end of that supervisor, and who then sees no `exit` never will.
pub(super) fn of_run(run: &RunDir) -> Result<State, FileError> {
    if !run.exists(STARTED)? {
        return Ok(State::Fresh);
    }
    let alive = lock::is_held(run)?;
    match exit::read(run)? {
        Recorded::Exit(exit) => Ok(State::Exited(exit)),
        Recorded::Nothing | Recorded::Damaged if alive => {
            Ok(State::Alive { committed: run.exists(COMMITTED)? })
        }
        Recorded::Nothing | Recorded::Damaged => Ok(State::Lost),
    }
}

/// Reads the command that the directory was made for.
pub(super) fn spec(run: &RunDir) -> Result<StoredSpec, FileError> {
    let file = run.read(SPEC)?;
    let json = io::read_to_string(file).and_then(|json| StoredSpec::parse(json.as_bytes()));
    json.map_err(FileError::at("read", &run.file_path(SPEC)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{
        exit::{Cause, ExitFile, StreamSummary},
        layout::{EXIT, LOCK},
        lock::Lock,
    };

    fn run_dir() -> (tempfile::TempDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        run.create(LOCK, b"").unwrap();
        exit::reserve(&run).unwrap();
        (dir, run)
    }

    fn exit() -> Exit {
        Exit {
            cause: Cause::Exited,
            code: Some(3),
            signal: None,
            duration_ms: 0,
            started_at_ms: 0,
            ended_at_ms: 0,
            stdout: StreamSummary::default(),
            stderr: StreamSummary::default(),
            survivors: 0,
            left: 0,
            failure: None,
        }
    }

    #[test]
    fn every_row_of_the_table_is_told_apart() {
        let (dir, run) = run_dir();
        assert_eq!(of(&dir.path().join("none")).unwrap(), State::Absent);
        assert_eq!(of_run(&run).unwrap(), State::Fresh);

        let holder = Lock::take(&run, || false).unwrap();
        assert_eq!(of_run(&run).unwrap(), State::Fresh, "locked, not started: about to be");
        run.create(STARTED, b"").unwrap();
        assert_eq!(of_run(&run).unwrap(), State::Alive { committed: false });
        run.create(COMMITTED, b"").unwrap();
        assert_eq!(of_run(&run).unwrap(), State::Alive { committed: true });
        drop(holder);
        assert_eq!(of_run(&run).unwrap(), State::Lost);
        ExitFile::open(&run).unwrap().publish(&run, &exit()).unwrap();
        assert_eq!(of_run(&run).unwrap(), State::Exited(Box::new(exit())));
        std::fs::write(dir.path().join(EXIT), "torn").unwrap();
        assert_eq!(of_run(&run).unwrap(), State::Lost);
    }
}
