//! One request: its POST, and the answer however it comes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::http::Event;
use longhaul_proto::jsonrpc::RequestId;
use longhaul_proto::method::Method;
use reqwest::{Response, StatusCode};
use tokio::sync::{mpsc, oneshot};

use super::access::{self, Access};
use super::read::{Events, Kind, error_in, failure, kind, unsent, whole};
use super::resume::{Position, resume};
use super::{PROTOCOL_VERSION, SESSION_ID, Session, Shared, mirrored};
use crate::client::error::Error;
use crate::client::link::Outgoing;
use crate::client::table::{Answered, Reply, Waiting, unreadable};
use crate::server::Push;
use crate::wire::{self, By};

/// Sends a request and waits for its answer. Dropped before it, the request is given up: the modern era
/// says so by the connection that closes, the legacy era by a notification.
pub(super) async fn ask(shared: &Arc<Shared>, request: &Outgoing<'_>) -> Result<Answered, Error> {
    let headers = mirrored(request);
    let dialect = request.dialect;
    let mut access = Access::new(shared);
    let (mut waiting, session, response) = loop {
        let shown = access.shown("POST").await?;
        let mut waiting = shared.table.start(request)?;
        let message = request.message(&waiting);
        if request.cancellable && !dialect.cancels_on_disconnect() {
            let beside = shared.beside.clone();
            waiting.on_abandon(move |id| cancel(&beside, dialect, id));
        }
        let session = shared.session();
        let sending = shared.post(message).headers(headers.clone()).headers(shown).send();
        let sent = waiting.within(sending).await?;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                waiting.settle();
                return Err(unsent(shared, error));
            }
        };
        if !matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            break (waiting, session, response);
        }
        // It has not been let in, and is not waited for while the user signs in: it is sent again as another.
        let again = access.again(&response).await;
        if !matches!(again, Ok(false)) {
            waiting.settle();
        }
        if !again? {
            break (waiting, session, response);
        }
    };
    if request.method == Method::Initialize && response.status().is_success() {
        let id = response.headers().get(SESSION_ID).cloned();
        shared.set_session(id.map(|id| Session { id, dialect }));
    }
    let answered = match refused(shared, &response, session.as_ref()) {
        Some(error) => Err(error),
        None => receive(shared, &mut waiting, response, dialect).await,
    };
    if !matches!(answered, Err(Error::TimedOut { .. })) {
        waiting.settle();
    }
    answered
}

/// Sends a message that has no answer.
pub(super) async fn send(shared: &Shared, dialect: &'static Dialect, message: Vec<u8>) -> Result<(), Error> {
    let (version, session) = (dialect.revision().as_str(), shared.session());
    let patience = shared.table.options().request_timeout;
    let request = || shared.post(message.clone()).header(PROTOCOL_VERSION, version).timeout(patience);
    let mut response = access::send(shared, "POST", request).await?;
    if response.status().is_success() {
        return Ok(());
    }
    if let Some(error) = refused(shared, &response, session.as_ref()) {
        return Err(error);
    }
    let body = whole(&mut response, shared.table.options().limits.max_bytes).await?;
    Err(error_in(&body, &shared.table.options().limits)
        .map_or_else(|| failure(shared, &response, &body), Error::Answer))
}

/// The statuses that mean the same whatever the body says. `session` is the one in which the request was made.
pub(super) fn refused(shared: &Shared, response: &Response, session: Option<&Session>) -> Option<Error> {
    let target = || shared.target();
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            let with_token = shared.table.options().bearer.is_some();
            Some(Error::SignIn { target: target(), with_token })
        }
        StatusCode::NOT_FOUND if shared.lose_session(session) => {
            Some(Error::SessionLost { target: target() })
        }
        _ => None,
    }
}

async fn receive(
    shared: &Arc<Shared>,
    waiting: &mut Waiting,
    mut response: Response,
    dialect: &'static Dialect,
) -> Result<Answered, Error> {
    let limits = shared.table.options().limits;
    match kind(&response) {
        Kind::Events if response.status().is_success() => {
            receive_events(shared, waiting, Events::new(response, &limits), dialect).await
        }
        Kind::Json => {
            let body = waiting.within(whole(&mut response, limits.max_bytes)).await??;
            if let Ok(Some(reply)) = shared.table.handle_message(&body) {
                reply_with(shared, dialect, reply);
            }
            if let Some(answered) = waiting.try_answered() {
                return answered;
            }
            // An error to a message that the server could not read names no id.
            match error_in(&body, &limits) {
                Some(error) => Err(Error::Answer(error)),
                None if response.status().is_success() => {
                    Err(Error::protocol(format!("no answer to the request: {}", unreadable(&body))))
                }
                None => Err(failure(shared, &response, &body)),
            }
        }
        _ => {
            let body = waiting.within(whole(&mut response, limits.max_bytes)).await??;
            Err(failure(shared, &response, &body))
        }
    }
}

