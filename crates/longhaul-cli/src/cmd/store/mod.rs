//! `longhaul store`: the store itself, whatever tasks are in it.

mod check;
mod copy;
mod migrate;

use std::path::Path;

use clap::Subcommand;
use longhaul_gateway::config::{DatabaseUrl, StoreUrl};
use longhaul_store::{Format, Sqlite};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::store;

/// Check a store, copy it into another, or bring it to the format of this release.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  longhaul store check sqlite:longhaul.db\n  longhaul store copy sqlite:longhaul.db postgres://longhaul@db.example/tasks\n  longhaul store migrate postgres://longhaul@db.example/tasks"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Find out whether what the store holds is as it must be; ends with 1 if not. Nothing is changed, and servers may run.
    #[command(after_help = "Example:\n  longhaul store check sqlite:longhaul.db --json")]
    Check(Which),
    /// Copy all of a store into an empty one, of any kind, while no server runs on either. From then on servers start on the new one
    /// alone. What is broken off is begun again by the same command.
    #[command(
        after_help = "Examples:\n  longhaul store copy sqlite:longhaul.db postgres://longhaul@db.example/tasks\n  longhaul store copy sqlite:longhaul.db redis://localhost --abandon"
    )]
    Copy(Copy),
    /// Bring the store to the format of this release. Forward only: releases that cannot go on with it refuse it from then on.
    #[command(after_help = "Example:\n  longhaul store migrate sqlite:longhaul.db")]
    Migrate(Which),
}

/// Which store.
#[derive(clap::Args, Debug)]
struct Which {
    /// The store: sqlite:FILE, postgres://USER@HOST/DATABASE (its password in PGPASSWORD) or redis://HOST (in REDISCLI_AUTH).
    #[arg(value_name = "STORE", value_parser = store::url)]
    store: StoreUrl,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

/// From where to where.
#[derive(clap::Args, Debug)]
struct Copy {
    /// The store that is copied: sqlite:FILE, postgres://USER@HOST/DATABASE (its password in PGPASSWORD) or redis://HOST (in
    /// REDISCLI_AUTH).
    #[arg(value_name = "FROM", value_parser = store::url)]
    from: StoreUrl,
    /// The store that it is copied into, in which nothing is yet.
    #[arg(value_name = "TO", value_parser = store::url)]
    to: StoreUrl,
    /// Give up a copy that is not whole: servers start on FROM again, and TO, which need not be there, can be thrown away.
    #[arg(long)]
    abandon: bool,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    match &args.verb {
        Verb::Check(which) => crate::runtime::run(which.json, check::run(which)),
        Verb::Copy(copy) => crate::runtime::run(copy.json, copy::run(copy)),
        Verb::Migrate(which) => crate::runtime::run(which.json, migrate::run(which)),
    }
}

/// A store that outlives its process.
enum Kept<'u> {
    File(&'u Path),
    Database(&'u DatabaseUrl),
    Server(&'u DatabaseUrl),
}

impl Which {
    /// The store, if there is anything to look at.
    fn kept(&self) -> Outcome<Kept<'_>> {
        match &self.store {
            StoreUrl::Memory => {
                Err(Failure::usage("a store in memory ends with its server: there is nothing to look at")
                    .next("name one: sqlite:FILE, postgres://HOST/DATABASE or redis://HOST"))
            }
            StoreUrl::Sqlite(path) if !path.is_file() => {
                Err(Failure::usage(format!("there is no file {}", path.display())))
            }
            StoreUrl::Sqlite(path) => Ok(Kept::File(path)),
            StoreUrl::Postgres(url) => Ok(Kept::Database(url)),
            StoreUrl::Redis(url) => Ok(Kept::Server(url)),
        }
    }
}

impl Kept<'_> {
    async fn format(&self) -> Outcome<Format> {
        Ok(match self {
            Self::File(path) => Sqlite::format(path)?,
            Self::Database(url) => store::postgres().format(url.expose()).await?,
            Self::Server(url) => store::redis().format(url.expose()).await?,
        })
    }
}

/// A format in words.
fn in_words(format: Format) -> String {
    match format.found {
        None => "nothing is kept there yet".to_owned(),
        Some(found) if found < format.newest => format!("{found}, and this release writes {}", format.newest),
        Some(found) if found > format.newest => format!("{found}, of a later release"),
        Some(found) => format!("{found}, as this release writes it"),
    }
}
