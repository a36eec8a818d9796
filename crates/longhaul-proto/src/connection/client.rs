//! The client's side: the requests that wait for an answer, and when to stop waiting.

use std::collections::HashMap;
use std::time::Duration;

use crate::jsonrpc::{ProgressToken, RequestId};

/// As many requests wait for an answer as the connection allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{limit} requests are already waiting for an answer, the limit: wait for one to end")]
#[non_exhaustive]
pub struct PendingLimit {
    /// The limit.
    pub limit: usize,
}

/// One connection, seen from the client. Ids are integers, counted up and never used twice; the progress token
/// of a request that wants progress is its id. Every `now` is the time since an origin of the caller's choice,
/// the same for one connection.
#[derive(Debug)]
pub struct ClientConnection {
    next: i64,
    pending: HashMap<RequestId, Pending>,
    /// The tokens in use, with the last progress under each.
    tokens: HashMap<ProgressToken, Option<f64>>,
    max_pending: usize,
}

#[derive(Debug)]
struct Pending {
    /// How long without an answer or progress; `None` waits for ever.
    idle: Option<Duration>,
    deadline: Option<Duration>,
}

impl ClientConnection {
    /// A fresh connection with at most `max_pending` requests waiting, and as many progress tokens in use,
    /// at once.
    pub fn new(max_pending: usize) -> Self {
        Self { next: 1, pending: HashMap::new(), tokens: HashMap::new(), max_pending }
    }

    /// How many requests wait.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Starts waiting for a new request, at most `idle` at a stretch.
    ///
    /// # Errors
    ///
    /// When as many as allowed are waiting.
    pub fn start(&mut self, now: Duration, idle: Option<Duration>) -> Result<RequestId, PendingLimit> {
        if self.pending.len().max(self.tokens.len()) >= self.max_pending {
            return Err(PendingLimit { limit: self.max_pending });
        }
        let id = RequestId::Number(self.next);
        self.next += 1;
        let deadline = idle.map(|idle| now + idle);
        self.pending.insert(id.clone(), Pending { idle, deadline });
        Ok(id)
    }

    /// Takes progress of a request, under its id as the token, until [`release`](Self::release): it may go on
    /// after the answer, for a task goes on under the token of the call that it came from (2025-11-25).
    pub fn listen(&mut self, id: &RequestId) {
        self.tokens.insert(id.clone(), None);
    }

    /// Takes no more progress of what was [listened](Self::listen) to.
    pub fn release(&mut self, token: &ProgressToken) {
        self.tokens.remove(token);
    }

    /// An answer has come. `false` means nobody waits for it: drop it.
    #[must_use]
    pub fn handle_response(&mut self, id: &RequestId) -> bool {
        self.pending.remove(id).is_some()
    }

    /// Progress has come: it restarts the wait. `false` means to drop it, for nobody listens
    /// under its token, or it does not rise.
    #[must_use]
    pub fn handle_progress(&mut self, now: Duration, token: &ProgressToken, value: f64) -> bool {
        let Some(last) = self.tokens.get_mut(token) else { return false };
        if last.is_some_and(|last| value <= last) {
            return false;
        }
        *last = Some(value);
        if let Some(pending) = self.pending.get_mut(token) {
            pending.deadline = pending.idle.map(|idle| now + idle);
        }
        true
    }

    /// What the peer had to wait for has come from our side: every wait begins anew.
    pub fn wait_anew(&mut self, now: Duration) {
        for pending in self.pending.values_mut() {
            pending.deadline = pending.idle.map(|idle| now + idle);
        }
    }

    /// The caller gave up on a request. `false` means it is not waiting.
    pub fn cancel(&mut self, id: &RequestId) -> bool {
        self.pending.remove(id).is_some()
    }

    /// When the wait for one request ends, unless progress comes; `None` if it has no end, or the request is
    /// not waiting. [Cancel](Self::cancel) it then.
    pub fn deadline(&self, id: &RequestId) -> Option<Duration> {
        self.pending.get(id)?.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_answer_ends_the_wait_once() {
        let mut connection = ClientConnection::new(4);
        let id = connection.start(Duration::ZERO, Some(SECOND)).unwrap();
        assert!(connection.handle_response(&id));
        assert!(!connection.handle_response(&id), "a second answer is dropped");
        assert_eq!(connection.deadline(&id), None);
    }

    #[test]
    fn rising_progress_extends_the_wait_and_stale_progress_does_not() {
        let start = Duration::ZERO;
        let mut connection = ClientConnection::new(4);
        let id = connection.start(start, Some(2 * SECOND)).unwrap();
        connection.listen(&id);
        assert!(connection.handle_progress(start + SECOND, &id, 1.0));
        assert_eq!(connection.deadline(&id), Some(start + 3 * SECOND));
        assert!(!connection.handle_progress(start + 2 * SECOND, &id, 1.0));
        assert_eq!(connection.deadline(&id), Some(start + 3 * SECOND));
    }

    #[test]
    fn who_had_to_wait_for_us_is_given_the_time_again() {
        let mut connection = ClientConnection::new(4);
        let one = connection.start(Duration::ZERO, Some(2 * SECOND)).unwrap();
        let other = connection.start(Duration::ZERO, None).unwrap();
        connection.wait_anew(SECOND);
        assert_eq!((connection.deadline(&one), connection.deadline(&other)), (Some(3 * SECOND), None));
    }

    #[test]
    fn the_number_waiting_is_bounded() {
        let mut connection = ClientConnection::new(1);
        let id = connection.start(Duration::ZERO, None).unwrap();
        assert_eq!(connection.start(Duration::ZERO, None), Err(PendingLimit { limit: 1 }));
        assert!(connection.cancel(&id));
        assert!(connection.start(Duration::ZERO, None).is_ok());
    }

    #[test]
    fn a_token_takes_progress_after_the_answer_until_it_is_released() {
        let mut connection = ClientConnection::new(4);
        let id = connection.start(Duration::ZERO, Some(SECOND)).unwrap();
        connection.listen(&id);
        assert_eq!(connection.deadline(&id), Some(SECOND));
        assert!(connection.handle_response(&id));
        assert_eq!(connection.deadline(&id), None);
        assert!(connection.handle_progress(SECOND, &id, 1.0));
        assert!(!connection.handle_progress(SECOND, &id, 1.0), "still only what rises");
        connection.release(&id);
        assert!(!connection.handle_progress(SECOND, &id, 2.0));
    }

    #[test]
    fn progress_that_nobody_asked_for_is_dropped() {
        let mut connection = ClientConnection::new(4);
        let id = connection.start(Duration::ZERO, None).unwrap();
        assert!(!connection.handle_progress(SECOND, &id, 1.0));
    }

    #[test]
    fn tokens_are_bounded_like_requests() {
        let mut connection = ClientConnection::new(1);
        let id = connection.start(Duration::ZERO, None).unwrap();
        connection.listen(&id);
        assert!(connection.handle_response(&id));
        assert!(connection.start(Duration::ZERO, None).is_err());
        connection.release(&id);
        assert!(connection.start(Duration::ZERO, None).is_ok());
    }
}
