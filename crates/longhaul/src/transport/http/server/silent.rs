//! Connections that have asked nothing yet. When every place is taken, the oldest of them makes room.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The silent connections of one server.
#[derive(Debug, Default)]
pub(super) struct Silent(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// How to let each go, oldest first.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Silent {
    /// A connection has been accepted: its number, and what tells it to go.
    pub(super) fn enter(&self) -> (u64, oneshot::Receiver<()>) {
        let (sender, let_go) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, sender);
        (number, let_go)
    }

    /// It has asked something, or has ended: it is told to go no more.
    pub(super) fn leave(&self, number: u64) {
        self.lock().waiting.remove(&number);
    }

    /// Lets the oldest go, if there is one.
    pub(super) fn let_oldest_go(&self) {
        if let Some((_, oldest)) = self.lock().waiting.pop_first() {
            // A closed channel means that it has just ended, which makes room as well.
            let _ = oldest.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
