//! What requests and tasks take, told to OpenTelemetry as spans: each request is one, and so is each attempt at a task, in
//! the trace of the request that it comes from, whichever process makes it. A request about a task links to that trace.

mod requests;
mod tasks;

use std::env;
use std::sync::Arc;

use anyhow::Context as _;
use longhaul::proto::model::TraceParent;
use longhaul::store::TaskStore;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use requests::Requests;
use tasks::Spanned;

/// What names where spans go. Without either, none are made.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Makes spans and has them sent, as the variables of OpenTelemetry say.
#[derive(Debug)]
pub(crate) struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Spans {
    /// `None` unless the environment says where they are to go.
    pub(crate) fn from_env() -> anyhow::Result<Option<Self>> {
        let is = |name, value| env::var(name).is_ok_and(|found| found.eq_ignore_ascii_case(value));
        let has = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if !ENDPOINTS.iter().any(has) || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none")
        {
            return Ok(None);
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .build()
            .with_context(|| format!("no spans can be sent: look at {}", ENDPOINTS.join(" and ")))?;
        let mut resource = Resource::builder();
        if !has(&"OTEL_SERVICE_NAME") {
            resource = resource.with_service_name("longhaul");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("longhaul");
        Ok(Some(Self { provider, tracer }))
    }

    /// The layer that makes a span of each request.
    pub(crate) fn requests(&self) -> Requests {
        Requests::new(self.tracer.clone())
    }

    /// The store, which makes spans of what is done with tasks.
    pub(crate) fn around(&self, store: Arc<dyn TaskStore>) -> Arc<dyn TaskStore> {
        Arc::new(Spanned::new(store, self.tracer.clone()))
    }

    /// Sends what has not been sent, for as long as the variables allow.
    pub(crate) async fn end(self) {
        // It waits on a thread.
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown()).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

/// A span of whoever asks, as OpenTelemetry has it.
fn context_of(parent: TraceParent) -> SpanContext {
    let flags = if parent.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (parent.trace_id().to_be_bytes(), parent.span_id().to_be_bytes());
    SpanContext::new(TraceId::from_bytes(trace), SpanId::from_bytes(span), flags, true, TraceState::default())
}

/// Below that span, if any: what has none begins a trace.
fn below(parent: Option<TraceParent>) -> opentelemetry::Context {
    let root = opentelemetry::Context::new();
    match parent {
        Some(parent) => root.with_remote_span_context(context_of(parent)),
        None => root,
    }
}
