//! The run directory: the names in it, and how each file is opened, flushed and renamed.
//!
//! | name | written by | what it is |
//! |---|---|---|
//! | `spec.json` | server | the command and its limits, with the format of the directory; its limits once it has ended |
//! | `stdin` | server | what the command reads, if anything, until it has ended |
//! | `lock` | server, empty | `flock` held by the supervisor for life |
//! | `control.sock` | supervisor | where servers attach while it lives |
//! | `started` | supervisor, empty | `O_EXCL`: of any number of supervisors one runs |
//! | `pid` | supervisor | pid, boot id and start time, for people and for ending what is left |
//! | `stdout`, `stderr` | supervisor | the head and the ring of each stream |
//! | `stdout.at`, `stderr.at` | supervisor | how much of the stream was seen and where the ring stands |
//! | `status` | supervisor | progress and the last line, at most once a second |
//! | `committed` | supervisor, or server before it starts, empty | the run lives on without its server |
//! | `cancel` | server, empty | asks for the end of the run when nobody answers on the socket, or before it starts |
//! | `exit` | supervisor | how it ended |
//!
//! The server makes all of it except `control.sock`, `started` and `cancel`, flushed, under another name, and
//! renames it into place: a run directory is complete or absent. `exit` and `committed` wait as `exit.reserved`
//! and `committed.reserved`, so that writing them later takes no space and their names appear whole.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{self as rfs, AtFlags, Mode, OFlags};

/// An open run directory. Every file is reached through its descriptor, so a swapped path or a planted link is
/// never followed.
#[derive(Debug)]
pub(super) struct RunDir {
    path: PathBuf,
    fd: OwnedFd,
}

impl RunDir {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = rfs::open(path, flags, Mode::empty()).map_err(FileError::at("open", path))?;
        Ok(Self { path: path.to_owned(), fd })
    }

    /// A directory in which the system finds nothing and says so of nothing: every lookup fails.
    #[cfg(test)]
    pub(super) fn unreadable() -> Self {
        Self { path: PathBuf::from("unreadable"), fd: OwnedFd::from(tempfile::tempfile().unwrap()) }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file that is there, for reading.
    pub(super) fn read(&self, name: &str) -> Result<File, FileError> {
        self.open_at(name, OFlags::RDONLY, "open")
    }

    /// Opens a file that is there, for reading and writing.
    pub(super) fn write(&self, name: &str) -> Result<File, FileError> {
        self.open_at(name, OFlags::RDWR, "open")
    }

    /// Makes a file that must not be there yet, mode 0600, with `content`. Does not flush.
    pub(super) fn create(&self, name: &str, content: &[u8]) -> Result<File, FileError> {
        let mut file = self.open_at(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, "create")?;
        file.write_all(content).map_err(FileError::at("write", &self.file_path(name)))?;
        Ok(file)
    }

    /// Makes a file, flushes it, and leaves flushing the directory to the caller.
    pub(super) fn create_flushed(&self, name: &str, content: &[u8]) -> Result<(), FileError> {
        let file = self.create(name, content)?;
        file.sync_all().map_err(FileError::at("flush", &self.file_path(name)))
    }

    pub(super) fn exists(&self, name: &str) -> Result<bool, FileError> {
        match rfs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(FileError::at("look up", &self.file_path(name))(error)),
        }
    }

    /// Renames a file within the directory and flushes the directory.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        rfs::renameat(&self.fd, from, &self.fd, to)
            .map_err(FileError::at("rename to", &self.file_path(to)))?;
        self.sync()
    }

    /// Says that the run lives on without its server, on the disk when this returns. Once more is as good.
    pub(super) fn commit(&self) -> Result<(), FileError> {
        match self.rename(COMMITTED_RESERVED, COMMITTED) {
            Err(error) if error.is_not_found() && self.exists(COMMITTED)? => self.sync(),
            renamed => renamed,
        }
    }

    /// Holds the directory itself as long as `self` is there, as whoever makes it does; `false` if somebody else does.
    pub(super) fn hold(&self) -> Result<bool, FileError> {
        match rfs::flock(&self.fd, rfs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(FileError::at("lock", &self.path)(error)),
        }
    }

    pub(super) fn sync(&self) -> Result<(), FileError> {
        rfs::fsync(&self.fd).map_err(FileError::at("flush", &self.path))
    }

    /// Removes a name; one that is not there is as good.
    pub(super) fn unlink(&self, name: &str) -> Result<(), FileError> {
        match rfs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(FileError::at("remove", &self.file_path(name))(error)),
        }
    }

    /// The control socket under a path that fits into a socket address (108 bytes on Linux) however long the path
    /// of the directory is. Valid in this process, while `self` lives.
    pub(super) fn socket_path(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", self.fd.as_raw_fd()))
        }
        #[cfg(not(target_os = "linux"))]
        {
            self.path.join(SOCKET)
        }
    }

    fn open_at(&self, name: &str, flags: OFlags, doing: &'static str) -> Result<File, FileError> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rfs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(FileError::at(doing, &self.file_path(name)))?;
        Ok(File::from(fd))
    }
}

