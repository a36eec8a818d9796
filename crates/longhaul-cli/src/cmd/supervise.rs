//! `longhaul supervise DIR`, the supervisor of one command, and `longhaul tend PID PROGRAM …`, which ends what a server that is
//! served on leaves behind, as `tend-group` does of one that a verb has started. Programs of ours start them; people do not.

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
        verb @ ("tend" | "tend-group") => {
            let tend = match verb {
                "tend" => longhaul_gateway::command::tend,
                _ => longhaul_gateway::command::tend_group,
            };
            let starter = arguments.next()?.to_str()?.parse().ok()?;
            let program = arguments.next()?;
            let arguments: Vec<_> = arguments.collect();
            Some(tend(starter, &program, &arguments))
        }
        _ => None,
    }
}
