//! Pauses before what has failed is tried again, each twice as long as the last.

use std::time::Duration;

use super::Inner;
use crate::environment::BoxFuture;

/// The pauses of one thing that is tried again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// From `first` up to `longest`.
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Those of what is asked of a store that may be back soon.
    pub(super) const fn of_store() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// Those of work that has failed, or taken a process with it.
    pub(super) fn of_work(inner: &Inner) -> Self {
        Self::new(inner.pace.retry_work, Duration::from_secs(60))
    }

    /// Those that are left when so many have passed.
    pub(super) fn after(mut self, passed: u32) -> Self {
        self.next = self.next.saturating_mul(1 << passed.min(16)).min(self.longest);
        self
    }

    /// The next, apart from what is tried again; up to a quarter shorter, so that what has failed together is not tried again
    /// together.
    pub(super) fn wait(&mut self, inner: &Inner) -> BoxFuture<'static, ()> {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        let mut chance = [0];
        inner.environment.random(&mut chance);
        inner.environment.sleep(pause - pause * u32::from(chance[0]) / 1024)
    }
}
