//! The server's side of Streamable HTTP.
//!
//! A request of the modern era is answered where it stands: no session, no spawn, no channel until it
//! needs one. A session of the legacy era holds its exchanges, so that a lost connection ends none.

mod answer;
mod batch;
mod connection;
mod cors;
mod door;
mod legacy;
mod modern;
mod options;
mod pair;
mod post;
mod route;
mod session;
mod silent;
mod stalled;
mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::method::Method;
use longhaul_tasks::store::Memory;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use options::Options;
pub use session::SessionObserver;

use crate::server::Dispatcher;
use pair::Pairs;
use session::Sessions;

/// What every request of one server shares.
#[derive(Debug)]
struct Endpoint {
    dispatcher: Dispatcher,
    options: Options,
    sessions: Sessions,
    pairs: Pairs,
    /// Room for running exchanges.
    room: Arc<Semaphore>,
}

/// The place of one running exchange, until it is dropped.
#[derive(Debug)]
struct Place(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// When to try again once there is no room.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Endpoint {
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
}

/// Serves `dispatcher` on `listener` until `shutdown` completes; then takes no new connection, makes held
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
    listener: TcpListener,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let events = options.events.clone().unwrap_or_else(|| Arc::new(Memory::new()));
    let sessions = Sessions::new(&options, events);
    let room = Arc::new(Semaphore::new(options.max_running.min(Semaphore::MAX_PERMITS)));
    let endpoint = Arc::new(Endpoint { dispatcher, options, sessions, pairs: Pairs::default(), room });
    tokio::select! {
        served = connection::accept(Arc::clone(&endpoint), listener, shutdown) => served,
        never = tidy(&endpoint) => match never {},
    }
}

/// Ends idle sessions and forgets what was sent long ago, for as long as it is polled.
async fn tidy(endpoint: &Endpoint) -> Infallible {
    loop {
        tokio::time::sleep(TIDY_EVERY.min(endpoint.options.session_idle.max(Duration::from_secs(1)))).await;
        endpoint.sessions.expire();
        endpoint.sessions.sweep_streams().await;
    }
}

/// How often idle sessions and old streams are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(60);
