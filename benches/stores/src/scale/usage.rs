//! What processes have used, by the system's own accounting.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result};

/// Nanoseconds that each thread of a process and of all its descendants was on a processor.
pub(crate) type Cpu = BTreeMap<u32, u64>;

/// Those of a process, and with `below` of those that it has started, too.
pub(crate) fn cpu(processes: &[u32]) -> Cpu {
    let threads = processes
        .iter()
        .flat_map(|pid| numbers(&format!("/proc/{pid}/task")).into_iter().map(move |thread| (*pid, thread)));
    // A thread may have ended meanwhile.
    let spent = |(pid, thread): (u32, u32)| {
        let said = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        Some((thread, said.split_whitespace().next()?.parse().ok()?))
    };
    threads.filter_map(spent).collect()
}

/// Microseconds between two looks. What a thread did that has ended in between is not in it.
pub(crate) fn between(before: &Cpu, after: &Cpu) -> f64 {
    let of = |(thread, until): (&u32, &u64)| until.saturating_sub(before.get(thread).copied().unwrap_or(0));
    after.iter().map(of).sum::<u64>() as f64 / 1e3
}

/// What a process has started, and what that has.
pub(crate) fn descendants(of: u32) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = numbers("/proc")
        .into_iter()
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (_, rest) = stat.rsplit_once(')')?;
            Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    let is_below = |mut pid: u32| {
        while let Some(parent) = parents.get(&pid) {
            if *parent == of {
                return true;
            }
            pid = *parent;
        }
        false
    };
    parents.keys().copied().filter(|pid| is_below(*pid)).collect()
}

/// Bytes of memory that a process has to itself, and its share of what it has with others.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("it has ended")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("no Pss in smaps_rollup")?;
    let kb: u64 = line.trim().trim_end_matches("kB").trim().parse().context("no number in smaps_rollup")?;
    Ok(kb * 1024)
}

fn numbers(folder: &str) -> Vec<u32> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
