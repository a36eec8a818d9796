//! A request on its way through layers, and what comes back.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use longhaul_proto::dialect::{Dialect, Revision};
use longhaul_proto::jsonrpc::{ProgressToken, RequestId, StoredParams};
use longhaul_proto::method::Method;
use tower_service::Service;

use crate::server::{
    Answered, CallCanceller, Caller, Delivery, Dispatched, Dispatcher, Exchange, Outlet, Principal, Push,
    Scopes,
};

/// Any error of a layer.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A request that has been admitted. Nothing of it has run.
pub struct Request {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) stored: Stored,
    pub(crate) item: Option<String>,
    pub(crate) begun: Begun,
}

/// An exchange that outlives the message it came in.
pub(crate) struct Stored {
    pub(crate) id: RequestId,
    pub(crate) dialect: &'static Dialect,
    pub(crate) method: Method,
    pub(crate) name: String,
    pub(crate) params: StoredParams,
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) caller: Caller,
    pub(crate) outlet: Outlet,
    pub(crate) push: Option<Arc<dyn Push>>,
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

    /// Which trace of the caller's it belongs to, if it says so (`traceparent` of W3C Trace Context, in `_meta`).
    pub fn trace_parent(&self) -> Option<String> {
        let params = self.stored.params.as_params();
        let meta: TraceMeta = serde_json::from_str(params.member("_meta")?).ok()?;
        meta.traceparent.filter(|parent| parent.len() <= TRACE_PARENT)
    }

    /// What ends the call once it runs, for a layer that lets go of it.
    pub fn canceller(&self) -> CallCanceller {
        CallCanceller::of_layered(self.begun.clone())
    }
}

#[derive(serde::Deserialize)]
struct TraceMeta {
    #[serde(default)]
    traceparent: Option<String>,
}

/// How long a `traceparent` may be; the format has 55 characters.
const TRACE_PARENT: usize = 128;

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
pub struct Response(pub(crate) Answer);

#[derive(Debug)]
pub(crate) enum Answer {
    Written(Answered, Vec<u8>),
    /// How the caller gets the scopes is for the transport to say.
    Forbidden(Scopes),
}

impl Response {
    /// With a result or with which error; `None` if the caller's grant was not enough.
    pub fn answered(&self) -> Option<Answered> {
        match &self.0 {
            Answer::Written(answered, _) => Some(*answered),
            Answer::Forbidden(_) => None,
        }
    }
}

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

/// What a layer wraps: the layers further in, and behind them the server. Clones are the same.
#[derive(Clone)]
pub struct Next(pub(super) Arc<dyn Fn(Request) -> Answering + Send + Sync>);

impl Next {
    /// The server itself.
    pub(super) fn server() -> Self {
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
    let mut out = Vec::with_capacity(512);
    let dispatched = {
        let params = stored.params.as_params();
        let mut exchange = Exchange::new(&stored.id, stored.dialect, stored.method, &params, stored.caller);
        exchange.name = &stored.name;
        exchange.progress_token = stored.progress_token;
        exchange.outlet = stored.outlet;
        exchange.push = stored.push;
        dispatcher.begin(exchange, &mut out)
    };
    Ok(Response(match dispatched {
        Dispatched::Answered(answered) => Answer::Written(answered, out),
        Dispatched::Forbidden(needed) => Answer::Forbidden(needed),
        Dispatched::Pending(pending) => {
            // It is begun once: a request cannot be cloned.
            let _ = begun.0.set((pending.canceller(), pending.delivery()));
            let (answered, message) = pending.await;
            Answer::Written(answered, message)
        }
    }))
}
