//! A node: a server with tools that do as their arguments say, on the one store, over HTTP.

use std::future::pending;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul::auth::{Guard, Protection, StaticTokens};
use longhaul::server::{Elicited, PollOptions, TaskPolicy, ToolError};
use longhaul::store::{Rerun, Settings};
use longhaul::tasks::runner::{Engine, Pace};
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Server, Tool};
use longhaul_gateway::command::RunsDir;
use longhaul_gateway::tool::{self, Copies, FoundRuns, janitor};

use super::effects::{DID, Effects, TOLD, UNDID};
use super::order::{
    self, AGAIN, BRIEF, COMMAND, FLOW, KEPT, KEPT_AFTER_TIME, NEVER, Order, QUICK, TIME, TIMED, Word,
};
use super::store::{self, Opened};
use crate::mcp::Era;

/// What a node does among those on its store, as `longhaul serve --role` says.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Role {
    /// Answers and works.
    All,
    /// Answers, and works on nothing.
    Front,
    /// Works, and answers nobody.
    Worker,
}

/// Serves until it is killed, or whoever started it is gone.
///
/// # Errors
///
/// When the store cannot be opened, or nothing can be served.
pub(crate) fn run(store: &str, effects: &Path, role: Role) -> Result<()> {
    std::thread::spawn(|| {
        // Nobody writes to it: it ends when its other end is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let Opened { tasks: store, shared } = store::open(store, settings())?;
    let node = store.node().as_str().to_owned();
    writeln!(std::io::stderr(), "{NAME}{node}")?;
    let effects = Effects::of(effects.to_owned(), &node);
    // As the program has it, which may be on the same store.
    let mut runs = RunsDir::open(effects.state().join("runs"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        if let Some((registry, _)) = &shared {
            runs =
                runs.with_store(tool::store_name(&**registry).await.context("the store cannot be opened")?);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let plenty = PollOptions::default().each(PLENTY).in_all(PLENTY).in_vain(PLENTY);
        let tools = tools(&effects).into_iter().chain(command(&effects, &runs)?);
        let mut server = tools.fold(Server::new(NAMED, VERSION), Server::tool);
        let mut options = Options::default();
        options.endpoint = role != Role::Worker;
        if let Some((registry, events)) = shared {
            server = server.registry(Arc::clone(&registry));
            options = options.events(events).shared_sessions(registry).guard(guard()?);
        }
        let server = server.store(Arc::clone(&store)).pace(pace()).polls(plenty);
        let dispatcher = server.front(role == Role::Front).dispatcher()?;
        dispatcher.engine().reach_others(Arc::new(FoundRuns::new(runs.clone(), Copies::none())));
        dispatcher.start().await?;
        tokio::spawn(janitor::keep_tidy(store, runs, Duration::from_secs(1)));
        tokio::spawn(tell(dispatcher.engine().clone()));
        writeln!(std::io::stderr(), "mcp http://{address}/mcp\nready")?;
        serve(dispatcher, listener, options, pending()).await.context("serving")
    })
}

/// Says what the node has come across, whenever that has changed: takeovers, and writes that it was refused.
async fn tell(engine: Engine) {
    let mut told = (0, 0);
    loop {
        let figures = engine.figures();
        let now = (figures.takeovers, figures.fenced_writes);
        if now != told {
            told = now;
            // Whoever listens is gone, and so will this be.
            let _ = writeln!(std::io::stderr(), "{FIGURES}{} {}", now.0, now.1);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a node says before its figures.
pub(super) const FIGURES: &str = "figures ";

/// What a node says before its name.
pub(super) const NAME: &str = "node ";

/// How long a node holds a task of which it is not heard.
pub(super) const LEASE: Duration = Duration::from_secs(4);

/// How long work that waits stays in memory.
pub(super) const HOT_WAIT: Duration = Duration::from_millis(300);

/// The one command, as a tool.
fn command(effects: &Effects, runs: &RunsDir) -> Result<Vec<Tool>> {
    let checked = longhaul_gateway::config::check("/longhaul.toml", &configuration(effects));
    let checked =
        checked.map_err(|mistakes| anyhow::anyhow!("the command is not described well: {mistakes}"))?;
    Ok(tool::tools(&checked.config, runs, &Copies::none()))
}

/// The same for the program.
pub(super) fn configuration(effects: &Effects) -> String {
    let folder = effects.folder.display().to_string();
    let words = ["sh", "-c", SCRIPT, "sh", &folder, "{key}", "{seconds}"];
    format!(
        "[server]\nname = \"{NAMED}\"\nversion = \"{VERSION}\"\n\
         [polls]\neach = {PLENTY}\nin_all = {PLENTY}\nin_vain = {PLENTY}\n\
         [tools.{COMMAND}]\ndescription = \"Works\"\ncommand = {words:?}\ntask = \"always\"\nttl = \"1d\"\n\
         grace = \"300ms\"\nmax_output = \"1MB\"\ninput.key = {{ type = \"string\" }}\n\
         input.seconds = {{ type = \"string\" }}\n"
    )
}

/// Somebody whom the nodes of a fleet know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// By which name.
    pub(super) name: &'static str,
    /// What they show: a bearer token.
    pub(super) shown: &'static str,
}

/// To whom all that is called belongs.
pub(super) const CALLER: Known =
    Known { name: "caller", shown: "Bearer the-token-of-all-who-call-this-fleet-in-a-run" };

/// Who has nothing to do with that.
pub(super) const STRANGER: Known =
    Known { name: "stranger", shown: "Bearer the-token-of-a-stranger-to-whoever-calls-it" };

fn guard() -> Result<Guard> {
    let known =
        [CALLER, STRANGER].into_iter().try_fold(StaticTokens::new(), |tokens, Known { name, shown }| {
            tokens.token(name, shown.trim_start_matches("Bearer "), None)
        });
    Ok(Protection::new().tokens(known?).guard()?)
}

/// The same for the program, which finds each token in its [`variable`].
pub(super) fn tokens() -> String {
    let token = |Known { name, .. }| format!("[auth.tokens.{name}]\nfrom = \"env:{}\"\n", variable(name));
    [CALLER, STRANGER].map(token).concat()
}

/// Where the program finds the token of that name.
pub(super) fn variable(name: &str) -> String {
    format!("CHAOS_TOKEN_{name}")
}

/// What every node says of itself: what they answer is the same to the byte.
const NAMED: &str = "load";
const VERSION: &str = "1.0.0";

/// What the command writes.
pub(super) const WRITTEN: &str = "done";

/// Notes its effect as [`Effects::note`] does, works, and is done.
const SCRIPT: &str = "\
note() { echo \"$1 0 command $(date +%s%3N) -\" >> \"$folder/$key\"; }
folder=$1; key=$2
note did
sleep \"$3\"
note told
printf done
";

/// More than anybody asks.
const PLENTY: u32 = 1_000_000;

/// How stores of nodes behave, and of whoever looks at them.
pub(super) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.min_result_retention = KEPT_AFTER_TIME;
    settings.lease = LEASE;
    settings
}

/// Nodes live for a second or two here, so everything comes sooner than by default.
fn pace() -> Pace {
    let mut pace = Pace::default();
    pace.renew_every = LEASE / 4;
    pace.recover_every = Duration::from_millis(200);
    pace.sweep_every = Duration::from_secs(1);
    pace.hot_wait = HOT_WAIT;
    pace.retry_work = Duration::from_millis(50);
    pace.max_attempts = 10_000;
    pace
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Told {
    key: String,
    plan: String,
    /// Whether it is to be cancelled, and its children with it.
    endless: bool,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Chosen {
    choice: i64,
}

/// What is said of a step of which nobody knows whether its effect was had.
pub(super) const IN_DOUBT: &str = "in doubt";

fn tools(effects: &Effects) -> Vec<Tool> {
    let day = Duration::from_secs(24 * 3600);
    let tools = [
        (FLOW, Rerun::Resumable, day),
        (BRIEF, Rerun::Resumable, KEPT),
        (AGAIN, Rerun::Restart, day),
        (NEVER, Rerun::Never, day),
        (QUICK, Rerun::Resumable, day),
    ];
    let policy = |rerun, ttl| {
        let mut policy = TaskPolicy::always();
        (policy.rerun, policy.ttl) = (rerun, ttl);
        policy
    };
    let tools = tools.map(|(name, rerun, ttl)| (name, policy(rerun, ttl)));
    let timed = (TIMED, policy(Rerun::Resumable, day).with_ttl_from_creation(TIME));
    let tool = |(name, policy): (&'static str, TaskPolicy)| {
        let effects = effects.clone();
        let handler = move |cx: Cx, told: Told| carry_out(effects.clone(), cx, told);
        Tool::typed(name, "Does as it is told", handler).task(policy)
    };
    tools.into_iter().chain([timed]).map(tool).collect()
}

async fn carry_out(effects: Effects, cx: Cx, told: Told) -> Result<String, ToolError> {
    let cancelled = told.endless.then_some(Duration::ZERO);
    let words = order::words(&told.plan);
    // Whoever called it, it does the same.
    let order = Order { key: told.key, tool: FLOW, era: Era::D3, words, cancelled };
    for (at, Word(what, much)) in order.words.iter().copied().enumerate() {
        let takes = Duration::from_millis(much);
        match what {
            'a' => ask(&effects, &cx, &order.key, at).await?,
            's' => cx.sleep(takes).await,
            'w' => {
                effects.note(&order.key, DID, at, "-")?;
                tokio::time::sleep(takes).await;
            }
            'k' => children(&effects, &cx, &order, at, much).await?,
            'f' => return Err(ToolError::new("it fails as it was told to")),
            _ => step(&effects, &cx, &order.key, at, what, takes).await?,
        }
    }
    Ok("done".to_owned())
}

async fn step(
    effects: &Effects,
    cx: &Cx,
    key: &str,
    at: usize,
    what: char,
    takes: Duration,
) -> Result<(), ToolError> {
    let (its, doing) = (key.to_owned(), effects.clone());
    let effect = cx.effect_key(("step", at));
    let body = move || async move {
        doing.note(&its, DID, at, &effect)?;
        let times = doing.count(&its, DID, at)?;
        tokio::time::sleep(takes).await;
        Ok::<_, ToolError>(times)
    };
    let call = cx.step(("step", at), body);
    let (its, doing) = (key.to_owned(), effects.clone());
    let came = match what {
        'p' => call.pure().await,
        'm' => call.at_most_once().await,
        'r' => {
            let had = move |_effect: String| async move {
                let times = doing.count(&its, DID, at)?;
                Ok::<_, ToolError>((times > 0).then_some(times))
            };
            call.reconcile(had).await
        }
        'c' => {
            let undo = move |_: usize, effect: String| {
                let (its, doing) = (its.clone(), doing.clone());
                async move { Ok::<_, ToolError>(doing.note(&its, UNDID, at, &effect)?) }
            };
            call.compensate(undo).await
        }
        _ => call.await,
    };
    let said = match &came {
        Ok(times) => times.to_string(),
        Err(_) if what == 'm' => IN_DOUBT.to_owned(),
        Err(error) => format!("{error:?}"),
    };
    effects.note(key, TOLD, at, &said)?;
    if what == 'm' { Ok(()) } else { came.map(drop) }
}

async fn ask(effects: &Effects, cx: &Cx, key: &str, at: usize) -> Result<(), ToolError> {
    let answer = cx.elicit::<Chosen>(format!("Which? {at}")).key(format!("ask {at}")).await?;
    let said = match answer {
        Elicited::Accepted(Chosen { choice }) => choice.to_string(),
        other => format!("{other:?}"),
    };
    Ok(effects.note(key, TOLD, at, &said)?)
}

async fn children(effects: &Effects, cx: &Cx, order: &Order, at: usize, count: u64) -> Result<(), ToolError> {
    let mut children = Vec::new();
    for number in 0..count {
        let child = order.child(at, number);
        children.push(cx.spawn(FLOW, child.arguments()).await?);
    }
    let ends = cx.join_all(&children).await;
    let done = ends.iter().filter(|end| end.is_ok()).count();
    Ok(effects.note(&order.key, TOLD, at, &format!("{done} of {count}"))?)
}
