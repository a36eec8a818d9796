//! The streams of a session. What is sent in one is kept first, so that a client that lost its connection, or was let
//! go to come back later, is sent the rest: of that stream of that session of that principal, and of no other.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::{Limits, Message};
use longhaul_tasks::store::{EventStore, Owner, StoreError, Stream as Key};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::answer::Sent;
use super::session::new_id;
use crate::server::{Outgoing, StreamReceiver};

/// The streams of one session.
#[derive(Debug)]
pub(super) struct Streams {
    events: Arc<dyn EventStore>,
    owner: Owner,
    session: String,
    /// Other nodes send in its streams, too.
    shared: bool,
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
}

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

/// Where the rest of a stream comes from that is resumed.
enum Rest {
    /// There is no more.
    Nothing,
    /// By this node.
    Here(mpsc::Receiver<Box<Sent>>),
    /// Another node keeps it, if that is still there.
    Elsewhere { several: bool },
}

/// How the names of streams begin that carry what belongs to no request.
const PUSHES: char = 'p';

/// How often what another node sends is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long another node may send nothing before its client is let go.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

impl Streams {
    pub(super) fn new(events: Arc<dyn EventStore>, owner: Owner, session: String, shared: bool) -> Self {
        Self { events, owner, session, shared, known: Mutex::default() }
    }

    /// Opens `stream` with `first` and whatever comes from `from`, which ends with it; gives the event that primes it,
    /// if it is to have one.
    pub(super) async fn open(
        self: &Arc<Self>,
        stream: Arc<Stream>,
        primes: bool,
        first: Option<Outgoing>,
        from: StreamReceiver,
    ) -> Option<Sent> {
        let priming = if primes { Some(self.keep(&stream, Vec::new()).await) } else { None };
        self.remember(&stream);
        tokio::spawn(Arc::clone(self).carry(stream, first, from));
        priming.filter(|priming| priming.id.is_some())
    }

    /// What a client has missed that was sent this event last, and what follows. `None` if that cannot be told
    /// without a gap. Of a stream that another node has carried, what belongs to no request comes by this one from now on,
    /// as `open_push` gives it; what belongs to a request is still that node's to send. Its answer ends it, unless it may be
    /// one of `several`.
    pub(super) async fn resume(
        self: &Arc<Self>,
        last: &str,
        several: bool,
        open_push: impl FnOnce(Arc<Stream>) -> StreamReceiver,
    ) -> Option<mpsc::Receiver<Box<Sent>>> {
        let (name, number) = last.rsplit_once('-')?;
        let stream = lock(&self.known).get(name).cloned();
        if stream.as_ref().is_some_and(|stream| !stream.lock().whole) {
            return None;
        }
        let last = EventId { stream: name.into(), number: number.parse().ok()? };
        let missed = self.replay(&last).await?;
        let rest = match stream {
            Some(stream) => stream.take_over().map_or(Rest::Nothing, Rest::Here),
            None if !self.shared => Rest::Nothing,
            None if name.starts_with(PUSHES) => {
                let (stream, kept) = Stream::for_pushes();
                let from = open_push(Arc::clone(&stream));
                self.open(stream, false, None, from).await;
                Rest::Here(kept)
            }
            None => Rest::Elsewhere { several },
        };
        let (sender, receiver) = mpsc::channel(BOUND);
        tokio::spawn(Arc::clone(self).catch_up(last, missed, rest, sender));
        Some(receiver)
    }

    /// Whether a client is connected to any.
    pub(super) fn have_client(&self) -> bool {
        lock(&self.known).values().any(|stream| stream.has_client())
    }

