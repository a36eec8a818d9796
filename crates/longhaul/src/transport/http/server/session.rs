//! Legacy sessions: the exchanges of one client, whatever connections it uses.

mod known;
mod pushed;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::connection::Serial;
use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{Limits, Message, RequestId};
use longhaul_tasks::store::{EventStore, Owner};
use tokio::time::Instant;

use self::known::Known;
pub(super) use self::known::{Watch, Wish};
use self::pushed::{By, Pushed};
use super::Options;
use super::board::{Board, Word};
use super::shared::Shared;
use super::stream::{GoOn, Rest, Resumed, Stream, Streams};
use super::waiting::Standing;
use crate::driver::Exchanges;
use crate::hex::hex;
use crate::server::{
    Carrier, Dispatcher, Outgoing, Party, Principal, Push, Reach, Shares, StreamReceiver, StreamSender,
    own_stream,
};

/// The open sessions of one server. Each is its principal's alone: for anybody else there is none of its id.
#[derive(Debug)]
pub(super) struct Sessions {
    open: Mutex<HashMap<String, Arc<Session>>>,
    max_open: usize,
    idle: Duration,
    /// Where what is sent in them is kept.
    events: Arc<dyn EventStore>,
    /// Where other nodes find them, if they do.
    shared: Option<Shared>,
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
    /// Who opened it.
    party: Party,
    /// Another node has opened it.
    taken_over: bool,
    state: Mutex<State>,
    streams: Arc<Streams>,
    /// Where its messages go that belong to no request.
    push: Arc<SessionPush>,
    /// What other nodes know of it.
    known: Mutex<Known>,
    /// Whoever has it looks at what they know, and lets them know more.
    renewing: tokio::sync::Mutex<()>,
    /// Where they are told what is for them.
    board: Option<Arc<Board>>,
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
    pub(super) followed_up: bool,
    /// Nobody comes back to it.
    has_ended: bool,
    /// What was pushed here within a moment, where another node may have it for the same client.
    pushed: Option<Pushed>,
}

/// A stream for what belongs to no request.
#[derive(Debug)]
struct PushStream {
    sender: StreamSender,
    carried_by: Arc<Stream>,
}

/// How many streams for what belongs to no request one session has. A client needs one; the others are connections
/// that it has lost and that are not known to be.
const PUSH_STREAMS: usize = 8;

impl Sessions {
    pub(super) fn new(dispatcher: &Dispatcher, options: &Options, events: Arc<dyn EventStore>) -> Self {
        Self {
            open: Mutex::default(),
            max_open: options.max_sessions,
            idle: options.session_idle,
            events,
            shared: options
                .shared_sessions
                .clone()
                .map(|registry| Shared::new(dispatcher, registry, options.session_idle)),
            observer: options.session_observer.clone(),
        }
    }

    /// Opens a session around a client of `party` whose handshake has succeeded.
    pub(super) fn open(&self, exchanges: Exchanges, party: Party) -> Result<Arc<Session>, SessionLimit> {
        let session = self.apart(exchanges, party);
        self.admit(&session)?;
        Ok(session)
    }

    /// Takes `session` in, making room for it if need be. `false` if there is one of its id, which makes none.
    fn admit(&self, session: &Arc<Session>) -> Result<bool, SessionLimit> {
        let mut open = lock(&self.open);
        if open.contains_key(&session.id) {
            return Ok(false);
        }
        // Who makes room does so for this one: nobody comes between.
        let given_up =
            if open.len() < self.max_open { Vec::new() } else { self.make_room(&mut open, session) };
        let limit = self.max_open;
        let admitted = if open.len() < limit { Ok(true) } else { Err(SessionLimit { limit }) };
        if admitted.is_ok() {
            open.insert(session.id.clone(), Arc::clone(session));
        }
        drop(open);
        for session in given_up {
            self.end(&session, self.shared.is_none());
        }
        if let (Ok(_), Some(observer)) = (&admitted, &self.observer) {
            observer.started(&session.id);
        }
        admitted
    }

