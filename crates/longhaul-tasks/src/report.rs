//! What running work says of itself: the latest counts, what was before it does not.

use std::sync::Arc;

use longhaul_store::Progress;
use tokio::sync::watch;

/// The latest that running work has said.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// How far it is.
    pub progress: Option<Progress>,
    /// One line for a person.
    pub status: Option<Arc<str>>,
}

/// Where running work says how far it is. Clones speak for the same work.
#[derive(Clone, Debug)]
pub struct Reporter(Arc<watch::Sender<Report>>);

impl Reporter {
    /// A reporter and the place where its reports are seen.
    pub fn new() -> (Self, watch::Receiver<Report>) {
        let (sender, receiver) = watch::channel(Report::default());
        (Self(Arc::new(sender)), receiver)
    }

    /// Says how far the work is. A value that does not rise is dropped.
    pub fn progress(&self, progress: Progress) {
        self.0.send_if_modified(|report| {
            let rises = progress.value.is_finite()
                && report.progress.as_ref().is_none_or(|last| progress.value > last.value);
            if rises {
                report.progress = Some(progress);
            }
            rises
        });
    }

    /// Says what the work is doing, in a line for a person.
    pub fn status(&self, status: impl Into<Arc<str>>) {
        let status = status.into();
        self.0.send_if_modified(|report| {
            let changed = report.status.as_ref() != Some(&status);
            report.status = Some(status);
            changed
        });
    }
}
