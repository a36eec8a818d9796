//! `longhaul schema`: what a configuration can say, for editors and for people.

use longhaul_gateway::config;

use crate::exit::Exit;
use crate::term;

/// Print the JSON Schema of a configuration, by which editors complete and check one.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  longhaul schema > longhaul.schema.json
  longhaul schema --reference

Editors with Taplo or Even Better TOML use it where a configuration begins with this line:
  #:schema ./longhaul.schema.json")]
pub(crate) struct Args {
    /// Print a configuration with every key instead, each with what it means.
    #[arg(long)]
    reference: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    let text =
        if args.reference { config::REFERENCE.to_owned() } else { format!("{:#}\n", config::file_schema()) };
    match term::print(&text) {
        Ok(()) => Exit::Done,
        Err(failure) => failure.report(false),
    }
}
