//! A file that one process has.

use std::fs::{File, TryLockError};
use std::ops::Deref;

/// A file that is locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Locked(File);

impl Locked {
    pub(crate) fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock().map(|()| Self(file))
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // To close it is not enough: a child that another thread begins meanwhile has it, too, until it runs its own program.
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "a file's lock goes with the last who has it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_still_has_it_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::options().create(true).append(true).open(folder.path().join("file")).unwrap();
        let held = Locked::take(open()).unwrap();
        assert!(Locked::take(open()).is_err());
        let _childs = held.try_clone().unwrap();
        drop(held);
        assert!(Locked::take(open()).is_ok());
    }
}
