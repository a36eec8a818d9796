//! The server that is measured: `bench-server stdio`, `http`, `streams`, or `durable FILE`.
//!
//! Over HTTP it listens on a free port of this machine and prints its URL as the first line.
#![expect(clippy::print_stdout, reason = "whoever measures reads the URL from there")]

mod files;

use std::future::pending;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use longhaul::proto::model::Progress;
use longhaul::server::{PollOptions, Prompt, Resource, TaskPolicy, ToolError};
use longhaul::store::{Limits, Settings};
use longhaul::transport::http::server::Options;
use longhaul::{Server, Tool};
use longhaul_store::SqliteOptions;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

/// As the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves what is measured.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// `echo` over stdin and stdout
    Stdio,
    /// `echo` over HTTP, and what else can be asked
    Http {
        /// How many tools there are; never fewer than two
        #[arg(default_value_t = 2)]
        tools: usize,
    },
    /// What changes, over HTTP, for many streams and sessions at once
    Streams {
        /// Over HTTP/2, too, so many streams a connection
        #[arg(long)]
        http2: Option<u32>,
    },
    /// `wait`, whose calls are durable tasks at once, `step`, whose steps are durable, and `echo`, over HTTP
    Durable {
        /// The store
        file: PathBuf,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = Server::new("bench", "1.0.0");
    match Arguments::parse().mode {
        Mode::Stdio => Ok(server.tool(echo()).serve_stdio().await?),
        // All in one page, as our peers list them.
        Mode::Http { tools } => {
            serve_http(offering(server.page_size(tools), tools), Options::default()).await
        }
        Mode::Streams { http2 } => {
            files::open_many()?;
            let options = Options::default().max_connections(MANY).max_sessions(MANY);
            let options = match http2 {
                Some(streams) => options.http2(true).max_streams(streams),
                None => options,
            };
            serve_http(changing(server), options).await
        }
        Mode::Durable { file } => {
            let store = SqliteOptions::new().with_settings(roomy()).open(file)?;
            let polls = PollOptions::default().each(u32::MAX).in_all(u32::MAX);
            let server = server.tool(wait()).tool(step()).tool(echo()).store(store).polls(polls);
            serve_http(server, Options::default()).await
        }
    }
}

async fn serve_http(server: Server, options: Options) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(server.serve_http(listener, options).await?)
}

/// More streams and sessions than are opened.
const MANY: usize = 100_000;

/// How long the URI of the resource is that changes often: those who do not read have much to read soon.
const NOISY: usize = 64 << 10;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// `change` changes the list of tools, `noise` a resource that only those watch who do not read.
fn changing(server: Server) -> Server {
    let uri = format!("bench://{}", "x".repeat(NOISY));
    let (server, catalogue) = server.dynamic();
    let (noisy, watched) = (catalogue.clone(), uri.clone());
    let change = Tool::inline("change", "Change the list of tools", move |_, Nothing {}| {
        let passing = Tool::inline("passing", "Here for a moment", |_, Nothing {}| "here");
        catalogue.put(passing).map(|()| "changed").map_err(ToolError::from)
    });
    let noise = Tool::inline("noise", "Change the resource", move |_, Nothing {}| {
        noisy.resource_updated(&watched).map(|()| "changed").map_err(ToolError::from)
    });
    server.tool(change).tool(noise).resource(Resource::text(uri, "noisy", ""))
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to say back.
    message: String,
}

fn echo() -> Tool {
    Tool::typed("echo", "Say the message back", |_, Message { message }| async move { message })
}

/// The same, after saying how far it is.
fn tell() -> Tool {
    Tool::typed("tell", "Say how far it is, then the message back", |cx, Message { message }| async move {
        cx.progress(Progress::new(1.0)).await;
        message
    })
}

/// `echo` and `tell`, others until there are so many, a resource and a prompt.
fn offering(server: Server, tools: usize) -> Server {
    let say = |_, Message { message }| async move { message };
    let others = (2..tools).map(|nth| Tool::typed(format!("echo_{nth:03}"), "Say the message back", say));
    let server = others.fold(server.tool(echo()).tool(tell()), Server::tool);
    let greet = Prompt::typed("greet", "Greet somebody", |_, Message { message }| async move { message });
    server.prompt(greet).resource(Resource::text("bench://text", "text", "a text"))
}

/// A tool that stays pending: nothing but the creation of its task is measured.
fn wait() -> Tool {
    Tool::typed("wait", "Wait for ever", |_, Message { message }| async move {
        pending::<()>().await;
        message
    })
    .task(TaskPolicy::always())
}

#[derive(Deserialize, JsonSchema)]
struct Steps {
    /// How many.
    steps: u32,
}

/// Takes steps that do nothing but be recorded.
fn step() -> Tool {
    Tool::typed("step", "Take some steps", |cx, Steps { steps }| async move {
        for nth in 0..steps {
            cx.step("step", || async move { Ok::<_, ToolError>(nth) }).await?;
        }
        Ok::<_, ToolError>("done")
    })
    .task(TaskPolicy::always())
}

/// Everybody who measures is one anonymous caller, with more open tasks than such a caller may have.
fn roomy() -> Settings {
    let mut limits = Limits::default();
    limits.max_open = 10_000_000;
    limits.max_open_anonymous = limits.max_open;
    limits.max_open_per_stranger = limits.max_open;
    limits.max_retained = limits.max_open;
    limits.max_retained_per_owner = limits.max_open;
    let mut settings = Settings::default();
    settings.limits = limits;
    settings
}
