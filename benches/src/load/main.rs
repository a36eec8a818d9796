//! The load: calls a server as fast as it answers, checks every answer, prints figures as JSON.
#![expect(clippy::print_stdout, reason = "figures are printed")]

mod asked;
mod creates;
mod echo;
#[path = "../files.rs"]
mod files;
mod gets;
mod http;
mod http2;
mod memory;
mod numbered;
mod report;
mod session;
mod sessions;
mod stdio;
mod streams;

use std::num::NonZeroU32;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

/// Calls a server as fast as it answers and checks every answer.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// One kind of request over HTTP, revision 2026-07-28, each connection waiting for its answer
    Http {
        #[command(flatten)]
        over: Over,
        /// Which
        #[arg(long, default_value = "call")]
        what: asked::What,
        /// How long the argument of a call is
        #[arg(long, default_value_t = echo::SHORT)]
        bytes: usize,
    },
    /// `tools/call` of `wait` over HTTP by callers that take tasks: each answer is a new task
    Creates(Over),
    /// `tasks/get` over HTTP, of tasks of `wait` that are made first
    Gets {
        #[command(flatten)]
        over: Over,
        /// Of how many
        #[arg(long)]
        tasks: NonZeroU32,
    },
    /// Sessions in which nothing is open, revision 2025-11-25
    Sessions {
        /// The endpoint
        url: String,
        /// How many
        #[arg(long)]
        sessions: NonZeroU32,
        /// The server's process
        #[arg(long)]
        pid: u32,
    },
    /// Streams that stay open
    Streams {
        /// The endpoint
        url: String,
        /// Of which kind
        #[arg(long)]
        kind: streams::Kind,
        /// How many
        #[arg(long)]
        streams: usize,
        /// Over how many connections of HTTP/2, or else each over one of HTTP/1.1
        #[arg(long)]
        http2: Option<NonZeroU32>,
        /// The server's process
        #[arg(long)]
        pid: u32,
    },
    /// `tools/call` of `echo` over a server's stdin and stdout, revision 2025-11-25, without waiting
    Stdio {
        /// How many calls
        #[arg(long)]
        calls: NonZeroU32,
        /// The server
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// How much load over HTTP.
#[derive(clap::Args)]
struct Over {
    /// The endpoint
    url: String,
    /// How many calls
    #[arg(long)]
    calls: NonZeroU32,
    /// Over how many connections, kept alive
    #[arg(long)]
    connections: NonZeroU32,
}

fn main() -> Result<()> {
    let figures = match Arguments::parse().load {
        Load::Http { over, what, bytes } => {
            let exchange = |host: &str, path: &str| what.exchange(host, path, bytes);
            serde_json::to_string(&http::run(&checked(over)?, exchange)?)
        }
        Load::Creates(over) => serde_json::to_string(&http::run(&checked(over)?, creates::over_http)?),
        Load::Gets { over, tasks } => {
            let exchange = |host: &str, path: &str| gets::over_http(host, path, tasks.get());
            serde_json::to_string(&http::run(&checked(over)?, exchange)?)
        }
        Load::Sessions { url, sessions, pid } => {
            serde_json::to_string(&sessions::run(&url, sessions.get() as usize, pid)?)
        }
        Load::Stdio { calls, command } => serde_json::to_string(&stdio::run(calls.get(), &command)?),
        Load::Streams { url, kind, streams, http2, pid } => {
            files::open_many()?;
            serde_json::to_string(&streams::run(&url, kind, streams, http2, pid)?)
        }
    };
    println!("{}", figures?);
    Ok(())
}

fn checked(over: Over) -> Result<Over> {
    ensure!(over.connections <= over.calls, "there must be a call for each connection");
    Ok(over)
}
