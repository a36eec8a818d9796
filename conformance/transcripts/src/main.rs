//! One of the servers over standard input and output: `transcript-server NAME`.

use anyhow::Context;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let name = std::env::args().nth(1).context("which server?")?;
    let server = longhaul_transcripts::server(&name).context("no such server")?;
    Ok(server.serve_stdio().await?)
}
