//! The exchanges of one client: which are open, what runs for them, and whether the client is still there.
//!
//! Whatever carries the messages, each exchange takes the same steps: it is admitted, it may have to run on,
//! and it is answered or cancelled. Over HTTP the steps of one come from several threads, so running on asks
//! again whether anybody still wants the answer.

use std::collections::HashMap;

use longhaul_proto::connection::{Serial, ServerConnection, Session};
use longhaul_proto::dialect::{Dialect, InitializeParams};
use longhaul_proto::jsonrpc::{ErrorObject, Notification, Params, Request, RequestId, Response};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::RequestMeta;
use tokio::task::AbortHandle;

#[cfg(feature = "http")]
use super::saved::{self, Saved, Watched};
use crate::server::{CallCanceller, Caller, Client, Dispatcher, Exchange, Kept, Line};
use crate::wire;

/// What is open between the server and one client.
#[derive(Debug)]
pub(crate) struct Exchanges {
    connection: ServerConnection,
    running: HashMap<Serial, Running>,
    /// Who the client of the session says it is.
    client: Client,
    /// How to ask the client of the session.
    line: Option<Line>,
    /// The client is gone: what runs on has nobody to answer.
    closed: bool,
}

/// What works on an answer.
#[derive(Debug)]
struct Running {
    task: AbortHandle,
    call: CallCanceller,
}

impl Running {
    fn cancel(&self) {
        self.call.cancel();
        self.task.abort();
    }

    fn leave(&self) {
        self.call.leave();
        self.task.abort();
    }
}

impl Exchanges {
    /// A client of `dispatcher` with nothing open, and room for `max_open`.
    pub(crate) fn new(dispatcher: &Dispatcher, max_open: usize) -> Self {
        let connection = ServerConnection::new(max_open)
            .with_own_methods(dispatcher.own_methods())
            .with_drafted_tasks(dispatcher.has_drafted_tasks());
        Self { connection, running: HashMap::new(), client: Client::Unknown, line: None, closed: false }
    }

    /// A client without a session, in the revision its version header names.
    #[cfg(feature = "http")]
    pub(crate) fn of_header(dispatcher: &Dispatcher, max_open: usize, version: Option<&str>) -> Self {
        let mut this = Self::new(dispatcher, max_open);
        this.connection.assume(Dialect::of_header(version));
        this
    }

    /// A client whose session was [kept](Self::saved), with nothing open, and the resources that it watches. `None` if that cannot
    /// be read.
    #[cfg(feature = "http")]
    pub(crate) fn restored(
        dispatcher: &Dispatcher,
        max_open: usize,
        saved: &[u8],
    ) -> Option<(Self, Vec<String>)> {
        let mut this = Self::new(dispatcher, max_open);
        let mut saved = Saved::read(saved)?;
        let (log_level, watched) = (saved.log_level, saved.take_watched());
        this.begin(saved.into_handshake()).ok()?;
        this.connection.handle_log_level(log_level);
        Some((this, watched.uris))
    }

    /// The resources that a session watches that was [kept](Self::saved) so.
    #[cfg(feature = "http")]
    pub(crate) fn watched(saved: &[u8]) -> Option<Watched> {
        Some(Saved::read(saved)?.take_watched())
    }

    /// What another process needs to go on with the session, which watches these resources.
    #[cfg(feature = "http")]
    pub(crate) fn saved(&self, watched: &[String]) -> Option<Vec<u8>> {
        self.session().map(|session| saved::write(session, watched))
    }

    /// They are those of the session of this id.
    #[cfg(feature = "http")]
    pub(crate) fn belong_to(&self, session: &str) {
        if let Some(line) = &self.line {
            line.belong_to(session);
        }
    }

    /// Whether another process has put the question with this id to the client of the session.
    #[cfg(feature = "http")]
    pub(crate) fn is_asked_elsewhere(&self, id: &RequestId) -> bool {
        self.line.as_ref().is_some_and(|line| line.is_of_another(id))
    }

