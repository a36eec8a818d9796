//! What the attacks are made with: a fresh place, a server in it, and clients that may misbehave.

pub(crate) mod grantor;
pub(crate) mod http;
pub(crate) mod modern;
pub(crate) mod pipe;
pub(crate) mod place;
pub(crate) mod scene;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod small_disk;

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take: only a hang gets there.
pub(crate) const HANG: Duration = Duration::from_secs(90);

/// Looks until there is something to see.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + HANG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
