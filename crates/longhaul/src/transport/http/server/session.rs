//! Legacy sessions: the exchanges of one client, whatever connections it uses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::connection::Serial;
use longhaul_proto::jsonrpc::RequestId;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::driver::Exchanges;
use crate::server::{Outgoing, Principal, Push};

/// The open sessions of one server. Each is its principal's alone: for anybody else there is none of its id.
#[derive(Debug)]
pub(super) struct Sessions {
    open: Mutex<HashMap<String, Arc<Session>>>,
    max_open: usize,
    idle: Duration,
}

/// As many sessions are open as may be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{limit} sessions are open, the limit of this server: close one, or come back later")]
pub(super) struct SessionLimit {
    limit: usize,
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    id: String,
    /// Who opened it; `None` where nobody has to sign in.
    principal: Option<Principal>,
    state: Mutex<State>,
    /// Where its messages go that belong to no request.
    push: Arc<SessionPush>,
}

/// What changes in a session.
#[derive(Debug)]
pub(super) struct State {
    pub(super) exchanges: Exchanges,
    /// The stream for what belongs to no request.
    push: Option<mpsc::Sender<Outgoing>>,
    last_used: Instant,
}

impl Sessions {
    pub(super) fn new(max_open: usize, idle: Duration) -> Self {
        Self { open: Mutex::default(), max_open, idle }
    }

    /// Opens a session around a client of `principal` whose handshake has succeeded.
    pub(super) fn open(
        &self,
        exchanges: Exchanges,
        principal: Option<Principal>,
    ) -> Result<Arc<Session>, SessionLimit> {
        let mut open = lock(&self.open);
        if open.len() >= self.max_open {
            let idle = self.idle;
            open.retain(|_, session| !session.is_idle_for(idle));
        }
        if open.len() >= self.max_open {
            return Err(SessionLimit { limit: self.max_open });
        }
        let state = State { exchanges, push: None, last_used: Instant::now() };
        let session = Arc::new_cyclic(|session| Session {
            id: new_id(),
            principal,
            state: Mutex::new(state),
            push: Arc::new(SessionPush(Weak::clone(session))),
        });
        open.insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// The session of `principal` with that id, if it is open and has not lain idle too long.
    pub(super) fn find(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<Session>> {
        let mut open = lock(&self.open);
        let session = Arc::clone(open.get(id).filter(|session| session.is_of(principal))?);
        if session.is_idle_for(self.idle) {
            open.remove(id);
            return None;
        }
        session.lock().last_used = Instant::now();
        Some(session)
    }

    /// Closes a session of `principal`: what runs in it is cancelled. `false` means there was none.
    pub(super) fn close(&self, id: &str, principal: Option<&Principal>) -> bool {
        let mut open = lock(&self.open);
        let closed = match open.get(id) {
            Some(session) if session.is_of(principal) => open.remove(id),
            _ => None,
        };
        drop(open);
        if let Some(session) = &closed {
            let mut state = session.lock();
            state.push = None;
            state.exchanges.close();
        }
        closed.is_some()
    }

    /// Ends every push stream, so that connections can close.
    pub(super) fn close_streams(&self) {
        for session in lock(&self.open).values() {
            session.lock().push = None;
        }
    }
}

impl Session {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn is_of(&self, principal: Option<&Principal>) -> bool {
        self.principal.as_ref() == principal
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Where messages go that belong to no request.
    pub(super) fn push(&self) -> Arc<dyn Push> {
        Arc::clone(&self.push) as Arc<dyn Push>
    }

    /// Opens the push stream; one that was open is ended, for its client has come back.
    pub(super) fn open_push(&self, bound: usize) -> mpsc::Receiver<Outgoing> {
        let (sender, receiver) = mpsc::channel(bound);
        self.lock().push = Some(sender);
        receiver
    }

    /// An exchange has its answer. `false` means it was cancelled meanwhile.
    pub(super) fn answered(&self, id: &RequestId, serial: Serial) -> bool {
        let mut state = self.lock();
        state.last_used = Instant::now();
        state.exchanges.answered(id, serial)
    }

    fn is_idle_for(&self, idle: Duration) -> bool {
        let state = self.lock();
        let streaming = state.push.as_ref().is_some_and(|push| !push.is_closed());
        state.exchanges.open() == 0 && !streaming && state.last_used.elapsed() >= idle
    }
}

/// The push stream of a session, for as long as the session is open.
#[derive(Debug)]
struct SessionPush(Weak<Session>);

impl Push for SessionPush {
    fn push(&self, message: Vec<u8>) {
        let Some(session) = self.0.upgrade() else { return };
        let state = session.lock();
        let sent = state.push.as_ref().map(|push| push.try_send(Outgoing::pushed(message)));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!("a notification found no stream, or no room in it");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 128 random bits in hexadecimal: visible ASCII, and nobody's to guess.
fn new_id() -> String {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the system has randomness");
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
