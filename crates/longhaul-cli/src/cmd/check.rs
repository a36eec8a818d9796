//! `longhaul check`: every mistake in a configuration, before it is served.

use std::io::Write;

use longhaul_gateway::config::{self, Colour};

use super::serve;
use crate::exit::Exit;
use crate::term::clean;

/// Show every mistake in a configuration.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
It takes the words of `serve`, and serves nothing: with the same words it refuses what `serve` refuses. So name the flags that \
the configuration is served with.

Examples:
  longhaul check longhaul.toml
  longhaul check longhaul.toml --stdio
  longhaul check longhaul.toml --http 0.0.0.0:8420 --allow-anonymous")]
// Both have the name that is its group's otherwise.
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    serve: serve::Args,
}

pub(crate) fn run(Args { serve: args }: &Args) -> Exit {
    let mut out = anstream::stderr().lock();
    let checked = match config::load(&args.file) {
        Ok(checked) => checked,
        Err(mistakes) => {
            let _ = write!(out, "{}", mistakes.render(Colour::Always));
            return Exit::Usage;
        }
    };
    let _ = write!(out, "{}", checked.warnings.render(Colour::Always));
    let config = match serve::settled(checked.config, args) {
        Ok(config) => config,
        Err(refusal) => {
            drop(out);
            return refusal.report(false);
        }
    };
    let count = config.names().count();
    let tools = if count == 1 { "tool" } else { "tools" };
    let servers = match config.servers.len() {
        0 => String::new(),
        1 => ", 1 server with its own".to_owned(),
        count => format!(", {count} servers with their own"),
    };
    let file = clean::line(&args.file.display().to_string(), 400);
    let _ = writeln!(out, "{file}: {count} {tools}{servers}, no mistakes");
    Exit::Done
}
