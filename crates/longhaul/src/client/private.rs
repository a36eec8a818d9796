//! Files that nobody but their user reads.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How to open one for writing; one that is made is its user's alone (0600 where the system has such a thing).
pub(super) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // What somebody else has put there may lead anywhere.
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options
}

/// How to make a folder for one.
pub(super) fn folder() -> DirBuilder {
    let mut folder = DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder
}

/// Refuses the folder of a file in which anybody may put another one in its place, or lock what we wait for; `what` says what
/// to do about it.
#[cfg(unix)]
pub(super) fn check_folder(file: &Path, what: &str) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata(folder_of(file))?.mode() & 0o002 == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// The same, where a folder itself says who writes to it.
#[cfg(not(unix))]
pub(super) fn check_folder(_: &Path, _: &str) -> io::Result<()> {
    Ok(())
}

/// Writes what is to replace a file, beside it and down to the disk: it, and where it is until it is [put](put) in its place.
pub(super) fn beside(path: &Path, content: &[u8]) -> io::Result<(File, PathBuf)> {
    let new = path.with_extension("new");
    // One that was left by a crash may be anybody's.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = file().create_new(true).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok((file, new))
}

/// Puts what was written [`beside`] a file in its place, for good: whoever opens it sees the old one or the new.
pub(super) fn put(new: &Path, path: &Path) -> io::Result<()> {
    fs::rename(new, path)?;
    flush_folder(path)
}

/// Has the disk know what a file's folder says of it.
pub(super) fn flush_folder(file: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened.
    if cfg!(unix) { File::open(folder_of(file))?.sync_all() } else { Ok(()) }
}

/// Where a file is.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Refuses a file that is another user's, or that others can read; `what` says what to do about it.
#[cfg(unix)]
pub(super) fn check(file: &File, what: &str) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
    if is_ours { Ok(()) } else { Err(io::Error::new(io::ErrorKind::PermissionDenied, what)) }
}

/// The same, where a file's folder says who reads it.
#[cfg(not(unix))]
pub(super) fn check(_: &File, _: &str) -> io::Result<()> {
    Ok(())
}
