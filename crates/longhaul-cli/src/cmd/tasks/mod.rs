//! `longhaul tasks`: tasks looked at, followed, answered and cancelled, on a store or over MCP.

mod again;
mod answer;
mod cancel;
mod get;
mod list;
mod log;
mod node;
mod origin;
mod result;
mod table;
mod view;
mod wait;
mod watch;

use clap::Subcommand;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::Manner;
use origin::{Origin, OriginArgs};

/// Look at tasks, follow them, answer and cancel them.
///
/// Tasks are found at the server of --url, by their ids; without it in the store of --store, else in that of ./longhaul.toml,
/// else where `longhaul call` started them from this account. Whoever may read the store may see every task in it. If the
/// server is gone, these verbs record what its commands have come to.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  longhaul tasks
  longhaul tasks watch test-3q9v
  longhaul tasks answer deploy-8k2 go=yes
  longhaul tasks log test-3q9v --follow
  longhaul tasks get test-3q9v --url http://127.0.0.1:8420/mcp

The beginning of an id will do, if only one task's id begins so; not with --url.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    which: list::Which,
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
    Wait(wait::Args),
    Log(log::Args),
    Result(result::Args),
    Answer(answer::Args),
    Cancel(cancel::Args),
    Again(again::Args),
}

pub(crate) fn run(args: &Args) -> Exit {
    let events = match &args.verb {
        Some(Verb::Watch(watch)) => watch.events,
        Some(Verb::Wait(wait)) => wait.events,
        _ => false,
    };
    let manner = Manner::new(args.json, events);
    crate::runtime::run(manner.is_json(), tasks(args, manner))
}

async fn tasks(args: &Args, manner: Manner) -> Outcome {
    let (place, which) = (&args.origin, &args.which);
    if args.verb.is_some() && *which != list::Which::default() {
        return Err(Failure::usage("--open, --tool and --limit are of the list, and stand behind its verb")
            .next("longhaul tasks list --open"));
    }
    match &args.verb {
        Some(Verb::Watch(args)) => watch::run(place, args, manner).await,
        Some(Verb::Wait(args)) => wait::run(place, args, manner).await,
        Some(Verb::Answer(args)) => answer::run(place, args, manner).await,
        None if place.is_nowhere() && list::remembered(which, manner)? => Ok(Exit::Done),
        Some(Verb::List(list::Args { which })) if place.is_nowhere() && list::remembered(which, manner)? => {
            Ok(Exit::Done)
        }
        other => {
            let id = other.as_ref().and_then(Verb::id);
            let origin = place.open(id, manner.is_json(), |_, options| options).await?;
            let done = on(&origin, other.as_ref(), which, manner).await;
            origin.close().await;
            done
        }
    }
}

impl Verb {
    /// The task it is about.
    fn id(&self) -> Option<&str> {
        match self {
            Self::List(_) | Self::Wait(_) => None,
            Self::Get(args) => Some(&args.id),
            Self::Watch(args) => Some(&args.id),
            Self::Log(args) => Some(&args.id),
            Self::Result(args) => Some(&args.id),
            Self::Answer(args) => Some(&args.id),
            Self::Cancel(args) => Some(&args.id),
            Self::Again(args) => Some(&args.id),
        }
    }
}

async fn on(origin: &Origin, verb: Option<&Verb>, which: &list::Which, manner: Manner) -> Outcome {
    match verb {
        Some(Verb::List(args)) => list::run(origin, &args.which, manner).await,
        Some(Verb::Get(args)) => get::run(origin, args, manner).await,
        Some(Verb::Log(args)) => log::run(origin, args, manner).await,
        Some(Verb::Result(args)) => result::run(origin, args, manner).await,
        Some(Verb::Cancel(args)) => cancel::run(origin, args, manner).await,
        Some(Verb::Again(args)) => again::run(origin, args, manner).await,
        // The others have found their tasks themselves.
        None | Some(Verb::Watch(_) | Verb::Wait(_) | Verb::Answer(_)) => {
            list::run(origin, which, manner).await
        }
    }
}
