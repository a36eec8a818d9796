//! What this machine is, and how busy with other things.

use std::fs;
use std::thread;
use std::time::Duration;

/// Processors and system.
pub(super) fn describe() -> String {
    let model =
        read("/proc/cpuinfo", |line| Some(line.strip_prefix("model name")?.split_once(": ")?.1.to_owned()));
    let kernel = read("/proc/sys/kernel/osrelease", |line| Some(line.to_owned()));
    let count = thread::available_parallelism().map_or(0, usize::from);
    format!("machine: {count} processors, {model}, Linux {kernel}")
}

/// How much of the processors is in use in a second in which nothing is measured, in words.
pub(super) fn busy() -> String {
    let before = times();
    thread::sleep(Duration::from_secs(1));
    match before.zip(times()).and_then(|(before, after)| share(before, after)) {
        None => "how busy the machine is, is unknown".to_owned(),
        Some(share) if share <= QUIET => format!("the machine is quiet ({share} % busy)"),
        Some(share) => format!(
            "the machine is {share} % busy with other things: rates and latencies are worth little, and so is \
             what is made of them"
        ),
    }
}

/// Up to so many per cent are what any machine does for itself.
const QUIET: u64 = 5;

/// Time in use and time in all, in ticks.
fn times() -> Option<(u64, u64)> {
    times_in(&fs::read_to_string("/proc/stat").ok()?)
}

fn times_in(stat: &str) -> Option<(u64, u64)> {
    let ticks: Vec<u64> = stat
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))?
        .split_whitespace()
        .take(8)
        .map_while(|ticks| ticks.parse().ok())
        .collect();
    let [user, nice, system, idle, waiting, rest @ ..] = ticks.as_slice() else { return None };
    let busy = user + nice + system + rest.iter().sum::<u64>();
    Some((busy, busy + idle + waiting))
}

fn share((busy_before, before): (u64, u64), (busy_after, after): (u64, u64)) -> Option<u64> {
    (busy_after.saturating_sub(busy_before) * 100).checked_div(after.saturating_sub(before))
}

fn read(path: &str, find: impl Fn(&str) -> Option<String>) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().find_map(find).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_not_busy() {
        let before = times_in("cpu  10 0 10 100 0 0 0 0 0 0\ncpu0 1 1 1 1").unwrap();
        let after = times_in("cpu  20 5 20 150 10 3 2 10 0 0").unwrap();
        assert_eq!(share(before, after), Some(40));
        assert_eq!(share(after, after), None);
        assert_eq!(times_in("cpu 1 2 x"), None);
    }
}
