//! `longhaul man`: the pages that `man` shows.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Command;

use crate::exit::Exit;
use crate::failure::Outcome;
use crate::term::{is_watched, note};

/// Write the manual pages of this program, one for each verb.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  longhaul man ~/.local/share/man/man1 && man longhaul-serve")]
pub(crate) struct Args {
    /// The folder, which is made if it is not there.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args, program: Command) -> Exit {
    write(&args.folder, program).unwrap_or_else(|failure| failure.report(false))
}

fn write(folder: &Path, program: Command) -> Outcome {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    clap_mangen::generate_to(program, folder)
        .with_context(|| format!("the pages cannot be written to {}", folder.display()))?;
    if is_watched() {
        note(&format!("written to {}; `man longhaul` shows the first", folder.display()));
    }
    Ok(Exit::Done)
}
