//! Opening the store that a URL names, and the directory of runs beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use longhaul::store::{Memory, TaskStore};
use longhaul_gateway::command::RunsDir;
use longhaul_gateway::config::{self, StoreUrl};
use longhaul_store::Sqlite;

/// Opens the store.
pub(crate) fn open(url: &StoreUrl) -> anyhow::Result<Arc<dyn TaskStore>> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(Memory::new())),
        StoreUrl::Sqlite(path) => {
            let store = Sqlite::open(path).with_context(|| format!("the store {url} cannot be opened"))?;
            Ok(Arc::new(store))
        }
    }
}

/// The directory of runs, and what goes with the server that uses it.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) dir: RunsDir,
    /// Held for as long as the server serves.
    pub(crate) scratch: Option<Scratch>,
}

/// Opens the directory of runs: beside the SQLite file, or where `state` says. Runs of a store in memory end with
/// their server, for nobody would know of them.
pub(crate) fn runs(store: &config::Store) -> anyhow::Result<Runs> {
    let (path, scratch) = match (&store.state, &store.url) {
        (Some(state), _) => (state.join("runs"), None),
        (None, StoreUrl::Sqlite(path)) => (beside(path), None),
        (None, StoreUrl::Memory) => {
            let scratch = Scratch::new()?;
            (scratch.0.clone(), Some(scratch))
        }
    };
    let dir = RunsDir::open(&path).with_context(|| format!("{} cannot hold run files", path.display()))?;
    let dir = dir.with_max_bytes(store.max_run_bytes);
    let dir = if store.url == StoreUrl::Memory { dir.ending_with_server() } else { dir };
    Ok(Runs { dir, scratch })
}

/// A folder that is nobody else's, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let mut name = [0; 8];
        getrandom::fill(&mut name).context("the system gives no random numbers")?;
        let name = format!("longhaul-{:016x}.runs", u64::from_ne_bytes(name));
        Ok(Self(std::env::temp_dir().join(name)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A supervisor at its last steps may still be writing; what stays then is for whoever clears that folder.
        let _what_could_be_removed = std::fs::remove_dir_all(&self.0);
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".runs");
    name.into()
}