    /// Takes out those that have lain idle too long; if there are none, the oldest of which the client has said nothing since
    /// its handshake, so that handshakes alone keep nobody out; or else one of somebody who has more than whoever is
    /// `coming` would have. They are to be ended.
    fn make_room(&self, open: &mut HashMap<String, Arc<Session>>, coming: &Session) -> Vec<Arc<Session>> {
        let idle = self.take_idle(open);
        if !idle.is_empty() {
            return idle;
        }
        let oldest = open.values().filter_map(|session| {
            let state = session.lock();
            (!state.followed_up).then(|| (state.last_used, session.id.clone()))
        });
        let least = oldest.min().map(|(_, id)| id).or_else(|| to_spare(open, &coming.party));
        least.and_then(|id| open.remove(&id)).into_iter().collect()
    }

    /// Takes out those that have lain idle too long.
    fn take_idle(&self, open: &mut HashMap<String, Arc<Session>>) -> Vec<Arc<Session>> {
        open.extract_if(|_, session| session.is_idle_for(self.idle)).map(|(_, session)| session).collect()
    }

    /// A session that nobody finds again: for one request, where there are none.
    pub(super) fn apart(&self, exchanges: Exchanges, party: Party) -> Arc<Session> {
        self.named(new_id(), exchanges, party, false)
    }

    fn named(&self, id: String, exchanges: Exchanges, party: Party, taken_over: bool) -> Arc<Session> {
        exchanges.belong_to(&id);
        let owner = owner_of(party.principal());
        let nodes = self.shared.as_ref().map(|shared| Arc::clone(shared.nodes()));
        let streams = Streams::new(Arc::clone(&self.events), owner, id.clone(), nodes);
        let state = State {
            exchanges,
            push: Vec::new(),
            last_used: Instant::now(),
            followed_up: false,
            has_ended: false,
            pushed: self.shared.as_ref().map(|_| Pushed::default()),
        };
        Arc::new_cyclic(|session| Session {
            id,
            party,
            taken_over,
            state: Mutex::new(state),
            streams: Arc::new(streams),
            push: Arc::new(SessionPush(Weak::clone(session))),
            known: Mutex::new(Known::new(taken_over)),
            renewing: tokio::sync::Mutex::default(),
            board: self.shared.as_ref().map(|shared| Arc::clone(shared.board())),
        })
    }

    /// Where other nodes find them, if they do.
    pub(super) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// The session of `principal` with that id, if this node has it and has not left it idle too long; one that it has is
    /// let go, for others may have used it since.
    pub(super) fn here(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<Session>> {
        let mut open = lock(&self.open);
        let session = Arc::clone(open.get(id).filter(|session| session.is_of(principal))?);
        if session.is_idle_for(self.idle) {
            open.remove(id);
            drop(open);
            self.end(&session, self.shared.is_none());
            return None;
        }
        Some(session)
    }

    /// Goes on with a session that another node has opened. `None` if there is one of that id, be it somebody else's.
    pub(super) fn take_over(
        &self,
        id: &str,
        exchanges: Exchanges,
        party: Party,
    ) -> Result<Option<Arc<Session>>, SessionLimit> {
        let session = self.named(id.to_owned(), exchanges, party, true);
        session.lock().followed_up = true;
        Ok(self.admit(&session)?.then_some(session))
    }

    /// Lets go of a session that has ended at another node.
    pub(super) fn has_ended_elsewhere(&self, session: &Session) {
        if lock(&self.open).remove(&session.id).is_some() {
            self.end(session, false);
        }
    }

    /// Ends the sessions that have lain idle too long.
    pub(super) fn expire(&self) {
        let idle = self.take_idle(&mut lock(&self.open));
        for session in idle {
            self.end(&session, self.shared.is_none());
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
            self.end(&session, self.shared.is_none());
            return None;
        }
        {
            let mut state = session.lock();
            (state.last_used, state.followed_up) = (Instant::now(), true);
        }
        Some(session)
    }

    /// Closes a session of `principal`: what runs in it ends, and what is durable goes on.
    /// `None` means there was none.
    pub(super) fn close(&self, id: &str, principal: Option<&Principal>) -> Option<Arc<Session>> {
        let mut open = lock(&self.open);
        let closed = match open.get(id) {
            Some(session) if session.is_of(principal) => open.remove(id),
            _ => None,
        };
        drop(open);
        if let Some(session) = &closed {
            self.end(session, true);
        }
        closed
    }

    /// Ends a session here, and with it what was sent in it if it has ended `for_good`: other nodes may go on with it.
    fn end(&self, session: &Session, for_good: bool) {
        {
            let mut state = session.lock();
            state.push.clear();
            state.has_ended = true;
            state.exchanges.close();
        }
        if for_good {
            session.streams.forget();
        } else {
            session.streams.let_clients_go();
        }
        if let Some(observer) = &self.observer {
            observer.ended(&session.id);
        }
    }

    /// Tells other nodes of those that are used although their clients ask nothing, and makes room where nobody uses one.
    pub(super) async fn keep_shared(&self) {
        let Some(shared) = &self.shared else { return };
        let is_used = |session: &&Arc<Session>| !session.is_idle_for(Duration::ZERO);
        let used: Vec<_> = lock(&self.open).values().filter(is_used).cloned().collect();
        for session in used {
            if session.unseen_for(shared.look_every()) {
                shared.renew(self, &session, None).await;
            }
        }
        shared.sweep().await;
    }

    /// Whether there is any.
    pub(super) fn any_open(&self) -> bool {
        !lock(&self.open).is_empty()
    }

    fn of_id(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.open).get(id).cloned()
    }

