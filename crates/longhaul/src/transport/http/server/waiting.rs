//! Connections that wait for their clients: to ask something, or to send the rest of it. When every place is taken, the
//! one that has waited longest makes room. If there is none, or if a few have only just begun to wait, one does that only
//! carries a stream which belongs to no request, and which its client can open again: the oldest of whoever has most of them.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::unread::Unread;

/// The connections of one server that wait for their clients.
#[derive(Debug)]
pub(super) struct Waiting {
    /// How many that wait may have come in place of streams.
    newcomers: usize,
    state: Mutex<State>,
    /// There is one more.
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// How to let each go and since when it waits, the one that has waited longest first.
    idle: BTreeMap<u64, (Instant, Arc<Notify>)>,
    /// The same for those that only carry streams, and whose they are.
    carrying: BTreeMap<u64, (Standing, Arc<Notify>)>,
    complained: Option<Instant>,
}

/// A stream that belongs to no request, and whose it is. It is among the extensions of its response.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Standing(pub(super) Arc<str>);

/// For what a connection waits.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Waits {
    /// For its client to say something.
    Idle,
    /// For something to happen that its client wants to hear of.
    Carrying(Standing),
}

/// How long a client may take to be heard before its connection makes room rather than a stream does: where streams have
/// nearly all places, whoever comes would otherwise be sent away by whoever comes next.
const TO_BE_HEARD: Duration = Duration::from_millis(250);

/// Of how many places they have one, and one more: however fast connections come that say nothing, the other streams stay.
const FOR_NEWCOMERS: usize = 8;

/// How often it is said that there is no room.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

impl Waiting {
    /// Of a server that has so many places.
    pub(super) fn new(places: usize) -> Self {
        Self { newcomers: places / FOR_NEWCOMERS + 1, state: Mutex::default(), more: Notify::new() }
    }

    /// Lets one go, if any waits.
    pub(super) fn let_one_go(&self) -> bool {
        let mut state = self.lock();
        let patience = if state.idle.len() > self.newcomers { Duration::ZERO } else { TO_BE_HEARD };
        let let_go = state.longest_idle(patience).or_else(|| state.oldest_of_most());
        let Some(let_go) = let_go.or_else(|| state.longest_idle(Duration::ZERO)) else { return false };
        drop(state);
        let_go.notify_one();
        true
    }

    /// Completes once there may be one more.
    pub(super) async fn more(&self) {
        self.more.notified().await;
    }

    /// Says, now and then, that there is no room.
    pub(super) fn complain(&self) {
        let mut state = self.lock();
        if state.complained.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
            state.complained = Some(Instant::now());
            drop(state);
            tracing::warn!(
                "every connection there may be is open and busy; the next ones are told to come back"
            );
        }
    }

    fn enter(&self, waits: &Waits, let_go: &Arc<Notify>) -> u64 {
        let number = {
            let mut state = self.lock();
            state.next += 1;
            let (number, let_go) = (state.next, Arc::clone(let_go));
            match waits {
                Waits::Idle => drop(state.idle.insert(number, (Instant::now(), let_go))),
                Waits::Carrying(stream) => drop(state.carrying.insert(number, (stream.clone(), let_go))),
            }
            number
        };
        self.more.notify_one();
        number
    }

    /// `false` means that it has been let go.
    fn leave(&self, number: u64) -> bool {
        let mut state = self.lock();
        state.idle.remove(&number).is_some() || state.carrying.remove(&number).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The one that has waited longest, if that is so long.
    fn longest_idle(&mut self, at_least: Duration) -> Option<Arc<Notify>> {
        let longest = self.idle.first_entry().filter(|longest| longest.get().0.elapsed() >= at_least)?;
        Some(longest.remove().1)
    }

    fn oldest_of_most(&mut self) -> Option<Arc<Notify>> {
        let mut oldest = HashMap::<&Standing, (usize, u64)>::new();
        for (number, (stream, _)) in &self.carrying {
            oldest.entry(stream).or_insert((0, *number)).0 += 1;
        }
        // Of two who have as many, the older.
        let most = oldest.into_values().max_by_key(|(count, number)| (*count, std::cmp::Reverse(*number)));
        most.and_then(|(_, number)| self.carrying.remove(&number)).map(|(_, let_go)| let_go)
    }
}

/// One connection, as far as it waits for its client.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Waiting>,
    requests: Mutex<Requests>,
    /// The requests are others than before.
    #[cfg(feature = "http2")]
    changed: Notify,
    let_go: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Requests {
    /// Those that are not answered to the end.
    open: usize,
    /// Those of them of which the body is awaited.
    unfinished: usize,
    /// Those of them that are answered by a stream which belongs to no request.
    standing: usize,
    /// Whose the last of those is.
    whose: Option<Standing>,
    /// For what it waits, and what it is known by meanwhile.
    waits: Option<(Waits, u64)>,
    /// It has been let go, or has ended.
    gone: bool,
}

impl Connection {
    /// A connection has been accepted.
    pub(super) fn new(all: &Arc<Waiting>) -> Arc<Self> {
        let this = Self {
            all: Arc::clone(all),
            requests: Mutex::default(),
            #[cfg(feature = "http2")]
            changed: Notify::new(),
            let_go: Arc::default(),
        };
        this.change(|_| {});
        Arc::new(this)
    }

    /// A request has come.
    pub(super) fn open(self: &Arc<Self>) -> OpenRequest {
        let in_time = self.change(|requests| requests.open += 1);
        OpenRequest { connection: Arc::clone(self), in_time, stands: false }
    }

