//! The `longhaul` program: one file a verb, under `cmd`.

mod cmd;
mod exit;

use clap::{Parser, Subcommand};

use exit::Exit;

/// Serve commands as durable MCP tools, call them, and watch them from a terminal.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(cmd::check::Args),
}

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are what was asked for; all else is a mistake in the command line.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            return exit.into();
        }
    };
    match cli.verb {
        Verb::Check(args) => cmd::check::run(&args),
    }
    .into()
}
