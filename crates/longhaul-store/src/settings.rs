//! What an operator may set: leases, retention and limits.

use std::time::Duration;

/// How a store behaves. Every process on one store should use the same.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How long a claim holds without renewal. Default 30 s.
    pub lease: Duration,
    /// The least time an outcome can be read of a task whose time counts from its creation
    /// ([`Retention::FromCreation`](crate::Retention)), even if that is up at once. Default 5 min.
    pub min_result_retention: Duration,
    /// How long after its end a task is kept at most that is still to be undone, though it may be forgotten for its
    /// callers before. Default 7 d.
    pub undo_retention: Duration,
    /// How long a forgotten task's id stays taken. One that was erased and has no key is free after the next sweep. Default 1 h.
    pub tombstone: Duration,
    /// How long a stream can be resumed after its latest event. Default 15 min.
    pub event_retention: Duration,
    /// How much there may be of everything.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            min_result_retention: Duration::from_secs(5 * 60),
            undo_retention: Duration::from_secs(7 * 24 * 60 * 60),
            tombstone: Duration::from_secs(60 * 60),
            event_retention: Duration::from_secs(15 * 60),
            limits: Limits::default(),
        }
    }
}

/// How much there may be of everything. What exceeds a limit is refused before anything is written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Open tasks in all. Default 10,000.
    pub max_open: u64,
    /// Open tasks of one principal. Default 1,000.
    pub max_open_per_owner: u64,
    /// Open tasks of all anonymous callers together. Default 1,000.
    pub max_open_anonymous: u64,
    /// Open tasks of one anonymous caller, as far as it is told from others. There is room for a call with all its
    /// own children, not with all of theirs: what spawns more is refused it, as past any bound. Where it is no less than what all together may have, nothing is
    /// counted of each. Default 300.
    pub max_open_per_stranger: u64,
    /// Tasks that one anonymous caller may make within a day, as far as it is told from others, however soon they end: what
    /// has ended is kept, and would use up what may be kept of all. All of them may take a tenth of
    /// [`max_task_bytes_per_owner`](Self::max_task_bytes_per_owner): one that takes more than its part of that, 4 KiB at least, counts as one
    /// more for each such part. Each server counts for itself what is made by it, and what those have come to that end at it, by their run or by a
    /// cancel; what tasks make themselves it does not count, and nothing where it counts no open tasks of each. Default 10,000.
    pub max_made_per_stranger: u64,
    /// Tasks kept, open or done, tombstones included. Default 1,000,000.
    pub max_retained: u64,
    /// Tasks kept for one principal, or for all anonymous callers together. Default 100,000.
    pub max_retained_per_owner: u64,
    /// Bytes of the tasks of one principal, or of all anonymous callers together, as each [weighs](crate::Record::weight): past
    /// it no more are made, until some are forgotten. What is open may still grow, within the limits of each task. Default 4 GiB.
    pub max_task_bytes_per_owner: u64,
    /// Bytes of a task's arguments. Default 4 MiB.
    pub max_arguments: usize,
    /// Bytes of what the layer above remembers of the caller. Default 64 KiB.
    pub max_caller: usize,
    /// Bytes of an outcome. Default 16 MiB.
    pub max_outcome: usize,
    /// Bytes of a status message, a progress message, a reason or a tool's name. Default 4 KiB.
    pub max_text: usize,
    /// Steps of one task. Default 10,000.
    pub max_steps: u32,
    /// Bytes of one step: what it came to, or what it asks. Default 1 MiB.
    pub max_step: usize,
    /// Bytes of all steps of one task. Default 64 MiB.
    pub max_step_bytes: u64,
    /// Questions of one task that wait for an answer. Default 64.
    pub max_questions: usize,
    /// Parts that the work of one task may give before its end. Default 10,000.
    pub max_parts: u32,
    /// Bytes of one part. Default 256 KiB.
    pub max_part: usize,
    /// Bytes of all parts of one task. Default 16 MiB.
    pub max_part_bytes: u64,
    /// Generations of tasks below a call's own. Default 8.
    pub max_depth: u32,
    /// Open children of one task. Default 256.
    pub max_children: u32,
    /// Tasks that are made in all below one above which no task is open, however many of them have ended. Default 10,000.
    pub max_descendants: u32,
    /// Bytes of what those are made with, and of what is kept of them once they have ended (steps, parts, outcomes). Whatever
    /// uses up a share of it as large as one of [`max_descendants`](Self::max_descendants) counts as one more of them. Default
    /// 1 GiB.
    pub max_descendant_bytes: u64,
    /// Events kept of one stream; beyond, the oldest go. Default 1,000.
    pub max_stream_events: u64,
    /// Bytes of events kept of one stream, each counted as 512 bytes more than its text; beyond, the oldest go.
    /// Default 4 MiB.
    pub max_stream_bytes: usize,
    /// Bytes of events of one principal, or of all anonymous callers together. Default 64 MiB.
    pub max_event_bytes_per_owner: u64,
    /// Bytes of events in all. Default 1 GiB.
    pub max_event_bytes: u64,
    /// Bytes of one entry of the registry. Default 64 KiB.
    pub max_entry: usize,
    /// Entries of one principal, or of all anonymous callers together, and as many again of those that can be done without
    /// ([`Holder::Spare`](crate::Holder::Spare)). Default 10,000.
    pub max_entries_per_owner: u64,
    /// Entries in all; those that can be done without take half of this room at most. Default 1,000,000.
    pub max_entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_open: 10_000,
            max_open_per_owner: 1_000,
            max_open_anonymous: 1_000,
            max_open_per_stranger: 300,
            max_made_per_stranger: 10_000,
            max_retained: 1_000_000,
            max_retained_per_owner: 100_000,
            max_task_bytes_per_owner: 4 << 30,
            max_arguments: 4 << 20,
            max_caller: 64 << 10,
            max_outcome: 16 << 20,
            max_text: 4 << 10,
            max_steps: 10_000,
            max_step: 1 << 20,
            max_step_bytes: 64 << 20,
            max_questions: 64,
            max_parts: 10_000,
            max_part: 256 << 10,
            max_part_bytes: 16 << 20,
            max_depth: 8,
            max_children: 256,
            max_descendants: 10_000,
            max_descendant_bytes: 1 << 30,
            max_stream_events: 1_000,
            max_stream_bytes: 4 << 20,
            max_event_bytes_per_owner: 64 << 20,
            max_event_bytes: 1 << 30,
            max_entry: 64 << 10,
            max_entries_per_owner: 10_000,
            max_entries: 1_000_000,
        }
    }
}
