//! Processes as `/proc` shows them, and signals that cannot hit another process that got the same number.
//!
//! Only Linux has what this needs. Elsewhere nothing is found, so a run ends its command's process group and no
//! more: what calls `setsid` there escapes.

use rustix::process::{Pid, Signal};

/// One process at the moment it was looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// Clock ticks since boot; with the pid and the boot id it is never used twice.
    pub(super) start_ticks: u64,
    pub(super) is_zombie: bool,
}

impl Process {
    /// The process with this number, if there is one.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let pid = Pid::from_raw(pid)?;
        Self::parse(pid, &std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
    }

    /// Sends a signal to this very process. Not to one that took its number: the descriptor pins the process, and
    /// the start time, read after it was pinned, says which one it is.
    ///
    /// Says whether it was delivered; a process that is gone already needs none.
    #[cfg(target_os = "linux")]
    pub(super) fn signal(&self, signal: Signal) -> bool {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

        let Ok(pinned) = pidfd_open(self.pid, PidfdFlags::empty()) else { return false };
        let is_same =
            Self::of(self.pid.as_raw_nonzero().get()).is_some_and(|now| now.start_ticks == self.start_ticks);
        is_same && pidfd_send_signal(pinned, signal).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn signal(&self, signal: Signal) -> bool {
        rustix::process::kill_process(self.pid, signal).is_ok()
    }

    /// The fields of `/proc/PID/stat`; the name in parentheses may itself hold spaces and parentheses.
    fn parse(pid: Pid, stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // Field 3 of proc_pid_stat(5) is the first behind the name.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            pid,
            parent: field(4)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            start_ticks: field(22)?.parse().ok()?,
            is_zombie: matches!(field(3)?, "Z" | "X"),
        })
    }
}

/// Every process that can be seen, zombies included. Empty where there is no `/proc`.
pub(super) fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| Process::of(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// What descends from `roots` in `all`, parents before children, the roots left out.
pub(super) fn descendants(all: &[Process], roots: &[i32]) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents: Vec<i32> = roots.to_vec();
    // Each turn is one generation; a process has one parent, so none is found twice.
    while !parents.is_empty() {
        let generation: Vec<Process> = all
            .iter()
            .filter(|process| parents.contains(&process.parent) && !roots.contains(&raw(process.pid)))
            .copied()
            .collect();
        parents = generation.iter().map(|process| raw(process.pid)).collect();
        found.extend(generation);
    }
    found
}

/// What lives and descends from this process.
pub(super) fn living_descendants_of_self() -> Vec<Process> {
    let own = raw(rustix::process::getpid());
    let mut found = descendants(&all(), &[own]);
    found.retain(|process| !process.is_zombie);
    found
}

pub(super) fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// Clock ticks since boot, in which start times are counted. Zero where there is no such clock.
pub(super) fn ticks_since_boot() -> u64 {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        let now = clock_gettime(ClockId::Boottime);
        let per_second = rustix::param::clock_ticks_per_second();
        let fraction = u64::try_from(now.tv_nsec).unwrap_or(0) * per_second / 1_000_000_000;
        u64::try_from(now.tv_sec).unwrap_or(0) * per_second + fraction
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// Tells one boot of one machine, and one container in it, from all others.
pub(super) fn namespace_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let pids = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), pids.display())
}

/// Whether the process was started with `NAME=VALUE` in its environment. `false` when that cannot be seen.
pub(super) fn was_started_with(process: &Process, variable: &[u8]) -> bool {
    use std::io::Read as _;

    let Ok(file) = std::fs::File::open(format!("/proc/{}/environ", process.pid.as_raw_nonzero())) else {
        return false;
    };
    let mut environ = Vec::new();
    let read = file.take(ENVIRON_LIMIT).read_to_end(&mut environ);
    read.is_ok() && environ.split(|byte| *byte == 0).any(|entry| entry == variable)
}

/// More than any system lets an environment have.
const ENVIRON_LIMIT: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid: Pid::from_raw(pid).unwrap(), parent, session: 1, start_ticks: 0, is_zombie: false }
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_no_field() {
        let stat = b"42 (a) b (c)) S 7 42 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11";
        let parsed = Process::parse(Pid::from_raw(42).unwrap(), stat).unwrap();
        assert_eq!(
            (parsed.parent, parsed.session, parsed.start_ticks, parsed.is_zombie),
            (7, 9, 987_654, false)
        );
    }

    #[test]
    fn this_process_is_found() {
        let own = Process::of(raw(rustix::process::getpid())).unwrap();
        assert!(all().contains(&own));
        assert!(own.start_ticks <= ticks_since_boot());
    }

    #[test]
    fn descendants_are_found_whatever_their_order() {
        let all = [process(5, 4), process(4, 3), process(3, 2), process(9, 1), process(2, 1)];
        let pids: Vec<i32> = descendants(&all, &[2]).iter().map(|found| raw(found.pid)).collect();
        assert_eq!(pids, [3, 4, 5]);
    }

    /// K23 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn s34_a_process_that_took_the_number_of_another_is_not_signalled() {
        let own = Process::of(raw(rustix::process::getpid())).unwrap();
        let other = Process { start_ticks: own.start_ticks + 1, ..own };
        assert!(!other.signal(Signal::KILL));
    }
}
