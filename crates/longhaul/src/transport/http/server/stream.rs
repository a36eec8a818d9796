//! The streams of a session. What is sent in one is kept first, so that a client that lost its connection, or was let
//! go to come back later, is sent the rest: of that stream of that session of that principal, and of no other.

mod client;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::{Limits, Message, RequestId};
use longhaul_tasks::store::{Event, EventStore, Owner, Stream as Key};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use self::client::Client;
use super::answer::Sent;
use super::notes::{GONE, NOTED_ANEW, Nodes, Note, Noting};
use super::session::new_id;
use crate::hex::hex;
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
    goes_on: bool,
}

/// A stream, and what its client is sent.
type Opened = (Arc<Stream>, mpsc::Receiver<Box<Sent>>);

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
    /// Another node keeps it; if that is gone, this one goes on by this.
    Elsewhere(GoOn),
}

/// A client that comes back to a stream.
pub(super) struct Resumed {
    /// There may be several answers in one stream.
    pub(super) several: bool,
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

/// How those begin that carry nothing, but say of others what was noted of their requests.
const NOTES: char = 'n';

/// How those begin that say of a call what was noted of it, by its request.
const CALLS: char = 'r';

/// What stands in a stream from where on another node goes on with it. No client is sent it.
const GOES_ON: &str = "=";

/// What is only there for a stream to be kept, or to be come back to. Whoever comes back needs none of it.
const NOTHING: &str = "";

/// How often what another node sends is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a message waits to be kept, where it is not sent before.
const LONGEST_HELD: Duration = Duration::from_secs(900);

/// How often it is looked whether that node is there.
const LOOK_AFTER_NODE_EVERY: Duration = Duration::from_secs(1);

/// How long another node of whose request nothing was noted may send nothing before its client is let go.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

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
        let priming = async { if primes { self.keep(&stream, Vec::new()).await.ok() } else { None } };
        let (priming, ()) = tokio::join!(priming, self.note(&stream, &mut begun.noting));
        self.remember(&stream);
        tokio::spawn(Arc::clone(self).carry(stream, begun));
        priming.filter(|priming| priming.id.is_some())
    }

    /// What a client has missed that was sent this event last, and what follows. `None` if that cannot be told
    /// without a gap. Of a stream that another node has carried, what belongs to no request comes by this one from now on,
    /// as `open_push` gives it; what belongs to a request is still that node's to send, until it is gone. Its answer ends it,
    /// unless it may be one of several.
    pub(super) async fn resume(
        self: &Arc<Self>,
        last: &str,
        Resumed { several, go_on }: Resumed,
        open_push: impl FnOnce(Arc<Stream>) -> StreamReceiver,
    ) -> Option<mpsc::Receiver<Box<Sent>>> {
        let (name, number) = last.rsplit_once('-').filter(|(name, _)| !name.starts_with([NOTES, CALLS]))?;
        let stream = lock(&self.known).get(name).cloned();
        if stream.as_ref().is_some_and(|stream| !stream.lock().whole) {
            return None;
        }
        let last = EventId { stream: name.into(), number: number.parse().ok()? };
        let mut missed = self.replay(&last).await?;
        // What is behind an answer was said by a node that did not know of it.
        let is_over = self.nodes.is_some() && !several && self.is_answered(&last).await;
        if is_over {
            missed.clear();
        }
        let rest = match stream {
            _ if is_over => Rest::Nothing,
            Some(stream) => stream.take_over().map_or(Rest::Nothing, Rest::Here),
            None if self.nodes.is_none() => Rest::Nothing,
            None if name.starts_with(PUSHES) => {
                let (stream, kept) = Stream::for_pushes();
                let begun = Begun::of(open_push(Arc::clone(&stream)));
                self.open(stream, false, begun).await;
                Rest::Here(kept)
            }
            None => Rest::Elsewhere(go_on),
        };
        let (sender, receiver) = mpsc::channel(BOUND);
        let client = Client { last, several, sender };
        tokio::spawn(Arc::clone(self).catch_up(client, missed, rest));
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

    /// Keeps what is sent, and sends it on while a client is connected, until there is no more, or another node goes on.
    async fn carry(self: Arc<Self>, stream: Arc<Stream>, begun: Begun) {
        let Begun { first: mut next, mut rest, mut noting } = begun;
        let (mut end, mut anew) = (End::Unanswered, self.nodes.as_ref().map(|_| every(NOTED_ANEW)));
        loop {
            if next.is_none() {
                next = tokio::select! {
                    biased;
                    () = is_time(&mut anew) => {
                        if self.stay(&stream).await.is_err() {
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
                    match self.keep(&stream, message).await {
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
        self.end(&stream);
        if let Some(noting) = &mut noting {
            self.note_end(&stream, noting, end).await;
        }
    }

    /// Has the store keep what is in a stream, however long nothing is said there: else it would forget it, and begin anew
    /// with the next. What cannot be written now is left for the next time.
    ///
    /// # Errors
    ///
    /// Another node has sent in the stream.
    async fn stay(&self, stream: &Stream) -> Result<(), NotOurs> {
        let is_kept = {
            let state = stream.lock();
            state.whole && state.last > 0
        };
        if !is_kept {
            return Ok(());
        }
        match self.events.append(self.key(&stream.name), NOTHING).await {
            Ok(number) => self.is_ours(stream, number, NOTHING.as_bytes()).await,
            Err(error) => {
                tracing::debug!(%error, "a stream in which nothing is said may be forgotten");
                Ok(())
            }
        }
    }

    /// Notes for other nodes what there is to know of the request whose stream it is. Without that its answer is this node's alone.
    async fn note(&self, stream: &Stream, noting: &mut Option<Noting>) {
        let Some(noting) = noting else { return };
        let note = noting.note();
        self.append_note(&format!("{NOTES}{}", stream.name), &note).await;
        // Whoever cancels a call knows no stream.
        if note.task().is_some() {
            self.append_note(&call(&note.id), &note).await;
        }
    }

    /// Notes for other nodes that this one owes the answer no more. One that was not kept is theirs to give, and a call that
    /// is over is not theirs to cancel.
    async fn note_end(&self, stream: &Stream, noting: &mut Noting, end: End) {
        let mut note = Note { is_over: true, ..noting.note() };
        if end != End::Answered {
            self.append_note(&format!("{NOTES}{}", stream.name), &note).await;
        }
        if note.task().is_some() {
            if end != End::Left {
                note.again = None;
            }
            self.append_note(&call(&note.id), &note).await;
        }
    }

    async fn append_note(&self, name: &str, note: &Note) {
        if let Err(error) = self.events.append(self.key(name), &note.to_string()).await {
            tracing::debug!(%error, "other servers do not know how a request stands");
        }
    }

    /// What was noted last of the request that a stream is for.
    async fn noted(&self, stream: &str) -> Option<Note> {
        self.noted_as(&format!("{NOTES}{stream}")).await
    }

    /// The task that the call of that request has become, once the node is gone that owes its answer. `None` if it is none, or the
    /// node is there still.
    pub(super) async fn task_left_by(&self, id: &RequestId) -> Option<String> {
        let note = self.noted_as(&call(id)).await?;
        let (task, mut missing, begun) = (note.task()?, None, Instant::now());
        while !self.is_gone(&note, &mut missing).await {
            if begun.elapsed() > 2 * GONE && missing.is_none() {
                return None;
            }
            tokio::time::sleep(LOOK_AFTER_NODE_EVERY).await;
        }
        Some(task.to_owned())
    }

    async fn noted_as(&self, name: &str) -> Option<Note> {
        let (mut after, mut noted) = (0, None::<Note>);
        loop {
            let notes = self.events.replay(self.key(name), after, PAGE).await.ok()??;
            if notes.is_empty() {
                return noted;
            }
            for event in notes {
                after = event.number;
                // One of another release may say more than this one can read.
                let note: Option<Note> = serde_json::from_str(&event.text).ok();
                let is_late =
                    |by: &Note| note.as_ref().is_some_and(|note| note.is_over && note.node != by.node);
                // That a node owes it no more says nothing of the one that has noted since that it does.
                if !noted.as_ref().is_some_and(is_late) {
                    noted = note;
                }
            }
        }
    }

    /// Keeps an event. One that cannot be kept is sent all the same, and its stream cannot be resumed any more; but not where
    /// others may have gone on with that by now: it is known once it is kept.
    ///
    /// # Errors
    ///
    /// It is not to be sent, for another node has sent in the stream.
    async fn keep(&self, stream: &Stream, message: Vec<u8>) -> Result<Sent, NotOurs> {
        let (mut id, begun) = (None, Instant::now());
        // Every message of ours is JSON, and so UTF-8.
        let text = String::from_utf8_lossy(&message);
        while id.is_none() && stream.lock().whole {
            match self.events.append(self.key(&stream.name), &text).await {
                Ok(number) => {
                    self.is_ours(stream, number, &message).await?;
                    id = Some(EventId { stream: Arc::clone(&stream.name), number });
                }
                Err(_) if begun.elapsed() >= LONGEST_HELD => return Err(NotOurs::GoneOnWith),
                Err(error) if self.nodes.as_ref().is_some_and(|nodes| nodes.may_be_missed()) => {
                    tracing::debug!(%error, "what is sent in a stream waits to be kept");
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "a stream cannot be resumed from here on");
                    stream.lock().whole = false;
                }
            }
        }
        Ok(Sent { id, message, answered: None })
    }

    /// Whether an event that was kept is to be sent: nobody else has sent anything in its stream since the last, or it may be
    /// said beside that.
    async fn is_ours(&self, stream: &Stream, number: u64, message: &[u8]) -> Result<(), NotOurs> {
        let (before, goes_on) = {
            let mut state = stream.lock();
            (std::mem::replace(&mut state.last, number), state.goes_on)
        };
        if self.nodes.is_none() || number == before + 1 || goes_on && !is_answer(message) {
            return Ok(());
        }
        // One that was forgotten has begun anew.
        let since = if before < number { before } else { 0 };
        let Some(between) = self.between(stream, since, number).await else {
            return Err(NotOurs::GoneOnWith);
        };
        if !goes_on {
            // What else there is was kept though its append failed.
            let is_left = between.iter().any(|event| *event.text == *GOES_ON);
            return if is_left { Err(NotOurs::GoneOnWith) } else { Ok(()) };
        }
        // The node that was gone has come back. The first answer counts.
        match between.iter().find(|event| is_answer(event.text.as_bytes())) {
            Some(answer) => Err(NotOurs::Answered(Sent::of(&stream.name, answer))),
            None => Ok(()),
        }
    }

    /// What is in a stream behind the event numbered `after` and before this one, which was kept. `None` if that cannot be told.
    async fn between(&self, stream: &Stream, mut after: u64, number: u64) -> Option<Vec<Event>> {
        let (mut between, begun) = (Vec::new(), Instant::now());
        loop {
            match self.events.replay(self.key(&stream.name), after, PAGE).await {
                Ok(events) => {
                    let events = events.filter(|events| !events.is_empty())?;
                    for event in events {
                        if event.number >= number {
                            return Some(between);
                        }
                        after = event.number;
                        between.push(event);
                    }
                }
                Err(error) if begun.elapsed() < LONGEST_HELD => {
                    tracing::debug!(%error, "what is sent in a stream waits for what others have sent there");
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Err(_) => return None,
            }
        }
    }

    async fn replay(&self, last: &EventId) -> Option<Vec<Sent>> {
        let (mut after, mut sent) = (last.number, Vec::new());
        // There may be a page and more of what nobody is sent.
        while sent.is_empty() {
            let events = self.events.replay(self.key(&last.stream), after, PAGE).await;
            let events = events
                .inspect_err(|error| tracing::warn!(%error, "what was sent in a stream cannot be read"))
                .ok()??;
            let Some(newest) = events.last() else { break };
            after = newest.number;
            let said = events.iter().filter(|event| ![GOES_ON, NOTHING].contains(&&*event.text));
            sent.extend(said.map(|event| Sent::of(&last.stream, event)));
        }
        Some(sent)
    }

    /// Sends what was missed, then what follows.
    async fn catch_up(self: Arc<Self>, mut client: Client, missed: Vec<Sent>, rest: Rest) {
        // Read once more after the stream was taken over: what came meanwhile is in one of the two.
        if self.send_missed(&mut client, missed).await.is_break() {
            return;
        }
        match rest {
            Rest::Nothing => {}
            Rest::Elsewhere(go_on) => Box::pin(self.follow(client, go_on)).await,
            Rest::Here(live) => client.follow(live).await,
        }
    }

    /// Sends what was missed, until there is no more of it now. That is all if it breaks.
    async fn send_missed(&self, client: &mut Client, mut missed: Vec<Sent>) -> ControlFlow<()> {
        loop {
            for sent in missed {
                client.send(sent, self.nodes.is_some()).await?;
            }
            missed = match self.replay(&client.last).await {
                Some(missed) if missed.is_empty() => return ControlFlow::Continue(()),
                Some(missed) => missed,
                // It has turned over: better an end than a gap.
                None => return ControlFlow::Break(()),
            };
        }
    }

    /// Sends what another node sends in a stream, until that is its answer. If the node is gone, this one goes on with the
    /// request by `go_on`, where something was noted of it; else nothing more comes: then the client is let go, and may look again.
    async fn follow(self: Arc<Self>, mut client: Client, go_on: GoOn) {
        let (mut heard, mut looked, mut missing) = (Instant::now(), Instant::now(), None);
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = client.sender.closed() => return,
            }
            let before = client.last.number;
            let Some(sent) = self.replay(&client.last).await else { return };
            if self.send_missed(&mut client, sent).await.is_break() {
                return;
            }
            if client.last.number > before {
                (heard, missing) = (Instant::now(), None);
            } else if looked.elapsed() >= LOOK_AFTER_NODE_EVERY {
                looked = Instant::now();
                match self.noted(&client.last.stream).await {
                    Some(note) if self.is_gone(&note, &mut missing).await => {
                        return self.go_on(client, &note, go_on).await;
                    }
                    Some(_) => heard = Instant::now(),
                    None if heard.elapsed() >= LONGEST_SILENCE => return,
                    None => {}
                }
            }
        }
    }

    /// Whether the node that owes an answer is gone. It has been `missing` since then.
    async fn is_gone(&self, note: &Note, missing: &mut Option<Instant>) -> bool {
        let Some(nodes) = self.nodes.as_ref().filter(|_| !note.is_over) else { return note.is_over };
        match nodes.is_there(&note.node).await {
            Ok(false) => missing.get_or_insert_with(Instant::now).elapsed() >= GONE,
            Ok(true) | Err(_) => {
                *missing = None;
                false
            }
        }
    }

    /// Goes on with a stream in the place of a node that is gone. Should that come back, it finds that it is left.
    async fn go_on(self: Arc<Self>, mut client: Client, note: &Note, go_on: GoOn) {
        let (stream, live) = match self.take_in(&client.last.stream) {
            Ok(taken) => taken,
            // Its client has come back here before.
            Err(stream) => {
                if let Some(live) = stream.take_over() {
                    client.follow(live).await;
                }
                return;
            }
        };
        let Ok(last) = self.events.append(self.key(&stream.name), GOES_ON).await else {
            return self.end(&stream);
        };
        stream.lock().last = last;
        // What was said before that counts: without it nothing can be.
        let Some(sent) = self.replay(&client.last).await else { return self.end(&stream) };
        if self.send_missed(&mut client, sent).await.is_break() {
            return self.end(&stream);
        }
        let Some(begun) = go_on(note, &stream) else {
            // Whichever node its client comes to next tries again. The one that is gone owes it no more, even if it is back.
            let note = Note { is_over: true, ..note.clone() };
            self.append_note(&format!("{NOTES}{}", stream.name), &note).await;
            return self.end(&stream);
        };
        self.open(stream, false, begun).await;
        client.follow(live).await;
    }

    /// A stream that another node has carried, unless this one does by now.
    fn take_in(&self, name: &Arc<str>) -> Result<Opened, Arc<Stream>> {
        let mut known = lock(&self.known);
        if let Some(stream) = known.get(name) {
            return Err(Arc::clone(stream));
        }
        let (stream, live) = Stream::going_on(Arc::clone(name));
        known.insert(Arc::clone(name), Arc::clone(&stream));
        Ok((stream, live))
    }

    /// Whether this event is an answer.
    async fn is_answered(&self, event: &EventId) -> bool {
        let before = event.number.saturating_sub(1);
        let read = self.events.replay(self.key(&event.stream), before, 1).await;
        let Ok(Some(found)) = read else { return false };
        found.first().is_some_and(|event| is_answer(event.text.as_bytes()))
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
    pub(super) fn new() -> Opened {
        Self::named(new_id())
    }

    /// The same for what belongs to no request.
    pub(super) fn for_pushes() -> Opened {
        Self::named(format!("{PUSHES}{}", new_id()))
    }

    fn named(name: String) -> Opened {
        Self::with(name.into(), false)
    }

    /// One that another node has carried.
    fn going_on(name: Arc<str>) -> Opened {
        Self::with(name, true)
    }

    fn with(name: Arc<str>, goes_on: bool) -> Opened {
        let (sender, receiver) = mpsc::channel(BOUND);
        let state = State { client: Some(sender), whole: true, ended: false, last: 0, goes_on };
        (Arc::new(Self { name, state: Mutex::new(state), moved: Notify::new() }), receiver)
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
    /// What is sent of an event that was kept.
    fn of(stream: &Arc<str>, event: &Event) -> Self {
        let id = EventId { stream: Arc::clone(stream), number: event.number };
        Self { id: Some(id), message: event.text.as_bytes().to_vec(), answered: None }
    }

    /// Its number in its stream; none has that of what was not kept.
    fn number(&self) -> u64 {
        self.id.as_ref().map_or(0, |id| id.number)
    }
}

fn every(period: Duration) -> Interval {
    let mut every = tokio::time::interval_at(Instant::now() + period, period);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every
}

/// Completes whenever the time has come, if it comes at all.
async fn is_time(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

/// Completes once there is more to note of a request.
async fn changed(noting: &mut Option<Noting>) {
    match noting {
        Some(noting) => noting.changed().await,
        None => std::future::pending().await,
    }
}

/// Where it is noted what the call of that request has become.
fn call(id: &RequestId) -> String {
    let digest: [u8; 32] = Sha256::digest(id.to_string()).into();
    format!("{CALLS}{}", hex(&digest))
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
