//! `longhaul serve`: the tools of a configuration, over HTTP or standard input and output.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use longhaul::audit::AuditFolder;
use longhaul::auth::Guard;
use longhaul::proto::http::AllowList;
use longhaul::server::{Dispatcher, local_user};
use longhaul::service::{Level, Metrics};
use longhaul::store::{Filter, Page, Registry, Scope, TaskStore};
use longhaul::tasks::runner::Pace;
use longhaul::transport::http::server as http;
use longhaul::transport::stdio;
use longhaul::{Server, Tool, driver};
use longhaul_gateway::causes::in_words;
use longhaul_gateway::command::RunsDir;
use longhaul_gateway::config::{self, Colour, Config, Listen, Machine, Role, StoreUrl};
use longhaul_gateway::fleet::Fleet;
use longhaul_gateway::http_job;
use longhaul_gateway::tool::{Copies, FoundRuns, Outputs, Streams, janitor, job_tool, store_name, tools};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::listener::{Listener, allow_list};
use crate::reload::{Reload, Served};
use crate::stopping::{Signals, Stopping, signals};
use crate::term::{clean, note};
use crate::traced::Traced;
use crate::watch::Watch;
use crate::{banner, metrics, pages, store, upstreams};

/// Serve the tools of a configuration.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  longhaul serve longhaul.toml\n  longhaul serve longhaul.toml --stdio")]
pub(crate) struct Args {
    /// The configuration.
    #[arg(default_value = "longhaul.toml")]
    pub(super) file: PathBuf,
    /// Serve over HTTP on this address, or to yourself alone at unix:FILE; the endpoint is /mcp. Default 127.0.0.1:8420, or
    /// `[http] listen`.
    #[arg(long, value_name = "ADDR", conflicts_with = "stdio")]
    http: Option<Listen>,
    /// Serve one client over standard input and output.
    #[arg(long)]
    stdio: bool,
    /// Where tasks are kept: sqlite:FILE, postgres://USER@HOST/DATABASE (its password in PGPASSWORD), redis://HOST (in REDISCLI_AUTH) or memory:.
    #[arg(long, value_name = "URL", value_parser = store::url)]
    store: Option<StoreUrl>,
    /// Where commands keep their run files. Default: beside the SQLite file.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// What this server does among those on its store: answer and work (all), answer and leave the work to others (front), or
    /// work and answer nothing but /healthz and /readyz (worker). Default all, or `[server] role`.
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,
    /// Tell whoever watches this server its numbers, as Prometheus reads them, at /metrics of this address; `[metrics] listen`.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<Listen>,
    /// Serve no pages for people beside the endpoint, as `[page] enabled = false` does.
    #[arg(long)]
    no_page: bool,
    /// Read the configuration again when asked to (SIGHUP), and not whenever it is written.
    #[arg(long)]
    no_watch: bool,
    /// Serve beyond this machine although nobody has to sign in: whoever reaches the address may call
    /// every tool.
    #[arg(long)]
    allow_anonymous: bool,
}

/// How often a worker looks for what is queued, and any server on a database for what dead ones have left: those of a
/// file are known to be dead at once, and those of a database a second later.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often run files are looked through.
const TIDY_EVERY: Duration = Duration::from_secs(60);

pub(crate) fn run(args: Args) -> Exit {
    // Before it is read: what is written meanwhile is read again.
    let watch = Watch::new(&args.file, !args.no_watch);
    let config = match config::load(&args.file) {
        Ok(checked) => {
            anstream::eprint!("{}", checked.warnings.render(Colour::Always));
            checked.config
        }
        Err(mistakes) => {
            anstream::eprint!("{}", mistakes.render(Colour::Always));
            return Exit::Usage;
        }
    };
    let config = match settled(config, &args) {
        Ok(config) => config,
        Err(refusal) => return refusal.report(false),
    };
    log();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime cannot start: {error}");
            return Exit::Failed;
        }
    };
    let config = runtime.block_on(upstreams::withholding(config));
    let served = config.and_then(|config| runtime.block_on(serve(&config, &args, watch)));
    // What still runs must not keep the process: commands live on by themselves.
    runtime.shutdown_background();
    match served {
        Ok(()) => Exit::Done,
        Err(failure) => failure.report(false),
    }
}

/// A configuration as it is served with these words.
///
/// # Errors
///
/// Why it is not served with them, though it has no mistakes.
pub(crate) fn settled(config: Config, args: &Args) -> Outcome<Config> {
    let config = with_flags(config, args);
    let refusal = has_no_part(&config, args.stdio)
        .or_else(|| exposes_anonymously(&config, args.stdio, args.allow_anonymous));
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(config),
    }
}

