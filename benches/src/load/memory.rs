//! Memory of a server.

use std::fs;

use anyhow::{Context, Result};

/// How much of it a process has resident, in kB.
///
/// # Errors
///
/// When the process has ended.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the server has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .context("an unknown form of /proc/PID/status")?;
    Ok(kb.parse()?)
}
