//! What every node knows of itself.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{server_clock::ServerClock, suspects::Suspects};
use crate::{Clock, Durability, NodeId, Settings, StoreError, TaskId, Time, WatchHub, clock::StoreClock};

/// One handle of a store, which is one node of it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) settings: Settings,
    pub(crate) clock: StoreClock,
    /// Unless time comes from elsewhere.
    pub(crate) server_clock: Option<Arc<ServerClock>>,
    pub(crate) hub: Arc<WatchHub>,
    pub(crate) suspects: Suspects,
    /// How long the server may take to answer.
    pub(crate) patience: Duration,
    /// How many changes this node has heard of, its own included. Their own numbers need not be given in the order in which
    /// they are committed.
    changes: AtomicU64,
    durability: Mutex<(Durability, String)>,
}

impl Node {
    /// A node of a new name, which waits this long for the server, as the others do for one that has lost its session; its
    /// time comes from `clock`, or from the server, whose clock has just said what it is.
    pub(crate) fn new(
        settings: Settings,
        clock: Option<Arc<dyn Clock>>,
        said: Time,
        patience: Duration,
        session_grace: Duration,
    ) -> Result<Self, StoreError> {
        let (server_clock, source) = match clock {
            Some(clock) => (None, clock),
            None => {
                let server = Arc::new(ServerClock::new(said));
                (Some(Arc::clone(&server)), server as Arc<dyn Clock>)
            }
        };
        let mut bits = [0; 10];
        getrandom::fill(&mut bits).map_err(|error| StoreError::Backend {
            doing: "drawing a node's name",
            source: Arc::new(error),
        })?;
        Ok(Self {
            id: NodeId::from_entropy(bits),
            settings,
            clock: StoreClock::resume(source, None),
            server_clock,
            hub: WatchHub::new(),
            suspects: Suspects::new(session_grace),
            patience,
            changes: AtomicU64::new(0),
            durability: Mutex::new((Durability::Volatile, String::new())),
        })
    }

    /// A task has changed, here or elsewhere.
    pub(crate) fn wake(&self, id: &TaskId) {
        self.hub.wake(id, self.changes.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// What an acknowledged write survives.
    pub(crate) fn durability(&self) -> Durability {
        self.known().0
    }

    /// The settings of the server that this follows from.
    pub(crate) fn commits(&self) -> String {
        self.known().1.clone()
    }

    /// The server is set so now.
    pub(crate) fn set_durability(&self, found: (Durability, String)) {
        let mut known = self.known();
        if known.0 != found.0 && !known.1.is_empty() {
            tracing::warn!(was = %known.0, is = %found.0, settings = found.1, "the store's durability has changed");
        }
        *known = found;
    }

    fn known(&self) -> MutexGuard<'_, (Durability, String)> {
        self.durability.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
