//! The server that is measured. `bench-server stdio`, `bench-server http`, `bench-server durable FILE`.
//!
//! Over HTTP it listens on a free port of this machine and prints its URL as the first line.
#![expect(clippy::print_stdout, reason = "whoever measures reads the URL from there")]

use std::future::pending;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use longhaul::server::TaskPolicy;
use longhaul::store::{Limits, Settings};
use longhaul::transport::http::server as http;
use longhaul::{Server, Tool};
use longhaul_store::SqliteOptions;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

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
    /// `echo` over HTTP
    Http,
    /// `wait`, whose calls are durable tasks at once, over HTTP
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
        Mode::Http => serve_http(server.tool(echo())).await,
        Mode::Durable { file } => {
            let store = SqliteOptions::new().with_settings(roomy()).open(file)?;
            serve_http(server.tool(wait()).store(store)).await
        }
    }
}

async fn serve_http(server: Server) -> Result<()> {
    let dispatcher = server.dispatcher()?;
    dispatcher.start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(http::serve(dispatcher, listener, http::Options::default(), pending()).await?)
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to say back.
    message: String,
}

fn echo() -> Tool {
    Tool::typed("echo", "Say the message back", |_, Message { message }| async move { message })
}

/// A tool that stays pending: nothing but the creation of its task is measured.
fn wait() -> Tool {
    Tool::typed("wait", "Wait for ever", |_, Message { message }| async move {
        pending::<()>().await;
        message
    })
    .task(TaskPolicy::always())
}

/// Everybody who measures is one anonymous caller, with more open tasks than such a caller may have.
fn roomy() -> Settings {
    let mut limits = Limits::default();
    limits.max_open = 10_000_000;
    limits.max_open_anonymous = limits.max_open;
    limits.max_retained = limits.max_open;
    limits.max_retained_per_owner = limits.max_open;
    let mut settings = Settings::default();
    settings.limits = limits;
    settings
}
