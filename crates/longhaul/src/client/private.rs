//! Files that nobody but their user reads.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;

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
