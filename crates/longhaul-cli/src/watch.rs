//! When a configuration may be another: it was written, or somebody says so (SIGHUP).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

/// How often the file is looked at. What is written is read once it has stayed as it is for as long.
const EVERY: Duration = Duration::from_secs(1);

/// Looks at a configuration.
#[derive(Debug)]
pub(crate) struct Watch {
    file: PathBuf,
    /// Whether it is looked at, or only signals count.
    looks: bool,
    /// The file as it was read last; `None` when it was not there.
    read: Option<Stamp>,
    /// The same as it was seen last.
    seen: Option<Stamp>,
    has_terminal: bool,
}

/// Why a configuration may be another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum News {
    /// It was written, or somebody says so.
    Again,
    /// It is not there any more.
    Gone,
    /// The terminal that the server was started from was closed.
    HungUp,
}

/// One state of a file: whatever writes it or puts another in its place makes another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(file)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl Watch {
    /// Looks at `file`, which is about to be read. Only signals count unless it `looks`.
    pub(crate) fn new(file: &Path, looks: bool) -> Self {
        let read = Stamp::of(file).ok();
        Self { file: file.to_owned(), looks, read, seen: read, has_terminal: has_terminal() }
    }

    /// Catches the signal that says so.
    pub(crate) fn catch() -> io::Result<Signal> {
        signal(SignalKind::hangup())
    }

    /// Completes when it may be another.
    pub(crate) async fn news(&mut self, hangups: &mut Signal) -> News {
        loop {
            tokio::select! {
                Some(()) = hangups.recv() => {
                    // With its terminal a server ends, as every program does; a signal alone is for a server to heed.
                    if self.has_terminal && !has_terminal() {
                        return News::HungUp;
                    }
                    self.read = Stamp::of(&self.file).ok();
                    self.seen = self.read;
                    return News::Again;
                }
                () = sleep(EVERY), if self.looks => {
                    if let Some(news) = self.look() {
                        return news;
                    }
                }
            }
        }
    }

    fn look(&mut self) -> Option<News> {
        let now = Stamp::of(&self.file).ok();
        let rests = std::mem::replace(&mut self.seen, now) == now;
        // Half of a file may be a configuration, too: it is read when nobody writes any more.
        if now == self.read || !rests {
            return None;
        }
        self.read = now;
        Some(if now.is_some() { News::Again } else { News::Gone })
    }
}

/// Whether this process has a terminal that would take it along.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_once_it_rests() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("longhaul.toml");
        fs::write(&file, "a").unwrap();
        let mut watch = Watch::new(&file, true);
        assert_eq!(watch.look(), None);
        fs::write(&file, "ab").unwrap();
        assert_eq!(watch.look(), None, "it was being written");
        fs::write(&file, "abc").unwrap();
        assert_eq!((watch.look(), watch.look(), watch.look()), (None, Some(News::Again), None));
        // As editors write: another file, of the same length, in its place.
        fs::write(folder.path().join("new"), "xyz").unwrap();
        fs::rename(folder.path().join("new"), &file).unwrap();
        assert_eq!((watch.look(), watch.look()), (None, Some(News::Again)));
        fs::remove_file(&file).unwrap();
        assert_eq!((watch.look(), watch.look(), watch.look()), (None, Some(News::Gone), None));
        fs::write(&file, "abc").unwrap();
        assert_eq!((watch.look(), watch.look()), (None, Some(News::Again)));
    }
}
