//! The streams of a session. What is sent in one is kept first, so that a client that lost its connection, or was let
//! go to come back later, is sent the rest: of that stream of that session of that principal, and of no other.

mod client;
mod elsewhere;
mod noted;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::{Limits, Message};
use longhaul_tasks::store::{Event, EventStore, Owner, StoreError, Stream as Key};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use self::client::Client;
use super::answer::Sent;
use super::notes::{Nodes, Note, Noting, RENEWED_EVERY};
use super::session::new_id;
use crate::server::{Outgoing, StreamReceiver, own_stream};

/// The streams of one session.
#[derive(Debug)]
pub(super) struct Streams {
    events: Arc<dyn EventStore>,
    owner: Owner,
    session: String,
    /// The other nodes, if they send in its streams, too.
    nodes: Option<Arc<Nodes>>,
    /// Those that have not ended, and those that have and were not kept whole.
    known: Mutex<HashMap<Arc<str>, Arc<Stream>>>,
}

/// One stream, whatever connections carry it.
#[derive(Debug)]
pub(super) struct Stream {
    name: Arc<str>,
    state: Mutex<State>,
    /// The client has come back on another connection, or has been let go.
    moved: Notify,
}

#[derive(Debug)]
struct State {
    /// The connection of its client, if there is one.
    client: Option<mpsc::Sender<Box<Sent>>>,
    /// Everything sent in it was kept.
    whole: bool,
    ended: bool,
    /// The newest event that is known to be in it.
    last: u64,
    /// This node goes on with it for one that is gone.
    gone_on_with: bool,
}

/// A stream, and what its client is sent.
pub(super) type Opened = (Arc<Stream>, mpsc::Receiver<Box<Sent>>);

/// What is left of a stream: the event it begins with, if it is to have one, and what its client is sent.
pub(super) type Rest = (Option<Sent>, mpsc::Receiver<Box<Sent>>);

/// What an event is known by: its stream's name and its number there.
#[derive(Clone, Debug)]
pub(super) struct EventId {
    stream: Arc<str>,
    number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

/// How many messages wait for a connection before its stream waits too. They are boxed: a channel has room for 32 from its
/// beginning, however little is said.
const BOUND: usize = 16;

/// How many events are read from the store at once.
const PAGE: usize = 100;

/// How many streams of a session are remembered as not kept whole.
const MAX_BROKEN: usize = 256;

/// A client that comes back to a stream.
pub(super) struct Resumed {
    /// Streams begin with an event to come back to.
    pub(super) primes: bool,
    /// Answers what was noted of a request in the place of its node, which is gone.
    pub(super) go_on: GoOn,
}

/// What begins to answer a request on this stream; `None` if that cannot be done now.
pub(super) type GoOn = Box<dyn FnOnce(&Note, &Arc<Stream>) -> Option<Begun> + Send>;

/// An answer that was begun on a stream.
pub(super) struct Begun {
    /// What is there of it.
    pub(super) first: Option<Outgoing>,
    /// Where the rest comes from.
    pub(super) rest: StreamReceiver,
    /// As what it is noted.
    pub(super) noting: Option<Noting>,
}

/// How the names of streams begin that carry what belongs to no request.
const PUSHES: char = 'p';

/// How those begin of batches, in which there may be several answers.
const BATCHES: char = 'm';

/// What stands in a stream from where on another node goes on with it. No client is sent it.
const GOES_ON: &str = "=";

/// How soon the store is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How soon something is noted again that could not be.
const NOTE_AGAIN: Duration = Duration::from_secs(1);

/// How long a message waits to be kept, where it is not sent before.
const LONGEST_HELD: Duration = Duration::from_secs(900);

impl Streams {
    pub(super) fn new(
        events: Arc<dyn EventStore>,
        owner: Owner,
        session: String,
        nodes: Option<Arc<Nodes>>,
    ) -> Self {
        Self { events, owner, session, nodes, known: Mutex::default() }
    }

    /// The other nodes, if they send in its streams, too.
    pub(super) fn nodes(&self) -> Option<&Arc<Nodes>> {
        self.nodes.as_ref()
    }

