//! Where programs are found.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Whether what is there can be executed; `Ok(false)` for something that cannot.
pub(crate) fn is_executable(path: &Path) -> io::Result<bool> {
    let is_file = std::fs::metadata(path)?.is_file();
    Ok(is_file && accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok())
}

/// Where a program is looked for when the command's environment has no `PATH`.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
