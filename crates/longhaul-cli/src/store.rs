//! Opening the store that a URL names, and the directory of runs beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use longhaul::store::{EventStore, Memory, Registry, StoreError, SystemClock, TaskStore};
use longhaul_gateway::causes::in_words;
use longhaul_gateway::command::RunsDir;
use longhaul_gateway::config::{self, Machine, StoreUrl};
use longhaul_gateway::tool::Copies;
use longhaul_store::sealed::{Sealed, SealingKeys, is_being_sealed, is_sealed, written_before};
use longhaul_store::transfer::{Mark, Transfer};
use longhaul_store::{PostgresOptions, RedisOptions, Sqlite, SqliteOptions};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// One store, by its contracts.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) tasks: Arc<dyn TaskStore>,
    pub(crate) registry: Arc<dyn Registry>,
    /// What was sent in the streams of sessions.
    pub(crate) events: Arc<dyn EventStore>,
    /// What an acknowledged write survives, where that is for somebody else to set.
    pub(crate) survives: Option<String>,
}

impl Store {
    fn of<S: TaskStore + EventStore + Registry + 'static>(store: Arc<S>) -> Self {
        let tasks: Arc<dyn TaskStore> = Arc::<S>::clone(&store);
        let events: Arc<dyn EventStore> = Arc::<S>::clone(&store);
        Self { tasks, registry: store, events, survives: None }
    }
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Use {
    /// To serve it: one that was not sealed is from now on, if there are keys.
    Serving,
    /// For a verb, which leaves it as sealed as it is.
    Looking,
}

/// Refuses a file that is not there, for a verb that would make one only to find nothing in it.
pub(crate) fn must_be_there(url: &StoreUrl) -> Outcome<()> {
    match url {
        StoreUrl::Sqlite(path) if !path.exists() => {
            Err(Failure::usage(format!("there is no store {}", path.display()))
                .next("`longhaul serve` makes it; is this where it was started?"))
        }
        _ => Ok(()),
    }
}

/// Opens the store to serve it, with its keys if it is sealed or to be.
pub(crate) async fn open(store: &config::Store) -> Outcome<Store> {
    open_as(store, Use::Serving, |options, path| options.open(path)).await
}

/// The same for a verb.
pub(crate) async fn look(store: &config::Store) -> Outcome<Store> {
    open_as(store, Use::Looking, |options, path| options.open(path)).await
}

/// The same for a verb that mostly reads: a file that cannot be written can still be read.
pub(crate) async fn open_or_read(store: &config::Store) -> Outcome<Store> {
    open_as(store, Use::Looking, |options, path| options.open_or_read(path)).await
}

async fn open_as(
    store: &config::Store,
    what_for: Use,
    sqlite: fn(SqliteOptions, &Path) -> Result<Sqlite, StoreError>,
) -> Outcome<Store> {
    let settings = store.quotas.settings();
    match &store.url {
        StoreUrl::Memory => in_memory(Memory::with(settings, Arc::new(SystemClock::new())), store),
        url @ StoreUrl::Sqlite(path) => {
            if let Some(problem) = no_file(path) {
                return Err(anyhow::anyhow!("the store {url} cannot be opened: {problem}").into());
            }
            let sqlite = opened(sqlite(SqliteOptions::new().with_settings(settings), path), url)?;
            with_keys(sqlite, store, what_for).await
        }
        StoreUrl::Postgres(url) => {
            let postgres = opened(postgres().with_settings(settings).open(url.expose()).await, &store.url)?;
            let survives = format!("{} ({})", postgres.durability(), postgres.commits());
            let opened = with_keys(postgres, store, what_for).await?;
            Ok(Store { survives: Some(survives), ..opened })
        }
        StoreUrl::Redis(url) => {
            let redis = opened(redis().with_settings(settings).open(url.expose()).await, &store.url)?;
            let survives = format!("{} ({})", redis.durability(), redis.commits());
            let opened = with_keys(redis, store, what_for).await?;
            Ok(Store { survives: Some(survives), ..opened })
        }
    }
}

/// What was opened; of a store that is out of service, which one is in its place and what to do.
fn opened<T>(opened: Result<T, StoreError>, url: &StoreUrl) -> Outcome<T> {
    match opened {
        Err(StoreError::OutOfService { mark }) => Err(out_of_service(&place(url), &mark)),
        opened => Ok(opened.with_context(|| format!("the store {url} cannot be opened"))?),
    }
}

