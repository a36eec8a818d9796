//! Locks on whole files that end with their holder, however it ends.
//!
//! On Unix these are `flock`s, which belong to the open file: a child that inherited it would keep a dead holder
//! alive, so every such file is opened close-on-exec, as the standard library opens all.

use std::{
    fs::{File, TryLockError},
    io,
};

/// Takes the lock if nobody else has it.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    uninterrupted(|| match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    })
}

/// Waits for the lock.
pub(super) fn lock(file: &File) -> io::Result<()> {
    uninterrupted(|| file.lock())
}

pub(super) fn unlock(file: &File) -> io::Result<()> {
    uninterrupted(|| file.unlock())
}

/// The standard library does not promise to call again when a signal came in between.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_belongs_to_the_handle_that_took_it_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::options().create(true).append(true).open(dir.path().join("lock")).unwrap();
        let (one, two) = (open(), open());
        assert!(try_lock(&one).unwrap() && !try_lock(&two).unwrap());
        unlock(&one).unwrap();
        lock(&two).unwrap();
        assert!(!try_lock(&one).unwrap());
        drop(two);
        assert!(try_lock(&one).unwrap());
    }
}
