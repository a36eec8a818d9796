//! What this machine is, and how busy.

use std::fs;

/// Processors, system, and how busy it is.
pub(super) fn describe() -> String {
    let model =
        read("/proc/cpuinfo", |line| Some(line.strip_prefix("model name")?.split_once(": ")?.1.to_owned()));
    let kernel = read("/proc/sys/kernel/osrelease", |line| Some(line.to_owned()));
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    format!("machine: {count} processors, {model}, Linux {kernel}; load before: {}", load())
}

/// The load averages of the last 1, 5 and 15 minutes.
pub(super) fn load() -> String {
    read("/proc/loadavg", |line| Some(line.splitn(4, ' ').take(3).collect::<Vec<_>>().join(" ")))
}

fn read(path: &str, find: impl Fn(&str) -> Option<String>) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().find_map(find).unwrap_or_else(|| "unknown".to_owned())
}
