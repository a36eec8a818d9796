//! What work says of itself, on its way to its caller and to the row.

use std::sync::Arc;

use longhaul_store::Batch;

use super::Run;
use crate::report::Report;
use crate::runner::call::Observed;
use crate::runner::operation::report;

impl Run {
    /// The latest report, for the row.
    pub(super) fn batch(&self) -> Batch {
        batch(self.reports.latest(), self.listed.inner.limits.max_text)
    }

    pub(super) async fn handle_report(&mut self) {
        let progress = self.reports.see().progress;
        if let (Some(observer), Some(progress)) = (&self.observer, &progress) {
            let task = self.machine.is_answered().then_some(&self.listed.id);
            observer.observe(Observed::Progress { progress, task }).await;
        }
        self.timers.report_due = true;
        if self.timers.report.is_none() {
            self.write_report();
        }
    }

    /// Writes the latest report, at most one in so long.
    pub(super) fn write_report(&mut self) {
        if !self.timers.report_due || !self.machine.is_durable() || self.operation.is_some() {
            if self.timers.report_due && self.timers.report.is_none() {
                self.timers.report =
                    Some(self.listed.inner.environment.sleep(self.listed.inner.pace.report_every));
            }
            return;
        }
        self.timers.report_due = false;
        self.timers.report = Some(self.listed.inner.environment.sleep(self.listed.inner.pace.report_every));
        let batch = self.batch();
        self.operation =
            Some(report(Arc::clone(&self.listed.inner), self.listed.id.clone(), self.epoch, batch));
    }
}

/// The report as a store takes it, whose texts have at most `max_text` bytes: what is said beyond that is cut off. A task must not
/// stay in memory, or be silent, for its words.
fn batch(report: Report, max_text: usize) -> Batch {
    let cut = |text: Arc<str>| match text.len() > max_text {
        true => Arc::from(&text[..text.floor_char_boundary(max_text)]),
        false => text,
    };
    let mut batch = Batch::new();
    batch.progress = report.progress.map(|mut progress| {
        progress.message = progress.message.map(cut);
        progress
    });
    match report.status {
        Some(status) => batch.with_status_message(cut(status)),
        None => batch,
    }
}
