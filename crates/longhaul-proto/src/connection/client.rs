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

/// A request whose time ran out. Tell the server that it is no longer wanted.
#[derive(Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Expired {
    /// Which request.
    pub id: RequestId,
    /// How long it was waited for since it was sent or last made progress.
    pub idle: Duration,
}

/// One connection, seen from the client. Ids are integers, counted up and never used twice; a request's
/// progress token is its id. Every `now` is the time since an origin of the caller's choice, the same for
/// one connection.
#[derive(Debug)]
pub struct ClientConnection {
    next: i64,
    pending: HashMap<RequestId, Pending>,
    tokens: HashMap<ProgressToken, Token>,
    max_pending: usize,
}

#[derive(Debug)]
struct Pending {
    /// How long without an answer or progress; `None` waits for ever.
    idle: Option<Duration>,
    deadline: Option<Duration>,
}

#[derive(Debug, Default)]
struct Token {
    last: Option<f64>,
    /// It goes on after the answer, until it is released.
    held: bool,
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
        self.tokens.insert(id.clone(), Token::default());
        Ok(id)
    }

    /// Keeps taking progress of a request after its answer, until [`release`](Self::release): a task goes
    /// on under the token of the call that it came from (2025-11-25).
    pub fn hold(&mut self, token: &ProgressToken) {
        if let Some(token) = self.tokens.get_mut(token) {
            token.held = true;
        }
    }

    /// Takes no more progress of what was [held](Self::hold).
    pub fn release(&mut self, token: &ProgressToken) {
        match self.tokens.get_mut(token) {
            Some(held) if self.pending.contains_key(token) => held.held = false,
            _ => drop(self.tokens.remove(token)),
        }
    }

    /// An answer has come. `false` means nobody waits for it: drop it.
    #[must_use]
    pub fn handle_response(&mut self, id: &RequestId) -> bool {
        self.forget(id)
    }

    /// Progress has come: it restarts the wait. `false` means to drop it, for it names no waiting request
    /// and no token that is held, or does not rise.
    #[must_use]
    pub fn handle_progress(&mut self, now: Duration, token: &ProgressToken, value: f64) -> bool {
        let Some(known) = self.tokens.get_mut(token) else { return false };
        if known.last.is_some_and(|last| value <= last) {
            return false;
        }
        known.last = Some(value);
        if let Some(pending) = self.pending.get_mut(token) {
            pending.deadline = pending.idle.map(|idle| now + idle);
        }
        true
    }

    /// The caller gave up on a request. `false` means it is not waiting.
    pub fn cancel(&mut self, id: &RequestId) -> bool {
        self.forget(id)
    }

    /// When the wait for one request ends; `None` if it has none, or the request is not waiting.
    pub fn deadline(&self, id: &RequestId) -> Option<Duration> {
        self.pending.get(id)?.deadline
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.pending.values().filter_map(|pending| pending.deadline).min()
    }

    /// Time has passed: gives up on every request whose wait is over.
    pub fn handle_timeout(&mut self, now: Duration) -> Vec<Expired> {
        let mut expired: Vec<Expired> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(id, pending)| Expired { id: id.clone(), idle: pending.idle.unwrap_or_default() })
            .collect();
        expired.sort_by(|a, b| a.id.cmp(&b.id));
        for each in &expired {
            self.forget(&each.id);
        }
        expired
    }

    fn forget(&mut self, id: &RequestId) -> bool {
        let waited = self.pending.remove(id).is_some();
        if self.tokens.get(id).is_some_and(|token| !token.held) {
            self.tokens.remove(id);
        }
        waited
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
        assert_eq!(connection.poll_timeout(), None);
    }

    #[test]
    fn rising_progress_extends_the_wait_and_stale_progress_does_not() {
        let start = Duration::ZERO;
        let mut connection = ClientConnection::new(4);
        let id = connection.start(start, Some(2 * SECOND)).unwrap();
        assert!(connection.handle_progress(start + SECOND, &id, 1.0));
        assert_eq!(connection.poll_timeout(), Some(start + 3 * SECOND));
        assert!(!connection.handle_progress(start + 2 * SECOND, &id, 1.0));
        assert_eq!(connection.poll_timeout(), Some(start + 3 * SECOND));
        assert_eq!(connection.handle_timeout(start + 2 * SECOND), []);
        assert_eq!(connection.handle_timeout(start + 3 * SECOND), [Expired { id, idle: 2 * SECOND }]);
        assert_eq!(connection.pending(), 0);
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
    fn a_held_token_takes_progress_after_the_answer_until_it_is_released() {
        let mut connection = ClientConnection::new(4);
        let id = connection.start(Duration::ZERO, Some(SECOND)).unwrap();
        connection.hold(&id);
        assert_eq!(connection.deadline(&id), Some(SECOND));
        assert!(connection.handle_response(&id));
        assert_eq!(connection.deadline(&id), None);
        assert!(connection.handle_progress(SECOND, &id, 1.0));
        assert!(!connection.handle_progress(SECOND, &id, 1.0), "still only what rises");
        connection.release(&id);
        assert!(!connection.handle_progress(SECOND, &id, 2.0));
    }

    #[test]
    fn progress_of_an_answered_request_is_dropped() {
        let mut connection = ClientConnection::new(4);
        let id = connection.start(Duration::ZERO, None).unwrap();
        assert!(connection.handle_response(&id));
        assert!(!connection.handle_progress(SECOND, &id, 1.0));
    }

    #[test]
    fn held_tokens_are_bounded_like_requests() {
        let mut connection = ClientConnection::new(1);
        let id = connection.start(Duration::ZERO, None).unwrap();
        connection.hold(&id);
        assert!(connection.handle_response(&id));
        assert!(connection.start(Duration::ZERO, None).is_err());
        connection.release(&id);
        assert!(connection.start(Duration::ZERO, None).is_ok());
    }
}