    /// Opens `stream` with what was `begun`, which ends with it; gives the event that primes it, if it is to have one.
    pub(super) async fn open(
        self: &Arc<Self>,
        stream: Arc<Stream>,
        primes: bool,
        mut begun: Begun,
    ) -> Option<Sent> {
        let priming = async { if primes { self.keep(&stream, Vec::new(), false).await.ok() } else { None } };
        let (priming, ()) = tokio::join!(priming, self.note(&stream, &mut begun.noting));
        self.remember(&stream);
        tokio::spawn(Arc::clone(self).carry(stream, begun));
        priming.filter(|priming| priming.id.is_some())
    }

    /// What a client has missed that was sent this event last, and what follows. `None` if that cannot be told
    /// without a gap, or if nothing can follow. Of a stream that another node has carried, what belongs to no request comes by this
    /// one from now on, as `open_push` gives it; what belongs to a request is still that node's to send, until it is gone. Its answer
    /// ends it, unless it may be one of several.
    ///
    /// Where streams begin with an event to come back to, so does this: with the one that its client has named. Clients that are let go
    /// before anything new came would else come back without it.
    pub(super) async fn resume(
        self: &Arc<Self>,
        last: &str,
        resumed: Resumed,
        open_push: impl FnOnce(Arc<Stream>) -> StreamReceiver,
    ) -> Option<Rest> {
        let (name, number) = last.rsplit_once('-').filter(|(name, _)| !noted::is_of_notes(name))?;
        let stream = lock(&self.known).get(name).cloned();
        if stream.as_ref().is_some_and(|stream| !stream.lock().whole) {
            return None;
        }
        let last = EventId { stream: name.into(), number: number.parse().ok()? };
        let missed = self.read(&last.stream, last.number).await?;
        let ends = |event: &Event| is_last(name, event);
        let priming = resumed.primes.then(|| Sent::priming(&last));
        // What is behind an answer was said by a node that did not know of it.
        if self.nodes.is_some() && self.event(&last).await?.is_some_and(|event| ends(&event)) {
            return None;
        }
        let live = match stream.and_then(|stream| stream.take_over()) {
            Some(live) => Some(live),
            None if self.nodes.is_none() && missed.is_empty() => return None,
            None if self.nodes.is_none() || missed.iter().any(ends) => None,
            None if name.starts_with(PUSHES) => {
                let (stream, live) = Stream::for_pushes();
                // It comes back to this one from now on, whether or not anything is said.
                let first = resumed.primes.then(|| Outgoing::pushed(Vec::new()));
                let begun = Begun { first, ..Begun::of(open_push(Arc::clone(&stream))) };
                self.open(stream, false, begun).await;
                Some(live)
            }
            None => Some(self.take_in(&last, resumed).await?),
        };
        let (sender, receiver) = mpsc::channel(BOUND);
        let client = Client { last, sender };
        tokio::spawn(Arc::clone(self).catch_up(client, missed, live));
        Some((priming, receiver))
    }

    /// Whether a client is connected to any.
    pub(super) fn have_client(&self) -> bool {
        lock(&self.known).values().any(|stream| stream.has_client())
    }

    /// Ends the connection of every stream: their clients may come back for the rest.
    pub(super) fn let_clients_go(&self) {
        lock(&self.known).values().for_each(|stream| stream.let_client_go());
    }

