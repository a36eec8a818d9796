//! Our client against a server that others wrote: `interop-client SET[,SET…] [--revision DATE] (--url URL | -- COMMAND…)`.
//!
//! It carries out the checks of the set and prints a line for each ([TAP](https://testanything.org)), as the clients in other
//! languages do.

mod asks;
mod everything;
mod hosts;
mod offer;
mod tap;
mod tasks;
mod visit;

use std::env;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use longhaul::client::{Command, Target};
use longhaul::proto::dialect::Revision;

use visit::Visit;

/// How to start it.
const USAGE: &str = "usage: interop-client SET[,SET…] [--revision DATE] (--url URL | -- COMMAND…)";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tap::say(&format!("# {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether every check passed.
async fn run() -> Result<bool> {
    let mut arguments = env::args().skip(1);
    let set = arguments.next().context(USAGE)?;
    let (mut revision, mut target) = (None, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--revision" => {
                let date = arguments.next().context(USAGE)?;
                revision =
                    Some(Revision::from_date(&date).with_context(|| format!("no revision is dated {date}"))?);
            }
            "--url" => target = Some(Target::url(arguments.next().context(USAGE)?)),
            "--" => {
                let program = arguments.next().context(USAGE)?;
                target = Some(Target::command(Command::new(program).args(arguments.by_ref())));
            }
            _ => bail!("{USAGE}"),
        }
    }
    let visit = Visit::begin(target.context(USAGE)?, revision).await?;
    let mut checks = Vec::new();
    for set in set.split(',') {
        checks.extend(match set {
            "everything" => everything::checks(&visit),
            "offer" => offer::checks(&visit),
            "changes" => offer::changes(&visit),
            "asks" => asks::checks(&visit),
            "refuses" => asks::refusing(&visit),
            "tasks" => tasks::checks(&visit),
            "hosts" => hosts::checks(&visit),
            _ => bail!("there is no set {set:?}"),
        });
    }
    let passed = tap::report(&set, checks).await;
    visit.client.close().await;
    Ok(passed)
}
