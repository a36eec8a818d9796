//! From an admitted request to its answer.
//!
//! The answer of a call that is ready at the first poll is written where the caller wants it, without a
//! spawn or a channel. A call that is not comes back as a future, for the transport to run.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{Code, ErrorObject, Params, ProgressToken, RequestId, clip, write_error};
use longhaul_proto::method::Method;
use longhaul_proto::model::{
    CacheScope, CallToolParams, CallToolResult, ClientCapabilities, Implementation, LoggingLevel,
    ServerCapabilities,
};

use super::catalogue::Catalogue;
use super::caught::Caught;
use super::context::Cx;
use super::outlet::Outlet;
use super::principal::Principal;

/// Finds and runs the handler of a request. Clones share one server.
#[derive(Clone, Debug)]
pub struct Dispatcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    info_json: String,
    info: Implementation,
    instructions: Option<String>,
    capabilities: ServerCapabilities,
    catalogue: Catalogue,
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
}

impl Caller {
    /// A caller who has declared nothing yet.
    pub fn new(principal: Option<Principal>) -> Self {
        Self { principal, ..Self::default() }
    }
}

/// One request, admitted, with all it takes to answer it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exchange<'r, 'a> {
    /// Echoed by the answer.
    pub id: RequestId,
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
}

impl<'r, 'a> Exchange<'r, 'a> {
    /// An exchange that wants no progress and whose caller cannot be reached before the answer.
    pub fn new(
        id: RequestId,
        dialect: &'static Dialect,
        method: Method,
        params: &'r Params<'a>,
        caller: Caller,
    ) -> Self {
        Self { id, dialect, method, params, progress_token: None, caller, outlet: Outlet::None }
    }
}

/// What became of an exchange.
#[must_use]
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it is answered or it is not yet")]
pub enum Dispatched {
    /// The answer is written.
    Answered(Answered),
    /// The answer takes longer.
    Pending(PendingAnswer),
}

/// How an exchange was answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC's two answers")]
pub enum Answered {
    /// With a result.
    Result,
    /// With an error of this code.
    Error(Code),
}

/// An answer in the making. Dropping it cancels the call.
#[must_use]
pub struct PendingAnswer {
    future: Pin<Box<dyn Future<Output = Vec<u8>> + Send>>,
    cx: Cx,
}

impl PendingAnswer {
    /// How the call reaches its caller meanwhile.
    pub fn outlet(&self) -> &Outlet {
        self.cx.outlet()
    }
}

impl Future for PendingAnswer {
    type Output = Vec<u8>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        self.future.as_mut().poll(cx)
    }
}

impl fmt::Debug for PendingAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAnswer").field("cx", &self.cx).finish_non_exhaustive()
    }
}

impl Dispatcher {
    pub(super) fn new(
        info: Implementation,
        instructions: Option<String>,
        capabilities: ServerCapabilities,
        catalogue: Catalogue,
    ) -> Self {
        let info_json = serde_json::to_string(&info).expect("strings are JSON");
        Self(Arc::new(Shared { info_json, info, instructions, capabilities, catalogue }))
    }

    /// Who the server says it is.
    pub fn info(&self) -> &Implementation {
        &self.0.info
    }

    /// Answers `exchange` into `out`, or says that the answer takes longer.
    ///
    /// Must be called within a tokio runtime.
    pub fn dispatch(&self, exchange: Exchange<'_, '_>, out: &mut Vec<u8>) -> Dispatched {
        let shared = &*self.0;
        let Exchange { id, dialect, .. } = &exchange;
        let written = match exchange.method {
            Method::CallTool => return self.call_tool(exchange, out),
            Method::ListTools => exchange.params.read::<&str>("cursor").and_then(|cursor| match cursor {
                Some(_) => Err(ErrorObject::invalid_params("invalid params: `cursor` was not issued here")),
                None => {
                    dialect.write_result(out, id, &shared.info_json, |result| {
                        result.raw("tools", shared.catalogue.list(dialect));
                        result.cacheable(LIST_TTL_MS, CacheScope::Private);
                    });
                    Ok(())
                }
            }),
            Method::Ping | Method::SetLogLevel => {
                dialect.write_result(out, id, &shared.info_json, |_| ());
                Ok(())
            }
            Method::Initialize => {
                dialect.write_result(out, id, &shared.info_json, |result| {
                    let instructions = shared.instructions.as_deref();
                    dialect.write_initialize(result, &shared.capabilities, &shared.info_json, instructions);
                });
                Ok(())
            }
            Method::Discover => {
                dialect.write_result(out, id, &shared.info_json, |result| {
                    dialect.write_discover(result, &shared.capabilities, shared.instructions.as_deref());
                });
                Ok(())
            }
            _ => Err(ErrorObject::new(
                Code::METHOD_NOT_FOUND,
                "method not found: this server offers no such thing",
            )),
        };
        Dispatched::Answered(match written {
            Ok(()) => Answered::Result,
            Err(error) => refuse(out, id, &error),
        })
    }

    fn call_tool(&self, exchange: Exchange<'_, '_>, out: &mut Vec<u8>) -> Dispatched {
        let Exchange { id, dialect, params, progress_token, caller, outlet, .. } = exchange;
        let call = match CallToolParams::read(params) {
            Ok(call) => call,
            Err(error) => return Dispatched::Answered(refuse(out, &id, &error)),
        };
        let Some(tool) = self.0.catalogue.tool(&call.name) else {
            let error = ErrorObject::invalid_params(format!("unknown tool: {}", clip(&call.name)));
            return Dispatched::Answered(refuse(out, &id, &error));
        };
        let cx = Cx::new(caller, progress_token, outlet);
        let mut future = Caught::start(|| tool.handler.call(cx.clone(), call.arguments));
        if let Poll::Ready(outcome) = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            return Dispatched::Answered(self.write_call(out, &id, dialect, outcome));
        }
        let this = self.clone();
        let guard = cx.cancel_on_drop();
        let future = Box::pin(async move {
            let outcome = future.await;
            guard.defuse();
            let mut answer = Vec::with_capacity(256);
            this.write_call(&mut answer, &id, dialect, outcome);
            answer
        });
        Dispatched::Pending(PendingAnswer { future, cx })
    }

    fn write_call(
        &self,
        out: &mut Vec<u8>,
        id: &RequestId,
        dialect: &'static Dialect,
        outcome: Result<CallToolResult, ErrorObject>,
    ) -> Answered {
        match outcome {
            Ok(result) => {
                dialect.write_result(out, id, &self.0.info_json, |writer| result.write(writer));
                Answered::Result
            }
            Err(error) => refuse(out, id, &error),
        }
    }
}

fn refuse(out: &mut Vec<u8>, id: &RequestId, error: &ErrorObject) -> Answered {
    write_error(out, Some(id), error);
    Answered::Error(error.code)
}

/// How long a client may keep a list, in milliseconds.
const LIST_TTL_MS: u64 = 5_000;