/// Whatever is done in such a store is lost, or done twice.
pub(crate) fn out_of_service(place: &str, mark: &Mark) -> Failure {
    let failure = |code| Failure::new(Exit::Failed, code, format!("{place} {mark}"));
    let finish = |from: &str, to: &str| {
        let copy = format!("longhaul store copy {from} {to}");
        failure("unfinished_copy")
            .next(format!("finish it: {copy}; or give it up and use {from} again: {copy} --abandon"))
    };
    match mark {
        Mark::Copying(to) => finish(place, to),
        Mark::CopyOf(from) => finish(from, place),
        Mark::Moved(to) => failure("moved").next(format!("name the store {to}")),
        _ => failure("out_of_service"),
    }
}

/// What a store is called wherever the program is started.
pub(crate) fn place(url: &StoreUrl) -> String {
    match url {
        StoreUrl::Sqlite(path) => {
            // Before the file is there, too.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or_else(|| Path::new(".")).canonicalize();
            match (folder, path.file_name()) {
                (Ok(folder), Some(file)) => format!("sqlite:{}", folder.join(file).display()),
                _ => url.to_string(),
            }
        }
        // A server has room for several.
        StoreUrl::Redis(server) => {
            let query = server.expose().split_once('?').map_or("", |(_, query)| query);
            let name = query.split('&').find(|word| word.starts_with("name="));
            name.map_or_else(|| server.to_string(), |name| format!("{server}?{name}"))
        }
        StoreUrl::Postgres(_) | StoreUrl::Memory => url.to_string(),
    }
}

/// A URL without a password goes with that of the environment, as for every program on PostgreSQL.
pub(crate) fn postgres() -> PostgresOptions {
    match std::env::var("PGPASSWORD") {
        Ok(password) => PostgresOptions::new().with_password(password),
        Err(_) => PostgresOptions::new(),
    }
}

/// The same for a Redis server.
pub(crate) fn redis() -> RedisOptions {
    match std::env::var("REDISCLI_AUTH") {
        Ok(password) => RedisOptions::new().with_password(password),
        Err(_) => RedisOptions::new(),
    }
}

/// It begins empty and ends with its process, so that no other keys can be its own.
fn in_memory(memory: Memory, store: &config::Store) -> Outcome<Store> {
    let Some(sealing) = &store.sealing else { return Ok(Store::of(Arc::new(memory))) };
    Ok(Store::of(Arc::new(Sealed::new(memory, keys(sealing)?))))
}

fn keys(sealing: &config::Sealing) -> Outcome<SealingKeys> {
    sealing.keys(&Machine).map_err(|error| Failure::usage(in_words(&error)))
}

async fn with_keys<S: Transfer + 'static>(opened: S, store: &config::Store, what_for: Use) -> Outcome<Store> {
    let url = &store.url;
    let Some(sealing) = &store.sealing else {
        if is_sealed(&opened).await? || is_being_sealed(&opened).await? {
            return Err(Failure::usage(format!("the store {url} is sealed, and no keys are given")).next(
                "use the configuration that names them: `keys` of `[store]`, such as keys = [\"env:NAME\"]",
            ));
        }
        return Ok(Store::of(Arc::new(opened)));
    };
    let keys = keys(sealing)?;
    let sealed = match (what_for, sealing.reads_plain) {
        (Use::Serving, false) => Sealed::open(opened, keys).await,
        (Use::Serving, true) => Sealed::open_reading_plain(opened, keys).await,
        (Use::Looking, reads_plain) if is_sealed(&opened).await? => {
            let sealed = Sealed::look(opened, keys).await;
            if reads_plain { sealed.map(Sealed::reading_plain) } else { sealed }
        }
        // Its servers have no keys.
        (Use::Looking, true) => return Ok(Store::of(Arc::new(opened))),
        (Use::Looking, false) => match written_before(&opened).await? {
            Some(what) => Err(StoreError::NotSealed { what }),
            // Its first server is one that seals it.
            None => Ok(Sealed::new(opened, keys)),
        },
    };
    let sealed = sealed.map_err(|error| match error {
        StoreError::NoKey { .. } => Failure::usage(format!("{url}: {error}"))
            .next("`keys` of `[store]` names the newest first, then every older one that is still needed"),
        StoreError::NotSealed { what } => Failure::usage(format!(
            "the store {url} is not sealed, and holds what was written without a key ({what}, for one); nothing was changed"
        ))
        .next(
            "to keep that, say `read_plain = true` in `[store]`, beside `keys`: it is read as it is, and what is written from then \
             on is sealed; else name an empty store, or take `keys` out",
        ),
        StoreError::InUse { .. } => Failure::usage(format!("{url}: {error}; nothing was changed")).next(
            "stop every server on it that was started without `keys`, and every verb that waits, and start this one again; one that \
             was killed may count for a minute",
        ),
        error => error.into(),
    })?;
    Ok(Store::of(Arc::new(sealed)))
}