    /// Completes once it has to make room.
    pub(super) async fn let_go(&self) {
        self.let_go.notified().await;
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.change(|requests| requests.gone = true);
    }

    /// Completes once no request has been open for so long.
    #[cfg(feature = "http2")]
    pub(super) async fn idle_for(&self, limit: Duration) {
        loop {
            // It hears of what changes after the look, too.
            let changed = self.changed.notified();
            if self.lock().open > 0 {
                changed.await;
            } else if tokio::time::timeout(limit, changed).await.is_err() {
                return;
            }
        }
    }

    /// Whether it still has its place after the change.
    fn change(&self, change: impl FnOnce(&mut Requests)) -> bool {
        let mut requests = self.lock();
        change(&mut requests);
        let waits = requests.wait_for();
        if requests.waits.as_ref().map(|(waits, _)| waits) != waits.as_ref() {
            if let Some((_, number)) = requests.waits.take() {
                requests.gone |= !self.all.leave(number);
            }
            if !requests.gone {
                requests.waits = waits.map(|waits| (waits.clone(), self.all.enter(&waits, &self.let_go)));
            }
        }
        #[cfg(feature = "http2")]
        self.changed.notify_waiters();
        !requests.gone
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests {
    /// For what they make their connection wait, if nothing that it was asked can be answered yet.
    fn wait_for(&self) -> Option<Waits> {
        if self.gone || self.open != self.unfinished + self.standing {
            return None;
        }
        let stream = self.whose.as_ref().filter(|_| self.standing > 0);
        Some(stream.map_or(Waits::Idle, |stream| Waits::Carrying(stream.clone())))
    }
}

/// A request that is not answered to the end.
#[derive(Debug)]
pub(super) struct OpenRequest {
    connection: Arc<Connection>,
    in_time: bool,
    /// It is answered by a stream that belongs to no request.
    stands: bool,
}

impl OpenRequest {
    /// Completes at once, and never for a request whose connection was let go when it came: nothing is begun for it.
    pub(super) async fn in_time(&self) {
        if !self.in_time {
            std::future::pending::<()>().await;
        }
    }

    /// It is answered by this stream.
    pub(super) fn stands(&mut self, stream: Standing) {
        self.stands = true;
        self.connection.change(|requests| {
            requests.standing += 1;
            requests.whose = Some(stream);
        });
    }

    /// Its body, of which the rest is taken in like this.
    pub(super) fn body(&self, body: Incoming, unread: Unread) -> Awaited {
        let connection = Arc::clone(&self.connection);
        let body = Some(body).filter(|body| !body.is_end_stream());
        Awaited { body, unread, connection, unfinished: false }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.connection.change(|requests| {
            requests.open -= 1;
            requests.standing -= usize::from(self.stands);
        });
    }
}

/// The body of a request, whose connection waits from when more of it is awaited to its end.
pub(super) struct Awaited {
    /// What is not read of it yet.
    body: Option<Incoming>,
    unread: Unread,
    connection: Arc<Connection>,
    unfinished: bool,
}

impl Awaited {
    /// Whether its connection still has its place.
    fn finish(&mut self) -> bool {
        !std::mem::take(&mut self.unfinished) || self.connection.change(|requests| requests.unfinished -= 1)
    }
}

impl Body for Awaited {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.unread.is_asked_for();
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(cx);
        if frame.is_pending() && !self.unfinished {
            self.unfinished = true;
            self.connection.change(|requests| requests.unfinished += 1);
        }
        let frame = ready!(frame);
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
            if !self.finish() {
                // It came too late: nothing is begun that would end with the connection.
                return Poll::Pending;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        // From here on the connection waits for nothing that anybody needs.
        if self.finish()
            && let Some(body) = self.body.take().filter(|body| !body.is_end_stream())
        {
            self.unread.take_in(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_let_go(connection: &Connection) -> bool {
        tokio::time::timeout(Duration::from_millis(1), connection.let_go()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_makes_room_for_who_has_just_come() {
        let all = Arc::new(Waiting::new(4));
        let carrying = [(); 2].map(|()| Connection::new(&all));
        let mut streams = carrying.each_ref().map(|carrying| carrying.open());
        for stream in &mut streams {
            stream.stands(Standing("ann".into()));
        }
        let comes = Connection::new(&all);
        assert!(all.let_one_go());
        assert!(is_let_go(&carrying[0]).await && !is_let_go(&comes).await);
        tokio::time::advance(TO_BE_HEARD).await;
        assert!(all.let_one_go());
        assert!(is_let_go(&comes).await && !is_let_go(&carrying[1]).await, "it has said nothing");
        let comes = Connection::new(&all);
        assert!(all.let_one_go() && all.let_one_go());
        assert!(is_let_go(&carrying[1]).await && is_let_go(&comes).await, "there is nothing else");
        assert!(!all.let_one_go());
    }

    #[tokio::test(start_paused = true)]
    async fn however_fast_connections_come_they_take_few_places_of_streams() {
        let all = Arc::new(Waiting::new(16));
        let carrying = [(); 16].map(|()| Connection::new(&all));
        let mut streams = carrying.each_ref().map(|carrying| carrying.open());
        for stream in &mut streams {
            stream.stands(Standing("ann".into()));
        }
        let mut came = Vec::new();
        for _ in 0..1000 {
            assert!(all.let_one_go());
            came.push(Connection::new(&all));
        }
        let left = all.lock().carrying.len();
        assert_eq!(left, 12);
        assert!(!is_let_go(came.last().unwrap()).await && is_let_go(&came[0]).await);
    }
}
