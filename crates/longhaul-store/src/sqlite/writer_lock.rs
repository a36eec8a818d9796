//! The turn to write, taken before SQLite's own lock.
//!
//! SQLite's busy handler polls, and of several busy processes one wins nearly always. A lock the kernel queues for
//! gives each its turn.

use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    fault::{io_error, said},
    file_lock,
    flushed::Flushed,
};
use crate::StoreError;

/// The lock on `<file>.writer`, of one store handle.
#[derive(Debug)]
pub(super) struct WriterLock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    file: File,
    state: Mutex<State>,
    changed: Condvar,
}

/// A wait without end cannot be given up, so a thread of its own does the waiting and gives the lock back if
/// nobody wants it any more.
#[derive(Debug, Default)]
struct State {
    /// The waiting thread is to get the lock, or is getting it.
    asked: bool,
    /// Someone still wants it.
    wanted: bool,
    /// How the waiting ended.
    got: Option<Result<(), String>>,
    closed: bool,
    /// The waiting thread, from when there was first something to wait for: most stores have one process.
    waiting: Option<JoinHandle<()>>,
}

impl WriterLock {
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        let file = private(OpenOptions::new().create(true).truncate(false).read(true).write(true))
            .open(&path)
            .map_err(|error| io_error(&path, "opening the writers' lock file", error))?;
        Ok(Self { shared: Arc::new(Shared { path, file, state: Mutex::default(), changed: Condvar::new() }) })
    }

    /// Takes the turn, waiting at most `timeout` for it.
    pub(super) fn acquire(&self, timeout: Duration) -> Result<Turn<'_>, StoreError> {
        let shared = &*self.shared;
        let mut state = shared.lock();
        if !state.asked {
            match file_lock::try_lock(&shared.file) {
                Ok(true) => return Ok(Turn(shared)),
                Ok(false) => {}
                Err(error) => return Err(io_error(&shared.path, "locking the writers' lock file", error)),
            }
            if state.waiting.is_none() {
                state.waiting = Some(self.start_waiting()?);
            }
            state.asked = true;
        }
        state.wanted = true;
        shared.changed.notify_all();
        let waiting = |state: &mut State| state.got.is_none();
        let (mut state, _) = shared
            .changed
            .wait_timeout_while(state, timeout, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        state.wanted = false;
        match state.got.take() {
            Some(Ok(())) => Ok(Turn(shared)),
            Some(Err(error)) => {
                Err(StoreError::Backend { doing: "locking the writers' lock file", source: said(error) })
            }
            None => {
                let by =
                    format!("another process that has written for {timeout:?} ({})", shared.path.display());
                Err(StoreError::Busy { by, source: said("the lock file stayed locked") })
            }
        }
    }

    fn start_waiting(&self) -> Result<JoinHandle<()>, StoreError> {
        let waiting = self.shared.clone();
        thread::Builder::new()
            .name("longhaul-store-turn".to_owned())
            .spawn(move || waiting.wait_in_turn())
            .map_err(|error| io_error(&self.shared.path, "starting a thread", error))
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let (stuck, waiting) = (state.asked, state.waiting.take());
        drop(state);
        self.shared.changed.notify_all();
        // A thread that waits for another process's lock ends when it gets it, and gives it back.
        if let Some(waiting) = waiting
            && !stuck
            && waiting.join().is_err()
        {
            tracing::error!("the thread that waits for the writers' lock has panicked");
        }
    }
}

impl Shared {
    fn wait_in_turn(&self) {
        let mut state = self.lock();
        loop {
            let idle = |state: &mut State| !(state.closed || state.asked && state.got.is_none());
            state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            if state.closed {
                return;
            }
            drop(state);
            let got = file_lock::lock(&self.file).map_err(|error| error.to_string());
            state = self.lock();
            state.asked = false;
            if state.wanted {
                state.got = Some(got);
                self.changed.notify_all();
            } else if got.is_ok() {
                self.unlock();
            }
        }
    }

    fn unlock(&self) {
        if let Err(error) = file_lock::unlock(&self.file) {
            tracing::error!(path = %self.path.display(), %error, "the writers' lock cannot be released");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn to write, until dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Shared);

impl Turn<'_> {
    /// What the last to write has noted of the log.
    pub(super) fn flushed(&self) -> Result<Option<Flushed>, StoreError> {
        let failed = |error| io_error(&self.0.path, "reading the writers' lock file", error);
        Flushed::read(&self.0.file).map_err(failed)
    }

    /// Notes it for the next to open the store.
    pub(super) fn note(&self, flushed: Flushed) -> Result<(), StoreError> {
        let failed = |error| io_error(&self.0.path, "writing to the writers' lock file", error);
        flushed.write(&self.0.file).map_err(failed)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Makes what is created readable and writable by its owner only.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// `<file><suffix>`.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_the_holder_lets_go_or_the_patience_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("writer");
        let (one, two) = (WriterLock::open(path.clone()).unwrap(), WriterLock::open(path).unwrap());
        let turn = one.acquire(Duration::ZERO).unwrap();
        assert!(matches!(two.acquire(Duration::from_millis(20)), Err(StoreError::Busy { .. })));
        drop(turn);
        // What was given up is not kept by the thread that waited for it, whenever it gets it.
        for _ in 0..3 {
            drop(one.acquire(Duration::from_secs(30)).unwrap());
            thread::sleep(Duration::from_millis(5));
        }
        drop(two.acquire(Duration::from_secs(30)).unwrap());
    }

    #[test]
    fn the_turn_passes_back_and_forth() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("writer");
        let turns = || {
            let lock = WriterLock::open(path.clone()).unwrap();
            for _ in 0..200 {
                drop(lock.acquire(Duration::from_secs(30)).unwrap());
            }
        };
        thread::scope(|scope| {
            scope.spawn(turns);
            scope.spawn(turns);
            scope.spawn(turns);
        });
    }
}
