//! A span for each request.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use longhaul_proto::jsonrpc::clip;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument as _;

use super::metrics::Outcome;
use super::request::{BoxError, Request, Response};

/// Does each request in a span of `tracing` (target `longhaul::request`, level INFO), which says what is asked, of which
/// item, in which revision, by whom and in which trace of the caller's; and, when it is answered, how and after how long.
/// It says nothing of what requests and answers carry.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to choose")]
pub struct Trace;

impl<S> Layer<S> for Trace {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced { inner }
    }
}

/// The service of a [`Trace`].
#[derive(Clone, Debug)]
pub struct Traced<S> {
    inner: S,
}

impl<S> Service<Request> for Traced<S>
where
    S: Service<Request, Response = Response, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let began = Instant::now();
        let item = request.item().map(|item| clip(item).into_owned());
        let span = tracing::info_span!(
            target: "longhaul::request",
            "request",
            method = ?request.method(),
            item = item.as_deref(),
            revision = %request.revision(),
            caller = request.principal().map(|principal| principal as &dyn Display).map(tracing::field::display),
            traceparent = request.trace_parent().map(tracing::field::display),
        );
        let answered = span.in_scope(|| self.inner.call(request));
        let answered = async move {
            let answered = answered.await.map_err(Into::into);
            let outcome = Outcome::of(&answered);
            tracing::info!(target: "longhaul::request", ?outcome, elapsed = ?began.elapsed(), "answered");
            answered
        };
        Box::pin(answered.instrument(span))
    }
}
