//! `longhaul doctor`: what keeps a server from being used, or will, and what to do about it.

mod behind;
mod here;
mod report;
mod server;

use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::Outcome;
use crate::target::TargetArgs;
use report::Report;

/// Look for what keeps a server from being used, and say what to do about it.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "longhaul doctor [OPTIONS] [SERVER]\n       longhaul doctor [OPTIONS] -- COMMAND...",
    after_help = "\
Of a server it is looked whether it answers, in which revisions, whom it lets in, what it offers, whether calls can be tasks \
there, whether streams come through, and whether its clock agrees. Without one the configuration here is looked at, its \
store, what the system allows, and each server that it serves on, which is started or asked for that; then its server, if \
that runs.

Nothing is called and nothing is changed. The exit code is 1 if something fails.

Examples:
  longhaul doctor
  longhaul doctor https://mcp.example.com/mcp
  longhaul doctor vscode:ci --json"
)]
pub(crate) struct Args {
    /// The server: its URL, or a name such as vscode:ci.
    #[arg(value_name = "SERVER", num_args = 0..=1)]
    words: Vec<String>,
    /// The configuration to look at where no server is named.
    #[arg(long, value_name = "FILE", default_value = "longhaul.toml")]
    config: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) fn run(args: &Args) -> Exit {
    crate::runtime::run(args.json, examine(args))
}

async fn examine(args: &Args) -> Outcome {
    let mut report = Report::new(args.json);
    if args.words.is_empty() && args.target.command.is_empty() {
        if let Some(server) = Box::pin(here::examine(&args.config, &mut report)).await? {
            server::examine(&server, &args.target, &mut report).await?;
        }
    } else {
        let (server, _) = args.target.server(&args.words, "doctor")?;
        server::examine(&server, &args.target, &mut report).await?;
    }
    report.end()
}