async fn receive_events(
    shared: &Arc<Shared>,
    waiting: &mut Waiting,
    mut events: Events,
    dialect: &'static Dialect,
) -> Result<Answered, Error> {
    let mut position = Position::default();
    loop {
        let why = match waiting.within(events.next()).await? {
            Ok(Some(more)) => {
                for event in &more {
                    position.note(event);
                    handle_event(shared, dialect, event)?;
                }
                None
            }
            Ok(None) => Some(Error::Lost { cause: None }),
            Err(lost @ Error::Lost { .. }) => Some(lost),
            Err(error) => return Err(error),
        };
        if let Some(answered) = waiting.try_answered() {
            return answered;
        }
        if let Some(why) = why {
            events = resume(shared, waiting, dialect, &mut position, why).await?;
        }
    }
}

/// Takes the message of one event. An event without data only names itself.
pub(super) fn handle_event(
    shared: &Arc<Shared>,
    dialect: &'static Dialect,
    event: &Event,
) -> Result<(), Error> {
    if event.data.is_empty() || !matches!(event.kind.as_str(), "" | "message") {
        return Ok(());
    }
    match shared.table.handle_message(event.data.as_bytes()) {
        Ok(Some(reply)) => reply_with(shared, dialect, reply),
        Ok(None) => {}
        Err(error) => {
            return Err(Error::protocol(format!("an event that is no message ({error})")));
        }
    }
    Ok(())
}

/// Answers the server, beside everything else. A server that asks faster than it takes answers gets none.
fn reply_with(shared: &Shared, dialect: &'static Dialect, reply: Reply) {
    let beside = shared.beside.clone();
    reply.send(move |reply| {
        if beside.try_send(Beside::Message(dialect, reply)).is_err() {
            tracing::debug!("an answer found no room among those that wait to be sent");
        }
    });
}

/// Says that a request is no longer wanted, from wherever its future was dropped.
fn cancel(beside: &mpsc::Sender<Beside>, dialect: &'static Dialect, id: &RequestId) {
    let Some(message) = wire::cancelled(By::Client, dialect, id, "no longer wanted") else { return };
    if let Err(mpsc::error::TrySendError::Full(message)) = beside.try_send(Beside::Message(dialect, message))
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        let beside = beside.clone();
        runtime.spawn(async move {
            // A closed channel means that the connection has ended: nothing is left to cancel.
            let _ = beside.send(message).await;
        });
    }
}

/// What is sent beside everything else.
#[derive(Debug)]
pub(super) enum Beside {
    /// A message that nobody waits for.
    Message(&'static Dialect, Vec<u8>),
    /// Somebody waits for those before it.
    Flush(oneshot::Sender<()>),
}

/// Sends beside everything else, while there is a connection.
#[derive(Debug)]
pub(super) struct BesidePush(mpsc::WeakSender<Beside>, &'static Dialect);

impl BesidePush {
    pub(super) fn new(beside: mpsc::WeakSender<Beside>, dialect: &'static Dialect) -> Self {
        Self(beside, dialect)
    }
}

impl Push for BesidePush {
    fn push(&self, message: Vec<u8>) {
        let sent = self.0.upgrade().map(|beside| beside.try_send(Beside::Message(self.1, message)));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!("a notification found no room");
        }
    }
}

/// Waits until what was to be sent beside everything else has been, for as long as a connection may take to close.
pub(super) async fn flush(shared: &Shared) {
    let (flush, flushed) = oneshot::channel();
    let sent = async {
        // A closed channel means that there is nobody left to send anything.
        let _ = shared.beside.send(Beside::Flush(flush)).await;
        let _ = flushed.await;
    };
    if tokio::time::timeout(shared.table.options().close_grace, sent).await.is_err() {
        tracing::debug!("what was to be sent beside the others was not taken in time");
    }
}

/// How many such messages may wait to be sent.
pub(super) const BESIDE_BOUND: usize = 64;

/// Sends what nobody waits for, one message after the other, for as long as the connection lives.
pub(super) async fn send_beside(shared: Weak<Shared>, mut queue: mpsc::Receiver<Beside>) {
    while let Some(beside) = queue.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        let (dialect, message) = match beside {
            Beside::Message(dialect, message) => (dialect, message),
            Beside::Flush(flush) => {
                // Whoever asked may have stopped waiting.
                let _ = flush.send(());
                continue;
            }
        };
        match tokio::time::timeout(BESIDE, send(&shared, dialect, message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a message could not be sent beside the others"),
            Err(_) => tracing::debug!("a message was not taken in time beside the others"),
        }
    }
}

/// How long a message that nobody waits for may take.
const BESIDE: Duration = Duration::from_secs(10);
