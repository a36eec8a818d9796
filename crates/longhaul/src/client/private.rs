//! Files that nobody but their user reads.

#[cfg(unix)]
use std::fs;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

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
