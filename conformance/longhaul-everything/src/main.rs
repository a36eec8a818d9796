//! A server with one of everything, over standard input and output or over HTTP.

mod asks;
mod changes;
mod content;
mod prompts;
mod resources;
mod samples;
mod streams;
mod tools;

use std::net::SocketAddr;

use clap::Parser;
use longhaul::Server;
use longhaul::transport::http::server as http;
use tokio::net::TcpListener;

use resources::Count;

/// A server with one of everything, for clients to try.
#[derive(Debug, Parser)]
struct Args {
    /// Serve one client over standard input and output.
    #[arg(long, conflicts_with = "http", required_unless_present = "http")]
    stdio: bool,
    /// Serve over HTTP on this address; the endpoint is /mcp, and /sse for the transport of 2024-11-05.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let server = everything();
    let Some(address) = args.http else {
        return Ok(server.serve_stdio().await?);
    };
    let listener = TcpListener::bind(address).await?;
    Ok(server.serve_http(listener, http::Options::default().legacy_sse(true)).await?)
}

fn everything() -> Server {
    let count = Count::default();
    let (server, catalogue) = Server::new("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .instructions("Call `echo` to hear yourself.")
        .dynamic();
    let server = server.tool(tools::echo()).tool(tools::slow()).tool(tools::fail()).tool(tools::panic());
    let server = server.tool(changes::change(&catalogue, &count));
    let server =
        content::tools().into_iter().chain(streams::tools()).chain(asks::tools()).fold(server, Server::tool);
    let server = prompts::all().into_iter().fold(server, Server::prompt);
    resources::offer(server, &count)
}
