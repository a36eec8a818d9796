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
use crate::term::clean;

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
    #[arg(long, value_name = "FILE", default_value = CONFIG, global = true)]
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
    /// The options that found it.
    found_by: String,
}

/// A server, connected to for as long as the verb runs.
pub(crate) struct Remote {
    pub(crate) client: Client,
    /// The options that found it.
    found_by: String,
}

impl OriginArgs {
    pub(crate) async fn open(&self, json: bool) -> Outcome<Origin> {
        if let Some(url) = &self.url {
            let target = TargetArgs {
                revision: self.revision,
                token_env: self.token_env.clone(),
                command: Vec::new(),
            };
            let client = Server::Url(url.clone()).connect(target.options()?, json).await?;
            return Ok(Origin::Server(Remote { client, found_by: self.as_options() }));
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
        let store = store::open(&settings).await?.tasks;
        Ok(Origin::Store(Local { store, settings, found_by: self.as_options() }))
    }

    /// How the next command finds the same tasks: the options that were given, as one types them.
    fn as_options(&self) -> String {
        let mut options = String::new();
        let mut given = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                options += &format!(" --{name} {}", shell_word(&clean::line(&value, 400)));
            }
        };
        given("url", self.url.clone());
        given("store", self.store.as_ref().map(ToString::to_string));
        given("state", self.state.as_ref().map(|state| state.display().to_string()));
        let config = self.url.is_none() && self.store.is_none() && self.config != Path::new(CONFIG);
        given("config", config.then(|| self.config.display().to_string()));
        given("revision", self.revision.map(|revision| revision.as_str().to_owned()));
        given("token-env", self.token_env.clone());
        options
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

/// The configuration that is meant where none is named.
const CONFIG: &str = "longhaul.toml";

/// A word as a shell takes it for one.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,[]".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
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

impl Remote {
    /// The command that goes on with a task here.
    pub(crate) fn command(&self, verb: &str, id: &str) -> String {
        format!("longhaul tasks {verb} {}{}", clean::line(id, 128), self.found_by)
    }
}

/// How many are named when the beginning of an id is not enough.
const NAMED: usize = 10;

/// How many tasks are looked through for the beginning of an id.
const LOOKED_THROUGH: usize = 100_000;

impl Local {
    /// The command that goes on with a task here.
    pub(crate) fn command(&self, verb: &str, id: &str) -> String {
        format!("longhaul tasks {verb} {}{}", clean::line(id, 128), self.found_by)
    }

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
            if after.is_none() || found.len() > NAMED || seen >= LOOKED_THROUGH {
                break;
            }
        }
        match found.len() {
            0 => Err(unknown().next(format!("`longhaul tasks{}` shows what there is", self.found_by))),
            1 => Ok(found.swap_remove(0)),
            _ => {
                // The store lists the newest first.
                let mut ids: String =
                    found.iter().take(NAMED).map(|record| format!("\n  {}", record.id)).collect();
                if found.len() > NAMED {
                    ids += "\n  and others before";
                }
                Err(Failure::usage(format!("more than one task's id begins with `{given}`"))
                    .next(format!("say more of the one that is meant; the newest first:{ids}")))
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