    /// The revision of the session.
    pub(crate) fn dialect(&self) -> Option<&'static Dialect> {
        self.session().map(|session| session.dialect)
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.connection.open()
    }

    /// Whether to admit no more until one ends.
    pub(crate) fn is_full(&self) -> bool {
        self.connection.is_full()
    }

    /// A request has come: opens its exchange, and lets those that are about the session change it.
    ///
    /// # Errors
    ///
    /// What to answer instead; nothing is open then.
    pub(crate) fn admit<'r, 'a>(
        &mut self,
        request: &'r Request<'a>,
        meta: RequestMeta<'_>,
        caller: Caller,
    ) -> Result<(Serial, Exchange<'r, 'a>), ErrorObject> {
        let admitted = self.connection.handle_request(&request.id, &request.method, &meta)?;
        let settled = self.settle(admitted.method, admitted.dialect, &request.params);
        let dialect = settled.inspect_err(|_| {
            let _ = self.connection.handle_answered(&request.id, admitted.serial);
        })?;
        wire::asked(dialect, Some(&request.id), &request.method, request.params.as_str());
        let caller = self.introduce(caller, admitted.method, &meta);
        let mut exchange = Exchange::new(&request.id, dialect, admitted.method, &request.params, caller);
        exchange.name = &request.method;
        exchange.progress_token = meta.progress_token;
        exchange.idempotency_key = meta.idempotency_key.map(Into::into);
        Ok((admitted.serial, exchange))
    }

    /// Its answer takes longer, and this works on it. If it was cancelled meanwhile, or the client has gone,
    /// the work ends here.
    pub(crate) fn run(&mut self, id: &RequestId, serial: Serial, task: AbortHandle, call: CallCanceller) {
        let running = Running { task, call };
        if self.closed {
            running.leave();
        } else if !self.connection.is_open(id, serial) {
            running.cancel();
        } else {
            self.running.insert(serial, running);
        }
    }

    /// Whether something still works on its answer.
    pub(crate) fn is_running(&self, serial: Serial) -> bool {
        self.running.contains_key(&serial)
    }

    /// Its answer is ready. `false` means it was cancelled meanwhile: send nothing.
    #[must_use]
    pub(crate) fn answered(&mut self, id: &RequestId, serial: Serial) -> bool {
        self.running.remove(&serial);
        self.connection.handle_answered(id, serial)
    }

    /// A notification has come: the client may no longer want an answer. `false` if that is to a request that is not open here.
    pub(crate) fn handle_notification(&mut self, notification: &Notification<'_>) -> bool {
        let dialect = self.session().map_or(Dialect::newest_modern(), |session| session.dialect);
        wire::asked(dialect, None, &notification.method, notification.params.as_str());
        if dialect.notice(&notification.method) != Some(Notice::Cancelled) {
            return true;
        }
        // An invalid cancellation is ignored, as the specification asks.
        let Ok(Some(id)) = notification.params.read::<RequestId>("requestId") else { return true };
        let Some(serial) = self.connection.handle_cancelled(&id) else { return false };
        if let Some(running) = self.running.remove(&serial) {
            running.cancel();
        }
        true
    }

    /// An answer is for others to give: what is durable goes on, and what else works on it ends.
    #[cfg(feature = "http")]
    pub(crate) fn let_go(&mut self, id: &RequestId) {
        let running = self.connection.handle_cancelled(id).and_then(|serial| self.running.remove(&serial));
        if let Some(running) = running {
            running.leave();
        }
    }

    /// An answer has come to what the server asks in the session: when it is kept, if that is for anybody to wait for.
    /// `stray` hears of the session's first that answers what was asked in another.
    pub(crate) fn handle_response(&self, response: Response<'_>, stray: impl FnOnce()) -> Option<Kept> {
        let Some(line) = &self.line else {
            tracing::debug!("dropped an answer to nothing");
            return None;
        };
        line.handle_response(response, stray)
    }

    /// Whether a call waits for an answer of the client's.
    pub(crate) fn asks(&self) -> bool {
        self.line.as_ref().is_some_and(Line::is_waiting)
    }

    /// The client has gone, and gets no answer any more: what runs for it ends, and what is durable goes on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        for (_, running) in self.running.drain() {
            running.leave();
        }
    }

    fn session(&self) -> Option<&Session> {
        self.connection.session()
    }

    /// Lets the requests that are about the session change it; says in which dialect to answer.
    fn settle(
        &mut self,
        method: Method,
        dialect: &'static Dialect,
        params: &Params<'_>,
    ) -> Result<&'static Dialect, ErrorObject> {
        match method {
            Method::Initialize => self.begin(InitializeParams::read(params)?),
            Method::SetLogLevel => {
                self.connection.handle_log_level(params.require("level")?);
                Ok(dialect)
            }
            _ => Ok(dialect),
        }
    }

    /// Opens the session.
    fn begin(&mut self, handshake: InitializeParams) -> Result<&'static Dialect, ErrorObject> {
        let session = self.connection.handle_initialize(handshake)?;
        self.line = Some(Line::new());
        self.client = Client::of_session(&session.client_info);
        Ok(session.dialect)
    }

    /// Who asks: what the request itself declares, else what its session did.
    fn introduce(&self, mut caller: Caller, method: Method, meta: &RequestMeta<'_>) -> Caller {
        caller.trace_parent = meta.trace_parent;
        match (meta.client_capabilities.clone(), self.session()) {
            (Some(capabilities), _) => {
                caller.capabilities = capabilities;
                caller.log_level = meta.log_level;
                caller.client = Client::of_request(method, meta);
            }
            (None, Some(session)) => {
                caller.capabilities = session.capabilities.clone();
                caller.log_level = Some(session.log_level);
                caller.client.clone_from(&self.client);
                caller.line.clone_from(&self.line);
            }
            (None, None) => {}
        }
        caller
    }
}
