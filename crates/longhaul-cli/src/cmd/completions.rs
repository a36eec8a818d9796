//! `longhaul completions`: what makes a shell complete the words of this program.

use clap::Command;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::term;

/// Print a script that makes a shell complete this program's words.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul
  longhaul completions zsh > ~/.zfunc/_longhaul
  longhaul completions fish > ~/.config/fish/completions/longhaul.fish")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut program: Command) -> Exit {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    term::write(&script).map_or_else(|failure| failure.report(false), |()| Exit::Done)
}
