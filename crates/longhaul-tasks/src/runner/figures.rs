//! What a node has come across: numbers for who watches it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_store::{StoreError, TaskId, Time};

use super::worker::Places;

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

/// Where a task stands that waits for a place among the calls of its tool on this node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct InLine {
    /// How many get a place before it.
    pub ahead: usize,
    /// How many calls of its tool this node runs at once.
    pub limit: usize,
}

impl InLine {
    /// Behind `ahead` others, where `limit` run at once.
    #[must_use]
    pub fn new(ahead: usize, limit: usize) -> Self {
        Self { ahead, limit }
    }
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

/// Who waits for a place among the calls of its tool. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    /// Those that wait, by the places that they wait for: a tool whose limit has changed has others, and those who waited before
    /// stay where they are.
    of: HashMap<usize, Line>,
    /// In which line each task stands, and under which number.
    stands: HashMap<TaskId, (usize, u64)>,
}

/// Those that wait for the same places, in the order in which they get one.
#[derive(Debug, Default)]
struct Line {
    /// The number of each, ever higher, and since when it waits.
    waiting: VecDeque<(u64, Time)>,
    /// How many places there are.
    limit: usize,
}

impl Line {
    /// Where the one of this number stands, or would.
    fn index(&self, number: u64) -> usize {
        self.waiting.partition_point(|(other, _)| *other < number)
    }
}

impl Queue {
    /// One more waits, until what this gives is dropped.
    pub(super) fn enter(&self, places: &Arc<Places>, id: &TaskId, since: Time) -> Queued {
        let (mut lines, places) = (self.lock(), Arc::clone(places));
        let line = lines.of.entry(key(&places)).or_default();
        line.limit = places.limit;
        let number = line.waiting.back().map_or(0, |(last, _)| last + 1);
        line.waiting.push_back((number, since));
        lines.stands.insert(id.clone(), (key(&places), number));
        Queued { queue: self.clone(), places, id: id.clone(), number }
    }

    /// Where this task stands, if it waits for a place.
    pub(super) fn in_line(&self, id: &TaskId) -> Option<InLine> {
        let lines = self.lock();
        let (of, number) = lines.stands.get(id)?;
        lines.of.get(of).map(|line| InLine::new(line.index(*number), line.limit))
    }

    fn oldest(&self) -> Option<Time> {
        self.lock().of.values().filter_map(|line| line.waiting.front()).map(|(_, since)| *since).min()
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits for a place, until dropped.
#[derive(Debug)]
pub(super) struct Queued {
    queue: Queue,
    /// Kept, so that no others have their key meanwhile.
    places: Arc<Places>,
    id: TaskId,
    number: u64,
}

/// What tells these places from all others as long as they are there.
fn key(places: &Arc<Places>) -> usize {
    Arc::as_ptr(places).addr()
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut lines = self.queue.lock();
        let (of, stands) = (key(&self.places), self.number);
        if lines.stands.get(&self.id) == Some(&(of, stands)) {
            lines.stands.remove(&self.id);
        }
        let Some(line) = lines.of.get_mut(&of) else { return };
        let at = line.index(self.number);
        if line.waiting.get(at).is_some_and(|(number, _)| *number == self.number) {
            line.waiting.remove(at);
        }
        if line.waiting.is_empty() {
            lines.of.remove(&of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knows_how_many_come_before_it_of_its_tool() {
        let (queue, test, deploy) = (Queue::default(), Places::new(2), Places::new(1));
        let id = |name: &str| TaskId::new(name).unwrap();
        let enter = |tool, name, at| queue.enter(tool, &id(name), Time::from_unix_ms(at));
        let first = enter(&test, "t-1", 10);
        let second = enter(&test, "t-2", 20);
        let third = enter(&test, "t-3", 30);
        let other = enter(&deploy, "d-1", 5);
        let in_line = |name| queue.in_line(&id(name)).map(|line| (line.ahead, line.limit));
        assert_eq!(
            [in_line("t-1"), in_line("t-3"), in_line("d-1")],
            [Some((0, 2)), Some((2, 2)), Some((0, 1))]
        );
        assert_eq!(in_line("d-2"), None);
        assert_eq!(queue.oldest(), Some(Time::from_unix_ms(5)));
        drop((second, other));
        assert_eq!([in_line("t-2"), in_line("t-3")], [None, Some((1, 2))]);
        let fourth = enter(&test, "t-4", 40);
        drop(first);
        assert_eq!([in_line("t-3"), in_line("t-4")], [Some((0, 2)), Some((1, 2))]);
        assert_eq!(queue.oldest(), Some(Time::from_unix_ms(30)));
        // A limit that was changed has places of its own, for which nobody waits who waited before.
        let others = Places::new(5);
        let fifth = enter(&others, "t-5", 50);
        assert_eq!([in_line("t-5"), in_line("t-4")], [Some((0, 5)), Some((1, 2))]);
        drop((third, fourth, fifth));
        let lines = queue.lock();
        assert!(lines.of.is_empty() && lines.stands.is_empty(), "nothing is kept of who is gone");
    }
}
