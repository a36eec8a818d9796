//! `longhaul tasks`: tasks looked at, followed and cancelled, on a store or over MCP.

mod cancel;
mod get;
mod list;
mod log;
mod node;
mod origin;
mod result;
mod view;
mod watch;

use clap::Subcommand;

use crate::exit::Exit;
use crate::failure::Outcome;
use crate::term::Manner;
use origin::{Origin, OriginArgs};

/// Look at tasks, follow them and cancel them.
///
/// Tasks are found in the store of --store, else of ./longhaul.toml, else by their id at the server of --url.
/// Whoever may read the store may see every task in it. If the server is gone, these verbs record what its commands
/// have come to.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  longhaul tasks
  longhaul tasks watch test-3q9v
  longhaul tasks log test-3q9v --follow
  longhaul tasks get test-3q9v --url http://127.0.0.1:8420/mcp

On a store the beginning of an id will do, if only one task's id begins so.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    origin: OriginArgs,
    /// Print JSON, and failures as one JSON line.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::Args),
    Get(get::Args),
    Watch(watch::Args),
    Log(log::Args),
    Result(result::Args),
    Cancel(cancel::Args),
}

pub(crate) fn run(args: &Args) -> Exit {
    let events = matches!(&args.verb, Some(Verb::Watch(watch)) if watch.events);
    let manner = Manner::new(args.json, events);
    crate::runtime::run(manner.is_json(), tasks(args, manner))
}

async fn tasks(args: &Args, manner: Manner) -> Outcome {
    let origin = args.origin.open(manner.is_json()).await?;
    let done = on(&origin, args, manner).await;
    origin.close().await;
    done
}

async fn on(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    match &args.verb {
        None => list::run(origin, &list::Args::default(), manner).await,
        Some(Verb::List(args)) => list::run(origin, args, manner).await,
        Some(Verb::Get(args)) => get::run(origin, args, manner).await,
        Some(Verb::Watch(args)) => watch::run(origin, args, manner).await,
        Some(Verb::Log(args)) => log::run(origin, args, manner).await,
        Some(Verb::Result(args)) => result::run(origin, args, manner).await,
        Some(Verb::Cancel(args)) => cancel::run(origin, args, manner).await,
    }
}
