//! The clock of what keeps the store, by which all nodes go.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{Clock, SystemClock, Time, clock::LARGEST_STEP};

/// What the server last said the time was, and the steady time since: what this machine believes the date is does not
/// count.
#[derive(Debug)]
pub(crate) struct ServerClock {
    machine: SystemClock,
    said: Mutex<(Time, Duration)>,
}

impl ServerClock {
    /// What the server has just said is followed, whatever this machine believes: nobody has measured what has passed since the store
    /// was last used. One of the two may have to be set right, which is for people to see to.
    pub(crate) fn new(said: Time) -> Self {
        let machine = SystemClock::new();
        let here = machine.wall();
        if let Some(apart) = astray(said, here) {
            tracing::warn!(
                server = said.unix_ms(),
                here = here.unix_ms(),
                ?apart,
                "the server's date is an hour or more from this machine's; the store goes by the server's, and time limits with it"
            );
        }
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

/// How far two dates are apart, if that is so far that one of them must be wrong.
fn astray(said: Time, here: Time) -> Option<Duration> {
    let apart = said.since(here).max(here.since(said));
    (apart >= LARGEST_STEP).then_some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_date_is_far_from_the_machines_is_followed_and_noticed() {
        let (here, day) = (SystemClock::new().wall(), Duration::from_secs(86_400));
        let (ahead, behind) = (here.after(day), Time::from_unix_ms(here.unix_ms() - 86_400_000));
        for said in [ahead, behind] {
            assert_eq!(astray(said, here), Some(day));
            let followed = ServerClock::new(said).wall();
            assert!(followed >= said && followed < said.after(day / 2));
        }
        assert_eq!(astray(here.after(Duration::from_secs(3599)), here), None);
    }
}
