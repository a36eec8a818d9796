//! Hints that a task may have changed.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use crate::TaskId;

/// Waits for a task to change.
///
/// Make it first and look at the task afterwards; then no change between the two is missed.
///
/// ```
/// # async fn f(store: &dyn longhaul_store::TaskStore, scope: longhaul_store::Scope<'_>, id: &longhaul_store::TaskId)
/// # -> Result<(), longhaul_store::StoreError> {
/// let mut watch = store.watch(id);
/// while store.get(scope, id).await?.is_some_and(|task| !task.is_terminal()) {
///     watch.changed().await;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TaskWatch {
    id: TaskId,
    signal: Arc<Signal>,
    /// The turn of the signal that was seen last.
    seen: u64,
    hub: Arc<WatchHub>,
}

impl TaskWatch {
    /// Resolves when the task may have changed since this was made or last resolved; at once, and from then on
    /// always, if the store's handle is gone.
    ///
    /// Cancel safe: a change that comes while nobody waits is found by the next call.
    pub async fn changed(&mut self) {
        let _waiting = Waiting::begin(&self.hub);
        loop {
            let next = self.signal.turned.notified();
            match self.signal.turn.load(Ordering::Acquire) {
                // A change too, and not the last: the next look will tell.
                CLOSED => return,
                turn if turn != self.seen => {
                    self.seen = turn;
                    return;
                }
                _ => next.await,
            }
        }
    }
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        self.hub.leave(&self.id);
    }
}

/// Tells all watches of one task to look again. Small, for a task under work is watched as long as it runs.
#[derive(Debug, Default)]
struct Signal {
    /// Another number at each turn; [`CLOSED`] at the last.
    turn: AtomicU64,
    turned: Notify,
}

/// The hub is closed.
const CLOSED: u64 = u64::MAX;

impl Signal {
    fn give(&self) {
        self.turn.fetch_add(1, Ordering::Release);
        self.turned.notify_waiters();
    }

    fn close(&self) {
        self.turn.store(CLOSED, Ordering::Release);
        self.turned.notify_waiters();
    }
}

/// Where a backend keeps who watches what. Useful for a backend outside this crate too.
#[derive(Debug, Default)]
pub struct WatchHub {
    state: Mutex<State>,
    /// How many calls of `changed` are under way. Whoever makes it more than none takes the lock, too, to say so.
    waiting: AtomicUsize,
    someone_waits: Condvar,
    closing: Condvar,
}

#[derive(Debug, Default)]
struct State {
    watched: HashMap<TaskId, Watched, RandomState>,
    /// The newest change that everyone watching has been told of, or that came before they watched.
    known: u64,
    closed: bool,
}

#[derive(Debug)]
struct Watched {
    signal: Arc<Signal>,
    /// The newest change that its watches have been told of, or that came before they watched.
    known: u64,
    watches: usize,
}

impl WatchHub {
    /// A hub nobody watches.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Begins to watch a task.
    #[must_use]
    pub fn watch(self: &Arc<Self>, id: &TaskId) -> TaskWatch {
        let mut state = self.lock();
        let signal = if state.closed {
            let signal = Signal::default();
            signal.close();
            Arc::new(signal)
        } else {
            let known = state.known;
            let watched = state.watched.entry(id.clone()).or_insert_with(|| Watched {
                signal: Arc::default(),
                known,
                watches: 0,
            });
            watched.watches += 1;
            Arc::clone(&watched.signal)
        };
        // Under the lock, for whoever gives a signal has it.
        let seen = signal.turn.load(Ordering::Acquire);
        drop(state);
        TaskWatch { id: id.clone(), signal, seen, hub: self.clone() }
    }

    /// Tells whoever watches a task that its latest change has this number; an older number tells nothing.
    pub fn wake(&self, id: &TaskId, seq: u64) {
        let mut state = self.lock();
        state.known = state.known.max(seq);
        if let Some(watched) = state.watched.get_mut(id)
            && seq > watched.known
        {
            watched.known = seq;
            watched.signal.give();
        }
    }

    /// Ends every watch, now and later.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.watched.drain().for_each(|(_, watched)| watched.signal.close());
        drop(state);
        self.someone_waits.notify_all();
        self.closing.notify_all();
    }

    /// The tasks that someone watches.
    #[must_use]
    pub fn watched(&self) -> Vec<TaskId> {
        self.lock().watched.keys().cloned().collect()
    }

    /// Blocks until someone waits for a change; `false` if the hub is closed.
    #[must_use]
    pub fn block_until_waited_for(&self) -> bool {
        let state = self.lock();
        let idle = |state: &mut State| self.waiting.load(Ordering::Acquire) == 0 && !state.closed;
        let state = self.someone_waits.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Whether someone waits for a change now.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Tells everyone to look again.
    pub fn wake_all(&self) {
        self.lock().watched.values().for_each(|watched| watched.signal.give());
    }

    /// Blocks for this long, or less if the hub is closed.
    pub fn block_until_closed(&self, pause: Duration) {
        let state = self.lock();
        let open = |state: &mut State| !state.closed;
        drop(self.closing.wait_timeout_while(state, pause, open).unwrap_or_else(PoisonError::into_inner));
    }

    fn leave(&self, id: &TaskId) {
        let mut state = self.lock();
        if let Some(watched) = state.watched.get_mut(id) {
            watched.watches -= 1;
            if watched.watches == 0 {
                state.watched.remove(id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call of `changed` under way.
struct Waiting<'a>(&'a WatchHub);

impl<'a> Waiting<'a> {
    fn begin(hub: &'a WatchHub) -> Self {
        if hub.waiting.fetch_add(1, Ordering::AcqRel) == 0 {
            // Whoever blocks has looked at the number with the lock, and waits by now or will see it.
            drop(hub.lock());
            hub.someone_waits.notify_all();
        }
        Self(hub)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn ready(watch: &mut TaskWatch) -> bool {
        let mut changed = pin!(watch.changed());
        changed.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_change_while_nobody_waits_is_found_by_the_next_call() {
        let (hub, id) = (WatchHub::new(), TaskId::new("t").unwrap());
        let mut watch = hub.watch(&id);
        assert!(!ready(&mut watch));
        hub.wake(&id, 1);
        assert!(ready(&mut watch));
        assert!(!ready(&mut watch));
    }

    #[test]
    fn only_a_newer_change_of_the_same_task_wakes() {
        let (hub, id) = (WatchHub::new(), TaskId::new("t").unwrap());
        hub.wake(&id, 5);
        let mut watch = hub.watch(&id);
        hub.wake(&TaskId::new("u").unwrap(), 6);
        hub.wake(&id, 5);
        assert!(!ready(&mut watch));
        hub.wake(&id, 7);
        assert!(ready(&mut watch));
    }

    #[test]
    fn a_watched_task_is_forgotten_with_its_last_watch() {
        let (hub, id) = (WatchHub::new(), TaskId::new("t").unwrap());
        let (one, two) = (hub.watch(&id), hub.watch(&id));
        drop(one);
        assert_eq!(hub.watched(), [id]);
        drop(two);
        assert!(hub.watched().is_empty());
    }

    #[test]
    fn a_closed_hub_holds_nobody() {
        let (hub, id) = (WatchHub::new(), TaskId::new("t").unwrap());
        let mut before = hub.watch(&id);
        hub.close();
        assert!(ready(&mut before) && ready(&mut before));
        assert!(ready(&mut hub.watch(&id)));
        assert!(!hub.block_until_waited_for());
    }
}
