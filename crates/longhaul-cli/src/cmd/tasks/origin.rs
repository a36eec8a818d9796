//! Where tasks are: in a store that is opened here, or at a server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul::client::{Client, Options, TaskHandle};
use longhaul::proto::dialect::Revision;
use longhaul::store::{Filter, Record, Registry, Scope, TaskId, TaskStore};
use longhaul_gateway::command::RunsDir;
use longhaul_gateway::config::{self, StoreUrl};
use longhaul_gateway::shell;
use longhaul_gateway::tool::{Copies, Streams};

use crate::ask::Question;
use crate::configuration::{self, FILE as CONFIG};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::handles::{self, Found, Handle, Place};
use crate::hosts::{self, Here};
use crate::store;
use crate::target::{Server, TargetArgs};
use crate::term::clean;

/// How to find the tasks.
#[derive(clap::Args, Debug)]
pub(crate) struct OriginArgs {
    /// Ask this server, by id; it lists nothing. A URL, or a name such as vscode:ci.
    #[arg(long, value_name = "URL", global = true, conflicts_with = "store")]
    url: Option<String>,
    /// The store: sqlite:FILE, postgres://USER@HOST/DATABASE or redis://HOST.
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
    registry: Arc<dyn Registry>,
    settings: config::Store,
    /// The options that found it.
    found_by: String,
}

/// A server, connected to for as long as the verb runs.
pub(crate) struct Remote {
    pub(crate) client: Client,
    /// How a person calls it.
    pub(crate) name: String,
    /// What is remembered of the task, if it was started from here.
    pub(crate) handle: Option<Box<Handle>>,
    /// The options that found it.
    found_by: String,
}

impl OriginArgs {
    /// Finds the task `id`, or where tasks are listed; `prepare` says how a server's questions are answered.
    ///
    /// What the command line names comes first, then the store of the configuration here if it has the task, then what is
    /// remembered of the tasks that were started from here.
    pub(crate) async fn open(
        &self,
        id: Option<&str>,
        json: bool,
        prepare: impl FnOnce(&Server, Options) -> Options,
    ) -> Outcome<Origin> {
        if let Some(url) = &self.url {
            let args = TargetArgs {
                revision: self.revision,
                token_env: self.token_env.clone(),
                command: Vec::new(),
            };
            let server = Server::of_word(url)?;
            let client = server.connect(prepare(&server, args.options(&server)?), json).await?;
            let (name, found_by) = (server.name(), self.as_options());
            return Ok(Origin::Server(Remote { client, name, handle: None, found_by }));
        }
        let is_named = self.store.is_some() || self.config != Path::new(CONFIG);
        let Some(id) = id.filter(|_| !is_named) else {
            return self.open_store().await.map(Origin::Store);
        };
        let here = if self.config.exists() { Some(self.open_store().await) } else { None };
        let here = match here {
            Some(Ok(local)) => match local.find(id).await {
                Err(failure) if failure.exit == Exit::NotFound => Some(Ok(local)),
                Err(failure) => return Err(failure),
                Ok(_) => return Ok(Origin::Store(local)),
            },
            other => other,
        };
        match (remembered(id)?, here) {
            (Found::One(handle), _) => Remote::of(handle, json, prepare).await.map(Origin::Server),
            (Found::Several(ids), None) => Err(several(id, &ids)),
            (_, Some(here)) => here.map(Origin::Store),
            (Found::Nothing, None) => Err(Failure::usage(format!(
                "task {} was not started from here, and there is no {CONFIG} here to name a store",
                clean::line(id, 128)
            ))
            .next("say where it is: --url http://127.0.0.1:8420/mcp, or --store sqlite:FILE")),
        }
    }

    /// That the user has left tasks which keep running, as a program is told.
    pub(crate) fn detached(&self, ids: &[String]) -> Failure {
        let ids: Vec<String> = ids.iter().map(|id| clean::line(id, 128)).collect();
        let words: String = ids.iter().map(|id| format!(" {}", shell::word(id))).collect();
        left(
            format!("still running: {}", ids.join(" ")),
            format!("longhaul tasks wait{words}{}", self.as_options()),
        )
    }

    /// Whether nothing says where tasks are: no option, and no configuration here.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.url.is_none()
            && self.store.is_none()
            && self.config == Path::new(CONFIG)
            && !self.config.exists()
    }

    async fn open_store(&self) -> Outcome<Local> {
        let settings = self.settings()?;
        if settings.url == StoreUrl::Memory {
            return Err(Failure::usage("a store in memory is known to its server alone")
                .next("ask the server: --url http://127.0.0.1:8420/mcp"));
        }
        store::must_be_there(&settings.url)?;
        let store::Store { tasks: store, registry, .. } = store::open_or_read(&settings).await?;
        Ok(Local { store, registry, settings, found_by: self.as_options() })
    }

    /// How the next command finds the same tasks: the options that were given, as one types them.
    fn as_options(&self) -> String {
        let mut options = String::new();
        let mut given = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                options += &format!(" --{name} {}", shell::word(&clean::line(&value, 400)));
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
            None => {
                let otherwise = "without it, say --store sqlite:FILE; or, with the id of a task, --url http://127.0.0.1:8420/mcp";
                configuration::read(&self.config, otherwise)?.store
            }
        };
        if let Some(state) = &self.state {
            settings.state = Some(state.clone());
        }
        Ok(settings)
    }
}

