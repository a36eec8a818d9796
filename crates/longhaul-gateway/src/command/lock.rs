//! The lock that proves a supervisor alive: `flock` on `lock`, held until its process is gone.
//!
//! The descriptor is close-on-exec: a command that inherited it would keep a dead supervisor alive.

use std::{
    fs::File,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::layout::{FileError, LOCK, RunDir};

/// The supervisor's lock; dropping it, or dying, lets go.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Takes the lock, and waits while `wait()` says so: somebody who looks whether the lock is free holds it
    /// for some microseconds.
    ///
    /// # Errors
    ///
    /// When the lock file cannot be opened or locked. `Ok(None)` is a lock that another holds.
    pub(super) fn take(run: &RunDir, mut wait: impl FnMut() -> bool) -> Result<Option<Self>, FileError> {
        let file = run.write(LOCK)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline && wait() => {
                    thread::sleep(PAUSE)
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
                Err(error) => return Err(FileError::at("lock", &run.file_path(LOCK))(error)),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // To close it is not enough: a child that another thread begins meanwhile has it, too, until it runs its own program.
        // Without it the lock goes with that child.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Whether somebody holds the lock. Several may ask at once: they share it for the moment of asking.
pub(super) fn is_held(run: &RunDir) -> Result<bool, FileError> {
    let file = run.read(LOCK)?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(false),
            Err(Errno::WOULDBLOCK) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(FileError::at("lock", &run.file_path(LOCK))(error)),
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn run_dir() -> (tempfile::TempDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        run.create(LOCK, b"").unwrap();
        (dir, run)
    }

    #[test]
    fn the_lock_has_one_holder_until_dropped() {
        let (_dir, run) = run_dir();
        let held = Lock::take(&run, || false).unwrap().expect("free at first");
        assert!(is_held(&run).unwrap());
        assert!(Lock::take(&run, || false).unwrap().is_none());
        // As a child has it that is just being begun.
        let _childs = held.0.try_clone().unwrap();
        drop(held);
        assert!(!is_held(&run).unwrap());
    }

    #[test]
    fn somebody_who_only_looks_does_not_keep_a_supervisor_out() {
        let (_dir, run) = run_dir();
        let looking = run.read(LOCK).unwrap();
        flock(&looking, FlockOperation::NonBlockingLockShared).unwrap();
        let mut looking = Some(looking);
        let taken = Lock::take(&run, || {
            looking.take();
            true
        });
        assert!(taken.unwrap().is_some());
    }
}
