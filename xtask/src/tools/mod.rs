//! The tools that cargo does not bring: found, or set up under the build folder, of versions that are committed.

pub(crate) mod installed;
mod node;
mod python;
pub(crate) mod system;

pub(crate) use node::Node;
pub(crate) use python::Python;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::site::Site;

/// Held by whoever installs something: a stage that needs what another sets up just then waits for it.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Waits until nothing else is installed.
fn alone() -> MutexGuard<'static, ()> {
    // What is half made is made again.
    INSTALLING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder under `target/tools` and whether what is in it was made from the same inputs as now.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    inputs: String,
}

impl Folder {
    /// The folder of this name, made from these files.
    fn new(site: &Site, name: &str, inputs: &[PathBuf]) -> Result<Self> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let inputs = inputs.iter().map(read).collect::<Result<Vec<_>>>()?.join("\n");
        Ok(Self { path: site.target.join("tools").join(name), inputs })
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(self.stamp()).is_ok_and(|made_from| made_from == self.inputs)
    }

    /// Empties the folder, lets `make` fill it, and remembers what it was made from.
    fn make(&self, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        if self.path.exists() {
            fs::remove_dir_all(&self.path)
                .with_context(|| format!("cannot empty {}", self.path.display()))?;
        }
        fs::create_dir_all(&self.path).with_context(|| format!("cannot make {}", self.path.display()))?;
        make(&self.path)?;
        fs::write(self.stamp(), &self.inputs).context("cannot write the stamp of a tool")
    }

    fn stamp(&self) -> PathBuf {
        self.path.join("made-from")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_folder_is_made_again_when_its_lock_file_changes() {
        let root = tempfile::tempdir().unwrap();
        let deadline = Instant::now();
        let site = Site::new(root.path().into(), root.path().into(), deadline);
        let lock = root.path().join("lock");
        fs::write(&lock, "1").unwrap();
        let folder = Folder::new(&site, "x", std::slice::from_ref(&lock)).unwrap();
        assert!(!folder.is_current());
        assert!(folder.make(|_| anyhow::bail!("no network")).is_err());
        assert!(!folder.is_current(), "a folder half made is not current");
        folder.make(|path| Ok(fs::write(path.join("old"), "")?)).unwrap();
        assert!(folder.is_current());
        fs::write(&lock, "2").unwrap();
        let folder = Folder::new(&site, "x", &[lock]).unwrap();
        assert!(!folder.is_current());
        folder.make(|path| Ok(fs::write(path.join("new"), "")?)).unwrap();
        assert!(!folder.path.join("old").exists() && folder.path.join("new").exists());
    }
}
