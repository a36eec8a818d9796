//! Numbers of requests: how many, how they ended, and how long they took.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::method::Method;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::request::{BoxError, Request, Response};
use crate::server::Answered;

/// Counts requests by method and outcome. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    running: AtomicUsize,
    figures: Mutex<HashMap<(Method, Outcome), Figures>>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// With a result. That of a tool may say that the tool has failed.
    Result,
    /// With an error of this code, as the caller's revision has it.
    Error(Code),
    /// The caller's grant was not enough.
    Forbidden,
    /// Without an answer: nobody wanted it any more.
    Abandoned,
}

impl Outcome {
    pub(super) fn of(answered: &Result<Response, BoxError>) -> Self {
        match answered {
            Ok(response) => match response.answered() {
                Answered::Result => Self::Result,
                Answered::Error { code, .. } => Self::Error(*code),
                Answered::Forbidden(_) => Self::Forbidden,
            },
            Err(error) => {
                let error = error.downcast_ref::<ErrorObject>();
                Self::Error(error.map_or(Code::INTERNAL, |error| error.code))
            }
        }
    }
}

const BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30_000];

/// The numbers of one method and outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// What was asked.
    pub method: Method,
    /// How it ended.
    pub outcome: Outcome,
    /// How many there were.
    pub count: u64,
    /// How long they took, together.
    pub total: Duration,
    /// How many took no longer than each of [`Metrics::BOUNDS_MS`], the quicker ones included.
    pub within: [u64; 12],
}

impl Metrics {
    /// The upper bounds of [`Figures::within`], in milliseconds. What takes longer is only in [`Figures::count`].
    pub const BOUNDS_MS: [u64; 12] = BOUNDS_MS;

    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many requests run.
    pub fn running(&self) -> usize {
        self.0.running.load(Ordering::Relaxed)
    }

    /// The numbers so far, in no order.
    pub fn figures(&self) -> Vec<Figures> {
        self.0.figures.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// One request that is being counted. Dropped before it is answered, it was abandoned.
struct Counting {
    counters: Arc<Counters>,
    method: Method,
    outcome: Outcome,
    began: Instant,
}

impl Counting {
    fn new(counters: &Arc<Counters>, method: Method) -> Self {
        counters.running.fetch_add(1, Ordering::Relaxed);
        Self { counters: Arc::clone(counters), method, outcome: Outcome::Abandoned, began: Instant::now() }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let (method, outcome, took) = (self.method, self.outcome, self.began.elapsed());
        self.counters.running.fetch_sub(1, Ordering::Relaxed);
        let mut figures = self.counters.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = figures.entry((method, outcome)).or_insert(Figures {
            method,
            outcome,
            count: 0,
            total: Duration::ZERO,
            within: [0; BOUNDS_MS.len()],
        });
        figures.count += 1;
        figures.total += took;
        for (within, bound) in figures.within.iter_mut().zip(BOUNDS_MS) {
            *within += u64::from(took <= Duration::from_millis(bound));
        }
    }
}

impl<S> Layer<S> for Metrics {
    type Service = Measured<S>;

    fn layer(&self, inner: S) -> Measured<S> {
        Measured { inner, metrics: self.clone() }
    }
}

/// The service of [`Metrics`].
#[derive(Clone, Debug)]
pub struct Measured<S> {
    inner: S,
    metrics: Metrics,
}

impl<S> Service<Request> for Measured<S>
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
        let mut counting = Counting::new(&self.metrics.0, request.method());
        let answered = self.inner.call(request);
        Box::pin(async move {
            let answered = answered.await.map_err(Into::into);
            counting.outcome = Outcome::of(&answered);
            drop(counting);
            answered
        })
    }
}
