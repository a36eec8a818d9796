//! A span for each request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use longhaul::proto::dialect::Dialect;
use longhaul::proto::method::Method;
use longhaul::proto::model::TraceParent;
use longhaul::server::Answered;
use longhaul::service::{BoxError, Request, Response};
use opentelemetry::KeyValue;
use opentelemetry::trace::{FutureExt as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry_sdk::trace::SdkTracer;
use tower_layer::Layer;
use tower_service::Service;

/// Makes a span of each request, in the trace that its caller says, if it says one. What comes of the request is below it.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    tracer: SdkTracer,
}

impl Requests {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self { tracer }
    }
}

impl<S> Layer<S> for Requests {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched { inner, tracer: self.tracer.clone() }
    }
}

/// The service of [`Requests`].
#[derive(Clone, Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    tracer: SdkTracer,
}

impl<S> Service<Request> for Watched<S>
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
        let (method, dialect) = (request.method(), Dialect::of(request.revision()));
        let method_name = dialect.name_of(method).unwrap_or("unknown");
        // Tools are few. Of tasks and resources there is no end, so these name no span.
        let name = match request.item().filter(|_| method == Method::CallTool) {
            Some(tool) => format!("{method_name} {tool}"),
            None => method_name.to_owned(),
        };
        let mut said = vec![
            KeyValue::new("mcp.method.name", method_name),
            KeyValue::new("mcp.protocol.version", request.revision().to_string()),
        ];
        said.extend(request.item().map(|item| KeyValue::new("mcp.item", item.to_owned())));
        let span = self
            .tracer
            .span_builder(name)
            .with_kind(SpanKind::Server)
            .with_attributes(said)
            .start_with_context(&self.tracer, &super::below(request.trace_parent()));
        let around = opentelemetry::Context::new().with_span(span);
        let own = around.span().span_context().clone();
        let (trace, span) = (own.trace_id().to_bytes(), own.span_id().to_bytes());
        let own = TraceParent::new(u128::from_be_bytes(trace), u64::from_be_bytes(span), own.is_sampled());
        let answering = self.inner.call(match own {
            Some(own) => request.with_trace_parent(own),
            None => request,
        });
        Box::pin(async move {
            let answered = answering.with_context(around.clone()).await.map_err(Into::into);
            let failed = match &answered {
                Ok(response) => match response.answered() {
                    Answered::Result => None,
                    Answered::Error { code, .. } => Some(format!("error {}", code.0)),
                    Answered::Forbidden(_) => Some("forbidden".to_owned()),
                },
                Err(error) => Some(error.to_string()),
            };
            if let Some(failed) = failed {
                around.span().set_status(Status::error(failed));
            }
            around.span().end();
            answered
        })
    }
}
