//! From an admitted request to its answer.
//!
//! The answer of a call that is ready at the first poll is written where the caller wants it, without a
//! spawn or a channel. A call that is not comes back as a future, for the transport to run.

use std::sync::Arc;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{Code, ErrorObject, Params, ProgressToken, RequestId, Text};
use longhaul_proto::method::Method;
use longhaul_proto::model::{
    CacheScope, ClientCapabilities, Implementation, LoggingLevel, ServerCapabilities,
};
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Owner, Principal, StoreError};

use super::answer::{Dispatched, Envelope, now_or_later, refused};
use super::catalogue::Catalogue;
use super::context::Cx;
use super::outlet::{Outlet, Push};
use super::resource::{Resources, not_found};
use super::{call, tasks};

/// Finds and runs the handler of a request. Clones share one server.
#[derive(Clone, Debug)]
pub struct Dispatcher(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) info: Implementation,
    /// The same as JSON, for results that repeat it.
    pub(super) info_json: Arc<str>,
    pub(super) instructions: Option<String>,
    pub(super) capabilities: ServerCapabilities,
    pub(super) catalogue: Catalogue,
    pub(super) resources: Option<Arc<dyn Resources>>,
    pub(super) engine: Engine,
}

/// Who asks, and what it can do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Caller {
    /// Who the caller is proven to be.
    pub principal: Option<Principal>,
    /// What it declared: for its session, or for this request.
    pub capabilities: ClientCapabilities,
    /// The least severe log message it wants; `None` for none.
    pub log_level: Option<LoggingLevel>,
    /// What it calls itself, in a session.
    pub client_name: Option<Arc<str>>,
}

impl Caller {
    /// A caller who has declared nothing yet.
    pub fn new(principal: Option<Principal>) -> Self {
        Self { principal, ..Self::default() }
    }

    /// To whom its tasks belong.
    pub fn owner(&self) -> Owner {
        self.principal.clone().map_or(Owner::Anonymous, Owner::Principal)
    }
}

/// One request, admitted, with all it takes to answer it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exchange<'r, 'a> {
    /// Echoed by the answer.
    pub id: &'r RequestId,
    /// How the answer is written.
    pub dialect: &'static Dialect,
    /// What is asked.
    pub method: Method,
    /// With which parameters.
    pub params: &'r Params<'a>,
    /// The caller wants progress under this token.
    pub progress_token: Option<ProgressToken>,
    /// Who asks.
    pub caller: Caller,
    /// How to reach the caller before the answer.
    pub outlet: Outlet,
    /// How to reach the caller after it, if it has a session.
    pub push: Option<Arc<dyn Push>>,
}

impl<'r, 'a> Exchange<'r, 'a> {
    /// An exchange that wants no progress and whose caller cannot be reached but by the answer.
    pub fn new(
        id: &'r RequestId,
        dialect: &'static Dialect,
        method: Method,
        params: &'r Params<'a>,
        caller: Caller,
    ) -> Self {
        Self { id, dialect, method, params, progress_token: None, caller, outlet: Outlet::None, push: None }
    }
}

impl Dispatcher {
    /// The engine that runs the server's tasks.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Takes up the tasks that earlier processes left; says how many. Call it once, before serving, within
    /// the runtime that serves.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written.
    pub async fn start(&self) -> Result<usize, StoreError> {
        self.0.engine.start().await
    }

    /// Answers `exchange` into `out`, or says that the answer takes longer.
    ///
    /// Must be called within a tokio runtime.
    pub fn dispatch(&self, exchange: Exchange<'_, '_>, out: &mut Vec<u8>) -> Dispatched {
        let envelope = Envelope {
            id: exchange.id.clone(),
            dialect: exchange.dialect,
            server_info: Arc::clone(&self.0.info_json),
        };
        match exchange.method {
            Method::CallTool => call::call_tool(self, envelope, exchange, out),
            Method::ReadResource => self.read_resource(envelope, exchange, out),
            Method::GetTask | Method::TaskResult | Method::UpdateTask | Method::CancelTask
                if self.0.capabilities.tasks =>
            {
                tasks::answer(self, envelope, exchange, out)
            }
            _ => Dispatched::Answered(match self.at_once(&envelope, &exchange, out) {
                Ok(answered) => answered,
                Err(error) => envelope.error(out, &error),
            }),
        }
    }

    /// The methods whose answers are always at hand.
    fn at_once(
        &self,
        envelope: &Envelope,
        exchange: &Exchange<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<super::Answered, ErrorObject> {
        let shared = &*self.0;
        let (dialect, instructions) = (exchange.dialect, shared.instructions.as_deref());
        Ok(match exchange.method {
            Method::ListTools => {
                no_cursor(exchange.params)?;
                let list = shared.catalogue.list(dialect, &exchange.caller);
                envelope.result(out, |result| {
                    result.raw("tools", list);
                    result.cacheable(LIST_TTL_MS, CacheScope::Private);
                })
            }
            Method::ListResources if shared.resources.is_some() => {
                no_cursor(exchange.params)?;
                envelope.result(out, |result| {
                    result.raw("resources", "[]");
                    result.cacheable(LIST_TTL_MS, CacheScope::Private);
                })
            }
            Method::ListResourceTemplates if let Some(resources) = &shared.resources => {
                no_cursor(exchange.params)?;
                envelope.result(out, |result| {
                    result.list(
                        "resourceTemplates",
                        &resources.templates(),
                        Dialect::write_resource_template,
                    );
                    result.cacheable(LIST_TTL_MS, CacheScope::Public);
                })
            }
            Method::Ping | Method::SetLogLevel => envelope.result(out, |_| ()),
            Method::Initialize => envelope.result(out, |result| {
                dialect.write_initialize(result, &shared.capabilities, &shared.info, instructions);
            }),
            Method::Discover => envelope.result(out, |result| {
                dialect.write_discover(result, &shared.capabilities, instructions);
            }),
            _ => {
                let message = "method not found: this server offers no such thing";
                return Err(ErrorObject::new(Code::METHOD_NOT_FOUND, message));
            }
        })
    }

    fn read_resource(&self, envelope: Envelope, exchange: Exchange<'_, '_>, out: &mut Vec<u8>) -> Dispatched {
        let resources = self.0.resources.clone();
        let uri = exchange.params.require::<Text<'_>>("uri").map(|Text(uri)| uri.into_owned());
        let cx = Cx::new(exchange.dialect, exchange.caller, exchange.progress_token, exchange.outlet, None);
        let reader = cx.clone();
        let answer = async move {
            let uri = match uri {
                Ok(uri) => uri,
                Err(error) => return refused(error),
            };
            let Some(resources) = resources.filter(|resources| resources.has(&uri)) else {
                return refused(not_found(&uri));
            };
            match resources.read(reader, &uri).await {
                Ok(read) => Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
                    envelope.result(out, |result| read.write(result))
                }) as super::answer::Write,
                Err(error) => refused(error),
            }
        };
        now_or_later(envelope, cx, None, answer, out)
    }
}

/// Every list is one page, so no cursor was ever issued.
fn no_cursor(params: &Params<'_>) -> Result<(), ErrorObject> {
    match params.read::<Text<'_>>("cursor")? {
        None => Ok(()),
        Some(_) => Err(ErrorObject::invalid_params("invalid params: `cursor` was not issued here")),
    }
}

/// How long a client may keep a list, in milliseconds.
const LIST_TTL_MS: u64 = 5_000;
