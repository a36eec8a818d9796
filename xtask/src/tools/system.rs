//! Programs of the operating system: found, or installed as Debian packages when this runs as root.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

use crate::site::Site;

/// A program, how to see that it is there, and the Debian packages that bring it.
#[derive(Debug)]
pub(crate) struct Program {
    /// What it is called in messages, and mostly what starts it.
    pub(crate) name: &'static str,
    /// A command that succeeds when it is there and new enough.
    pub(super) probe: &'static [&'static str],
    /// The Debian packages.
    pub(super) packages: &'static [&'static str],
}

/// git, which says what belongs to the repository.
pub(crate) const GIT: Program = Program { name: "git", probe: &["git", "--version"], packages: &["git"] };

/// taskset, which gives a program a processor of its own.
pub(crate) const TASKSET: Program =
    Program { name: "taskset", probe: &["taskset", "--version"], packages: &["util-linux"] };

/// npm, and with it some version of Node.
pub(crate) const NPM: Program =
    Program { name: "npm", probe: &["npm", "--version"], packages: &["nodejs", "npm"] };

/// A Python new enough for the packages locked here, able to make virtual environments.
pub(crate) const PYTHON: Program = Program {
    name: "python3 (3.10 or later, with venv)",
    probe: &["python3", "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"],
    packages: &["python3", "python3-venv"],
};

/// A compiler of C++, of which libFuzzer is made.
pub(crate) const CXX: Program = Program { name: "c++", probe: &["c++", "--version"], packages: &["g++"] };

/// strace, which records what a server writes and flushes.
pub(crate) const STRACE: Program =
    Program { name: "strace", probe: &["strace", "--version"], packages: &["strace"] };

/// redis-server, in which a fleet keeps its tasks, and a server of others.
pub(crate) const REDIS: Program = Program {
    name: "redis-server",
    probe: &["sh", "-c", "redis-server --version && command -v setpriv && command -v openssl"],
    packages: &["redis-server", "util-linux", "openssl"],
};

/// PostgreSQL's server, in which a fleet keeps its tasks. Debian has it where no path leads.
pub(crate) const POSTGRES: Program = Program {
    name: "postgres",
    probe: &["sh", "-c", "ls /usr/lib/postgresql/*/bin/postgres && command -v setpriv && command -v openssl"],
    packages: &["postgresql", "util-linux", "openssl"],
};

/// PgBouncer, which may stand before PostgreSQL.
pub(crate) const PGBOUNCER: Program =
    Program { name: "pgbouncer", probe: &["/usr/sbin/pgbouncer", "--version"], packages: &["pgbouncer"] };

/// valgrind, which counts instructions.
pub(crate) const VALGRIND: Program =
    Program { name: "valgrind", probe: &["valgrind", "--version"], packages: &["valgrind"] };

/// perf, which looks many times a second where a program is.
pub(crate) const PERF: Program =
    Program { name: "perf", probe: &["perf", "--version"], packages: &["linux-perf"] };

/// libfaketime, by which a node of a fleet believes that it is another time.
pub(crate) const FAKETIME: Program = Program {
    name: "libfaketime",
    probe: &["sh", "-c", "ls /usr/lib/*/faketime/libfaketimeMT.so.1"],
    packages: &["libfaketime"],
};

/// Chromium without a window.
pub(crate) const CHROMIUM: Program = Program {
    name: "chromium-headless-shell",
    probe: &["chromium-headless-shell", "--version"],
    packages: &["chromium-headless-shell"],
};

/// Whether the package lists are as new as this run.
static LISTS_ARE_FRESH: AtomicBool = AtomicBool::new(false);

/// Makes sure the program is there.
///
/// # Errors
///
/// When it is missing and cannot be installed here; the message has the line that installs it.
pub(crate) fn require(site: &Site, program: &Program) -> Result<()> {
    if is_there(program) {
        return Ok(());
    }
    let _alone = super::alone();
    if is_there(program) {
        return Ok(());
    }
    if !is_there(&Program { name: "apt-get", probe: &["apt-get", "--version"], packages: &[] }) {
        bail!("{} is missing: install it with this system's package manager", program.name);
    }
    if !is_root() {
        bail!("{} is missing: sudo apt-get install -y {}", program.name, program.packages.join(" "));
    }
    if !LISTS_ARE_FRESH.swap(true, Ordering::Relaxed) {
        site.must_run(Command::new("apt-get").args(["update", "-qq"]))?;
    }
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(program.packages);
    site.must_run(install.env("DEBIAN_FRONTEND", "noninteractive"))?;
    if !is_there(program) {
        bail!(
            "{} is still missing or too old after the installation of {}",
            program.name,
            program.packages.join(", ")
        );
    }
    Ok(())
}

/// Makes sure that cargo has the subcommand that a component of the toolchain brings.
///
/// # Errors
///
/// When it is missing and rustup cannot add it.
pub(crate) fn require_component(site: &Site, component: &'static str, subcommand: &str) -> Result<()> {
    let is_there = || {
        let mut probe = site.cargo(&[subcommand, "--version"]);
        probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !is_there() {
        site.must_run(Command::new("rustup").args(["component", "add", component]))?;
    }
    if !is_there() {
        bail!("cargo {subcommand} is missing: install the component {component} of the toolchain");
    }
    Ok(())
}

fn is_there(program: &Program) -> bool {
    let mut probe = Command::new(program.probe[0]);
    probe.args(&program.probe[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_its_probe_is_not_there() {
        assert!(is_there(&Program { name: "sh", probe: &["sh", "-c", "exit 0"], packages: &[] }));
        assert!(!is_there(&Program { name: "sh", probe: &["sh", "-c", "exit 1"], packages: &[] }));
        assert!(!is_there(&Program { name: "none", probe: &["no-such-program"], packages: &[] }));
    }
}
