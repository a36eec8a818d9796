//! What everybody at work waits for, to be said if it never comes.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What each thread waits for, by its name.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<String, (String, Instant)>>);

impl Waits {
    /// From now on this thread waits for that.
    pub(super) fn on(&self, what: impl Into<String>) {
        let who = thread::current().name().unwrap_or("somebody").to_owned();
        self.lock().insert(who, (what.into(), Instant::now()));
    }

    /// This thread waits for nothing any more.
    pub(super) fn over(&self) {
        self.lock().remove(thread::current().name().unwrap_or("somebody"));
    }

    /// What is waited for, and for how long already.
    pub(super) fn told(&self) -> String {
        let line = |(who, (what, since)): (&String, &(String, Instant))| {
            format!("{who} waits for {what}, since {:.1} s", since.elapsed().as_secs_f64())
        };
        self.lock().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it is there, the time is taken.
#[derive(Debug)]
pub(super) struct Watchdog(#[expect(dead_code, reason = "it is dropped")] Sender<()>);

/// Does this if the handle is still there after so long, with what is waited for then.
pub(super) fn watch(
    waits: Arc<Waits>,
    longest: Duration,
    bark: impl FnOnce(String) + Send + 'static,
) -> Watchdog {
    let (there, gone) = channel::<()>();
    thread::spawn(move || {
        if gone.recv_timeout(longest) == Err(RecvTimeoutError::Timeout) {
            bark(waits.told());
        }
    });
    Watchdog(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_too_long_is_told_of() {
        let (waits, (said, hears)) = (Arc::new(Waits::default()), channel());
        let its = Arc::clone(&waits);
        let work = move || {
            its.on("its breakfast");
            its.over();
            its.on("the end of days");
        };
        thread::Builder::new().name("a caller".to_owned()).spawn(work).unwrap().join().unwrap();
        let watchdog = watch(waits, Duration::from_millis(1), move |told| said.send(told).unwrap());
        let told = hears.recv().unwrap();
        assert!(told.starts_with("a caller waits for the end of days, since "), "{told}");
        assert_eq!(told.lines().count(), 1);
        drop(watchdog);
    }

    #[test]
    fn what_ends_in_time_is_nobodys_business() {
        let (said, hears) = channel::<String>();
        let longest = Duration::from_secs(3600);
        drop(watch(Arc::default(), longest, move |told| said.send(told).unwrap()));
        assert!(hears.recv().is_err(), "nothing is said");
    }
}
