//! A request on its way through layers, and what comes back.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use longhaul_proto::dialect::{Dialect, ResultWriter, Revision};
use longhaul_proto::jsonrpc::{
    ErrorObject, Limits, Message, ObjectWriter, Params, ProgressToken, RequestId, StoredParams, Text,
};
use longhaul_proto::method::Method;
use longhaul_proto::model::{RequestMeta, TraceParent};
use serde::Serialize;
use tower_service::Service;

use crate::server::{
    Answered, CallCanceller, Caller, Delivery, Dispatched, Dispatcher, Exchange, Outlet, Party, Principal,
    Push,
};

/// Any error of a layer.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A request that has been admitted. Nothing of it has run.
pub struct Request {
    dispatcher: Dispatcher,
    stored: Stored,
    item: Option<String>,
    pub(crate) begun: Begun,
}

/// An exchange that outlives the message it came in.
struct Stored {
    id: RequestId,
    dialect: &'static Dialect,
    method: Method,
    name: String,
    params: StoredParams,
    progress_token: Option<ProgressToken>,
    idempotency_key: Option<Arc<str>>,
    caller: Caller,
    outlet: Outlet,
    push: Option<Arc<dyn Push>>,
}

/// What is known of a call once it has begun, behind its layers. Clones are of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun(Arc<OnceLock<(CallCanceller, Delivery)>>);

impl Begun {
    pub(crate) fn canceller(&self) -> Option<&CallCanceller> {
        self.0.get().map(|(canceller, _)| canceller)
    }

    pub(crate) fn delivery(&self) -> Option<&Delivery> {
        self.0.get().map(|(_, delivery)| delivery)
    }
}

impl Request {
    /// A request as nobody in particular makes it, past all layers of `dispatcher`: for tests of a layer by itself.
    ///
    /// # Errors
    ///
    /// When the revision has no such method, or `params` make no object.
    pub fn new(
        dispatcher: &Dispatcher,
        revision: Revision,
        method: Method,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Self, ErrorObject> {
        let dialect = Dialect::of(revision);
        let name =
            dialect.name_of(method).ok_or_else(|| ErrorObject::method_not_found(&format!("{method:?}")))?;
        let mut message = Vec::new();
        let mut object = ObjectWriter::new(&mut message);
        object.raw("jsonrpc", "\"2.0\"").field("id", &1).field("method", name).field("params", params);
        object.end();
        match Message::decode(&message, &Limits::default()) {
            Ok(Message::Request(request)) => {
                let mut caller = Caller::new(None);
                caller.trace_parent =
                    request.params.read::<RequestMeta<'_>>("_meta")?.and_then(|meta| meta.trace_parent);
                let mut exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
                exchange.name = name;
                Ok(Self::of(dispatcher, exchange))
            }
            Ok(_) => Err(ErrorObject::invalid_params("no request")),
            Err(error) => Err(error.to_error_object()),
        }
    }

    pub(crate) fn of(dispatcher: &Dispatcher, exchange: Exchange<'_, '_>) -> Self {
        let named = exchange.method.named_by();
        let item = named.and_then(|member| exchange.params.read::<Text<'_>>(member).ok().flatten());
        Self {
            dispatcher: dispatcher.clone(),
            item: item.map(|Text(item)| item.into_owned()),
            begun: Begun::default(),
            stored: Stored {
                id: exchange.id.clone(),
                dialect: exchange.dialect,
                method: exchange.method,
                name: exchange.name.to_owned(),
                params: exchange.params.to_stored(),
                progress_token: exchange.progress_token,
                idempotency_key: exchange.idempotency_key,
                caller: exchange.caller,
                outlet: exchange.outlet,
                push: exchange.push,
            },
        }
    }

    /// The same, made by `principal`.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        self.stored.caller.principal = Some(principal);
        self
    }

    /// The same, in another trace, or asked by another span of it: for a layer that makes spans. What comes of the request,
    /// a task included, is then of that one, whichever process works on it ([`trace_of`](super::trace_of)).
    #[must_use]
    pub fn with_trace_parent(mut self, parent: TraceParent) -> Self {
        self.stored.caller.trace_parent = Some(parent);
        self
    }

    /// A result for it, which a layer may answer with by itself; an error is what a layer fails with.
    ///
    /// ```
    /// use longhaul::proto::model::CallToolResult;
    /// use longhaul::service::{Request, Response};
    ///
    /// fn closed(request: &Request) -> Response {
    ///     request.answer(|result| CallToolResult::text("closed for today").write(result))
    /// }
    /// ```
    pub fn answer(&self, write: impl FnOnce(&mut ResultWriter<'_>)) -> Response {
        let Stored { id, dialect, method, .. } = &self.stored;
        let mut message = Vec::with_capacity(256);
        let answered = self.dispatcher.envelope(id, dialect, *method).result(&mut message, write);
        Response { answered, message }
    }

    /// With which parameters.
    pub fn params(&self) -> Params<'_> {
        self.stored.params.as_params()
    }

    /// What is asked.
    pub fn method(&self) -> Method {
        self.stored.method
    }

    /// What it is asked of: the name of a tool or a prompt, the URI of a resource, the id of a task.
    pub fn item(&self) -> Option<&str> {
        self.item.as_deref()
    }

    /// In which revision.
    pub fn revision(&self) -> Revision {
        self.stored.dialect.revision()
    }

    /// Who asks; `None` for nobody in particular.
    pub fn principal(&self) -> Option<&Principal> {
        self.stored.caller.principal.as_ref()
    }

    /// With whose requests it counts.
    pub(super) fn party(&self) -> Party {
        Party::of(&self.stored.caller)
    }

    /// Which trace of the caller's it belongs to, if it says so (`traceparent` of W3C Trace Context, in `_meta`).
    pub fn trace_parent(&self) -> Option<TraceParent> {
        self.stored.caller.trace_parent
    }

    /// What ends the call once it runs, for a layer that lets go of it.
    pub fn canceller(&self) -> CallCanceller {
        CallCanceller::of_layered(self.begun.clone())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.stored.method)
            .field("item", &self.item)
            .finish_non_exhaustive()
    }
}

