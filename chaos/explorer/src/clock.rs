//! Time: the store's clock follows the paused clock of whichever runtime runs, so that nothing sleeps for real.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use longhaul_store::{Clock, Time};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// When every run begins.
const START: Time = Time::from_unix_ms(1_800_000_000_000);

/// The machine's clock, which goes on while no process runs on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Simulated(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    passed: Duration,
    /// What the running process's clock showed when it was last read.
    seen: Option<Instant>,
}

impl Simulated {
    /// A process begins: it must be called in its runtime.
    pub(crate) fn attach(&self) {
        self.lock().seen = Some(Instant::now());
    }

    /// It has ended, and the next begins so much later.
    pub(crate) fn detach(&self, off: Duration) {
        let mut state = self.lock();
        state.seen = None;
        state.passed += off;
    }

    /// A moment passes, so that no two operations happen at the same one.
    pub(crate) fn tick(&self) {
        self.lock().passed += Duration::from_millis(1);
    }

    /// How much time has passed. Threads that are not of a runtime are told what was read last: see `Audit`.
    pub(crate) fn passed(&self) -> Duration {
        let mut state = self.lock();
        if let Some(seen) = state.seen
            && Handle::try_current().is_ok()
        {
            let now = Instant::now();
            state.passed += now.saturating_duration_since(seen);
            state.seen = Some(now);
        }
        state.passed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Clock for Simulated {
    fn wall(&self) -> Time {
        START.after(self.passed())
    }

    fn steady(&self) -> Duration {
        // Not from zero on, for a clock that was never read would look like one that stands still.
        Duration::from_secs(1000) + self.passed()
    }

    fn boot(&self) -> &str {
        "one boot"
    }
}