/// Flags win over the file.
fn with_flags(mut config: Config, args: &Args) -> Config {
    if let Some(url) = &args.store {
        config.store.url = url.clone();
    }
    if let Some(state) = &args.state {
        config.store.state = Some(state.clone());
    }
    if let Some(listen) = &args.http {
        config.http.listen = listen.clone();
    }
    if let Some(role) = args.role {
        config.server.role = role;
    }
    if let Some(listen) = &args.metrics {
        config.metrics = Some(config::Metrics::at(listen.clone()));
    }
    config.page.enabled &= !args.no_page && config.server.role != Role::Worker;
    config
}

/// The word of a role.
fn role(text: &str) -> Result<Role, String> {
    let found = Role::ALL.into_iter().find(|(word, _)| *word == text);
    found.map(|(_, role)| role).ok_or_else(|| "it is `all`, `front` or `worker`".to_owned())
}

/// Why a server in this role could do nothing, over HTTP or, with `stdio`, for one client, if it could not.
pub(crate) fn has_no_part(config: &Config, stdio: bool) -> Option<Failure> {
    match (config.server.role, &config.store.url) {
        (Role::All, _) => None,
        (_, StoreUrl::Memory) => Some(
            Failure::usage("fronts and workers share a store, and nobody shares one in memory")
                .next("name one with --store, such as postgres://HOST/DATABASE"),
        ),
        (Role::Worker, _) if stdio => Some(
            Failure::usage("a worker answers nobody, and --stdio has somebody to answer")
                .next("leave out --stdio; where its /healthz is, --http says"),
        ),
        _ => None,
    }
}

/// Why these settings would let strangers in, if they would.
pub(crate) fn exposes_anonymously(config: &Config, stdio: bool, allow_anonymous: bool) -> Option<Failure> {
    let listen = &config.http.listen;
    // Of a worker nothing can be asked.
    if config.server.role == Role::Worker {
        return None;
    }
    if config.auth.is_some() {
        return allow_anonymous.then(|| {
            Failure::usage("the configuration makes callers sign in, and --allow-anonymous lets everybody in")
                .next("leave out the flag, or remove `[auth]`")
        });
    }
    (!stdio && listen.is_reachable() && !allow_anonymous).then(|| {
        Failure::usage(format!("{listen} can be reached from other machines and nobody would have to sign in"))
            .next("serve on 127.0.0.1, say in `[auth]` who may call, or pass --allow-anonymous if whoever reaches the address may call every tool")
    })
}

/// Logs go to standard error, by default only what an operator should act on.
fn log() {
    let said = std::env::var("LONGHAUL_LOG").unwrap_or_default();
    if let Some(word) = neither_level_nor_ours(&said) {
        let word = clean::line(word, 80);
        note(&format!(
            "warning: `{word}` of LONGHAUL_LOG is no level (error, warn, info, debug, trace or off): what calls itself so is logged"
        ));
    }
    let filter = match said.trim() {
        "" => EnvFilter::new("warn"),
        said => EnvFilter::try_new(said).unwrap_or_else(|error| {
            note(&format!("warning: LONGHAUL_LOG is not understood ({error}): `warn` it is"));
            EnvFilter::new("warn")
        }),
    };
    let is_plain = anstream::AutoStream::choice(&std::io::stderr()) == anstream::ColorChoice::Never;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A host that keeps a server's log keeps text.
        .with_ansi(std::io::stderr().is_terminal() && !is_plain);
    // Only a second call could fail, and there is none.
    let _ = subscriber.try_init();
}

/// A word of a filter that is no level and names nothing of this program: a level that is misspelt, most likely.
fn neither_level_nor_ours(filter: &str) -> Option<&str> {
    let is_name = |word: &&str| !word.is_empty() && !word.contains(['=', '[', ':']);
    let is_known = |word: &str| word.parse::<LevelFilter>().is_ok() || word.starts_with("longhaul");
    filter.split(',').map(str::trim).filter(is_name).find(|word| !is_known(word))
}