    /// Forgets all that was sent: the session has ended.
    pub(super) fn forget(self: &Arc<Self>) {
        self.let_clients_go();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let this = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(error) = this.events.trim(&this.owner, &this.session).await {
                tracing::debug!(%error, "the streams of a session that has ended wait for the sweep");
            }
        });
    }

    /// Keeps what is sent, and sends it on while a client is connected, until there is no more, or another node goes on.
    async fn carry(self: Arc<Self>, stream: Arc<Stream>, begun: Begun) {
        let Begun { first: mut next, mut rest, mut noting } = begun;
        let mut end = End::Unanswered;
        let mut renewed = Instant::now();
        loop {
            if next.is_none() {
                let is_noted = noting.as_ref().is_none_or(|noting| noting.is_noted);
                let soon = if is_noted { RENEWED_EVERY } else { NOTE_AGAIN };
                next = tokio::select! {
                    biased;
                    () = sleep_until(renewed + soon), if self.nodes.is_some() => {
                        renewed = Instant::now();
                        if self.is_left_in_silence(&stream).await {
                            end = End::Left;
                            break;
                        }
                        self.note(&stream, &mut noting).await;
                        continue;
                    }
                    outgoing = rest.recv() => outgoing,
                    () = changed(&mut noting) => {
                        self.note(&stream, &mut noting).await;
                        continue;
                    }
                };
            }
            let Some(outgoing) = next.take() else { break };
            match outgoing {
                Outgoing::LetGo => {
                    let mut state = stream.lock();
                    // Whoever could not come back is not let go.
                    if state.whole {
                        state.client = None;
                    }
                }
                Outgoing::Notification { message, .. } | Outgoing::Answer { message, .. } => {
                    match self.keep(&stream, message, noting.is_some()).await {
                        Ok(sent) => {
                            if noting.is_some() && sent.id.is_some() && is_answer(&sent.message) {
                                end = End::Answered;
                            }
                            stream.send(sent).await;
                        }
                        Err(NotOurs::Answered(sent)) => {
                            stream.send(sent).await;
                            end = End::Answered;
                            break;
                        }
                        Err(NotOurs::GoneOnWith) => {
                            end = End::Left;
                            break;
                        }
                    }
                }
            }
        }
        match noting {
            Some(noting) => self.end_noted(&stream, noting, end).await,
            None => self.end(&stream),
        }
    }

    /// Has the store keep a stream in which nothing is said: else it would forget it, and begin anew with the next. Whether another
    /// node has gone on with it. What cannot be known now is looked at the next time.
    async fn is_left_in_silence(&self, stream: &Stream) -> bool {
        let last = {
            let state = stream.lock();
            if state.whole { state.last } else { 0 }
        };
        if last == 0 {
            return false;
        }
        match self.events.prolong(self.key(&stream.name)).await {
            Ok(Some(newest)) if newest > last => {
                self.between(stream, last, newest + 1).await.is_none_or(|said| said.iter().any(goes_on))
            }
            Ok(_) => false,
            Err(error) => {
                tracing::debug!(%error, "a stream in which nothing is said may be forgotten");
                false
            }
        }
    }

    /// Keeps an event. One that cannot be kept is sent all the same, and its stream cannot be resumed any more; but not where
    /// others may have gone on with that by now: it is known once it is kept.
    ///
    /// # Errors
    ///
    /// It is not to be sent, for another node has sent in the stream.
    async fn keep(&self, stream: &Stream, message: Vec<u8>, is_owed: bool) -> Result<Sent, NotOurs> {
        let (mut id, begun) = (None, Instant::now());
        // Every message of ours is JSON, and so UTF-8.
        let text = String::from_utf8_lossy(&message);
        while id.is_none() && stream.lock().whole {
            match self.events.append(self.key(&stream.name), &text).await {
                Ok(number) => {
                    self.is_ours(stream, number, &message).await?;
                    id = Some(EventId { stream: Arc::clone(&stream.name), number });
                }
                Err(error) if is_owed && self.may_be_left(stream) => {
                    if begun.elapsed() >= LONGEST_HELD {
                        return Err(NotOurs::GoneOnWith);
                    }
                    if will_pass(&error) {
                        tracing::debug!(%error, "what is sent in a stream waits to be kept");
                        sleep(TRY_AGAIN).await;
                        continue;
                    }
                    let last = stream.lock().last;
                    if self.between(stream, last, u64::MAX).await.is_none_or(|said| said.iter().any(goes_on))
                    {
                        return Err(NotOurs::GoneOnWith);
                    }
                    tracing::debug!(%error, "a stream cannot be resumed from here on");
                    stream.lock().whole = false;
                }
                Err(error) => {
                    tracing::debug!(%error, "a stream cannot be resumed from here on");
                    stream.lock().whole = false;
                }
            }
        }
        Ok(Sent { id, message, answered: None })
    }

    /// Whether another node may have gone on with a stream: of one of which nothing was ever kept nobody else knows.
    fn may_be_left(&self, stream: &Stream) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.may_be_missed()) && stream.lock().last > 0
    }

    /// Whether an event that was kept is to be sent: nobody else has sent anything in its stream since the last, or it may be
    /// said beside that.
    async fn is_ours(&self, stream: &Stream, number: u64, message: &[u8]) -> Result<(), NotOurs> {
        let (before, gone_on_with) = {
            let mut state = stream.lock();
            let (before, gone_on_with) = (state.last, state.gone_on_with);
            if self.nodes.is_some() && number != before + 1 && gone_on_with && !is_answer(message) {
                // It may be said beside what the other has; whether that is an answer, ours has to know.
                return Ok(());
            }
            state.last = number;
            (before, gone_on_with)
        };
        if self.nodes.is_none() || number == before + 1 {
            return Ok(());
        }
        // One that was forgotten has begun anew.
        let since = if before < number { before } else { 0 };
        let Some(between) = self.between(stream, since, number).await else {
            return Err(NotOurs::GoneOnWith);
        };
        if !gone_on_with {
            // What else there is was kept though its append failed.
            let is_left = between.iter().any(goes_on);
            return if is_left { Err(NotOurs::GoneOnWith) } else { Ok(()) };
        }
        // The node that was gone has come back. The first answer counts.
        match between.iter().find(|event| is_answer(event.text.as_bytes())) {
            Some(answer) => Err(NotOurs::Answered(Sent::of(&stream.name, answer))),
            None => Ok(()),
        }
    }

    /// What is in a stream behind the event numbered `after` and before this number. `None` if that cannot be told.
    async fn between(&self, stream: &Stream, mut after: u64, number: u64) -> Option<Vec<Event>> {
        let (mut between, begun) = (Vec::new(), Instant::now());
        loop {
            match self.events.replay(self.key(&stream.name), after, PAGE).await {
                Ok(events) => {
                    let events = events?;
                    let Some(newest) = events.last() else { return Some(between) };
                    after = newest.number;
                    between.extend(events.into_iter().filter(|event| event.number < number));
                    if after + 1 >= number {
                        return Some(between);
                    }
                }
                Err(error) if begun.elapsed() < LONGEST_HELD => {
                    tracing::debug!(%error, "what is sent in a stream waits for what others have sent there");
                    sleep(TRY_AGAIN).await;
                }
                Err(_) => return None,
            }
        }
    }

    /// What is in a stream behind that number, or as much of it as fits into a page. `None` if that cannot be told.
    async fn read(&self, stream: &str, after: u64) -> Option<Vec<Event>> {
        let events = self.events.replay(self.key(stream), after, PAGE).await;
        events.inspect_err(|error| tracing::warn!(%error, "what was sent in a stream cannot be read")).ok()?
    }

    /// An event, if there is still one of that number. `None` if that cannot be told.
    async fn event(&self, id: &EventId) -> Option<Option<Event>> {
        let Some(before) = id.number.checked_sub(1) else { return Some(None) };
        let events = self.events.replay(self.key(&id.stream), before, 1).await;
        let events =
            events.inspect_err(|error| tracing::warn!(%error, "what was sent in a stream cannot be read"));
        Some(events.ok()?.and_then(|events| events.into_iter().next()))
    }

    /// Sends what was missed, then what follows.
    async fn catch_up(
        self: Arc<Self>,
        mut client: Client,
        mut missed: Vec<Event>,
        live: Option<mpsc::Receiver<Box<Sent>>>,
    ) {
        // Read once more after the stream was taken over: what came meanwhile is in one of the two.
        loop {
            for event in &missed {
                if client.send(event, self.nodes.is_some()).await.is_break() {
                    return;
                }
            }
            missed = match self.read(&client.last.stream, client.last.number).await {
                Some(missed) if missed.is_empty() => break,
                Some(missed) => missed,
                // It has turned over: better an end than a gap.
                None => return,
            };
        }
        if let Some(live) = live {
            client.follow(live).await;
        }
    }

    fn key<'s>(&'s self, name: &'s str) -> Key<'s> {
        Key::new(&self.owner, &self.session, name)
    }

    fn remember(&self, stream: &Arc<Stream>) {
        let mut known = lock(&self.known);
        let mut broken = known.values().filter(|stream| stream.lock().ended);
        if let Some(oldest) = broken.next().map(|stream| Arc::clone(&stream.name))
            && broken.count() >= MAX_BROKEN
        {
            known.remove(&oldest);
        }
        known.insert(Arc::clone(&stream.name), Arc::clone(stream));
    }

    /// What is sent in it from now on reaches nobody.
    fn end(&self, stream: &Arc<Stream>) {
        self.end_if(stream, |_| true);
    }

    /// The same if it stands so; whether it does.
    fn end_if(&self, stream: &Arc<Stream>, stands: impl FnOnce(&State) -> bool) -> bool {
        let mut known = lock(&self.known);
        let mut state = stream.lock();
        if !stands(&state) {
            return false;
        }
        (state.client, state.ended) = (None, true);
        if state.whole && known.get(&stream.name).is_some_and(|known| Arc::ptr_eq(known, stream)) {
            known.remove(&stream.name);
        }
        true
    }
}

