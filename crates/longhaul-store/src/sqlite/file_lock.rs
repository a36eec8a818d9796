//! Locks on whole files that end with their holder, however it ends.

use std::{fs::File, io};

/// Takes the lock if nobody else has it.
#[cfg(unix)]
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    use rustix::{fs::FlockOperation, io::Errno};
    match retry(|| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits for the lock.
#[cfg(unix)]
pub(super) fn lock(file: &File) -> io::Result<()> {
    Ok(retry(|| rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive))?)
}

#[cfg(unix)]
pub(super) fn unlock(file: &File) -> io::Result<()> {
    Ok(retry(|| rustix::fs::flock(file, rustix::fs::FlockOperation::Unlock))?)
}

#[cfg(unix)]
fn retry(mut call: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Takes the lock if nobody else has it.
#[cfg(not(unix))]
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Waits for the lock.
#[cfg(not(unix))]
pub(super) fn lock(file: &File) -> io::Result<()> {
    file.lock()
}

#[cfg(not(unix))]
pub(super) fn unlock(file: &File) -> io::Result<()> {
    file.unlock()
}
