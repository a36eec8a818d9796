//! The pages that a user was sent to and is not known to be done with (2025-11-25, Client, Elicitation).

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The ids of open pages, the oldest first.
#[derive(Debug)]
pub(super) struct Pages {
    open: Mutex<VecDeque<String>>,
    /// How many may be open. The oldest is no longer waited for when there is one more.
    most: usize,
    done: Notify,
}

impl Pages {
    pub(super) fn new(most: usize) -> Self {
        Self { open: Mutex::default(), most, done: Notify::new() }
    }

    /// The user is asked to visit it.
    pub(super) fn open(&self, id: &str) {
        let mut open = self.lock();
        if open.iter().any(|known| known == id) {
            return;
        }
        if open.len() >= self.most.max(1) {
            open.pop_front();
        }
        open.push_back(id.to_owned());
    }

    /// The user is done with it, or does not go there: whether it was open.
    pub(super) fn close(&self, id: &str) -> bool {
        let mut open = self.lock();
        let before = open.len();
        open.retain(|known| known != id);
        let was_open = open.len() < before;
        drop(open);
        if was_open {
            self.done.notify_waiters();
        }
        was_open
    }

    /// Whether any of these is open.
    pub(super) fn any(&self, ids: &[String]) -> bool {
        self.lock().iter().any(|open| ids.contains(open))
    }

    /// Waits until none of these is open.
    pub(super) async fn closed(&self, ids: &[String]) {
        loop {
            let mut done = pin!(self.done.notified());
            // One that is closed from here on is heard of.
            done.as_mut().enable();
            if !self.any(ids) {
                return;
            }
            done.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_bounded() {
        let pages = Pages::new(2);
        for n in 0..8 {
            pages.open(&n.to_string());
            pages.open(&n.to_string());
        }
        assert_eq!(pages.lock().len(), 2);
        assert!(!pages.close("5") && pages.close("7") && !pages.close("7"));
    }
}