impl Stream {
    /// A stream that has yet to be opened, and what its client is sent.
    pub(super) fn new() -> Opened {
        Self::named(new_id())
    }

    /// The same for what belongs to no request.
    pub(super) fn for_pushes() -> Opened {
        Self::named(format!("{PUSHES}{}", new_id()))
    }

    /// The same for the answers to a batch.
    pub(super) fn for_batch() -> Opened {
        Self::named(format!("{BATCHES}{}", new_id()))
    }

    fn named(name: String) -> Opened {
        Self::with(name.into())
    }

    fn with(name: Arc<str>) -> Opened {
        let (sender, receiver) = mpsc::channel(BOUND);
        let state = State { client: Some(sender), whole: true, ended: false, last: 0, gone_on_with: false };
        (Arc::new(Self { name, state: Mutex::new(state), moved: Notify::new() }), receiver)
    }

    /// Whether its client is connected.
    pub(super) fn has_client(&self) -> bool {
        self.lock().has_client()
    }

    /// Ends the connection of its client, which can come back for what was kept.
    pub(super) fn let_client_go(&self) {
        self.lock().client = None;
        self.moved.notify_one();
    }

    /// Sends an event to the client, if it is connected, waiting while its connection is full.
    async fn send(&self, sent: Sent) {
        loop {
            let Some(client) = self.lock().client.clone() else { return };
            let room = tokio::select! {
                room = client.reserve() => Some(room),
                // It may be the client's new connection that has room, or the client is gone.
                () = self.moved.notified() => None,
            };
            match room {
                Some(Ok(room)) => return room.send(Box::new(sent)),
                Some(Err(_)) => {
                    let mut state = self.lock();
                    state.client.take_if(|current| current.same_channel(&client));
                }
                None => {}
            }
        }
    }

