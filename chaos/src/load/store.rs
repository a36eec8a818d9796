//! The store of a load, of whichever kind: nodes open it, and so does whoever looks at it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_store::{
    EventStore, PostgresOptions, RedisOptions, Registry, Settings, SqliteOptions, TaskStore,
};

/// A store that is open.
pub(super) struct Opened {
    pub(super) tasks: Arc<dyn TaskStore>,
    /// What nodes share beside tasks: only a fleet does.
    pub(super) shared: Option<(Arc<dyn Registry>, Arc<dyn EventStore>)>,
}

/// How long a write to a file waits for the other nodes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens the store at a URL, or in a file.
pub(super) fn open(at: &str, settings: Settings) -> Result<Opened> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let opened = if at.starts_with("postgres:") {
        let open = PostgresOptions::new().with_settings(settings).open(at);
        runtime.block_on(open).map(Arc::new).map(together)
    } else if at.starts_with("redis:") {
        let open = RedisOptions::new().with_settings(settings).open(at);
        runtime.block_on(open).map(Arc::new).map(together)
    } else {
        let open = SqliteOptions::new().with_settings(settings).with_patience(PATIENCE).open(Path::new(at));
        open.map(|tasks| Opened { tasks: Arc::new(tasks), shared: None })
    };
    opened.with_context(|| format!("the store {at} cannot be opened"))
}

fn together<S: TaskStore + Registry + EventStore + 'static>(store: Arc<S>) -> Opened {
    Opened { tasks: Arc::clone(&store) as _, shared: Some((Arc::clone(&store) as _, store)) }
}
