//! How many files a process may have open.

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Lets this process have as many open as any of its user's.
pub(crate) fn open_many() -> Result<()> {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).context("the limit of open files cannot be raised")
}
