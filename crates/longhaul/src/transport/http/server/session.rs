//! Legacy sessions: the exchanges of one client, whatever connections it uses.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::connection::Serial;
use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::RequestId;
use longhaul_tasks::store::{EventStore, Owner};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Options;
use super::stream::{Stream, Streams};
use super::waiting::Standing;
use crate::driver::Exchanges;
use crate::hex::hex;
use crate::server::{Carrier, Outgoing, Principal, Push, Reach};

/// The open sessions of one server. Each is its principal's alone: for anybody else there is none of its id.
#[derive(Debug)]
pub(super) struct Sessions {
    open: Mutex<HashMap<String, Arc<Session>>>,
    max_open: usize,
    idle: Duration,
    /// Where what is sent in them is kept.
    events: Arc<dyn EventStore>,
    observer: Option<Arc<dyn SessionObserver>>,
}

/// Is told of sessions: to make what lasts as long as one does, and to let it go.
pub trait SessionObserver: fmt::Debug + Send + Sync + 'static {
    /// A session has begun.
    fn started(&self, session: &str);

    /// It has ended: its client closed it, or it lay idle too long. When the server stops, nothing more is said.
    fn ended(&self, session: &str);
}

/// How many streams are swept at once.
const SWEEP: usize = 100;

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
    streams: Arc<Streams>,
    /// Where its messages go that belong to no request.
    push: Arc<SessionPush>,
}

/// What changes in a session.
#[derive(Debug)]
pub(super) struct State {
    pub(super) exchanges: Exchanges,
    /// The streams for what belongs to no request, oldest first, each of which goes on one: the oldest whose client is
    /// still there. A later one takes nothing from whoever has the first.
    push: Vec<PushStream>,
    last_used: Instant,
    /// Its client has come back after the handshake.
    followed_up: bool,
    /// Nobody comes back to it.
    has_ended: bool,
}

/// A stream for what belongs to no request.
#[derive(Debug)]
struct PushStream {
    sender: mpsc::Sender<Outgoing>,
    carried_by: Arc<Stream>,
}

/// How many streams for what belongs to no request one session has. A client needs one; the others are connections
/// that it has lost and that are not known to be.
const PUSH_STREAMS: usize = 8;

impl Sessions {
    pub(super) fn new(options: &Options, events: Arc<dyn EventStore>) -> Self {
        Self {
            open: Mutex::default(),
            max_open: options.max_sessions,
            idle: options.session_idle,
            events,
            observer: options.session_observer.clone(),
        }
    }

    /// Opens a session around a client of `principal` whose handshake has succeeded.
    pub(super) fn open(
        &self,
        exchanges: Exchanges,
        principal: Option<Principal>,
    ) -> Result<Arc<Session>, SessionLimit> {
        if lock(&self.open).len() >= self.max_open {
            self.expire();
            self.make_room();
        }
        let session = self.apart(exchanges, principal);
        {
            let mut open = lock(&self.open);
            if open.len() >= self.max_open {
                return Err(SessionLimit { limit: self.max_open });
            }
            open.insert(session.id.clone(), Arc::clone(&session));
        }
        if let Some(observer) = &self.observer {
            observer.started(&session.id);
        }
        Ok(session)
    }

    /// While all places are taken, ends the oldest session whose client has said nothing since its handshake, so that
    /// handshakes alone keep nobody out.
    fn make_room(&self) {
        let mut open = lock(&self.open);
        if open.len() < self.max_open {
            return;
        }
        let oldest = open.values().filter_map(|session| {
            let state = session.lock();
            (!state.followed_up).then(|| (state.last_used, session.id.clone()))
        });
        let given_up = oldest.min().and_then(|(_, id)| open.remove(&id));
        drop(open);
        if let Some(session) = given_up {
            self.end(&session);
        }
    }

    /// A session that nobody finds again: for one request, where there are none.
    pub(super) fn apart(&self, exchanges: Exchanges, principal: Option<Principal>) -> Arc<Session> {
        let id = new_id();
        let owner = principal.clone().map_or(Owner::Anonymous, Owner::Principal);
        let streams = Streams::new(Arc::clone(&self.events), owner, id.clone());
        let state = State {
            exchanges,
            push: Vec::new(),
            last_used: Instant::now(),
            followed_up: false,
            has_ended: false,
        };
        Arc::new_cyclic(|session| Session {
            id,
            principal,
            state: Mutex::new(state),
            streams: Arc::new(streams),
            push: Arc::new(SessionPush(Weak::clone(session))),
        })
    }

    /// Ends the sessions that have lain idle too long.
    pub(super) fn expire(&self) {
        let idle: Vec<_> = lock(&self.open).extract_if(|_, session| session.is_idle_for(self.idle)).collect();
        for (_, session) in idle {
            self.end(&session);
        }
    }

    /// Makes room where what was sent in streams is no longer kept.
    pub(super) async fn sweep_streams(&self) {
        loop {
            match self.events.sweep_streams(SWEEP).await {
                Ok(SWEEP) => {}
                Ok(_) => return,
                Err(error) => {
                    return tracing::warn!(%error, "streams that are no longer kept wait for the next sweep");
                }
            }
        }
    }

