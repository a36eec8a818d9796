//! The supervisor alone, for programs that serve commands but cannot be re-executed as their own supervisor.
//!
//! `longhaul-supervise supervise DIR` does what `longhaul supervise DIR` does.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let verb_given = args.next().is_some_and(|verb| verb == "supervise");
    match (verb_given, args.next(), args.next()) {
        (true, Some(dir), None) => supervise(PathBuf::from(dir)),
        _ => usage(),
    }
}

#[cfg(unix)]
fn supervise(dir: PathBuf) -> ExitCode {
    longhaul_gateway::command::supervise(&dir)
}

#[cfg(not(unix))]
fn supervise(_dir: PathBuf) -> ExitCode {
    usage()
}

fn usage() -> ExitCode {
    let text = b"usage: longhaul-supervise supervise DIR (Unix only; a server starts it, people do not)\n";
    // Without a stderr the exit code has to do.
    let _shown = std::io::stderr().write_all(text);
    ExitCode::from(2)
}
