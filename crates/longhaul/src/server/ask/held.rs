//! Calls that must not run twice, between their rounds: each stays in memory where it stands, until its answers come
//! or its time is up. What it comes to is kept for a while, in case the answer that says so is lost.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::super::context::{CancelOnDrop, Cx};
use super::super::dispatch::Caller;
use super::super::places::{Bounds, Places, Whose};
use super::RoundOptions;
use super::rounds::{Handler, Reply};

/// Names a call among those that are held.
pub(super) type Nonce = [u8; 16];

/// How many bytes of answers are kept at most.
const MAX_KEPT: usize = 16 << 20;

/// When to come back once there is no room.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The calls of one server that are held.
#[derive(Debug)]
pub(super) struct Held {
    state: Mutex<State>,
    options: RoundOptions,
}

struct State {
    calls: HashMap<Nonce, Call>,
    /// Those of calls that may have to be held.
    places: Places,
    /// Those whose answers are kept, oldest first.
    kept: VecDeque<(Nonce, usize)>,
    kept_bytes: usize,
}

enum Call {
    /// It waits for the answers of its next round.
    Suspended(Box<Suspended>, Timer),
    /// A request drives it; who else brings its answers waits for what comes of it.
    Running(watch::Receiver<()>),
    /// It has ended with this.
    Ended(Reply, #[expect(dead_code, reason = "it is held")] Timer),
}

/// A call that stands still.
pub(super) struct Suspended {
    pub(super) handler: Handler,
    /// The call as its handler sees it.
    pub(super) cx: Cx,
    pub(super) guard: CancelOnDrop,
    pub(super) place: Place,
}

/// Forgets a call once its time is up, unless it is dropped before.
#[derive(Debug)]
struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is known of a call whose answers have come.
pub(super) enum Found {
    Suspended(Box<Suspended>, Running),
    Running(watch::Receiver<()>),
    Ended(Reply),
    Gone,
}

impl Held {
    pub(super) fn new(options: RoundOptions) -> Arc<Self> {
        let RoundOptions { max_waiting, max_waiting_each, max_waiting_anonymous, .. } = options;
        let bounds = Bounds { in_all: max_waiting, each: max_waiting_each, anonymous: max_waiting_anonymous };
        let state = State {
            calls: HashMap::new(),
            places: Places::new(bounds),
            kept: VecDeque::new(),
            kept_bytes: 0,
        };
        Arc::new(Self { state: Mutex::new(state), options })
    }

    /// Whether nothing is known of any call.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().calls.is_empty()
    }

    /// Whether anything is known of this call.
    pub(super) fn has(&self, nonce: &Nonce) -> bool {
        self.lock().calls.contains_key(nonce)
    }

    /// A place for a call of this caller's that may have to be held.
    ///
    /// # Errors
    ///
    /// An overload, when as many have one as may.
    pub(super) fn place(self: &Arc<Self>, caller: &Caller) -> Result<Place, ErrorObject> {
        let whose = Whose::of(caller);
        self.lock().places.take(&whose).map_err(|full| {
            let what = format!("too many calls wait for answers to their questions: {full}; come back later");
            ErrorObject::overloaded(what, RETRY_AFTER)
        })?;
        Ok(Place { held: Arc::downgrade(self), whose })
    }

    /// Takes up a call to drive it on, or says how it stands.
    pub(super) fn take(self: &Arc<Self>, nonce: Nonce) -> Found {
        let mut state = self.lock();
        match state.calls.remove(&nonce) {
            None => Found::Gone,
            Some(Call::Suspended(suspended, timer)) => {
                drop(timer);
                let (done, ended) = watch::channel(());
                state.calls.insert(nonce, Call::Running(ended));
                Found::Suspended(
                    suspended,
                    Running { held: Arc::clone(self), nonce, settled: false, _done: done },
                )
            }
            Some(call) => {
                let found = match &call {
                    Call::Running(ended) => Found::Running(ended.clone()),
                    Call::Ended(reply, _) => Found::Ended(Arc::clone(reply)),
                    Call::Suspended(..) => Found::Gone,
                };
                state.calls.insert(nonce, call);
                found
            }
        }
    }