    /// Another node has that session, too.
    pub(super) fn is_taken_over(&self, id: &str) {
        if let Some(session) = self.of_id(id) {
            session.note_elsewhere();
        }
    }

    /// The client of that session has sent this to another node, which had no use for it.
    pub(super) fn was_sent(&self, id: &str, message: &str) {
        let Some(session) = self.of_id(id) else { return };
        match Message::decode(message.as_bytes(), &Limits::default()) {
            Ok(Message::Notification(notification)) => {
                session.lock().exchanges.handle_notification(&notification);
            }
            // Who has sent it was told already.
            Ok(Message::Response(response)) => {
                drop(session.lock().exchanges.handle_response(response, || {}))
            }
            Ok(Message::Request(_)) | Err(_) => {}
        }
    }

    /// Another `node` has this for the client of that session, and does not reach it. What several have is told once.
    pub(super) fn push(&self, id: &str, message: String, node: &Arc<str>) {
        if let Some(session) = self.of_id(id) {
            session.lock().push(message.into_bytes(), By::Node(Arc::clone(node)));
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
        Standing(self.party.principal().map_or(&*self.id, Principal::as_str).into())
    }

    /// To whom its entries belong.
    pub(super) fn owner(&self) -> Owner {
        owner_of(self.party.principal())
    }

    /// Whether another node has opened it.
    pub(super) fn was_taken_over(&self) -> bool {
        self.taken_over
    }

    /// Whether its client has come back after the handshake.
    pub(super) fn was_followed_up(&self) -> bool {
        self.lock().followed_up
    }

    fn is_of(&self, principal: Option<&Principal>) -> bool {
        self.party.principal() == principal
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
    pub(super) fn open_push(&self, stream: Arc<Stream>, bound: usize) -> StreamReceiver {
        let (sender, receiver) = own_stream(bound);
        let mut state = self.lock();
        state.push.retain(|stream| !stream.sender.is_closed());
        if state.push.len() >= PUSH_STREAMS {
            let left = state.push.iter().position(|stream| !stream.carried_by.has_client());
            state.push.remove(left.unwrap_or(0)).carried_by.let_client_go();
        }
        state.push.push(PushStream { sender, carried_by: stream });
        receiver
    }

    /// What a client has missed that was sent this event last, and what follows, as [`Streams::resume`]. At most `bound`
    /// messages that belong to no request wait for it.
    pub(super) async fn resume(&self, last: &str, bound: usize, go_on: GoOn) -> Option<Rest> {
        let resumed = Resumed { primes: self.primes_streams(), go_on };
        self.streams.resume(last, resumed, |stream| self.open_push(stream, bound)).await
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

/// The session that whoever has most can best do without, if that is more than `party` would have with one more: the one
/// that has lain idle longest.
fn to_spare(open: &HashMap<String, Arc<Session>>, party: &Party) -> Option<String> {
    let shares = Shares::of(open.values().map(|session| &session.party));
    let fair = shares.of_party(party) + 1;
    let spare = open.values().filter_map(|session| {
        let share = shares.of_party(&session.party);
        let is_spare = share > fair && session.is_idle_for(Duration::ZERO);
        is_spare.then(|| (Reverse(share), session.lock().last_used, session))
    });
    spare.min_by_key(|(share, last_used, _)| (*share, *last_used)).map(|(.., session)| session.id.clone())
}

/// The push stream of a session, for as long as the session is open.
#[derive(Debug)]
struct SessionPush(Weak<Session>);

impl State {
    /// The stream for what belongs to no request, if its client is there.
    fn heard(&self) -> Option<&PushStream> {
        self.push.iter().find(|stream| !stream.sender.is_closed() && stream.carried_by.has_client())
    }

    /// Sends what belongs to no request, unless it was told by another way a moment ago. One stream whose client is gone is kept
    /// for it to come back to; meanwhile another may be there.
    fn push(&mut self, message: Vec<u8>, by: By) {
        let mark = self.pushed.as_ref().map(|pushed| pushed.mark(&message));
        if let (Some(pushed), Some(mark)) = (&mut self.pushed, mark)
            && pushed.is_known(mark, &by)
        {
            return;
        }
        let kept = || self.push.iter().find(|stream| !stream.sender.is_closed());
        let stream = self.heard().or_else(kept);
        let sent = stream.map(|stream| stream.sender.try_send(Outgoing::pushed(message)));
        if sent != Some(true) {
            return tracing::debug!("a notification found no stream, or no room in it");
        }
        if let (Some(pushed), Some(mark)) = (&mut self.pushed, mark) {
            pushed.note(mark, by);
        }
    }
}

impl Push for SessionPush {
    fn push(&self, message: Vec<u8>) {
        let Some(session) = self.0.upgrade() else { return };
        let mut state = session.lock();
        // Its client may be at another node.
        if state.heard().is_none()
            && let Some(board) = session.elsewhere()
        {
            let (id, message) = (session.id.clone(), String::from_utf8_lossy(&message).into_owned());
            board.say(Word::Pushed { session: id, message }, Some(session.standing()));
        }
        state.push(message, By::Here);
    }

    fn push_here(&self, message: Vec<u8>) {
        if let Some(session) = self.0.upgrade() {
            session.lock().push(message, By::Here);
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
        stream.sender.try_send(Outgoing::pushed(message)).then(|| StreamCarrier::of(&stream.carried_by))
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

/// To whom belongs what is of this principal, or of nobody in particular.
pub(super) fn owner_of(principal: Option<&Principal>) -> Owner {
    principal.cloned().map_or(Owner::Anonymous, Owner::Principal)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    /// Sessions of which there are at most 4.
    fn sessions() -> (Sessions, impl Fn() -> Exchanges) {
        let dispatcher = Server::new("bench", "1.0.0").dispatcher().unwrap();
        let events = Arc::new(longhaul_tasks::store::Memory::new());
        (Sessions::new(&dispatcher, &Options::default().max_sessions(4), events), move || {
            Exchanges::new(&dispatcher, 1)
        })
    }

    fn party(name: &str) -> Party {
        Party::Principal(Principal::new(name).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_taken_over_by_many_requests_at_once_takes_one_place() {
        let (sessions, exchanges) = sessions();
        for _ in 0..4 {
            sessions.open(exchanges(), party("ann")).unwrap().lock().followed_up = true;
        }
        let id = new_id();
        assert!(sessions.take_over(&id, exchanges(), party("bob")).unwrap().is_some());
        for _ in 0..4 {
            assert!(sessions.take_over(&id, exchanges(), party("bob")).unwrap().is_none());
        }
        let open = lock(&sessions.open);
        let shares = Shares::of(open.values().map(|session| &session.party));
        assert_eq!(["ann", "bob"].map(|name| shares.of_party(&party(name))), [3, 1]);
    }
}