    /// Ends the connection of every stream: their clients may come back for the rest.
    pub(super) fn let_clients_go(&self) {
        for stream in lock(&self.known).values() {
            stream.lock().client = None;
        }
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

    /// Keeps what is sent, and sends it on while a client is connected, until there is no more.
    async fn carry(self: Arc<Self>, stream: Arc<Stream>, first: Option<Outgoing>, mut from: StreamReceiver) {
        let mut next = first;
        if next.is_none() {
            next = from.recv().await;
        }
        while let Some(outgoing) = next {
            match outgoing {
                Outgoing::LetGo => {
                    let mut state = stream.lock();
                    // Whoever could not come back is not let go.
                    if state.whole {
                        state.client = None;
                    }
                }
                Outgoing::Notification { message, .. } | Outgoing::Answer { message, .. } => {
                    let sent = self.keep(&stream, message).await;
                    stream.send(sent).await;
                }
            }
            next = from.recv().await;
        }
        self.end(&stream);
    }

    /// Keeps an event. One that cannot be kept is sent all the same, and its stream cannot be resumed any more.
    async fn keep(&self, stream: &Stream, message: Vec<u8>) -> Sent {
        let mut id = None;
        if stream.lock().whole {
            match self.append(stream, &message).await {
                Ok(number) => id = Some(EventId { stream: Arc::clone(&stream.name), number }),
                Err(error) => {
                    tracing::debug!(%error, "a stream cannot be resumed from here on");
                    stream.lock().whole = false;
                }
            }
        }
        Sent { id, message, answered: None }
    }

    async fn append(&self, stream: &Stream, message: &[u8]) -> Result<u64, StoreError> {
        // Every message of ours is JSON, and so UTF-8.
        let text = String::from_utf8_lossy(message);
        self.events.append(self.key(&stream.name), &text).await
    }

    async fn replay(&self, last: &EventId) -> Option<Vec<Sent>> {
        let replayed = self.events.replay(self.key(&last.stream), last.number, PAGE).await;
        let events = replayed
            .inspect_err(|error| tracing::warn!(%error, "what was sent in a stream cannot be read"))
            .ok()??;
        let sent = events.into_iter().map(|event| Sent {
            id: Some(EventId { stream: Arc::clone(&last.stream), number: event.number }),
            message: event.text.as_bytes().to_vec(),
            answered: None,
        });
        Some(sent.collect())
    }

    /// Sends what was missed, then what follows.
    async fn catch_up(
        self: Arc<Self>,
        mut last: EventId,
        mut missed: Vec<Sent>,
        rest: Rest,
        client: mpsc::Sender<Box<Sent>>,
    ) {
        loop {
            for sent in missed {
                last.number = sent.id.as_ref().map_or(last.number, |id| id.number);
                if client.send(Box::new(sent)).await.is_err() {
                    return;
                }
            }
            // Read once more after the stream was taken over: what came meanwhile is in one of the two.
            missed = match self.replay(&last).await {
                Some(missed) if missed.is_empty() => break,
                Some(missed) => missed,
                // It has turned over: better an end than a gap.
                None => return,
            };
        }
        let mut live = match rest {
            Rest::Nothing => return,
            Rest::Elsewhere { several } => return self.follow(last, several, client).await,
            Rest::Here(live) => live,
        };
        loop {
            let sent = tokio::select! {
                sent = live.recv() => sent,
                () = client.closed() => None,
            };
            let Some(sent) = sent else { return };
            let is_new =
                sent.id.as_ref().is_none_or(|id| id.stream != last.stream || id.number > last.number);
            if is_new && client.send(sent).await.is_err() {
                return;
            }
        }
    }

    /// Sends what another node sends in a stream, until that is its answer. If the node is gone, nothing more comes: then
    /// the client is let go, and may look again.
    async fn follow(&self, mut last: EventId, several: bool, client: mpsc::Sender<Box<Sent>>) {
        let mut heard = Instant::now();
        while heard.elapsed() < LONGEST_SILENCE && (several || !self.is_answered(&last).await) {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = client.closed() => return,
            }
            let Some(sent) = self.replay(&last).await else { return };
            for sent in sent {
                last.number = sent.id.as_ref().map_or(last.number, |id| id.number);
                heard = Instant::now();
                if client.send(Box::new(sent)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Whether this event is an answer.
    async fn is_answered(&self, event: &EventId) -> bool {
        let before = event.number.saturating_sub(1);
        let read = self.events.replay(self.key(&event.stream), before, 1).await;
        let Ok(Some(found)) = read else { return false };
        let answers = |text: &str| {
            matches!(Message::decode(text.as_bytes(), &Limits::default()), Ok(Message::Response(_)))
        };
        found.first().is_some_and(|event| answers(&event.text))
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

    fn end(&self, stream: &Stream) {
        let mut known = lock(&self.known);
        let mut state = stream.lock();
        (state.client, state.ended) = (None, true);
        if state.whole {
            known.remove(&stream.name);
        }
    }
}

impl Stream {
    /// A stream that has yet to be opened, and what its client is sent.
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<Box<Sent>>) {
        Self::named(new_id())
    }

    /// The same for what belongs to no request.
    pub(super) fn for_pushes() -> (Arc<Self>, mpsc::Receiver<Box<Sent>>) {
        Self::named(format!("{PUSHES}{}", new_id()))
    }

    fn named(name: String) -> (Arc<Self>, mpsc::Receiver<Box<Sent>>) {
        let (sender, receiver) = mpsc::channel(BOUND);
        let stream = Self {
            name: name.into(),
            state: Mutex::new(State { client: Some(sender), whole: true, ended: false }),
            moved: Notify::new(),
        };
        (Arc::new(stream), receiver)
    }

    /// Whether its client is connected.
    pub(super) fn has_client(&self) -> bool {
        self.lock().client.as_ref().is_some_and(|client| !client.is_closed())
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
