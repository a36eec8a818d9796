//! A server with one of everything. `everything-server` serves over standard input and output.

mod tools;

use longhaul::Server;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = Server::new("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .instructions("Call `echo` to hear yourself.")
        .tool(tools::echo())
        .tool(tools::slow())
        .tool(tools::fail())
        .tool(tools::panic());
    server.serve_stdio().await?;
    Ok(())
}