async fn serve(config: &Config, args: &Args, watch: Watch) -> Outcome<()> {
    let hangups = Watch::catch().context("signals cannot be caught")?;
    // Bound before anything is taken up: a second server on one address must leave the tasks alone.
    let listener = if args.stdio { None } else { Some(Listener::bind(&config.http.listen, "--http").await?) };
    let watched = metrics::Place::take(config, args.metrics.is_some()).await?;
    let store::Store { tasks: store, registry, events, survives } = store::open(&config.store).await?;
    let spans = Traced::from_env()?;
    let store = spans.around(store);
    let guard = guard(config, args, Arc::clone(&registry))?;
    let store::Runs { dir: runs, scratch: _removed_at_the_end } = runs(config, &*registry).await?;
    let copies = store::copies(&config.store, &store, &registry);
    let streams = Streams::new(runs.clone(), copies.clone());
    let audit = audit(config, &*store)?;
    let mut server = named(config)
        .store(Arc::clone(&store))
        // Whoever was asked by one node may come back with answers to another.
        .registry(Arc::clone(&registry))
        .resources(Arc::new(Outputs::new(Arc::clone(&store), streams.clone())));
    if let Some(audit) = &audit {
        server = server.audit(audit.clone());
    }
    let tokens = http_job::Tokens::of(&*registry).await?;
    let jobs = http_job::Jobs::new(Arc::clone(&registry), Arc::clone(&store), tokens);
    for tool in own_tools(config, &runs, &copies, &jobs)? {
        server = server.tool(tool);
    }
    let requests = Metrics::new();
    if watched.is_some() {
        server = server.layer(Level::Server, requests.clone());
    }
    server = spans.layered(server);
    let upstreams = upstreams::Upstreams::new(config, &registry).await?;
    let (server, catalogue) = upstreams.room(server);
    let dispatcher = server.dispatcher().context("the tools cannot be served")?;
    // A tool may have been renamed or removed since: its commands go on, and are cancelled, all the same.
    dispatcher.engine().reach_others(Arc::new(FoundRuns::new(runs.clone(), copies.clone())));
    // Before the tasks are taken up: some may be of their tools.
    upstreams.open(&catalogue).await;
    let taken_up =
        dispatcher.start().await.with_context(|| format!("the store {} cannot be used", config.store.url))?;
    tokio::spawn(janitor::keep_tidy(Arc::clone(&store), runs.clone(), TIDY_EVERY));
    tokio::spawn(http_job::keep_tidy(jobs.clone(), TIDY_EVERY));
    let fleet = Fleet::new(Arc::clone(&registry), dispatcher.engine().clone(), config.server.role);
    if is_a_database(config) {
        tokio::spawn(fleet.clone().keep_telling());
    }
    let counts = dispatcher.engine().counts().await?;
    let foreign = foreign_tools(config, &upstreams, &*store, taken_up).await?;
    let open = banner::Open { counts, survives, taken_up, watched: !args.no_watch, foreign };
    let allow = allow_list(config, &config.http.listen);
    let place = listener.as_ref().map(Listener::place).transpose().context("the listener has no address")?;
    let listening = place.as_ref().map(|place| (place, &allow));
    let around = pages::Around {
        config,
        file: &args.file,
        guard: guard.as_ref(),
        registry: &registry,
        streams: &streams,
        fleet: &fleet,
    };
    let pages = match listening {
        Some((place, allow)) => around.pages(place, allow, &dispatcher, upstreams.all()).await?,
        None => None,
    };
    let (dashboard, page) = pages.unzip();
    let told = watched.map(|place| place.tell(&dispatcher, requests, config)).transpose()?;
    let signals = signals();
    banner::show(config, &args.file, listening, page.as_ref(), told.as_ref(), &open, &upstreams.lines());
    let served = Served {
        catalogue,
        upstreams: upstreams.clone(),
        runs,
        copies,
        jobs: jobs.clone(),
        pages: dashboard.clone(),
    };
    tokio::spawn(Reload::new(args.file.clone(), config.clone(), served).keep(watch, hangups));
    let stopping = match listener {
        Some(listener) => {
            let called = http_job::Called::new(jobs, dispatcher.engine().clone());
            let mut options = options(config, allow).callbacks(called);
            options.guard = guard;
            if config.store.url != StoreUrl::Memory {
                options = options.events(events).shared_sessions(registry);
            }
            if let Some(dashboard) = dashboard {
                options = options.pages(dashboard);
            }
            options.endpoint = config.server.role != Role::Worker;
            let stopping = Stopping::new(dispatcher.engine(), options.drain);
            let asked = stopping.asked(signals);
            listener.serve(dispatcher, options, asked).await.context("the listener failed")?;
            stopping
        }
        None => serve_stdio(dispatcher, signals).await?,
    };
    stopping.finish().await;
    upstreams.close().await;
    if let Some(audit) = audit {
        audit.flush();
    }
    spans.end().await;
    Ok(())
}

/// The runs of the store's tasks, among those that are there.
async fn runs(config: &Config, registry: &dyn Registry) -> Outcome<store::Runs> {
    let has_commands = !config.tools.is_empty() && config.server.role != Role::Front;
    let mut runs = store::runs(&config.store, has_commands)?;
    // Of one in memory nobody asks for its runs once it is gone.
    if config.store.url != StoreUrl::Memory {
        runs.dir = runs.dir.with_store(store_name(registry).await?);
    }
    Ok(runs)
}

