//! The `longhaul` program.

use clap::Parser;

/// Serve commands as durable MCP tools, call them, and watch them from a terminal.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {}

fn main() {
    Cli::parse();
}