/// A file operation of a run that the system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}{}", path.display(), advice(source))]
#[non_exhaustive]
pub struct FileError {
    /// What was attempted, as a verb.
    pub doing: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: what was being done, and where.
    pub(super) fn at<E: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |source| Self { doing, path, source: source.into() }
    }

    /// Whether space, or the quota, ran out.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        is_disk_full(&self.source)
    }

    /// Whether it is the process or the machine that had too much open, which says nothing of the file.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        let number = self.source.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        matches!(number, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM))
    }

    /// Whether the file is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether the file is there already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }
}

pub(super) fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

fn advice(source: &io::Error) -> &'static str {
    if is_disk_full(source) {
        ": the disk or the quota is full, free some space or move the state directory"
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        ": give this user the right to it or choose another state directory"
    } else {
        ""
    }
}

/// Which of the two output streams.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Stream {
    /// What the command writes to descriptor 1.
    Stdout,
    /// What the command writes to descriptor 2.
    Stderr,
}

impl Stream {
    pub(super) const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// The name of the stream's file, as in a resource's URI.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    pub(super) const fn position_name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout.at",
            Self::Stderr => "stderr.at",
        }
    }
}

/// Whether an id can be the name of a run directory.
pub(super) fn is_run_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=128).contains(&id.len()) && id.bytes().all(plain)
}

/// A supervisor's arguments: its verb and the directory.
pub(super) fn supervise_args(dir: &Path) -> [OsString; 2] {
    ["supervise".into(), dir.into()]
}

pub(super) const SPEC: &str = "spec.json";
pub(super) const SPEC_WITHOUT_SECRETS: &str = "spec.json.new";
pub(super) const STDIN: &str = "stdin";
pub(super) const LOCK: &str = "lock";
pub(super) const SOCKET: &str = "control.sock";
pub(super) const STARTED: &str = "started";
pub(super) const PID: &str = "pid";
pub(super) const STATUS: &str = "status";
pub(super) const COMMITTED: &str = "committed";
pub(super) const COMMITTED_RESERVED: &str = "committed.reserved";
pub(super) const CANCEL: &str = "cancel";
pub(super) const EXIT: &str = "exit";
pub(super) const EXIT_RESERVED: &str = "exit.reserved";
pub(super) const PANIC: &str = "supervisor.panic";

pub(super) const PID_SIZE: usize = 1024;
pub(super) const STATUS_SIZE: usize = 8192;
pub(super) const POSITION_SIZE: usize = 512;
pub(super) const EXIT_SIZE: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_leave_the_directory_are_no_ids() {
        for bad in ["", ".", "..", "a/b", "/a", ".new-1", "a b", "é", &"x".repeat(129)] {
            assert!(!is_run_id(bad), "{bad:?}");
        }
        for good in ["a", "0198-Ab_z", &"x".repeat(128)] {
            assert!(is_run_id(good), "{good:?}");
        }
    }

    #[test]
    fn s34_a_planted_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(STATUS)).unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        run.write(STATUS).unwrap_err();
        run.create(STATUS, b"ours").unwrap_err();
        assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
    }
}
