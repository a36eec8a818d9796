//! Whether the file at the store's path is still the one that was opened, and whole. What is written to one that was removed,
//! replaced or cut short is found by nobody, so it must not be acknowledged.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::fault::io_error;
use crate::StoreError;

/// The file that was opened, by what it is and not by its name.
#[derive(Debug)]
pub(super) struct Anchor {
    path: PathBuf,
    id: FileId,
    /// How long it has been seen to be, in bytes. It only grows: nothing here gives pages back to the file system.
    length: AtomicU64,
    /// It was not there at the last look, and that has been said.
    gone: AtomicBool,
}

#[cfg(unix)]
type FileId = (u64, u64);
#[cfg(not(unix))]
type FileId = ();

impl Anchor {
    /// Of the file that is at `path` now.
    pub(super) fn of(path: &Path) -> Result<Self, StoreError> {
        let (id, length) = look(path).map_err(|error| failed(path, error))?;
        let (path, length, gone) = (path.to_owned(), AtomicU64::new(length), AtomicBool::new(false));
        Ok(Self { path, id, length, gone })
    }

    /// Looks whether the file is where it was, and no shorter.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`]; a file that was moved away may come back.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        // Read before the file is looked at: another thread may see it grown meanwhile.
        let least = self.length.load(Ordering::Acquire);
        match look(&self.path) {
            Ok((id, length)) if id == self.id && length >= least => {
                self.length.fetch_max(length, Ordering::AcqRel);
                if self.gone.swap(false, Ordering::Relaxed) {
                    tracing::warn!(path = %self.path.display(), "the store's file is back");
                }
                return Ok(());
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&self.path, error)),
        }
        let error = StoreError::Gone { place: self.path.clone() };
        if !self.gone.swap(true, Ordering::Relaxed) {
            tracing::error!("{error}; nothing is accepted until then");
        }
        Err(error)
    }
}

impl Anchor {
    /// Whether the file system has some room again for the file. A write of nothing would say little: what a larger one had
    /// to give up may be left of the log, with room for a small one alone.
    #[cfg(unix)]
    pub(super) fn has_room(&self) -> bool {
        let found = rustix::fs::statvfs(&self.path);
        found.map_or(true, |found| found.f_bavail.saturating_mul(found.f_frsize) >= ROOM)
    }

    #[cfg(not(unix))]
    pub(super) fn has_room(&self) -> bool {
        true
    }
}

/// How many bytes are some room: any task of common size has it.
#[cfg(unix)]
const ROOM: u64 = 128 << 10;

fn failed(path: &Path, error: io::Error) -> StoreError {
    io_error(path, "looking at the store's file", error)
}

#[cfg(unix)]
fn look(path: &Path) -> io::Result<(FileId, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path)?;
    Ok(((found.dev(), found.ino()), found.len()))
}

#[cfg(not(unix))]
fn look(path: &Path) -> io::Result<(FileId, u64)> {
    fs::metadata(path).map(|found| ((), found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Json, NewTask, Owner, Sqlite, TaskId, TaskStore as _};

    fn task(name: &str) -> NewTask {
        NewTask::new(TaskId::new(name).unwrap(), Owner::Anonymous, "build", Json::parse("{}").unwrap())
    }

    #[tokio::test]
    async fn nothing_is_acknowledged_while_the_file_is_gone_or_another() {
        let dir = tempfile::tempdir().unwrap();
        let (path, away) = (dir.path().join("tasks.db"), dir.path().join("away.db"));
        let store = Sqlite::open(&path).unwrap();
        store.create(task("before")).await.unwrap();
        fs::rename(&path, &away).unwrap();
        let gone = store.create(task("gone")).await.unwrap_err();
        assert!(matches!(&gone, StoreError::Gone { place } if place.ends_with("tasks.db")), "{gone:?}");
        fs::write(&path, "").unwrap();
        let another = store.create(task("another")).await.unwrap_err();
        assert!(matches!(another, StoreError::Gone { .. }), "{another:?}");
        fs::rename(&away, &path).unwrap();
        store.create(task("back")).await.unwrap();
        assert_eq!(store.counts().await.unwrap().open, 2, "what was refused was not written");
    }

    #[tokio::test]
    async fn nothing_is_acknowledged_once_the_file_is_cut_short() {
        for left in [0, 4096] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("tasks.db");
            let store = Sqlite::open(&path).unwrap();
            store.create(task("before")).await.unwrap();
            // Everything into the file itself, which is longer than a page then.
            let conn = rusqlite::Connection::open(&path).unwrap();
            conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
            drop(conn);
            store.create(task("grown")).await.unwrap();
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
            let cut = store.create(task("cut")).await.unwrap_err();
            assert!(matches!(cut, StoreError::Gone { .. }), "{left} bytes: {cut:?}");
        }
    }
}
