//! The clock of what keeps the store, by which all nodes go.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{Clock, SystemClock, Time};

/// What the server last said the time was, and the steady time since: what this machine believes the date is does not
/// count.
#[derive(Debug)]
pub(crate) struct ServerClock {
    machine: SystemClock,
    said: Mutex<(Time, Duration)>,
}

impl ServerClock {
    pub(crate) fn new(said: Time) -> Self {
        let machine = SystemClock::new();
        let steady = machine.steady();
        Self { machine, said: Mutex::new((said, steady)) }
    }

    /// The server has just said this.
    pub(crate) fn set(&self, said: Time) {
        *self.lock() = (said, self.machine.steady());
    }

    fn lock(&self) -> MutexGuard<'_, (Time, Duration)> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ServerClock {
    fn wall(&self) -> Time {
        let (said, steady) = *self.lock();
        said.after(self.machine.steady().saturating_sub(steady))
    }

    fn steady(&self) -> Duration {
        self.machine.steady()
    }

    fn boot(&self) -> &str {
        self.machine.boot()
    }
}
