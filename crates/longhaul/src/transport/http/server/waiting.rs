//! Connections that wait for their clients: to ask something, or to send the rest of it. When every place is taken, the
//! one that has waited longest makes room. If there is none, or if a few have only just begun to wait, one does that only
//! carries a stream which belongs to no request, and which its client can open again: the oldest of whoever has most of them.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::{Notify, SetOnce};
use tokio::time::Instant;

use super::unread::Unread;

/// The connections of one server that wait for their clients.
#[derive(Debug)]
pub(super) struct Waiting {
    /// How many that wait may have come in place of streams.
    newcomers: usize,
    /// How many wait for their clients to say something.
    idle: AtomicUsize,
    queues: Mutex<Queues>,
    /// Held while one is chosen: whoever is looked at is out of the queue meanwhile, and must not be missed.
    choosing: Mutex<()>,
    /// There is one more.
    more: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    next: u64,
    /// Every connection that is idle, under a moment from which on it may be so: a connection that is asked something stays
    /// where it is, so that requests cost nothing here, and is put in its place when somebody comes across it.
    idle: BTreeMap<(Instant, u64), Arc<Connection>>,
    /// Those that only carry streams, and whose they are.
    carrying: BTreeMap<u64, (Standing, Arc<Connection>)>,
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
        Self {
            newcomers: places / FOR_NEWCOMERS + 1,
            idle: AtomicUsize::new(0),
            queues: Mutex::default(),
            choosing: Mutex::default(),
            more: Notify::new(),
        }
    }

    /// Lets one go, if any waits.
    pub(super) fn let_one_go(&self) -> bool {
        let _one_at_a_time = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let many = self.idle.load(Ordering::Relaxed) > self.newcomers;
        let patience = if many { Duration::ZERO } else { TO_BE_HEARD };
        self.let_longest_idle_go(patience)
            || self.let_oldest_of_most_go()
            || self.let_longest_idle_go(Duration::ZERO)
    }

    /// Completes once there may be one more.
    pub(super) async fn more(&self) {
        self.more.notified().await;
    }

    /// Says, now and then, that there is no room.
    pub(super) fn complain(&self) {
        let mut queues = self.queues();
        if queues.complained.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
            queues.complained = Some(Instant::now());
            drop(queues);
            tracing::warn!(
                "every connection there may be is open and busy; the next ones are told to come back"
            );
        }
    }

    /// Lets the one go that has been idle for longest, if that is so long.
    fn let_longest_idle_go(&self, at_least: Duration) -> bool {
        loop {
            let longest = self.queues().longest_idle(at_least);
            let Some(((known, _), connection)) = longest else { return false };
            let mut requests = connection.lock();
            requests.queued = None;
            match requests.now {
                // None has been idle for longer than its place says: the first that has been for as long is the one.
                Now::Idle(since) if since > known => connection.queue(&mut requests, since),
                Now::Idle(_) => return connection.make_room(requests),
                Now::Busy | Now::Carrying(..) => {}
            }
        }
    }

    /// Lets a connection go that only carries a stream: the oldest of whoever has most of them.
    fn let_oldest_of_most_go(&self) -> bool {
        loop {
            let oldest = self.queues().oldest_of_most();
            let Some((number, connection)) = oldest else { return false };
            let requests = connection.lock();
            // Otherwise it has just ended, or been asked something.
            if matches!(requests.now, Now::Carrying(_, its) if its == number) {
                return connection.make_room(requests);
            }
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Takes the first out of its place, if that says that it has been idle for so long.
    fn longest_idle(&mut self, at_least: Duration) -> Option<((Instant, u64), Arc<Connection>)> {
        let first = self.idle.first_entry().filter(|first| first.key().0.elapsed() >= at_least)?;
        Some(first.remove_entry())
    }

    fn oldest_of_most(&mut self) -> Option<(u64, Arc<Connection>)> {
        let mut oldest = HashMap::<&Standing, (usize, u64)>::new();
        for (number, (stream, _)) in &self.carrying {
            oldest.entry(stream).or_insert((0, *number)).0 += 1;
        }
        // Of two who have as many, the older.
        let most = oldest.into_values().max_by_key(|(count, number)| (*count, std::cmp::Reverse(*number)));
        let (_, number) = most?;
        self.carrying.remove(&number).map(|(_, connection)| (number, connection))
    }

    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// One connection, as far as it waits for its client.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Waiting>,
    /// What it is known by.
    number: u64,
    requests: Mutex<Requests>,
    /// It is quiet, which somebody wants to know.
    quiet: Notify,
    /// Why it has to make room, once it has to.
    dismissal: Arc<SetOnce<&'static str>>,
}

// Whoever has both locks it before the queues.
#[derive(Debug)]
struct Requests {
    /// Those that are not answered to the end.
    open: usize,
    /// What was written waits for the client to read it.
    stalled: bool,
    /// Bodies of which the rest is taken in, though they are answered: an answer would be lost with its connection.
    taken_in: usize,
    /// Since when they are quiet.
    quiet_since: Instant,
    /// Somebody wants to know when they are.
    watched: bool,
    /// Those of them of which the body is awaited.
    unfinished: usize,
    /// Those of them that are answered by a stream which belongs to no request.
    standing: usize,
    /// Whose the last of those is.
    whose: Option<Standing>,
    now: Now,
    /// Its place among the idle, which it keeps while it is not.
    queued: Option<(Instant, u64)>,
    /// It has been let go, or has ended.
    gone: bool,
}

/// What a connection does.
#[derive(Debug)]
enum Now {
    /// It is to answer something.
    Busy,
    /// It waits for its client to say something, since then.
    Idle(Instant),
    /// It waits for something to happen that its client wants to hear of, and is known by this meanwhile.
    Carrying(Standing, u64),
}

impl Connection {
    /// A connection has been accepted.
    pub(super) fn new(all: &Arc<Waiting>) -> Arc<Self> {
        let requests = Requests {
            open: 0,
            stalled: false,
            taken_in: 0,
            quiet_since: Instant::now(),
            watched: false,
            unfinished: 0,
            standing: 0,
            whose: None,
            now: Now::Busy,
            queued: None,
            gone: false,
        };
        let this = Arc::new(Self {
            all: Arc::clone(all),
            number: all.queues().count(),
            requests: Mutex::new(requests),
            quiet: Notify::new(),
            dismissal: Arc::default(),
        });
        this.change(|_| {});
        this
    }

    /// A request has come.
    pub(super) fn open(self: &Arc<Self>) -> OpenRequest {
        let in_time = self.change(|requests| requests.open += 1);
        OpenRequest { connection: Arc::clone(self), in_time, stands: false }
    }

    /// Why it has to make room, once it has to.
    pub(super) fn dismissal(&self) -> &Arc<SetOnce<&'static str>> {
        &self.dismissal
    }

    /// It has ended.
    fn end(self: &Arc<Self>) {
        self.change(|requests| requests.gone = true);
        if let Some(place) = self.lock().queued.take() {
            self.all.queues().idle.remove(&place);
        }
    }

    /// What was written waits for its client to read it, or no longer.
    pub(super) fn stalls(self: &Arc<Self>, stalled: bool) {
        self.change(|requests| requests.stalled = stalled);
    }

    /// Completes once it has been quiet for so long, from now on.
    pub(super) async fn quiet_for(&self, limit: Duration) {
        let begun = Instant::now();
        loop {
            let since = {
                let mut requests = self.lock();
                requests.watched = !requests.are_quiet();
                requests.are_quiet().then(|| requests.quiet_since.max(begun))
            };
            // It is woken once in so long, however much it is asked meanwhile.
            match since.map(|since| limit.saturating_sub(since.elapsed())) {
                Some(Duration::ZERO) => return,
                Some(left) => tokio::time::sleep(left).await,
                None => self.quiet.notified().await,
            }
        }
    }

    /// Whether it still has its place after the change.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Requests)) -> bool {
        let mut requests = self.lock();
        let were_quiet = requests.are_quiet();
        change(&mut requests);
        if !were_quiet && requests.are_quiet() {
            requests.quiet_since = Instant::now();
            if std::mem::take(&mut requests.watched) {
                self.quiet.notify_one();
            }
        }
        let waits = requests.wait_for();
        if !requests.now.is(waits.as_ref()) {
            self.leave(&mut requests);
            match waits {
                None => {}
                Some(Waits::Idle) => {
                    // Where a body is awaited they are not, and it waits all the same.
                    let since = if requests.are_quiet() { requests.quiet_since } else { Instant::now() };
                    requests.now = Now::Idle(since);
                    self.all.idle.fetch_add(1, Ordering::Relaxed);
                    if requests.queued.is_none() {
                        self.queue(&mut requests, since);
                    }
                    self.all.more.notify_one();
                }
                Some(Waits::Carrying(stream)) => {
                    let mut queues = self.all.queues();
                    let number = queues.count();
                    queues.carrying.insert(number, (stream.clone(), Arc::clone(self)));
                    drop(queues);
                    requests.now = Now::Carrying(stream, number);
                    self.all.more.notify_one();
                }
            }
        }
        !requests.gone
    }

    /// It waits no more.
    fn leave(&self, requests: &mut Requests) {
        match std::mem::replace(&mut requests.now, Now::Busy) {
            Now::Busy => {}
            Now::Idle(_) => {
                self.all.idle.fetch_sub(1, Ordering::Relaxed);
            }
            Now::Carrying(_, number) => {
                self.all.queues().carrying.remove(&number);
            }
        }
    }

    /// It has a place among the idle, as one that is since then.
    fn queue(self: &Arc<Self>, requests: &mut Requests, since: Instant) {
        let place = (since, self.number);
        requests.queued = Some(place);
        self.all.queues().idle.insert(place, Arc::clone(self));
    }

    /// It is let go.
    fn make_room(&self, mut requests: MutexGuard<'_, Requests>) -> bool {
        requests.gone = true;
        self.leave(&mut requests);
        // The first reason counts.
        let _ = self.dismissal.set("it waited for its client while others had no place");
        true
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests {
    /// Whether there is nothing to do but to wait for the next.
    fn are_quiet(&self) -> bool {
        self.open == 0 && !self.stalled && self.taken_in == 0
    }

    /// For what they make their connection wait, if nothing that it was asked can be answered yet.
    fn wait_for(&self) -> Option<Waits> {
        if self.gone || self.open != self.unfinished + self.standing {
            return None;
        }
        let stream = self.whose.as_ref().filter(|_| self.standing > 0);
        Some(stream.map_or(Waits::Idle, |stream| Waits::Carrying(stream.clone())))
    }
}

impl Now {
    fn is(&self, waits: Option<&Waits>) -> bool {
        match (self, waits) {
            (Self::Busy, None) | (Self::Idle(_), Some(Waits::Idle)) => true,
            (Self::Carrying(stream, _), Some(Waits::Carrying(other))) => stream == other,
            _ => false,
        }
    }
}

/// A connection for as long as it is served. However that ends, by a panic too, nothing looks for it among the waiting any
/// more.
#[derive(Debug)]
pub(super) struct Served(Arc<Connection>);

impl Served {
    pub(super) fn new(connection: &Arc<Connection>) -> Self {
        Self(Arc::clone(connection))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The rest of a body that is being taken in.
#[derive(Debug)]
pub(super) struct TakenIn(Arc<Connection>);

impl TakenIn {
    fn new(connection: &Arc<Connection>) -> Self {
        connection.change(|requests| requests.taken_in += 1);
        Self(Arc::clone(connection))
    }
}

impl Drop for TakenIn {
    fn drop(&mut self) {
        self.0.change(|requests| requests.taken_in -= 1);
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
            self.unread.take_in(body, TakenIn::new(&self.connection));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_let_go(connection: &Connection) -> bool {
        tokio::time::timeout(Duration::from_millis(1), connection.dismissal().wait()).await.is_ok()
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
    async fn who_has_waited_longest_makes_room_whatever_was_asked_before() {
        let all = Arc::new(Waiting::new(0));
        let connections = [(); 4].map(|()| Connection::new(&all));
        let [asked, busy, silent, gone] = &connections;
        drop(Served::new(gone));
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(asked.open());
        let request = busy.open();
        assert!(all.let_one_go());
        assert!(is_let_go(silent).await && !is_let_go(asked).await);
        assert!(!silent.open().in_time, "it comes too late");
        assert!(all.let_one_go());
        assert!(is_let_go(asked).await && !is_let_go(busy).await);
        assert!(!all.let_one_go());
        drop(request);
        assert!(all.let_one_go());
        assert!(is_let_go(busy).await);
        drop(connections.each_ref().map(Served::new));
        assert!(all.queues().idle.is_empty());
        assert_eq!(all.idle.load(Ordering::Relaxed), 0);
        drop(connections);
        assert_eq!(Arc::strong_count(&all), 1, "nothing is left of them");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_quiet_from_when_nothing_is_open() {
        let all = Arc::new(Waiting::new(1));
        let connection = Connection::new(&all);
        let (limit, begun) = (Duration::from_secs(10), Instant::now());
        let asks = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                drop(connection.open());
            }
            let request = connection.open();
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(request);
        };
        tokio::join!(connection.quiet_for(limit), asks);
        assert_eq!(begun.elapsed().as_secs(), 27 + 60 + 10);
        connection.quiet_for(limit).await;
        assert_eq!(begun.elapsed().as_secs(), 27 + 60 + 20, "from when somebody asks");
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
        let left = all.queues().carrying.len();
        assert_eq!(left, 12);
        assert!(!is_let_go(came.last().unwrap()).await && is_let_go(&came[0]).await);
    }
}
