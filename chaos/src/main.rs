//! Kills the real program under load, then checks every task's history.
#![expect(clippy::print_stdout, reason = "this program's output is for the terminal")]

mod audit;
mod case;
mod history;
mod http;
mod kills;
mod mcp;
mod place;
mod points;
mod power;
mod processes;
mod random;
mod scenes;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use case::{Case, Tally};

/// Kills the real program under load, then checks every task's history.
#[derive(Debug, Parser)]
struct Arguments {
    /// The program under test
    #[arg(long, global = true, default_value = "target/release/longhaul")]
    program: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let it kill itself at each named crash point; the program must be built with `crash-points`
    Points {
        /// Only points whose name contains this
        only: Option<String>,
        /// How many at a time
        #[arg(long, default_value_t = 4)]
        at_once: usize,
    },
    /// Kill servers of the shipped program at random under load
    Kills {
        /// How many servers are killed
        #[arg(long, default_value_t = 200)]
        kills: usize,
        /// Repeats the choices of an earlier run; a fresh one by default
        #[arg(long)]
        seed: Option<u64>,
        /// How many clients call at once
        #[arg(long, default_value_t = 8)]
        clients: usize,
        /// How many servers share the store
        #[arg(long, default_value_t = 1)]
        servers: usize,
        /// Kill supervisors as well
        #[arg(long)]
        supervisors: bool,
    },
    /// Play particular misfortunes: stopped, doubled and replaced servers, callers that leave
    Scenes {
        /// Only scenes whose name contains this
        only: Option<String>,
        /// How many at a time
        #[arg(long, default_value_t = 4)]
        at_once: usize,
    },
    /// Record the server's writes and flushes, and find what it acknowledged on a disk that lost power
    Power {
        /// Repeats the choices of an earlier run; a fresh one by default
        #[arg(long)]
        seed: Option<u64>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(Tally { passed, failed }) => {
            println!("chaos: {passed} passed, {failed} failed");
            if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("cannot run: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<Tally> {
    let program = std::path::absolute(&arguments.program)?;
    let program =
        program.canonicalize().with_context(|| format!("there is no program {}", program.display()))?;
    Ok(match arguments.command {
        Command::Points { only, at_once } => case::run_all(&program, points::cases(only.as_deref()), at_once),
        Command::Kills { kills, seed, clients, servers, supervisors } => {
            let seed = seed.map_or_else(fresh_seed, Ok)?;
            let what = if supervisors { "kills of servers and supervisors" } else { "kills of servers" };
            println!("{what}: --seed {seed}");
            let plan = kills::Plan { kills, seed, clients, servers, supervisors };
            case::run_all(&program, vec![Case::new(what, move |place| kills::run(place, plan))], 1)
        }
        Command::Scenes { only, at_once } => case::run_all(&program, scenes::cases(only.as_deref()), at_once),
        Command::Power { seed } => {
            let seed = seed.map_or_else(fresh_seed, Ok)?;
            case::run_all(&program, vec![Case::new("loss of power", move |place| power::run(place, seed))], 1)
        }
    })
}

fn fresh_seed() -> Result<u64> {
    let mut bits = [0; 4];
    getrandom::fill(&mut bits).context("the system has no randomness")?;
    Ok(u32::from_le_bytes(bits).into())
}
