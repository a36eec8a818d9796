//! The server's side of Streamable HTTP.
//!
//! A request of the modern era is answered where it stands: no session, no spawn, no channel until it
//! needs one. A session of the legacy era holds its exchanges, so that a lost connection ends none.
//!
//! A client that shuts its side of a connection before it has its answer is taken for gone, as one that was killed looks the
//! same: over HTTP/1.1 the connection ends, and in the modern era the call with it.

mod answer;
mod batch;
mod board;
mod callback;
mod connection;
mod cors;
mod door;
mod gather;
mod head;
#[cfg(feature = "http2")]
mod http2;
mod legacy;
mod listen;
mod modern;
mod notes;
mod options;
mod pages;
mod pair;
mod peer;
mod places;
mod post;
mod reading;
mod ready;
mod route;
mod service;
mod session;
mod shared;
#[cfg(unix)]
mod socket;
mod stalled;
mod stream;
mod unread;
mod waiting;
mod writing;

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::method::Method;
use longhaul_tasks::store::Memory;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use callback::{CALLBACKS, Callbacks, LONGEST_CALLBACK, NotTaken};
pub use listen::Listen;
pub use options::Options;
pub use pages::{LONGEST_FORM, PageBody, Pages, WrongCredential};
pub use peer::Peer;
#[cfg(feature = "auth")]
pub(crate) use peer::network;
pub use service::{AnswerBody, HttpService};
pub use session::SessionObserver;
#[cfg(unix)]
pub use socket::Socket;

use crate::driver::LAST_WORDS;
use crate::server::Dispatcher;
use board::Word;
use pair::Pairs;
use reading::Reading;
use ready::Ready;
use session::Sessions;
use writing::Writing;

/// What every request of one server shares.
#[derive(Debug)]
struct Endpoint {
    dispatcher: Dispatcher,
    options: Options,
    /// Whether somebody else has chosen the path.
    mounted: bool,
    sessions: Sessions,
    pairs: Pairs,
    reading: Reading,
    writing: Arc<Writing>,
    ready: Ready,
    /// Room for running exchanges.
    room: Arc<Semaphore>,
}

/// The place of one running exchange, until it is dropped.
#[derive(Debug)]
struct Place(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// When to try again once there is no room.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Endpoint {
    fn new(dispatcher: Dispatcher, options: Options) -> Self {
        let events = options.events.clone().unwrap_or_else(|| Arc::new(Memory::new()));
        let sessions = Sessions::new(&dispatcher, &options, events);
        let room = Arc::new(Semaphore::new(places(&options) as usize));
        // One alone always has room.
        let reading = Reading::new(options.max_reading.max(options.limits.max_bytes));
        let writing = Arc::new(Writing::new(options.max_writing));
        let (pairs, ready) = (Pairs::default(), Ready::default());
        Self { dispatcher, options, mounted: false, sessions, pairs, reading, writing, ready, room }
    }

    /// Room for one more exchange; none is needed for what never takes long, so that tasks can be asked after and
    /// cancelled whatever runs, nor for a subscription, which does no work.
    ///
    /// # Errors
    ///
    /// An overload, in no revision's words yet, when as many run as may.
    fn place(&self, method: Method) -> Result<Option<Place>, ErrorObject> {
        let may_wait = matches!(
            method,
            Method::CallTool
                | Method::TaskResult
                | Method::ReadResource
                | Method::GetPrompt
                | Method::Complete
                | Method::Own
        );
        if !may_wait {
            return Ok(None);
        }
        Arc::clone(&self.room).try_acquire_owned().map(|place| Some(Place(place))).map_err(|_| {
            let limit = self.options.max_running;
            let what = format!("{limit} requests are running, the limit of this server: come back later");
            ErrorObject::overloaded(what, RETRY_AFTER)
        })
    }

    /// Another `node` has said this.
    fn hear(&self, node: &Arc<str>, word: Word) {
        match word {
            Word::TakenOver { session } => self.sessions.is_taken_over(&session),
            Word::Sent { session, message } => self.sessions.was_sent(&session, &message),
            Word::Pushed { session, message } => self.sessions.push(&session, message, node),
            Word::Changed(news) => self.dispatcher.has_changed_elsewhere(&news),
            Word::Seen(news) => self.dispatcher.was_seen_elsewhere(news),
        }
    }

    /// Completes when no exchange runs.
    async fn nothing_runs(&self) {
        // It is never closed.
        let _ = self.room.acquire_many(places(&self.options)).await;
    }

    /// Lets every client go: what is held is handed over, and other answers may end for [`Options::drain`], until which
    /// `ended` is waited for. Whoever waits still is then told, which `false` says, if even that took too long.
    async fn wind_down(&self, ended: impl Future<Output = ()>) -> bool {
        self.sessions.close_streams();
        self.pairs.stop();
        let (engine, limit) = (self.dispatcher.engine(), self.options.drain);
        let (mut ended, mut open) = (pin!(ended), true);
        let ended_first = async {
            ended.as_mut().await;
            open = false;
        };
        let drained = async { tokio::join!(engine.drain(limit), ended_first) };
        if tokio::time::timeout(limit, drained).await.is_ok() {
            return true;
        }
        tracing::warn!("some answers did not end in time");
        engine.leave();
        !open || tokio::time::timeout(LAST_WORDS, ended).await.is_ok()
    }
}

/// How many exchanges may run at once.
fn places(options: &Options) -> u32 {
    u32::try_from(options.max_running.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX)
}

/// Serves `dispatcher` on `listener`, such as a TCP listener, until `shutdown` completes; then takes no new connection, makes held
/// calls durable and hands them over, lets other open answers end for [`Options::drain`], and returns. What
/// has not ended by then is left to end by itself.
///
/// Dropping the future closes every connection at once.
///
/// # Errors
///
/// When the listener fails for good.
pub async fn serve(
    dispatcher: Dispatcher,
    listener: impl Listen,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let endpoint = Arc::new(Endpoint::new(dispatcher, options));
    let served = tokio::select! {
        served = connection::accept(Arc::clone(&endpoint), listener, shutdown) => served,
        never = tidy(&endpoint) => match never {},
    };
    endpoint.dispatcher.has_ended();
    served
}

/// Does what has to be done now and then, for as long as it is polled: ends idle sessions and forgets what was sent or granted long
/// ago, and hears what other nodes say.
async fn tidy(endpoint: &Endpoint) -> Infallible {
    let board = async {
        match endpoint.sessions.shared() {
            Some(shared) => shared.board().keep(endpoint).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        never = board => never,
        never = sweep(endpoint) => never,
    }
}

async fn sweep(endpoint: &Endpoint) -> Infallible {
    loop {
        tokio::time::sleep(TIDY_EVERY.min(endpoint.options.session_idle.max(Duration::from_secs(1)))).await;
        endpoint.sessions.expire();
        endpoint.sessions.keep_shared().await;
        endpoint.sessions.sweep_streams().await;
        #[cfg(feature = "auth")]
        if let Some(guard) = &endpoint.options.guard {
            guard.tidy().await;
        }
    }
}

/// How often idle sessions, old streams and old grants are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(60);
