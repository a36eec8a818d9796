//! Ends everything that descends from the supervisor: SIGTERM, a grace, SIGKILL until nothing is left.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::command::process;

/// An end that was begun. Nothing calls it off.
#[derive(Debug)]
pub(super) struct Ending {
    next_kill: Instant,
    give_up_at: Instant,
}

impl Ending {
    /// Asks every process of the tree to end. `group` is the command's process group while its number is certain.
    pub(super) fn begin(now: Instant, grace: Duration, group: Option<Pid>) -> Self {
        let kill_at = later(now, grace);
        if !grace.is_zero() {
            signal_all(Signal::TERM, group);
            // Who is stopped gets to see the signal.
            signal_all(Signal::CONT, group);
        }
        Self { next_kill: kill_at, give_up_at: later(kill_at, KILL_PATIENCE) }
    }

    /// Kills what is left once the grace is over, again and again: a process may fork while it is being found.
    /// Says whether there is no use in going on.
    pub(super) fn advance(&mut self, now: Instant, group: Option<Pid>) -> bool {
        if now >= self.next_kill {
            signal_all(Signal::KILL, group);
            self.next_kill = now + KILL_PAUSE;
        }
        now >= self.give_up_at
    }

    pub(super) fn deadline(&self) -> Instant {
        self.next_kill.min(self.give_up_at)
    }
}

/// Each process once: a second SIGTERM means "at once" to many programs. Where the tree cannot be seen the group
/// has to do; and SIGKILL, which does no harm twice, goes to the group as well, because the kernel signals a group
/// in one step while a process that forks can slip through a list.
fn signal_all(signal: Signal, group: Option<Pid>) {
    if let Some(group) = group.filter(|_| signal == Signal::KILL || !cfg!(target_os = "linux")) {
        // All of it may be gone.
        let _delivered = kill_process_group(group, signal);
    }
    for process in process::living_descendants_of_self() {
        process.signal(signal);
    }
}

/// `now + duration`, or a time that never comes.
pub(super) fn later(now: Instant, duration: Duration) -> Instant {
    now.checked_add(duration).unwrap_or_else(|| now + NEVER)
}

/// What SIGKILL has not ended by then hangs in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(30);
const KILL_PAUSE: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
