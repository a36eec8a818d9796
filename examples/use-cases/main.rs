//! Work that takes hours, as six small servers: `use-cases CASE FOLDER` serves one of them on the socket `FOLDER/mcp`, and
//! keeps its tasks and whatever else it has in that folder. See README.md.
#![expect(clippy::print_stderr, reason = "it is watched in a terminal")]

#[path = "agent-to-agent/agents.rs"]
mod agents;
#[path = "approval-chain/approvals.rs"]
mod approvals;
#[path = "code-migration/migration.rs"]
mod migration;
#[path = "deep-research/research.rs"]
mod research;
#[path = "molecule-screen/screen.rs"]
mod screen;

use std::path::PathBuf;

use anyhow::{Context, bail};
use longhaul::store::Sqlite;
use longhaul::transport::http::server::{Options, Socket};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "say which case to serve, and where it keeps what it has: use-cases CASE FOLDER";
    let (case, folder) = (arguments.next().context(usage)?, arguments.next().context(usage)?);
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder).context("the folder cannot be made")?;
    let server = match case.as_str() {
        "agent-to-agent" => agents::traveller(&folder),
        "agent-to-agent/hotel" => agents::hotel(&folder),
        "approval-chain" => approvals::server(&folder),
        "code-migration" => migration::server(&folder),
        "deep-research" => research::server(&folder),
        "molecule-screen" => screen::server(&folder),
        _ => bail!("there is no case `{case}`: examples/use-cases/README.md lists them"),
    };
    let socket = Socket::bind(folder.join("mcp")).await?;
    eprintln!("ready on unix:{}", socket.path().display());
    Ok(server.store(Sqlite::open(folder.join("tasks.db"))?).serve_http(socket, Options::default()).await?)
}
