//! A server with one of everything, over standard input and output or over HTTP.

mod tools;

use std::net::SocketAddr;

use clap::Parser;
use longhaul::Server;
use longhaul::transport::http::server as http;
use tokio::net::TcpListener;

/// A server with one of everything, for clients to try.
#[derive(Debug, Parser)]
struct Args {
    /// Serve one client over standard input and output.
    #[arg(long, conflicts_with = "http", required_unless_present = "http")]
    stdio: bool,
    /// Serve over HTTP on this address; the endpoint is /mcp.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let server = Server::new("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .instructions("Call `echo` to hear yourself.")
        .tool(tools::echo())
        .tool(tools::slow())
        .tool(tools::fail())
        .tool(tools::panic());
    let Some(address) = args.http else {
        return Ok(server.serve_stdio().await?);
    };
    let dispatcher = server.dispatcher()?;
    dispatcher.start().await?;
    let listener = TcpListener::bind(address).await?;
    http::serve(dispatcher, listener, http::Options::default(), std::future::pending()).await?;
    Ok(())
}
