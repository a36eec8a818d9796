//! The supervisor alone, for programs that serve commands but cannot be re-executed as their own supervisor.
//!
//! `longhaul-supervise supervise DIR` does what `longhaul supervise DIR` does.

use std::{path::PathBuf, process::ExitCode};

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

#[expect(clippy::print_stderr, reason = "the usage line of a program goes to its stderr")]
fn usage() -> ExitCode {
    eprintln!("usage: longhaul-supervise supervise DIR (Unix only; a server starts it, people do not)");
    ExitCode::from(2)
}
