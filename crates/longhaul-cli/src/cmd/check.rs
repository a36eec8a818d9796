//! `longhaul check`: every mistake in a configuration, before it is served.

use std::io::Write;
use std::path::PathBuf;

use longhaul_gateway::config::{self, Colour};

use super::serve;
use crate::exit::Exit;
use crate::term::clean;

/// Show every mistake in a configuration.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  longhaul check longhaul.toml")]
pub(crate) struct Args {
    /// The configuration.
    #[arg(default_value = "longhaul.toml")]
    file: PathBuf,
    /// It is served with this flag: whoever reaches its address may call every tool.
    #[arg(long)]
    allow_anonymous: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    let mut out = anstream::stderr().lock();
    match config::load(&args.file) {
        Ok(checked) => {
            let _ = write!(out, "{}", checked.warnings.render(Colour::Always));
            if let Some(refusal) = serve::refused(&checked.config, false, args.allow_anonymous) {
                drop(out);
                return refusal.report(false);
            }
            let count = checked.config.names().count();
            let tools = if count == 1 { "tool" } else { "tools" };
            let servers = match checked.config.servers.len() {
                0 => String::new(),
                1 => ", 1 server with its own".to_owned(),
                count => format!(", {count} servers with their own"),
            };
            let file = clean::line(&args.file.display().to_string(), 400);
            let _ = writeln!(out, "{file}: {count} {tools}{servers}, no mistakes");
            Exit::Done
        }
        Err(mistakes) => {
            let _ = write!(out, "{}", mistakes.render(Colour::Always));
            Exit::Usage
        }
    }
}
