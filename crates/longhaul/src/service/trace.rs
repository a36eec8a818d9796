//! A span for each request.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use longhaul_proto::jsonrpc::clip;
use longhaul_proto::model::TraceParent;
use longhaul_tasks::store::Record;
use serde::Deserialize;
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

/// The trace that a task belongs to, and the span in it that asked for it: that of the request which it comes from, if that
/// said one. It stands in the task's row, so that every process finds it there, for as long as the task is kept.
///
/// ```
/// use longhaul::service::trace_of;
/// use longhaul::store::{Json, Owner, Record, TaskId, Time};
///
/// let caller = r#"{"begun":true,"caller":{"trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}"#;
/// let (id, arguments) = (TaskId::new("t1")?, Json::parse("{}")?);
/// let task = Record::new(id, Owner::Anonymous, "build", arguments, Json::parse(caller)?, Time::from_unix_ms(0));
/// assert_eq!(trace_of(&task).unwrap().span_id(), 0xb7ad_6b71_6920_3331);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn trace_of(task: &Record) -> Option<TraceParent> {
    /// What is of interest here of what is written of a caller.
    #[derive(Deserialize)]
    struct Traced {
        trace: Option<TraceParent>,
    }
    let written = longhaul_tasks::written_caller(task)?;
    serde_json::from_str::<Traced>(written.get()).ok()?.trace
}
