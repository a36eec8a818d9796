//! One of the servers over standard input and output: `transcript-server NAME [--future] [--store FILE]`.

use anyhow::Context;
use longhaul::store::Sqlite;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("which server?")?;
    let mut store = None;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--future" => longhaul_transcripts::v2099_01_01::register()?,
            "--store" => store = Some(Sqlite::open(arguments.next().context("which file?")?)?),
            other => anyhow::bail!("what is {other}?"),
        }
    }
    let server = longhaul_transcripts::server(&name).context("no such server")?;
    let server = match store {
        Some(store) => server.store(store),
        None => server,
    };
    Ok(server.serve_stdio().await?)
}
