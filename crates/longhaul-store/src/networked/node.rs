//! What every node knows of itself.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{server_clock::ServerClock, suspects::Suspects};
use crate::{
    Clock, Durability, NodeId, Owner, Quota, Settings, StoreError, SystemClock, TaskId, Time, WatchHub,
    aside::Aside, clock::StoreClock, transfer::heed,
};

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
    /// What its sweeps can do nothing to.
    pub(super) aside: Aside<TaskId>,
    /// How long the server may take to answer.
    pub(crate) patience: Duration,
    /// How many changes this node has heard of, its own included. Their own numbers need not be given in the order in which
    /// they are committed.
    changes: AtomicU64,
    standing: Mutex<Standing>,
    /// Whether it works on the store; else it copies, and may do so while the store is out of service.
    serves: bool,
    /// Until when nobody can take it for dead.
    alive_until: Mutex<Time>,
    /// Why it does nothing any more.
    refusal: OnceLock<StoreError>,
    /// Whose tasks it has counted anew of late, and when, by the same clock.
    counted_at: Mutex<HashMap<Owner, Duration>>,
    /// When the store was last seen to be in service, by the steady clock of the machine.
    seen_at: Mutex<Duration>,
    /// How large it was when that was last asked, and when, by the same clock.
    size: Mutex<Option<(Duration, Option<u64>)>>,
    machine: SystemClock,
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
        let machine = SystemClock::new();
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
            aside: Aside::default(),
            patience,
            changes: AtomicU64::new(0),
            standing: Mutex::default(),
            serves: true,
            alive_until: Mutex::new(Time::from_unix_ms(0)),
            refusal: OnceLock::new(),
            counted_at: Mutex::default(),
            seen_at: Mutex::new(machine.steady()),
            size: Mutex::default(),
            machine,
        })
    }

    /// One that copies.
    pub(crate) fn copying(self) -> Self {
        Self { serves: false, ..self }
    }

    /// This has just been read where the mark of a store is kept that is out of service.
    ///
    /// # Errors
    ///
    /// [`StoreError::OutOfService`], for a node that serves: from now on for whatever it is to do.
    pub(crate) fn heed(&self, mark: Option<&[u8]>) -> Result<(), StoreError> {
        if self.serves {
            heed(mark).inspect_err(|refusal| drop(self.refusal.set(refusal.clone())))?;
        }
        *self.seen() = self.machine.steady();
        Ok(())
    }

    /// The server has said that it holds this node's session, asked at `sent`: others suspect the node after that at the
    /// earliest. A third of the time that they then let go by is left for what begins meanwhile.
    pub(crate) fn lives(&self, sent: Time) {
        let until = sent.after(self.suspects.grace() * 2 / 3);
        let mut alive = self.alive_until.lock().unwrap_or_else(PoisonError::into_inner);
        *alive = until.max(*alive);
    }

    /// Whether this refusal is for bytes of which a release that knows nothing of them may have removed some without a word, and is worth
    /// that they are counted anew: that takes a look at all tasks of the owner, so a node does it once a second at most, and for each
    /// seldom.
    pub(crate) fn may_count_anew(&self, refusal: &StoreError, owner: &Owner) -> bool {
        if !matches!(refusal, StoreError::Overloaded { what: Quota::TaskBytesPerOwner, .. }) {
            return false;
        }
        let now = self.machine.steady();
        let mut counted = self.counted_at.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, at| now.saturating_sub(*at) < COUNTED_AGAIN);
        let may = !counted.contains_key(owner)
            && counted.values().all(|at| now.saturating_sub(*at) >= COUNTED_EVERY);
        if may {
            counted.insert(owner.clone(), now);
        }
        may
    }

    /// Until when nobody can take it for dead.
    pub(crate) fn alive_until(&self) -> Time {
        *self.alive_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it does nothing any more, if that is so.
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        self.refusal.get().cloned()
    }

    /// For how long it has not known whether the store is in service.
    pub(crate) fn silence(&self) -> Duration {
        self.machine.steady().saturating_sub(*self.seen())
    }

    /// How large the store was a moment ago, if that was asked then: whoever watches it does not keep the server busy.
    pub(crate) fn size(&self) -> Option<Option<u64>> {
        let (at, size) = (*self.size.lock().unwrap_or_else(PoisonError::into_inner))?;
        (self.machine.steady().saturating_sub(at) < SIZE_HOLDS).then_some(size)
    }

    /// The server has just said how large the store is.
    pub(crate) fn weighed(&self, size: Option<u64>) {
        let at = self.machine.steady();
        *self.size.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, size));
    }

    fn seen(&self) -> MutexGuard<'_, Duration> {
        self.seen_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task has changed, here or elsewhere.
    pub(crate) fn wake(&self, id: &TaskId) {
        self.hub.wake(id, self.changes.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// What an acknowledged write survives.
    pub(crate) fn durability(&self) -> Durability {
        self.standing().durability
    }

    /// The settings of the server that this follows from.
    pub(crate) fn commits(&self) -> String {
        self.standing().settings.clone()
    }

    /// Why what is acknowledged may be lost for all that.
    pub(crate) fn at_risk(&self) -> Option<Arc<str>> {
        self.standing().at_risk.clone()
    }

    /// The server is set so now.
    pub(crate) fn stands(&self, found: Standing) {
        let mut known = self.standing();
        if known.durability != found.durability && !known.settings.is_empty() {
            let (was, is) = (known.durability, found.durability);
            tracing::warn!(%was, %is, settings = found.settings, "the store's durability has changed");
        }
        *known = found;
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a server is set, as far as it matters to what is kept there.
#[derive(Debug)]
pub(crate) struct Standing {
    /// What an acknowledged write survives.
    pub(crate) durability: Durability,
    /// The settings that this follows from.
    pub(crate) settings: String,
    /// Why it may be lost for all that.
    pub(crate) at_risk: Option<Arc<str>>,
}

/// That of a server that has not been asked.
impl Default for Standing {
    fn default() -> Self {
        Self { durability: Durability::Volatile, settings: String::new(), at_risk: None }
    }
}

/// The least time between two counts of owners' tasks by one node.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// The least time between two counts of one owner's tasks: what an older release removes without a word within it is little.
const COUNTED_AGAIN: Duration = Duration::from_secs(600);

/// How long what a server says of the store's size holds.
const SIZE_HOLDS: Duration = Duration::from_secs(5);
