//! Whether the service manager would end commands together with the server.
//!
//! A supervisor leads a session of its own, but that does not leave a cgroup: systemd's default is to kill
//! everything in it when the unit stops.

use std::process::{Command, Stdio};

/// What to tell the operator of a server that systemd would stop together with its commands.
pub(crate) fn note() -> Option<String> {
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let unit = unit(&cgroups)?;
    let user = cgroups.contains("/user.slice/");
    match kill_mode(unit, user).as_deref() {
        Some("process" | "none") => None,
        Some(mode) => Some(format!(
            "{unit} has KillMode={mode}: stopping it ends running commands too; set KillMode=process in the unit"
        )),
        None => Some(format!(
            "running as {unit}, whose KillMode could not be read: set KillMode=process so that commands outlive it"
        )),
    }
}

/// The service that this process is part of.
fn unit(cgroups: &str) -> Option<&str> {
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    path.rsplit('/').find(|part| part.ends_with(".service") && !part.starts_with("user@"))
}

fn kill_mode(unit: &str, user: bool) -> Option<String> {
    let mut command = Command::new("systemctl");
    if user {
        command.arg("--user");
    }
    let shown =
        command.args(["show", "--property=KillMode", "--value", unit]).stdin(Stdio::null()).output().ok()?;
    let mode = String::from_utf8(shown.stdout).ok()?.trim().to_owned();
    (shown.status.success() && !mode.is_empty()).then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_innermost_service() {
        assert_eq!(unit("0::/system.slice/longhaul.service\n"), Some("longhaul.service"));
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/ci.service\n";
        assert_eq!(unit(user), Some("ci.service"));
        let terminal = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u1.scope\n";
        assert_eq!(unit(terminal), None);
        assert_eq!(unit("0::/\n"), None);
    }
}
