//! Every check this repository runs, as `cargo xtask NAME`.
#![expect(clippy::print_stdout, reason = "this program's output is for the terminal")]

mod tally;
mod tidy;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use workspace::Workspace;

/// Every check this repository runs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLE)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLE: &str = "\
Example:
  cargo xtask tidy     check the shape of the tree";

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the shape of the tree: arrows, names, lengths, the architecture document
    #[command(after_help = tidy_help())]
    Tidy {
        /// The repository to check; the one around the current folder by default
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
}

fn tidy_help() -> String {
    format!(
        "Rules:\n{}\nExceptions are listed with their reasons in xtask/tidy.toml.\n\nExample:\n  cargo xtask tidy",
        tidy::rules()
    )
}

fn main() -> Result<ExitCode> {
    let passed = match Arguments::parse().command {
        Command::Tidy { root } => {
            let tally = tidy::run(&root.map_or_else(repository_root, Ok)?)?;
            println!("tidy: {tally}");
            tally.is_success()
        }
    };
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The root of the workspace around the current folder.
fn repository_root() -> Result<PathBuf> {
    Ok(Workspace::members(&std::env::current_dir()?)?.workspace_root)
}