impl Origin {
    pub(crate) async fn close(&self) {
        if let Self::Server(remote) = self {
            remote.client.close().await;
        }
    }

    /// That the user has left a task which keeps running, as a program is told; `verb` comes back to it.
    pub(crate) fn detached(&self, verb: &str, given: &str) -> Failure {
        let (id, next) = match self {
            Self::Store(local) => (given, local.command(verb, given)),
            Self::Server(remote) => (remote.id(given), remote.command(verb, remote.id(given))),
        };
        left(clean::line(id, 128) + " keeps running", next)
    }
}

/// That the user has left what keeps running, as a program is told.
fn left(message: String, next: String) -> Failure {
    Failure::new(Exit::Detached, "detached", message).next(next)
}

fn remembered(id: &str) -> Outcome<Found> {
    let Some(path) = handles::path() else { return Ok(Found::Nothing) };
    Ok(handles::find(&path, id).map_err(anyhow::Error::from)?)
}

/// More than one task is meant; the newest come first.
fn several(given: &str, ids: &[String]) -> Failure {
    let mut named: String =
        ids.iter().take(NAMED).map(|id| format!("\n  {}", clean::line(id, 128))).collect();
    if ids.len() > NAMED {
        named += "\n  and others before";
    }
    Failure::usage(format!("more than one task's id begins with `{given}`"))
        .next(format!("say more of the one that is meant; the newest first:{named}"))
}

impl Remote {
    /// The server of a task that was started from here.
    async fn of(
        handle: Box<Handle>,
        json: bool,
        prepare: impl FnOnce(&Server, Options) -> Options,
    ) -> Outcome<Self> {
        let server = match &handle.server {
            Place::Url(url) => Server::url(url),
            Place::Named { name, folder } => {
                hosts::server(name, &Here { folder: folder.clone(), ..Here::now() })?
            }
            Place::Command { words, folder } => {
                Server::command(words.iter().map(OsString::from).collect(), Some(folder.clone()))
            }
        };
        let args = TargetArgs {
            revision: handle.revision.as_deref().and_then(Revision::from_date),
            token_env: handle.token_env.clone(),
            command: Vec::new(),
        };
        let client = server.connect(prepare(&server, args.options(&server)?), json).await?;
        Ok(Self { client, name: server.name(), handle: Some(handle), found_by: String::new() })
    }

    /// The id that is meant, of which the beginning may have been given.
    pub(crate) fn id<'i>(&'i self, given: &'i str) -> &'i str {
        self.handle.as_ref().map_or(given, |handle| &handle.task)
    }

    /// That the task asks what nobody here answers.
    pub(crate) fn left(&self, id: &str, question: &Question) -> Failure {
        question.failure(&clean::line(id, 128), self.command("answer", id) + &question.usage())
    }

    /// The task.
    pub(crate) fn task(&self, given: &str) -> TaskHandle {
        self.client.task(self.id(given))
    }

    /// The command that goes on with a task here.
    pub(crate) fn command(&self, verb: &str, id: &str) -> String {
        format!("longhaul tasks {verb} {}{}", shell::word(&clean::line(id, 128)), self.found_by)
    }
}

/// How many are named when the beginning of an id is not enough.
const NAMED: usize = 10;

/// How many tasks are looked through for the beginning of an id.
const LOOKED_THROUGH: usize = 100_000;

impl Local {
    /// The command that goes on with a task here.
    pub(crate) fn command(&self, verb: &str, id: &str) -> String {
        format!("longhaul tasks {verb} {}{}", shell::word(&clean::line(id, 128)), self.found_by)
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
                let ids: Vec<String> = found.iter().map(|record| record.id.to_string()).collect();
                Err(several(given, &ids))
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

    /// How a person calls the store.
    pub(crate) fn name(&self) -> String {
        format!("a task of the store {}", clean::line(&self.settings.url.to_string(), 400))
    }

    /// Where the commands of these tasks keep their files.
    pub(crate) fn runs(&self) -> Outcome<RunsDir> {
        Ok(store::runs(&self.settings, true)?.dir)
    }

    /// What they write, where their files are another host's.
    pub(crate) fn copies(&self) -> Copies {
        store::copies(&self.settings, &self.store, &self.registry)
    }

    /// What they write, wherever they run.
    pub(crate) fn streams(&self) -> Outcome<Streams> {
        Ok(Streams::new(store::runs(&self.settings, false)?.dir, self.copies()))
    }
}