/// A server that says of itself what the configuration says.
fn named(config: &Config) -> Server {
    let mut server = Server::new(config.server.name.as_str(), config.server.version.as_str())
        .front(config.server.role == Role::Front)
        .pace(pace(config))
        .drafted_tasks(config.server.drafted_tasks)
        .calls(config.calls.options())
        .fleet_rates(is_a_database(config))
        .polls(config.polls.options());
    if let Some(title) = &config.server.title {
        server = server.title(title);
    }
    if let Some(instructions) = &config.server.instructions {
        server = server.instructions(instructions);
    }
    server
}

/// Whoever is asked knows of work at once; a worker has to look, and so has whoever goes on with what others have left.
fn pace(config: &Config) -> Pace {
    let mut pace = Pace::default();
    pace.host_grace = config.store.host_grace;
    if config.server.role == Role::Worker || is_a_database(config) {
        pace.recover_every = LOOK_EVERY;
    }
    pace
}

/// Whether the store is one that servers of several machines may share.
fn is_a_database(config: &Config) -> bool {
    matches!(config.store.url, StoreUrl::Postgres(_) | StoreUrl::Redis(_))
}

/// Where it is noted what becomes of tasks, if the configuration says so. A server that cannot note it does not start.
fn audit(config: &Config, store: &dyn TaskStore) -> Outcome<Option<AuditFolder>> {
    let Some(audit) = &config.audit else { return Ok(None) };
    match AuditFolder::open(&audit.path, store.node(), audit.options()) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) => {
            let what = format!("the audit trail cannot be written to {}: {error}", audit.path.display());
            Err(Failure::usage(what).next("make room or let this user write there, or take `[audit]` out"))
        }
    }
}

/// The tools of the file itself.
fn own_tools(
    config: &Config,
    runs: &RunsDir,
    copies: &Copies,
    jobs: &http_job::Jobs,
) -> anyhow::Result<Vec<Tool>> {
    let mut all = tools(config, runs, copies);
    for job in &config.jobs {
        all.push(job_tool(&jobs.put(job).context("no HTTP client for jobs can be made")?));
    }
    Ok(all)
}

/// Who lets callers in, where they have to sign in. Whoever started us on its standard streams need not.
fn guard(config: &Config, args: &Args, registry: Arc<dyn Registry>) -> Outcome<Option<Guard>> {
    let signs_in = !args.stdio && config.server.role != Role::Worker;
    let Some(auth) = config.auth.as_ref().filter(|_| signs_in) else { return Ok(None) };
    match auth.guard(&Machine, registry, &config.scopes()) {
        Ok(guard) => Ok(Some(guard)),
        Err(error) => Err(Failure::usage(format!("nobody could sign in: {}", in_words(&error)))),
    }
}

/// The tools that this server works on tasks of, and has not in its configuration.
async fn foreign_tools(
    config: &Config,
    upstreams: &upstreams::Upstreams,
    store: &dyn TaskStore,
    taken_up: usize,
) -> anyhow::Result<BTreeSet<Arc<str>>> {
    let (mut tools, mut after) = (BTreeSet::new(), None);
    if taken_up == 0 {
        return Ok(tools);
    }
    let served = upstreams.tools();
    loop {
        let page = store.list(Scope::Operator, &Filter::open(), after.as_ref(), Page::MAX).await?;
        let ours =
            page.tasks.iter().filter(|task| task.lease().is_some_and(|lease| lease.node == *store.node()));
        let foreign = ours.filter(|task| {
            config.names().all(|name| name != &*task.tool) && served.iter().all(|name| name != &*task.tool)
        });
        tools.extend(foreign.map(|task| Arc::clone(&task.tool)));
        after = page.next;
        if after.is_none() {
            return Ok(tools);
        }
    }
}

/// What the configuration says of HTTP.
fn options(config: &Config, allow: AllowList) -> http::Options {
    let mut options = http::Options::default();
    options.limits.max_bytes = usize::try_from(config.http.max_body).unwrap_or(usize::MAX);
    options.allow = allow;
    options.legacy_sse = config.http.legacy_sse;
    options.http2 = config.http.http2;
    options.max_connections = options.max_connections.min(files() / 2);
    options
}

/// How many files this process may have open. Only half are for connections: whoever holds those must not
/// keep commands from being started, or their ends from being recorded.
fn files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

async fn serve_stdio(dispatcher: Dispatcher, signals: Option<Signals>) -> anyhow::Result<Stopping> {
    let (reader, writer) = stdio::stdio();
    let options = driver::Options::default();
    let stopping = Stopping::new(dispatcher.engine(), options.drain);
    let asked = stopping.asked(signals);
    driver::serve_only_client(dispatcher, local_user(), reader, writer, options, asked).await?;
    Ok(stopping)
}
