//! What this node has come across: numbers for who watches it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one node has come across since its engine was made. Numbers only rise.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Tasks for which nobody came back, found by a sweep of this node: each is counted once, by one node.
    pub orphans: u64,
    /// Those of them that were cancelled for it.
    pub orphans_cancelled: u64,
}

/// One number.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers as they are counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) orphans: Count,
    pub(super) orphans_cancelled: Count,
}

impl Counts {
    pub(super) fn figures(&self) -> Figures {
        Figures { orphans: self.orphans.get(), orphans_cancelled: self.orphans_cancelled.get() }
    }
}
