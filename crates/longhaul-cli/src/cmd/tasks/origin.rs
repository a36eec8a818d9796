//! Where tasks are: in a store that is opened here, or at a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul::client::Client;
use longhaul::proto::dialect::Revision;
use longhaul::store::{Filter, Record, Scope, TaskId, TaskStore};
use longhaul_gateway::command::RunsDir;
use longhaul_gateway::config::{self, StoreUrl};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::store;
use crate::target::{Server, TargetArgs};

/// How to find the tasks.
#[derive(clap::Args, Debug)]
pub(crate) struct OriginArgs {
    /// Ask this server, by id; it lists nothing.
    #[arg(long, value_name = "URL", global = true, conflicts_with = "store")]
    url: Option<String>,
    /// The store: sqlite:FILE.
    #[arg(long, value_name = "URL", global = true, value_parser = store::url)]
    store: Option<StoreUrl>,
    /// Where commands keep their run files. Default: beside the SQLite file.
    #[arg(long, value_name = "DIR", global = true)]
    state: Option<PathBuf>,
    /// The configuration that names the store.
    #[arg(long, value_name = "FILE", default_value = "longhaul.toml", global = true)]
    config: PathBuf,
    /// With --url: speak this protocol revision.
    #[arg(long, value_name = "DATE", value_parser = crate::target::revision, global = true, requires = "url")]
    revision: Option<Revision>,
    /// With --url: sign in with the bearer token that this environment variable holds.
    #[arg(long, value_name = "NAME", global = true, requires = "url")]
    token_env: Option<String>,
}

/// Where tasks are found.
pub(crate) enum Origin {
    /// In a store: every task, as its operator.
    Store(Local),
    /// At a server: those whose id is known.
    Server(Remote),
}

/// A store, opened for as long as the verb runs.
pub(crate) struct Local {
    pub(crate) store: Arc<dyn TaskStore>,
    settings: config::Store,
}

/// A server, connected to for as long as the verb runs.
pub(crate) struct Remote {
    pub(crate) client: Client,
    pub(crate) url: String,
}

impl OriginArgs {
    pub(crate) async fn open(&self) -> Outcome<Origin> {
        if let Some(url) = &self.url {
            let target = TargetArgs {
                revision: self.revision,
                token_env: self.token_env.clone(),
                command: Vec::new(),
            };
            let client = Server::Url(url.clone()).connect(target.options()?).await?;
            return Ok(Origin::Server(Remote { client, url: url.clone() }));
        }
        let settings = self.settings()?;
        match &settings.url {
            StoreUrl::Memory => {
                return Err(Failure::usage("a store in memory is known to its server alone")
                    .next("ask the server: --url http://127.0.0.1:8420/mcp"));
            }
            StoreUrl::Sqlite(path) if !path.exists() => {
                return Err(Failure::usage(format!("there is no store {}", path.display()))
                    .next("`longhaul serve` makes it; is this where it was started?"));
            }
            StoreUrl::Sqlite(_) => {}
        }
        let store = store::open(&settings.url)?.tasks;
        Ok(Origin::Store(Local { store, settings }))
    }

    fn settings(&self) -> Outcome<config::Store> {
        let mut settings = match &self.store {
            // The file may be about another store: nothing of it is read.
            Some(url) => config::Store::at(url.clone()),
            None => configured(&self.config)?,
        };
        if let Some(state) = &self.state {
            settings.state = Some(state.clone());
        }
        Ok(settings)
    }
}

fn configured(file: &Path) -> Outcome<config::Store> {
    if !file.exists() {
        return Err(Failure::usage(format!("there is no {} here to name a store", file.display()))
            .next("say --store sqlite:FILE, or --url http://127.0.0.1:8420/mcp for a server's"));
    }
    match config::load(file) {
        Ok(checked) => Ok(checked.config.store),
        Err(_) => Err(Failure::usage(format!("{} has mistakes", file.display()))
            .next(format!("`longhaul check {}` shows them; or say --store sqlite:FILE", file.display()))),
    }
}

impl Origin {
    pub(crate) async fn close(&self) {
        if let Self::Server(remote) = self {
            remote.client.close().await;
        }
    }
}

/// How many tasks are looked through for the beginning of an id.
const LOOKED_THROUGH: usize = 100_000;

impl Local {
    /// The task of that id, or the only one whose id begins so.
    pub(crate) async fn find(&self, given: &str) -> Outcome<Record> {
        let unknown = || Failure::new(Exit::NotFound, "no_such_task", format!("no task is called `{given}`"));
        let id = TaskId::new(given).map_err(|error| Failure::usage(error.to_string()))?;
        if let Some(record) = self.store.get(Scope::Operator, &id).await? {
            return Ok(record);
        }
        let mut found: Vec<Record> = Vec::new();
        let mut after = None;
        let mut seen = 0;
        loop {
            let page = self.store.list(Scope::Operator, &Filter::all(), after.as_ref(), 1000).await?;
            seen += page.tasks.len();
            found.extend(page.tasks.into_iter().filter(|record| record.id.as_str().starts_with(given)));
            after = page.next;
            if after.is_none() || found.len() > 8 || seen >= LOOKED_THROUGH {
                break;
            }
        }
        match found.len() {
            0 => Err(unknown().next("`longhaul tasks` shows what there is")),
            1 => Ok(found.swap_remove(0)),
            _ => {
                let ids: Vec<&str> = found.iter().take(8).map(|record| record.id.as_str()).collect();
                Err(Failure::usage(format!("more than one task's id begins with `{given}`"))
                    .next(format!("one of {}", ids.join(", "))))
            }
        }
    }

    /// The task again, as it is now.
    pub(crate) async fn look(&self, id: &TaskId) -> Outcome<Record> {
        let found = self.store.get(Scope::Operator, id).await?;
        found.ok_or_else(|| {
            Failure::new(Exit::NotFound, "no_such_task", format!("task {id} has been forgotten"))
        })
    }

    /// Where the commands of these tasks keep their files.
    pub(crate) fn runs(&self) -> Outcome<RunsDir> {
        Ok(store::runs(&self.settings)?.dir)
    }
}
