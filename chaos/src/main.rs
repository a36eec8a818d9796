//! Kills the real program under load, then checks every task's history.
#![expect(clippy::print_stdout, reason = "this program's output is for the terminal")]

mod audit;
mod case;
mod history;
mod http;
mod mcp;
mod place;
mod points;
mod processes;
mod random;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use case::Tally;

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
    })
}