/// How a request was answered.
#[derive(Debug)]
pub struct Response {
    pub(crate) answered: Answered,
    pub(crate) message: Vec<u8>,
}

impl Response {
    /// With a result or with which error.
    pub fn answered(&self) -> &Answered {
        &self.answered
    }

    /// The whole message.
    pub fn message(&self) -> &[u8] {
        &self.message
    }
}

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

/// What a layer wraps: the layers further in, and behind them the server. Clones are the same.
#[derive(Clone)]
pub struct Next(pub(super) Arc<dyn Fn(Request) -> Answering + Send + Sync>);

impl Next {
    /// The server itself, with no layer in between.
    pub fn server() -> Self {
        Self(Arc::new(|request| Box::pin(answer(request))))
    }
}

impl Service<Request> for Next {
    type Response = Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        (self.0)(request)
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

async fn answer(request: Request) -> Result<Response, BoxError> {
    let Request { dispatcher, stored, begun, .. } = request;
    let mut message = Vec::with_capacity(512);
    let dispatched = {
        let params = stored.params.as_params();
        let mut exchange = Exchange::new(&stored.id, stored.dialect, stored.method, &params, stored.caller);
        exchange.name = &stored.name;
        exchange.progress_token = stored.progress_token;
        exchange.idempotency_key = stored.idempotency_key;
        exchange.outlet = stored.outlet;
        exchange.push = stored.push;
        dispatcher.begin(exchange, &mut message)
    };
    Ok(match dispatched {
        Dispatched::Answered(answered) => Response { answered, message },
        Dispatched::Pending(pending) => {
            // It is begun once: a request cannot be cloned.
            let _ = begun.0.set((pending.canceller(), pending.delivery()));
            let (answered, message) = pending.await;
            Response { answered, message }
        }
    })
}
