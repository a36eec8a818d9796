//! Where a stream stands: how much was seen, how much of it is kept, and where in its file.
//!
//! A stream file of `head + tail` bytes is filled from its beginning. What comes after overwrites the second part
//! in a circle, so the file always holds the first `head` bytes of the stream and the last `tail`. A reader that
//! holds a cursor into the stream needs this record to tell which bytes are where, and to notice that they were
//! overwritten while it read.

use serde::{Deserialize, Serialize};

use super::exit::{Gap, StreamSummary};

/// The record in `stdout.at` and `stderr.at`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Position {
    /// How many bytes of the beginning are kept.
    pub(super) head: u64,
    /// How many bytes of the end are kept, once more than `head + tail` were stored.
    pub(super) tail: u64,
    /// Bytes below `reserved - tail` may be overwritten at any moment. Never less than `end`.
    pub(super) reserved: u64,
    /// Up to here the stream was stored; what is kept of it can be read.
    pub(super) end: u64,
    /// How many bytes the command wrote. More than `end` once the file takes no more.
    pub(super) total: u64,
    /// No more will come.
    pub(super) closed: bool,
    /// Why the file took less than its limit.
    pub(super) fault: Option<String>,
}

impl Position {
    pub(super) const fn new(max_output: u64) -> Self {
        let head = max_output / 2;
        Self { head, tail: max_output - head, reserved: 0, end: 0, total: 0, closed: false, fault: None }
    }

    pub(super) const fn capacity(&self) -> u64 {
        self.head + self.tail
    }

    /// Where byte `offset` of the stream is in the file.
    pub(super) const fn physical(&self, offset: u64) -> u64 {
        if offset < self.capacity() { offset } else { self.head + (offset - self.head) % self.tail }
    }

    /// How many bytes from `offset` on lie in one piece of the file, at most.
    pub(super) const fn contiguous(&self, offset: u64) -> u64 {
        self.capacity() - self.physical(offset)
    }

    /// The first byte behind the head that can be read, if `reserved` bytes were to be stored.
    pub(super) const fn tail_start(&self) -> u64 {
        let start = self.reserved.saturating_sub(self.tail);
        if start > self.head { start } else { self.head }
    }

    /// What is missing between head and tail.
    pub(super) const fn middle_gap(&self) -> Option<Gap> {
        let from = if self.head < self.end { self.head } else { self.end };
        let to = if self.tail_start() < self.end { self.tail_start() } else { self.end };
        Gap::between(from, to)
    }

    pub(super) fn summary(&self) -> StreamSummary {
        let middle = self.middle_gap();
        let kept = self.end - middle.map_or(0, |gap| gap.bytes());
        // Two stretches are missing only after a second fault; then the gap spans what little lies between.
        let gap = match (middle, Gap::between(self.end, self.total)) {
            (Some(middle), Some(after)) => Gap::between(middle.from, after.to),
            (middle, after) => middle.or(after),
        };
        StreamSummary { total: self.total, kept, gap, fault: self.fault.clone() }
    }
}