    /// Takes the place of a call that a request begins to drive under this name, unless there is one.
    pub(super) fn begin(self: &Arc<Self>, nonce: Nonce) -> Option<Running> {
        let mut state = self.lock();
        if state.calls.contains_key(&nonce) {
            return None;
        }
        let (done, ended) = watch::channel(());
        state.calls.insert(nonce, Call::Running(ended));
        Some(Running { held: Arc::clone(self), nonce, settled: false, _done: done })
    }

    /// How a call stands that is under way, or was.
    pub(super) fn look(&self, nonce: Nonce) -> Found {
        match self.lock().calls.get(&nonce) {
            Some(Call::Running(ended)) => Found::Running(ended.clone()),
            Some(Call::Ended(reply, _)) => Found::Ended(Arc::clone(reply)),
            Some(Call::Suspended(..)) | None => Found::Gone,
        }
    }

    /// Holds a call until its answers come.
    pub(super) fn suspend(self: &Arc<Self>, nonce: Nonce, suspended: Suspended) {
        let timer = self.timer(nonce);
        self.lock().calls.insert(nonce, Call::Suspended(Box::new(suspended), timer));
    }

    fn keep(self: &Arc<Self>, nonce: Nonce, reply: Reply, bytes: usize) {
        let timer = self.timer(nonce);
        let mut state = self.lock();
        state.calls.insert(nonce, Call::Ended(reply, timer));
        state.kept.push_back((nonce, bytes));
        state.kept_bytes += bytes;
        while state.kept_bytes > MAX_KEPT || state.kept.len() > self.options.max_waiting {
            let Some((oldest, bytes)) = state.kept.pop_front() else { break };
            state.kept_bytes -= bytes;
            state.calls.remove(&oldest);
        }
    }

    fn timer(self: &Arc<Self>, nonce: Nonce) -> Timer {
        let (held, patience) = (Arc::downgrade(self), self.options.patience);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            if let Some(held) = held.upgrade() {
                held.forget(nonce);
            }
        });
        Timer(timer.abort_handle())
    }

    fn forget(&self, nonce: Nonce) {
        let mut state = self.lock();
        let forgotten = state.calls.remove(&nonce);
        if let Some(at) = state.kept.iter().position(|(kept, _)| *kept == nonce)
            && let Some((_, bytes)) = state.kept.remove(at)
        {
            state.kept_bytes -= bytes;
        }
        // A call's own destructors must not meet the lock, nor its place.
        drop(state);
        if let Some(Call::Suspended(suspended, _)) = &forgotten {
            suspended.cx.be_left();
        }
        drop(forgotten);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// The place of a call that may have to be held, until it is dropped.
#[derive(Debug)]
pub(in super::super) struct Place {
    held: Weak<Held>,
    whose: Whose,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(held) = self.held.upgrade() else { return };
        held.lock().places.leave(&self.whose);
    }
}

/// A call that a request drives. Dropped before it has come to something, it is gone.
pub(super) struct Running {
    held: Arc<Held>,
    nonce: Nonce,
    settled: bool,
    /// Its end is what others wait for.
    _done: watch::Sender<()>,
}

impl Running {
    pub(super) fn nonce(&self) -> Nonce {
        self.nonce
    }

    /// It waits for the answers of another round.
    pub(super) fn suspend(mut self, suspended: Suspended) {
        self.settled = true;
        self.held.suspend(self.nonce, suspended);
    }

    /// It has ended with this answer of so many bytes.
    pub(super) fn ended(mut self, reply: Reply, bytes: usize) {
        self.settled = true;
        self.held.keep(self.nonce, reply, bytes);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.settled {
            self.held.forget(self.nonce);
        }
    }
}
