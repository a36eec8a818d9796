//! One of the servers over standard input and output: `transcript-server NAME [--future]`.

use anyhow::Context;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("which server?")?;
    if arguments.next().as_deref() == Some("--future") {
        longhaul_transcripts::v2099_01_01::register()?;
    }
    let server = longhaul_transcripts::server(&name).context("no such server")?;
    Ok(server.serve_stdio().await?)
}
