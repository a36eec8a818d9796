//! What this process takes of processors.

use std::fs;
use std::io::{Error, Result};

/// User and system time of this process so far, in seconds. The kernel counts in hundredths.
pub(crate) fn seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or_else(unknown)?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().ok())
        .sum::<Option<u64>>();
    Ok(ticks.ok_or_else(unknown)? as f64 / 100.0)
}

fn unknown() -> Error {
    Error::other("an unknown form of /proc/self/stat")
}
