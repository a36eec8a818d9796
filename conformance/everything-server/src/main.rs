//! The server that the official conformance suite is pointed at: every tool, resource and prompt it asks for, in
//! every revision, on one endpoint.

mod asks;
mod changes;
mod prompts;
mod resources;
mod samples;
mod skills;
mod tasks;
mod tools;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use longhaul::Server;
use longhaul::store::Sqlite;
use longhaul::transport::http::server::Options;
use tokio::net::TcpListener;

/// Everything the official conformance suite asks of a server.
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  everything-server --http 127.0.0.1:8000")]
struct Arguments {
    /// Serve over HTTP on this address; the endpoint is /mcp
    #[arg(long, value_name = "ADDR")]
    http: SocketAddr,
    /// Keep tasks in this file, which the next process goes on with; in memory by default
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let server = Server::new("everything-server", env!("CARGO_PKG_VERSION")).title("Everything");
    let server = match arguments.store {
        Some(file) => {
            let store = Arc::new(Sqlite::open(file)?);
            server.store(Arc::clone(&store)).registry(store)
        }
        None => server,
    };
    let (server, catalogue) = server.dynamic();
    let tools = [tools::all(), tasks::all(), asks::tools(), changes::tools(&catalogue)];
    let server = tools.into_iter().flatten().fold(server, Server::tool);
    let server = prompts::all().into_iter().fold(server, Server::prompt).prompt(asks::prompt());
    let server = resources::all().into_iter().fold(server, Server::resource);
    let server = skills::add(server.resource_template(resources::template()));
    let listener = TcpListener::bind(arguments.http).await?;
    Ok(server.serve_http(listener, Options::default().always_stream(true)).await?)
}
