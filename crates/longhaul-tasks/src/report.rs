//! What running work says of itself: the latest counts, what was before it does not.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_store::Progress;

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
pub struct Reporter(Arc<Place>);

/// Where the reports of running work are seen.
#[derive(Debug)]
pub struct Reports {
    place: Arc<Place>,
    /// How many there had been at the last look.
    seen: u64,
}

/// The latest report on its way from one to the other. Small, for there is one for every call that waits.
#[derive(Debug, Default)]
struct Place(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    report: Report,
    /// How many there have been.
    count: u64,
    /// Who waits for the next.
    waiting: Option<Waker>,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the report, if `change` says that it has.
    fn change(&self, change: impl FnOnce(&mut Report) -> bool) {
        let mut latest = self.lock();
        if change(&mut latest.report) {
            latest.count += 1;
            let waiting = latest.waiting.take();
            drop(latest);
            if let Some(waiting) = waiting {
                waiting.wake();
            }
        }
    }
}

impl Reporter {
    /// A reporter and the place where its reports are seen.
    pub fn new() -> (Self, Reports) {
        let place = Arc::<Place>::default();
        (Self(Arc::clone(&place)), Reports { place, seen: 0 })
    }

    /// Says how far the work is. A value that does not rise is dropped.
    pub fn progress(&self, progress: Progress) {
        self.0.change(|report| {
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
        self.0.change(|report| {
            let changed = report.status.as_ref() != Some(&status);
            report.status = Some(status);
            changed
        });
    }
}

impl Reports {
    /// The latest report, which may have been seen.
    pub fn latest(&self) -> Report {
        self.place.lock().report.clone()
    }

    /// The latest report, which is seen by that.
    pub fn see(&mut self) -> Report {
        let latest = self.place.lock();
        self.seen = latest.count;
        latest.report.clone()
    }

    /// Whether there is one that has not been seen.
    pub fn has_news(&self) -> bool {
        self.place.lock().count != self.seen
    }

    /// Completes once there is one that has not been seen. Dropping the future loses nothing.
    pub async fn news(&mut self) {
        poll_fn(|cx| {
            let mut latest = self.place.lock();
            if latest.count != self.seen {
                return Poll::Ready(());
            }
            latest.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_told(reports: &mut Reports) -> bool {
        pin!(reports.news()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn only_what_changes_is_news_and_the_latest_counts() {
        let (reporter, mut reports) = Reporter::new();
        assert!(!is_told(&mut reports));
        reporter.progress(Progress::new(1.0, None, None));
        reporter.progress(Progress::new(2.0, None, None));
        assert!(is_told(&mut reports) && is_told(&mut reports), "until it is seen");
        assert_eq!(reports.see().progress.map(|progress| progress.value), Some(2.0));
        reporter.progress(Progress::new(2.0, None, None));
        reporter.progress(Progress::new(f64::NAN, None, None));
        assert!(!is_told(&mut reports));
        reporter.status("compiling");
        assert!(is_told(&mut reports));
        assert_eq!(reports.see(), reports.latest());
        reporter.status("compiling");
        assert!(!is_told(&mut reports));
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let (reporter, mut reports) = Reporter::new();
        let told = async {
            reports.news().await;
            reports.see().status
        };
        let (told, ()) = tokio::join!(told, async { reporter.status("compiling") });
        assert_eq!(told.as_deref(), Some("compiling"));
    }
}