    /// The session of `principal` with that id, if it is open and has not lain idle too long.
    pub(super) fn find(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<Session>> {
        let mut open = lock(&self.open);
        let session = Arc::clone(open.get(id).filter(|session| session.is_of(principal))?);
        if session.is_idle_for(self.idle) {
            open.remove(id);
            drop(open);
            self.end(&session);
            return None;
        }
        {
            let mut state = session.lock();
            (state.last_used, state.followed_up) = (Instant::now(), true);
        }
        Some(session)
    }

    /// Closes a session of `principal`: what runs in it ends, and what is durable goes on.
    /// `false` means there was none.
    pub(super) fn close(&self, id: &str, principal: Option<&Principal>) -> bool {
        let mut open = lock(&self.open);
        let closed = match open.get(id) {
            Some(session) if session.is_of(principal) => open.remove(id),
            _ => None,
        };
        drop(open);
        if let Some(session) = &closed {
            self.end(session);
        }
        closed.is_some()
    }

    fn end(&self, session: &Session) {
        {
            let mut state = session.lock();
            state.push.clear();
            state.has_ended = true;
            state.exchanges.close();
        }
        session.streams.forget();
        if let Some(observer) = &self.observer {
            observer.ended(&session.id);
        }
    }

    /// Ends every push stream, so that connections can close.
    pub(super) fn close_streams(&self) {
        for session in lock(&self.open).values() {
            session.lock().push.clear();
        }
    }
}

impl Session {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whose its streams are that belong to no request: its principal's, or its own where it has none.
    pub(super) fn standing(&self) -> Standing {
        Standing(self.principal.as_ref().map_or(&*self.id, Principal::as_str).into())
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

    /// Its streams.
    pub(super) fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    /// Opens a push stream, carried by `stream`. If there are as many as may be, the oldest ends, one whose client is
    /// gone first; what was sent in it is still there for its client to come back to.
    pub(super) fn open_push(&self, stream: Arc<Stream>, bound: usize) -> mpsc::Receiver<Outgoing> {
        let (sender, receiver) = mpsc::channel(bound);
        let mut state = self.lock();
        state.push.retain(|stream| !stream.sender.is_closed());
        if state.push.len() >= PUSH_STREAMS {
            let left = state.push.iter().position(|stream| !stream.carried_by.has_client());
            state.push.remove(left.unwrap_or(0)).carried_by.let_client_go();
        }
        state.push.push(PushStream { sender, carried_by: stream });
        receiver
    }

    /// Whether its streams begin with an event to come back to.
    pub(super) fn primes_streams(&self) -> bool {
        self.lock().exchanges.dialect().is_some_and(Dialect::primes_streams)
    }

    /// An exchange has its answer. `false` means it was cancelled meanwhile.
    pub(super) fn answered(&self, id: &RequestId, serial: Serial) -> bool {
        let mut state = self.lock();
        state.last_used = Instant::now();
        state.exchanges.answered(id, serial)
    }

    fn is_idle_for(&self, idle: Duration) -> bool {
        let state = self.lock();
        state.exchanges.open() == 0 && state.last_used.elapsed() >= idle && !self.streams.have_client()
    }
}

/// The push stream of a session, for as long as the session is open.
#[derive(Debug)]
struct SessionPush(Weak<Session>);

impl State {
    /// The stream for what belongs to no request, if its client is there.
    fn heard(&self) -> Option<&PushStream> {
        self.push.iter().find(|stream| !stream.sender.is_closed() && stream.carried_by.has_client())
    }
}

impl Push for SessionPush {
    fn push(&self, message: Vec<u8>) {
        let Some(session) = self.0.upgrade() else { return };
        let state = session.lock();
        // One whose client is gone is kept for it to come back to; meanwhile another may be there.
        let kept = || state.push.iter().find(|stream| !stream.sender.is_closed());
        let stream = state.heard().or_else(kept);
        let sent = stream.map(|stream| stream.sender.try_send(Outgoing::pushed(message)));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!("a notification found no stream, or no room in it");
        }
    }

    fn reach(&self) -> Reach {
        let Some(session) = self.0.upgrade() else { return Reach::Gone };
        let state = session.lock();
        match state.heard() {
            _ if state.has_ended => Reach::Gone,
            Some(_) => Reach::Here,
            None => Reach::Away,
        }
    }

    fn ask(&self, message: Vec<u8>) -> Option<Box<dyn Carrier>> {
        let session = self.0.upgrade()?;
        let state = session.lock();
        let stream = state.heard()?;
        stream.sender.try_send(Outgoing::pushed(message)).ok()?;
        Some(StreamCarrier::of(&stream.carried_by))
    }
}

/// A stream is there while its client is.
#[derive(Debug)]
pub(super) struct StreamCarrier(Weak<Stream>);

impl StreamCarrier {
    pub(super) fn of(stream: &Arc<Stream>) -> Box<dyn Carrier> {
        Box::new(Self(Arc::downgrade(stream)))
    }
}

impl Carrier for StreamCarrier {
    fn is_there(&self) -> bool {
        self.0.upgrade().is_some_and(|stream| stream.has_client())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 128 random bits in hexadecimal: visible ASCII, and nobody's to guess.
pub(super) fn new_id() -> String {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the system has randomness");
    hex(&random)
}