    /// From here on the client is connected here, and nowhere else.
    fn take_over(&self) -> Option<mpsc::Receiver<Box<Sent>>> {
        let mut state = self.lock();
        if state.ended {
            return None;
        }
        let (sender, receiver) = mpsc::channel(BOUND);
        state.client = Some(sender);
        self.moved.notify_one();
        Some(receiver)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn has_client(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.is_closed())
    }
}

impl Begun {
    /// Of which nothing comes.
    pub(super) fn nothing() -> Self {
        Self::of(own_stream(1).1)
    }

    /// Of which all is still to come.
    pub(super) fn of(rest: StreamReceiver) -> Self {
        Self { first: None, rest, noting: None }
    }
}

/// How it stands with the answer that a node owed, once it carries the stream no more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was kept.
    Answered,
    /// There is none, or it was not kept.
    Unanswered,
    /// It is for another node to give.
    Left,
}

/// Why what was kept is not sent.
enum NotOurs {
    /// Another node goes on with the stream, and its client is there.
    GoneOnWith,
    /// This was answered before.
    Answered(Sent),
}

impl Sent {
    /// An event that says nothing but what was sent last.
    fn priming(last: &EventId) -> Self {
        Self { id: Some(last.clone()), message: Vec::new(), answered: None }
    }

    /// What is sent of an event that was kept.
    fn of(stream: &Arc<str>, event: &Event) -> Self {
        let id = EventId { stream: Arc::clone(stream), number: event.number };
        Self { id: Some(id), message: event.text.as_bytes().to_vec(), answered: None }
    }
}

/// Completes once there is more to note of a request.
async fn changed(noting: &mut Option<Noting>) {
    match noting {
        Some(noting) => noting.changed().await,
        None => std::future::pending().await,
    }
}

/// Whether nothing follows this event in the stream of this name: it is its answer.
fn is_last(stream: &str, event: &Event) -> bool {
    !stream.starts_with(BATCHES) && is_answer(event.text.as_bytes())
}

/// Whether another node goes on with the stream from this event on.
fn goes_on(event: &Event) -> bool {
    *event.text == *GOES_ON
}

/// Whether the store may do later what it has not done now.
fn will_pass(error: &StoreError) -> bool {
    !matches!(error, StoreError::TooLarge { .. } | StoreError::Overloaded { .. })
}

fn is_answer(message: &[u8]) -> bool {
    // It is our own, as long and as deep as it is. What is only there to be come back to, or says that another node goes on,
    // is none.
    let mut limits = Limits::default();
    (limits.max_bytes, limits.max_depth) = (usize::MAX, 256);
    matches!(Message::decode(message, &limits), Ok(Message::Response(_)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
