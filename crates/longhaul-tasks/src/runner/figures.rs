//! What a node has come across: numbers for who watches it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_store::{StoreError, Time};

/// What one node has come across since its engine was made. All but [`queue_age`](Self::queue_age) only rise.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// How long the task has waited that has waited longest: for a place among the calls of its tool on this node, or, as of
    /// this node's last look ([`Pace::strand_after`](super::Pace)), for any node that takes it up though it is due.
    pub queue_age: Duration,
    /// Tasks that this node has taken up after another had died with them, or had stood still past its lease.
    pub takeovers: u64,
    /// What this node was refused to write, for somebody else had the task by then or had ended it: it had stood still, or the
    /// task was cancelled.
    pub fenced_writes: u64,
    /// How often work was entered again over what it had learnt: after a crash, when what it waited for has come, or to be
    /// undone.
    pub replays: u64,
    /// Tasks for which nobody came back, found by a sweep of this node: each is counted once, by one node.
    pub orphans: u64,
    /// Those of them that were cancelled for it.
    pub orphans_cancelled: u64,
    /// Sweeps that were done.
    pub sweeps: u64,
    /// Open tasks that nothing would ever have moved on, each counted once by each node that looks
    /// ([`Pace::check_every`](super::Pace)). Anything but 0 is a mistake in this library or in a store.
    pub witness_violations: u64,
}

/// One number.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Puts it in the place of the last.
    pub(super) fn set(&self, to: Duration) {
        self.0.store(u64::try_from(to.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers as they are counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Since when calls wait for a place.
    pub(super) queue: Queue,
    /// How long a task has been due, in milliseconds.
    pub(super) due: Count,
    pub(super) takeovers: Count,
    pub(super) fenced_writes: Count,
    pub(super) replays: Count,
    pub(super) orphans: Count,
    pub(super) orphans_cancelled: Count,
    pub(super) sweeps: Count,
    pub(super) witness_violations: Count,
}

impl Counts {
    /// A write was refused, perhaps because it came too late.
    pub(super) fn refused(&self, error: &StoreError) {
        self.fenced_writes.add(usize::from(error.is_fenced()));
    }

    pub(super) fn figures(&self, now: Time) -> Figures {
        let waiting = self.queue.oldest().map_or(Duration::ZERO, |since| now.since(since));
        Figures {
            queue_age: waiting.max(Duration::from_millis(self.due.get())),
            takeovers: self.takeovers.get(),
            fenced_writes: self.fenced_writes.get(),
            replays: self.replays.get(),
            orphans: self.orphans.get(),
            orphans_cancelled: self.orphans_cancelled.get(),
            sweeps: self.sweeps.get(),
            witness_violations: self.witness_violations.get(),
        }
    }
}

/// Who waits for a place, since when. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Mutex<BTreeMap<u64, Time>>>);

impl Queue {
    /// One more waits, until what this gives is dropped.
    pub(super) fn enter(&self, since: Time) -> Queued {
        let mut waiting = self.lock();
        let number = waiting.last_key_value().map_or(0, |(last, _)| last + 1);
        waiting.insert(number, since);
        Queued { queue: self.clone(), number }
    }

    fn oldest(&self) -> Option<Time> {
        self.lock().first_key_value().map(|(_, since)| *since)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Time>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits for a place, until dropped.
#[derive(Debug)]
pub(super) struct Queued {
    queue: Queue,
    number: u64,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queue.lock().remove(&self.number);
    }
}
