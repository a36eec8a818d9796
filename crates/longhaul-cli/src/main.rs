//! The `longhaul` program: one file a verb, under `cmd`.
#![warn(clippy::exit)]
#![expect(clippy::print_stderr, reason = "a program speaks on its standard streams")]

mod arguments;
mod ask;
mod banner;
mod browser;
mod cmd;
mod configuration;
mod exit;
mod failure;
mod handles;
mod hosts;
mod identity;
mod interrupt;
mod listener;
mod metrics;
mod near;
mod other_users;
mod pages;
mod reload;
mod replace;
mod result;
mod runtime;
mod signature;
#[cfg(feature = "otel")]
mod spans;
mod state;
mod stopping;
mod store;
mod systemd;
mod target;
mod term;
mod traced;
mod upstreams;
mod watch;

use clap::{CommandFactory, Parser, Subcommand};

use exit::Exit;
use failure::Failure;
use term::{clean, note};

/// A server makes and frees small things at every call.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serve commands as durable MCP tools, call them, and watch them from a terminal.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, arg_required_else_help = true, after_help = help())]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

fn help() -> String {
    format!(
        "\
Examples:
  longhaul serve longhaul.toml
  longhaul call http://127.0.0.1:8420/mcp test crate=api
  longhaul tasks watch test-3q9v

{}",
        exit::help()
    )
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(cmd::serve::Args),
    Check(cmd::check::Args),
    Schema(cmd::schema::Args),
    ServerJson(cmd::server_json::Args),
    Call(cmd::call::Args),
    Tools(cmd::tools::Args),
    Tasks(cmd::tasks::Args),
    Targets(cmd::targets::Args),
    Connect(cmd::connect::Args),
    Page(cmd::page::Args),
    Doctor(cmd::doctor::Args),
    Audit(cmd::audit::Args),
    Store(cmd::store::Args),
    Login(cmd::login::Args),
    Logout(cmd::login::OutArgs),
    Completions(cmd::completions::Args),
    Man(cmd::man::Args),
}

/// Whether a program is to read what is said of a command line that was not understood.
fn wants_json() -> bool {
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    words.any(|word| word == "--json" || word == "--events")
}

fn main() -> std::process::ExitCode {
    // Before anything else: a supervisor must be a process of one thread that has opened nothing.
    if let Some(supervisor) = cmd::supervise::asked_for() {
        return supervisor;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are what was asked for; all else is a mistake in the command line.
            if !error.use_stderr() {
                let _ = error.print();
                return Exit::Done.into();
            }
            if wants_json() {
                return Failure::from(error).report(true).into();
            }
            let words = error.render().to_string();
            if clean::text(&words) == words {
                let _ = error.print();
            } else {
                // It says again what was typed, or was the name of a file.
                note(clean::text(&words).trim_end());
            }
            return Exit::Usage.into();
        }
    };
    match cli.verb {
        Verb::Serve(args) => cmd::serve::run(args),
        Verb::Check(args) => cmd::check::run(&args),
        Verb::Schema(args) => cmd::schema::run(&args),
        Verb::ServerJson(args) => cmd::server_json::run(&args),
        Verb::Call(args) => cmd::call::run(&args),
        Verb::Tools(args) => cmd::tools::run(&args),
        Verb::Tasks(args) => cmd::tasks::run(&args),
        Verb::Targets(args) => cmd::targets::run(&args),
        Verb::Connect(args) => cmd::connect::run(&args),
        Verb::Page(args) => cmd::page::run(&args),
        Verb::Doctor(args) => cmd::doctor::run(&args),
        Verb::Audit(args) => cmd::audit::run(&args),
        Verb::Store(args) => cmd::store::run(&args),
        Verb::Login(args) => cmd::login::run(&args),
        Verb::Logout(args) => cmd::login::run_out(&args),
        Verb::Completions(args) => cmd::completions::run(&args, Cli::command()),
        Verb::Man(args) => cmd::man::run(&args, Cli::command()),
    }
    .into()
}
