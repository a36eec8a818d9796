//! `longhaul supervise DIR`, the supervisor of one command, and `longhaul tend PID PROGRAM …`, which ends what a server that is
//! served on leaves behind. Servers start them; people do not.

use std::path::Path;
use std::process::ExitCode;

/// Supervises, if that is what this process was started for.
pub(crate) fn asked_for() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        "supervise" => {
            let dir = arguments.next()?;
            arguments.next().is_none().then(|| longhaul_gateway::command::supervise(Path::new(&dir)))
        }
        #[cfg(target_os = "linux")]
        "tend" => {
            let starter = arguments.next()?.to_str()?.parse().ok()?;
            let program = arguments.next()?;
            let arguments: Vec<_> = arguments.collect();
            Some(longhaul_gateway::command::tend(starter, &program, &arguments))
        }
        _ => None,
    }
}
