//! Connections that wait for their clients: to ask something, or to send the rest of it. When every place is taken, the
//! one that has waited longest makes room.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The connections of one server that wait for their clients.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    state: Mutex<State>,
    /// There is one more.
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// How to let each go, the one that has waited longest first.
    connections: BTreeMap<u64, Arc<Notify>>,
    complained: Option<Instant>,
}

/// How often it is said that there is no room.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

impl Waiting {
    /// Lets the one go that has waited longest, if there is one.
    pub(super) fn let_longest_go(&self) -> bool {
        let longest = self.lock().connections.pop_first();
        longest.inspect(|(_, let_go)| let_go.notify_one()).is_some()
    }

    /// Completes once there may be one more.
    pub(super) async fn more(&self) {
        self.more.notified().await;
    }

    /// Whether it is time to say that there is no room.
    pub(super) fn may_complain(&self) -> bool {
        let mut state = self.lock();
        let may = state.complained.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY);
        if may {
            state.complained = Some(Instant::now());
        }
        may
    }

    fn enter(&self, let_go: &Arc<Notify>) -> u64 {
        let number = {
            let mut state = self.lock();
            state.next += 1;
            let number = state.next;
            state.connections.insert(number, Arc::clone(let_go));
            number
        };
        self.more.notify_one();
        number
    }

    /// `false` means that it has been let go.
    fn leave(&self, number: u64) -> bool {
        self.lock().connections.remove(&number).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection, as far as it waits for its client.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Waiting>,
    requests: watch::Sender<Requests>,
    let_go: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Requests {
    /// Those that are not answered to the end.
    open: usize,
    /// Those of them of which the body is awaited.
    unfinished: usize,
    /// What it is known by while it waits.
    number: Option<u64>,
    /// It has been let go, or has ended.
    gone: bool,
}

impl Connection {
    /// A connection has been accepted.
    pub(super) fn new(all: &Arc<Waiting>) -> Arc<Self> {
        let (requests, _) = watch::channel(Requests::default());
        let this = Self { all: Arc::clone(all), requests, let_go: Arc::default() };
        this.change(|_| {});
        Arc::new(this)
    }

    /// A request has come.
    pub(super) fn open(self: &Arc<Self>) -> OpenRequest {
        let in_time = self.change(|requests| requests.open += 1);
        OpenRequest { connection: Arc::clone(self), in_time }
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
        let mut requests = self.requests.subscribe();
        loop {
            // It is never closed: its sender is here.
            let _ = requests.wait_for(|requests| requests.open == 0).await;
            if tokio::time::timeout(limit, requests.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Whether it still has its place after the change. It waits while nothing it was asked can be answered yet.
    fn change(&self, change: impl FnOnce(&mut Requests)) -> bool {
        let mut stays = true;
        self.requests.send_modify(|requests| {
            change(requests);
            let waits = !requests.gone && requests.open == requests.unfinished;
            match requests.number {
                None if waits => requests.number = Some(self.all.enter(&self.let_go)),
                Some(number) if !waits => {
                    requests.number = None;
                    requests.gone |= !self.all.leave(number);
                }
                _ => {}
            }
            stays = !requests.gone;
        });
        stays
    }
}

/// A request that is not answered to the end.
#[derive(Debug)]
pub(super) struct OpenRequest {
    connection: Arc<Connection>,
    in_time: bool,
}

impl OpenRequest {
    /// Completes at once, and never for a request whose connection was let go when it came: nothing is begun for it.
    pub(super) async fn in_time(&self) {
        if !self.in_time {
            std::future::pending::<()>().await;
        }
    }

    /// Its body.
    pub(super) fn body(&self, body: Incoming) -> Awaited {
        Awaited { body, connection: Arc::clone(&self.connection), unfinished: false }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.connection.change(|requests| requests.open -= 1);
    }
}

/// The body of a request, whose connection waits from when more of it is awaited to its end.
pub(super) struct Awaited {
    body: Incoming,
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
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_pending() && !self.unfinished {
            self.unfinished = true;
            self.connection.change(|requests| requests.unfinished += 1);
        }
        let frame = ready!(frame);
        if !matches!(frame, Some(Ok(_))) && !self.finish() {
            // It came too late: nothing is begun that would end with the connection.
            return Poll::Pending;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.finish();
    }
}
