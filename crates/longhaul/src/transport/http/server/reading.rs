//! Bodies that are being read. Together they may have so many bytes; when that is too much, the one makes room that has
//! been read longest, whosever it is: who sends what it has is done long before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All bodies of one server that are being read.
#[derive(Debug)]
pub(super) struct Reading {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// What has come of all of them.
    bytes: usize,
    /// The one that has been read longest first.
    bodies: BTreeMap<u64, Read>,
}

#[derive(Debug)]
struct Read {
    bytes: usize,
    given_up: Arc<Notify>,
}

/// One body that is being read, until it is dropped.
#[derive(Debug)]
pub(super) struct Body<'r> {
    all: &'r Reading,
    number: u64,
    given_up: Arc<Notify>,
}

impl Reading {
    /// So many bytes at once.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// A body begins.
    pub(super) fn begin(&self) -> Body<'_> {
        let given_up = Arc::new(Notify::new());
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        state.bodies.insert(number, Read { bytes: 0, given_up: Arc::clone(&given_up) });
        Body { all: self, number, given_up }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body<'_> {
    /// So much more of it has come.
    pub(super) fn grow(&self, bytes: usize) {
        let mut state = self.all.lock();
        let Some(read) = state.bodies.get_mut(&self.number) else { return };
        read.bytes += bytes;
        state.bytes += bytes;
        while state.bytes > self.all.limit
            && let Some((_, longest)) = state.bodies.pop_first()
        {
            state.bytes -= longest.bytes;
            longest.given_up.notify_one();
        }
    }

    /// Completes once it has to make room: what came of it is to be let go.
    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        if let Some(read) = state.bodies.remove(&self.number) {
            state.bytes -= read.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn makes_room(body: &Body<'_>) -> bool {
        pin!(body.given_up()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn the_body_that_has_been_read_longest_makes_room_and_a_finished_one_has_made_it() {
        let reading = Reading::new(10);
        let (first, second) = (reading.begin(), reading.begin());
        first.grow(4);
        second.grow(6);
        assert!(!makes_room(&first) && !makes_room(&second));
        drop(first);
        let third = reading.begin();
        third.grow(4);
        assert!(!makes_room(&second), "the first has ended");
        third.grow(1);
        assert!(makes_room(&second) && !makes_room(&third));
        third.grow(5);
        assert!(!makes_room(&third), "it has all there is");
        drop((second, third));
        assert_eq!(reading.lock().bytes, 0);
    }
}
