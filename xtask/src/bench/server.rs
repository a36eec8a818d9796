//! A server that has a processor to itself for as long as the value lives.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::programs::Launch;
use crate::site::{kill_tree, shown};

/// The processor of servers.
pub(super) const PROCESSOR: &str = "0";

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts a program that prints the URL it listens on, and waits for that.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or ends without printing one.
    pub(super) fn start(launch: &Launch) -> Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", PROCESSOR]).args(launch.words()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", shown(&command)))?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().context("a piped stdout")?).read_line(&mut url)?;
        let server = Self { child, url: url.trim().to_owned() };
        if !server.url.starts_with("http://") {
            bail!("{} did not say where it listens", shown(&command));
        }
        Ok(server)
    }

    /// Its endpoint.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Its process. `taskset` becomes what it starts.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// User and system time so far, in seconds. The kernel counts in hundredths.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub(super) fn cpu(&self) -> Result<f64> {
        cpu_of(self.child.id())
    }

    /// How much memory it has resident, in MB.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub(super) fn rss(&self) -> Result<f64> {
        rss_of(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill_tree(&mut self.child);
    }
}

/// How much memory a process has resident, in MB.
///
/// # Errors
///
/// When it has ended.
pub(super) fn rss_of(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("the process has ended")?;
    rss_in(&status).context("an unknown form of /proc/PID/status")
}

/// User and system time of a process so far, in seconds.
///
/// # Errors
///
/// When it has ended.
pub(super) fn cpu_of(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server has ended")?;
    cpu_in(&stat).context("an unknown form of /proc/PID/stat")
}

/// User and system time, in seconds.
fn cpu_in(stat: &str) -> Option<f64> {
    // The name in parentheses may hold anything, so count from its end: user and system time are 12th and 13th.
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks: Option<u64> = fields.skip(11).take(2).map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks? as f64 / 100.0)
}

fn rss_in(status: &str) -> Option<f64> {
    let kb: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .trim()
        .strip_suffix(" kB")?
        .parse()
        .ok()?;
    Some(kb / 1000.0)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_programs_name_may_hold_anything() {
        assert_eq!(cpu_in("7 (a) b) S 1 7 7 0 -1 4194304 90 0 0 0 120 30 0 0 20"), Some(1.5));
        assert_eq!(cpu_in("7"), None);
        assert_eq!(rss_in("VmHWM:\t 9 kB\nVmRSS:\t    4400 kB\n"), Some(4.4));
    }

    #[test]
    fn a_program_that_does_not_listen_is_an_error() {
        let error = Server::start(&PathBuf::from("true").into()).unwrap_err().to_string();
        assert!(error.contains("did not say where it listens"), "{error}");
    }
}