/// What of a store is not sealed though it is to be, for one; of one that keeps anything.
pub(crate) async fn unsealed(store: &config::Store) -> Outcome<Option<String>> {
    let kept: Box<dyn Transfer> = match &store.url {
        StoreUrl::Memory => return Ok(None),
        url @ StoreUrl::Sqlite(path) => Box::new(opened(SqliteOptions::new().open_or_read(path), url)?),
        StoreUrl::Postgres(url) => Box::new(opened(postgres().open(url.expose()).await, &store.url)?),
        StoreUrl::Redis(url) => Box::new(opened(redis().open(url.expose()).await, &store.url)?),
    };
    Ok(written_before(&*kept).await?)
}

/// Why there can be no store at `path`, where that shows before it is opened.
pub(crate) fn no_file(path: &Path) -> Option<String> {
    if path.is_dir() {
        let file = path.join("longhaul.db");
        return Some(format!("it is a folder; name a file, such as sqlite:{}", file.display()));
    }
    if let Ok(target) = std::fs::read_link(path)
        && !path.exists()
    {
        return Some(format!("it is a link to {}, which is not there", target.display()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())?;
    Some(format!("there is no folder {}", folder.display()))
}

/// A store as the command line names it.
pub(crate) fn url(text: &str) -> Result<StoreUrl, String> {
    text.parse::<StoreUrl>().map_err(|error| match error.suggestion(text) {
        Some(meant) => format!("{error}; did you mean `{meant}`?"),
        None => format!(
            "{error}; a store is `sqlite:FILE`, `postgres://HOST/DATABASE`, `redis://HOST` or `memory:`"
        ),
    })
}

/// The directory of runs, and what goes with the server that uses it.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) dir: RunsDir,
    /// Held for as long as the server serves.
    pub(crate) scratch: Option<Scratch>,
}

/// Opens the directory of runs: beside the SQLite file, or where `state` says. Runs of a store in memory end with
/// their server, for nobody would know of them. A database has no folder beside it: where there are commands, somebody has
/// to say which is theirs.
pub(crate) fn runs(store: &config::Store, has_commands: bool) -> Outcome<Runs> {
    let (path, scratch) = match (runs_folder(store), &store.url) {
        (Some(path), _) => (path, None),
        (None, StoreUrl::Postgres(url) | StoreUrl::Redis(url)) if has_commands => {
            let missing =
                format!("commands keep their run files in a folder of this machine, and {url} has none");
            return Err(Failure::usage(missing).next("name one: --state DIR, or `state` of `[store]`"));
        }
        (None, _) => {
            let scratch = Scratch::new()?;
            (scratch.0.clone(), Some(scratch))
        }
    };
    let dir = RunsDir::open(&path).with_context(|| format!("{} cannot hold run files", path.display()))?;
    let dir = dir.with_max_bytes(store.max_run_bytes);
    // Where somebody says which folder it is, others may be elsewhere; beside a file there is one for all.
    let has_others = store.state.is_some() && store.url != StoreUrl::Memory;
    let dir = if has_others {
        dir.as_host().with_context(|| format!("{} cannot be the host of commands", path.display()))?
    } else {
        dir
    };
    let dir = if store.url == StoreUrl::Memory { dir.ending_with_server() } else { dir };
    Ok(Runs { dir, scratch })
}

/// The folder of the runs of a store's tasks: where `state` says, or beside the SQLite file; `None` if neither says any.
pub(crate) fn runs_folder(store: &config::Store) -> Option<PathBuf> {
    match (&store.state, &store.url) {
        (Some(state), _) => Some(state.join("runs")),
        (None, StoreUrl::Sqlite(path)) => Some(beside(path)),
        (None, StoreUrl::Memory | StoreUrl::Postgres(_) | StoreUrl::Redis(_)) => None,
    }
}

/// The copies of what commands write: of all that other processes see.
pub(crate) fn copies(
    store: &config::Store,
    tasks: &Arc<dyn TaskStore>,
    registry: &Arc<dyn Registry>,
) -> Copies {
    match &store.url {
        StoreUrl::Memory => Copies::none(),
        StoreUrl::Sqlite(_) | StoreUrl::Postgres(_) | StoreUrl::Redis(_) => {
            Copies::new(Arc::clone(tasks), Arc::clone(registry))
        }
    }
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
        // A supervisor at its last steps may still be writing: it is given its time, which is more where much else runs. What
        // stays after that is for whoever clears that folder.
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let _what_could_be_removed = std::fs::remove_dir_all(&self.0);
            if !self.0.exists() || Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".runs");
    name.into()
}
