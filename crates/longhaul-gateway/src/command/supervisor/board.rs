//! The news of a run: collects progress and the last line, and publishes them at most once a second.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use regex::bytes::Regex;

use crate::command::{
    crash::crash_point,
    layout::{FileError, RunDir, STATUS, STATUS_SIZE},
    line::{LineScanner, LineSink, readable},
    process::ticks_since_boot,
    progress::Progress,
    record,
    status::Status,
};

/// Where the latest news is kept.
#[derive(Debug)]
pub(super) struct Board {
    record: File,
    /// One for each output stream: their lines do not mix.
    outputs: [LineScanner; 2],
    progress: LineScanner,
    found: Found,
    status: Status,
    changed: bool,
    next: Option<Instant>,
}

impl Board {
    pub(super) fn open(run: &RunDir, pattern: Option<Regex>) -> Result<Self, FileError> {
        Ok(Self {
            record: run.write(STATUS)?,
            outputs: Default::default(),
            progress: LineScanner::default(),
            found: Found { pattern, ..Found::default() },
            status: Status::default(),
            changed: true,
            next: None,
        })
    }

    /// Sees what came on an output stream.
    pub(super) fn see_output(&mut self, stream: usize, bytes: &[u8]) {
        self.outputs[stream].feed(bytes, &mut self.found);
        self.changed = true;
    }

    /// Sees what came on descriptor 3.
    pub(super) fn see_progress(&mut self, bytes: &[u8]) {
        let mut lines = ProgressLines { latest: None };
        self.progress.feed(bytes, &mut lines);
        if lines.latest.is_some() {
            self.found.progress = lines.latest;
            self.changed = true;
        }
    }

    /// The latest that was published.
    pub(super) const fn published(&self) -> &Status {
        &self.status
    }

    /// When there will be news to publish, if no more comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.changed.then_some(self.next).flatten()
    }

    /// Publishes what is new, when it is time or `at_once` says that it is the end.
    pub(super) fn publish(&mut self, now: Instant, totals: [u64; 2], at_once: bool) -> Option<&Status> {
        if !self.changed || (!at_once && self.next.is_some_and(|next| now < next)) {
            return None;
        }
        self.changed = false;
        self.next = Some(now + PACE);
        self.status.sequence += 1;
        self.status.progress.clone_from(&self.found.progress);
        self.status.line = self.found.line.as_deref().map(readable);
        [self.status.stdout_bytes, self.status.stderr_bytes] = totals;
        self.status.alive_ticks = ticks_since_boot();
        crash_point("supervisor.status.before");
        // News that cannot be kept is still told to who is attached.
        let _kept = record::write(&self.record, STATUS_SIZE, &self.status);
        crash_point("supervisor.status.after");
        Some(&self.status)
    }
}

#[derive(Debug, Default)]
struct Found {
    pattern: Option<Regex>,
    line: Option<Vec<u8>>,
    progress: Option<Progress>,
}

impl LineSink for Found {
    fn segment(&mut self, bytes: &[u8]) {
        let Some(pattern) = &self.pattern else { return };
        if let Some(progress) = Progress::from_pattern(pattern, bytes) {
            self.progress = Some(progress);
        }
    }

    fn line(&mut self, bytes: &[u8]) {
        let line = self.line.get_or_insert_with(Vec::new);
        line.clear();
        line.extend_from_slice(bytes);
    }

    fn osc(&mut self, payload: &[u8]) {
        if let Some(progress) = Progress::from_osc(payload) {
            self.progress = Some(progress);
        }
    }
}

struct ProgressLines {
    latest: Option<Progress>,
}

impl LineSink for ProgressLines {
    fn segment(&mut self, _bytes: &[u8]) {}

    fn line(&mut self, bytes: &[u8]) {
        if let Some(progress) = Progress::from_line(bytes) {
            self.latest = Some(progress);
        }
    }

    fn osc(&mut self, _payload: &[u8]) {}
}

const PACE: Duration = Duration::from_secs(1);
