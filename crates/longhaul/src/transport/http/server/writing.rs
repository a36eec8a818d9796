//! Answers that wait for their clients to read them. Together they may have so many bytes; when that is too much, the
//! connection makes room whose client has read nothing for longest: who reads what it is sent has read it long before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "http2")]
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::SetOnce;
use tokio::time::Instant;

/// What all connections of one server have to write.
#[derive(Debug)]
pub(super) struct Writing {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// What waits in all of them but those that are given up.
    bytes: usize,
    connections: BTreeMap<u64, Waits>,
}

/// What waits in one connection.
#[derive(Debug)]
struct Waits {
    bytes: usize,
    /// When its client has read something last, or began to be waited for: the number of that among all such moments.
    since: u64,
    /// It ends, and counts no more.
    is_given_up: bool,
    dismissal: Arc<SetOnce<&'static str>>,
}

/// What one connection has to write.
#[derive(Debug)]
pub(super) struct Answers {
    all: Arc<Writing>,
    number: u64,
    /// The pieces that wait for their own windows (HTTP/2), each from when on; the one that has waited longest first.
    held_up: Mutex<BTreeMap<u64, Instant>>,
}

/// That a piece waits for the window of its answer, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldUp {
    number: u64,
    of: Arc<Answers>,
}

/// A piece of an answer, until it is written.
struct Piece {
    bytes: Bytes,
    of: Arc<Answers>,
}

/// A shorter piece is not counted: most answers are, and how many there are has bounds of its own.
const LEAST: usize = 4 << 10;

impl Writing {
    /// So many bytes at once.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// A connection begins, which is told so when it has to make room: what waits in it is to be let go.
    pub(super) fn begin(self: &Arc<Self>, dismissal: &Arc<SetOnce<&'static str>>) -> Arc<Answers> {
        let waits = Waits { bytes: 0, since: 0, is_given_up: false, dismissal: Arc::clone(dismissal) };
        let mut state = self.lock();
        let number = state.count();
        state.connections.insert(number, waits);
        Arc::new(Answers { all: Arc::clone(self), number, held_up: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Gives up connections until no more waits than may.
    fn make_room(&mut self, limit: usize) {
        while self.bytes > limit {
            let waiting = self.connections.values_mut().filter(|waits| waits.bytes > 0 && !waits.is_given_up);
            let Some(longest) = waiting.min_by_key(|waits| waits.since) else { return };
            longest.is_given_up = true;
            // The first reason counts.
            let _ = longest.dismissal.set("its client does not read, and others' answers had no room");
            self.bytes -= longest.bytes;
        }
    }
}

impl Answers {
    /// The same bytes, which count until they are written. A piece that is longer than all may be is let be if it is the only
    /// one.
    pub(super) fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if bytes.len() < LEAST {
            return bytes;
        }
        let mut state = self.all.lock();
        let now = state.count();
        if let Some(waits) = state.connections.get_mut(&self.number).filter(|waits| !waits.is_given_up) {
            if waits.bytes == 0 {
                waits.since = now;
            }
            waits.bytes += bytes.len();
            state.bytes += bytes.len();
            state.make_room(self.all.limit.max(bytes.len()));
        }
        drop(state);
        Bytes::from_owner(Piece { bytes, of: Arc::clone(self) })
    }

    /// Its client has read some of what waited for it.
    pub(super) fn went_on(&self) {
        let mut state = self.all.lock();
        let now = state.count();
        if let Some(waits) = state.connections.get_mut(&self.number) {
            waits.since = now;
        }
    }

    /// A piece begins to wait for the window of its answer.
    pub(super) fn hold_up(self: &Arc<Self>) -> HeldUp {
        let number = self.all.lock().count();
        self.held_up().insert(number, Instant::now());
        HeldUp { number, of: Arc::clone(self) }
    }

    /// Completes once a piece has waited for so long, or up to twice that, for the window of its answer.
    #[cfg(feature = "http2")]
    pub(super) async fn held_up_for(&self, limit: Duration) {
        loop {
            let longest = self.held_up().first_key_value().map(|(_, since)| since.elapsed());
            if longest.is_some_and(|longest| longest >= limit) {
                return;
            }
            tokio::time::sleep(limit.saturating_sub(longest.unwrap_or_default())).await;
        }
    }

    fn held_up(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.held_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // Every piece of it is gone.
        self.all.lock().connections.remove(&self.number);
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        self.of.held_up().remove(&self.number);
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut state = self.of.all.lock();
        let waits = state.connections.get_mut(&self.of.number).filter(|waits| !waits.is_given_up);
        if let Some(waits) = waits {
            waits.bytes -= self.bytes.len();
            state.bytes -= self.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn piece(bytes: usize) -> Bytes {
        vec![0; bytes].into()
    }

    /// Connections, and what tells each to make room.
    fn begin<const N: usize>(all: &Arc<Writing>) -> ([Arc<Answers>; N], [Arc<SetOnce<&'static str>>; N]) {
        let dismissals = [(); N].map(|()| Arc::new(SetOnce::new()));
        (dismissals.each_ref().map(|dismissal| all.begin(dismissal)), dismissals)
    }

    fn makes_room(dismissal: &Arc<SetOnce<&'static str>>) -> bool {
        pin!(dismissal.wait()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_has_read_nothing_for_longest_makes_room_and_who_reads_does_not() {
        let all = Arc::new(Writing::new(4 * LEAST));
        let (connections, dismissals) = begin::<4>(&all);
        let [slow, stuck, reads, comes] = &connections;
        let held = [slow, stuck].map(|answers| answers.hold(piece(LEAST)));
        drop(reads.hold(piece(2 * LEAST)));
        slow.went_on();
        let more = reads.hold(piece(2 * LEAST));
        assert!(!dismissals.iter().any(makes_room), "there is room");
        let last = comes.hold(piece(LEAST));
        assert_eq!(dismissals.each_ref().map(makes_room), [false, true, false, false]);
        // What it is given meanwhile is let go with it.
        let late = stuck.hold(piece(4 * LEAST));
        assert_eq!(all.lock().bytes, 4 * LEAST);
        drop((held, late, more, last));
        assert_eq!(all.lock().bytes, 0);
        drop(connections);
        assert!(all.lock().connections.is_empty());
    }

    #[test]
    fn one_answer_alone_may_be_longer_than_all() {
        let all = Arc::new(Writing::new(LEAST));
        let ([one, other], dismissals) = begin(&all);
        let long = one.hold(piece(3 * LEAST));
        assert!(!makes_room(&dismissals[0]));
        let short = other.hold(piece(LEAST));
        assert_eq!(dismissals.each_ref().map(makes_room), [true, false]);
        drop((long, short));
        assert_eq!(all.lock().bytes, 0);
    }
}
