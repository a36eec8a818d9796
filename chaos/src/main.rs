//! Kills the real program under load, then checks every task's history.
#![expect(clippy::print_stdout, reason = "this program's output is for the terminal")]

mod audit;
mod case;
mod history;
mod http;
mod kills;
mod load;
mod mcp;
mod place;
mod points;
mod power;
mod processes;
mod scenes;
mod server;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use case::{Case, Tally};
use load::fleet::{self, Fault, Kind};
use load::node::Role;

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
    /// Load nodes with tasks of every kind and kill them at random; says what each promise has come to
    Load {
        /// How many tasks
        #[arg(long, default_value_t = 10_000)]
        tasks: usize,
        /// How often a node is killed
        #[arg(long, default_value_t = 1000)]
        kills: usize,
        /// How many nodes share the store
        #[arg(long, default_value_t = 3)]
        processes: usize,
        /// Repeats the choices of an earlier run; a fresh one by default
        #[arg(long)]
        seed: Option<u64>,
        /// By when all is to be called and killed
        #[arg(long, default_value_t = 25)]
        minutes: u64,
    },
    /// Be such a node
    #[command(hide = true)]
    Node {
        /// The file of the store, or its URL
        store: String,
        /// The folder of effects
        effects: PathBuf,
        /// What it does
        #[arg(long, value_enum, default_value_t = Role::All)]
        role: Role,
    },
    /// Load a fleet on one database while nodes, their ways to it and the database fail, then check every task's history
    Fleet {
        /// What the nodes share
        #[arg(long, value_enum)]
        store: Kind,
        /// For how long
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        /// Repeats the choices of an earlier run; a fresh one by default
        #[arg(long)]
        seed: Option<u64>,
        /// How many tasks are begun each second
        #[arg(long, default_value_t = 10)]
        rate: u32,
        /// Only these faults, separated by commas; every one by default
        #[arg(long, value_enum, value_delimiter = ',')]
        faults: Vec<Fault>,
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
        /// How often the power goes in the middle of writing, beside every acknowledgement
        #[arg(long, default_value_t = 60)]
        cuts: usize,
    },
}

fn main() -> ExitCode {
    // Nodes start the supervisors of their commands so: nothing else may come before.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "supervise")
        && let Some(folder) = words.next()
    {
        return longhaul_gateway::command::supervise(Path::new(&folder));
    }
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(Tally { passed, failed }) => {
            println!("chaos: {passed} passed, {failed} failed");
            if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            // Nobody may listen any more.
            let _ = writeln!(std::io::stderr(), "cannot run: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<Tally> {
    Ok(match arguments.command {
        Command::Points { only, at_once } => {
            case::run_all(&found(&arguments.program)?, points::cases(only.as_deref()), at_once)
        }
        Command::Kills { kills, seed, clients, servers, supervisors } => {
            let seed = seed.map_or_else(fresh_seed, Ok)?;
            let what = if supervisors { "kills of servers and supervisors" } else { "kills of servers" };
            println!("{what}: --seed {seed}");
            let plan = kills::Plan { kills, seed, clients, servers, supervisors };
            one(&arguments.program, Case::new(what, move |place| kills::run(place, plan)))?
        }
        Command::Load { tasks, kills, processes, seed, minutes } => {
            let seed = seed.map_or_else(fresh_seed, Ok)?;
            let what = format!("{tasks} tasks and {kills} kills of {processes} nodes");
            println!("{what}: --seed {seed}");
            let within = Duration::from_secs(60 * minutes);
            let plan = load::Plan { tasks, kills, processes, seed, within, each_second: None };
            // Its nodes are this very program.
            one(&std::env::current_exe()?, Case::new(what, move |place| load::run(place, plan)))?
        }
        Command::Fleet { store, minutes, seed, rate, faults } => {
            let seed = seed.map_or_else(fresh_seed, Ok)?;
            let what = format!("a fleet on {store}");
            println!("{what}: --seed {seed}");
            let within = Duration::from_secs(60 * minutes);
            let plan = fleet::Plan { store, within, seed, rate, faults };
            one(&arguments.program, Case::new(what, move |place| fleet::run(place, &plan)))?
        }
        Command::Node { store, effects, role } => {
            load::node::run(&store, &effects, role)?;
            Tally { passed: 1, failed: 0 }
        }
        Command::Scenes { only, at_once } => {
            case::run_all(&found(&arguments.program)?, scenes::cases(only.as_deref()), at_once)
        }
        Command::Power { seed, cuts } => {
            let seed = seed.map_or_else(fresh_seed, Ok)?;
            one(&arguments.program, Case::new("loss of power", move |place| power::run(place, seed, cuts)))?
        }
    })
}

fn one(program: &Path, case: Case) -> Result<Tally> {
    Ok(case::run_all(&found(program)?, vec![case], 1))
}

fn found(program: &Path) -> Result<PathBuf> {
    let program = std::path::absolute(program)?;
    program.canonicalize().with_context(|| format!("there is no program {}", program.display()))
}

fn fresh_seed() -> Result<u64> {
    let mut bits = [0; 4];
    getrandom::fill(&mut bits).context("the system has no randomness")?;
    Ok(u32::from_le_bytes(bits).into())
}
