//! `longhaul supervise DIR`: the supervisor of one command. Servers start it; people do not.

use std::path::Path;
use std::process::ExitCode;

/// Supervises, if that is what this process was started for.
pub(crate) fn asked_for() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != "supervise" {
        return None;
    }
    let dir = arguments.next()?;
    if arguments.next().is_some() {
        return None;
    }
    Some(longhaul_gateway::command::supervise(Path::new(&dir)))
}
