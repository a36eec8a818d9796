//! Whether the file at the store's path is still the one that was opened. What is written to one that was removed or
//! replaced is found by nobody, so it must not be acknowledged.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use super::fault::io_error;
use crate::StoreError;

/// The file that was opened, by what it is and not by its name.
#[derive(Debug)]
pub(super) struct Anchor {
    path: PathBuf,
    id: FileId,
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
        let id = look(path).map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), id, gone: AtomicBool::new(false) })
    }

    /// Looks whether the file is where it was.
    ///
    /// # Errors
    ///
    /// [`StoreError::Gone`]; a file that was moved away may come back.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match look(&self.path) {
            Ok(id) if id == self.id => {
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

fn failed(path: &Path, error: io::Error) -> StoreError {
    io_error(path, "looking at the store's file", error)
}

#[cfg(unix)]
fn look(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn look(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(drop)
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
}
