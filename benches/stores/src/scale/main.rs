//! Does the same with stores that hold ever more tasks, each on a database of its own, and prints what it took as JSON.
//!
//! The stores are measured in turn, round after round, and each round leaves a store as it was.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "whoever measures reads from there")]

mod bare;
mod held;
mod round;
mod usage;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use serde::Serialize;

use held::Held;
use round::Spent;

/// As the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the operations of stores that hold more and more.
#[derive(Parser)]
struct Arguments {
    /// The kind of store
    #[arg(long)]
    store: Kind,
    /// How many tasks each of them holds: one in ten is parked on a question, the others have ended
    #[arg(long, value_delimiter = ',', required_unless_present = "look")]
    tasks: Vec<u32>,
    /// How often each is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many of each operation there are in a round
    #[arg(long, default_value_t = 400)]
    operations: u32,
    /// Only reads from a store that is there and holds that many, and prints the memory which that takes
    #[arg(long, num_args = 2, value_names = ["URL", "TASKS"])]
    look: Option<Vec<String>>,
}

/// Where tasks are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Kind {
    Sqlite,
    Postgres,
    Redis,
}

/// What was found of a store of one size.
#[derive(Debug, Default, Serialize)]
struct Found {
    tasks: u32,
    /// Bytes that its database keeps on disk.
    disk: u64,
    /// Bytes of memory of its database; of a file none.
    database: u64,
    /// Bytes of memory of a process that has read from it.
    process: u64,
    /// What each operation took, round after round.
    operations: BTreeMap<&'static str, Vec<Spent>>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(look) = &arguments.look {
        let [url, tasks] = &look[..] else { anyhow::bail!("a URL and a number") };
        let store = held::open(arguments.store, url).await?;
        round::look(&*store, tasks.parse()?).await?;
        println!("{}", usage::resident(std::process::id())?);
        return Ok(());
    }
    let mut stores = Vec::new();
    for tasks in &arguments.tasks {
        eprintln!("a store of {tasks} tasks");
        stores.push(Held::fill(arguments.store, *tasks).await?);
    }
    let mut found: Vec<Found> =
        stores.iter().map(|held| Found { tasks: held.tasks, ..Found::default() }).collect();
    // Caches are as warm as they get, and the first of many is not told from the others.
    for round in 0..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        for (held, found) in stores.iter().zip(&mut found) {
            for (what, spent) in round::measure(held, round, arguments.operations).await? {
                if round > 0 {
                    found.operations.entry(what).or_default().push(spent);
                }
            }
        }
    }
    for round in 0..=arguments.rounds {
        for (held, found) in stores.iter().zip(&mut found) {
            let written = round::write_alone(held, round, arguments.operations).await?;
            if let Some((what, spent)) = written.filter(|_| round > 0) {
                found.operations.entry(what).or_default().push(spent);
            }
        }
    }
    for (held, found) in stores.iter().zip(&mut found) {
        found.disk = held.disk().await?;
        found.database = held.memory()?;
        let looked = std::process::Command::new(std::env::current_exe()?)
            .args(["--store", arguments.store.to_possible_value().context("a kind has a name")?.get_name()])
            .arg("--look")
            .args([&held.url, &held.tasks.to_string()])
            .output()?;
        let said = String::from_utf8_lossy(&looked.stdout);
        found.process = said.trim().parse().with_context(|| {
            format!("a process that looks said {said:?}: {}", String::from_utf8_lossy(&looked.stderr))
        })?;
    }
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}
