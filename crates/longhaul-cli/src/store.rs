//! Opening the store that a URL names, and the directory of runs beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
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
        other => {
            bail!("the store {other} is of a kind this release does not have: use sqlite:FILE or memory:")
        }
    }
}

/// Opens the directory of runs: beside the SQLite file, or where `state` says.
pub(crate) fn runs(store: &config::Store) -> anyhow::Result<RunsDir> {
    let path = runs_path(store);
    let runs = RunsDir::open(&path).with_context(|| format!("{} cannot hold run files", path.display()))?;
    Ok(runs.with_max_bytes(store.max_run_bytes))
}

fn runs_path(store: &config::Store) -> PathBuf {
    match (&store.state, &store.url) {
        (Some(state), _) => state.join("runs"),
        (None, StoreUrl::Sqlite(path)) => beside(path),
        // A store that ends with the process needs no runs that outlive it.
        (None, _) => std::env::temp_dir().join(format!("longhaul-{}.runs", std::process::id())),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".runs");
    name.into()
}
