//! How much one caller may ask.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::method::Method;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::request::{BoxError, Request, Response};
use crate::bucket::{Bucket, Rate};
use crate::server::Party;

/// Bounds what each principal asks, and of callers without one each network; those that nothing tells apart, as all of
/// this machine, share theirs. What is too much is refused before anything runs, as an overload with the time to come back.
///
/// The bounds hold for all that one layer is for, in this process. A network is an address of IPv4 or the first 64 bits of one of
/// IPv6, so that who has a /48 counts as up to 65,536 callers: what is costly should be for principals.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerCaller {
    running: Option<usize>,
    rate: Option<Rate>,
}

/// When to come back to a place that somebody must leave first.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// With how many callers those are forgotten that have nothing running and all they may ask.
const SWEEP: usize = 1024;

impl PerCaller {
    /// Bounds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets each have so many requests running at once. A subscription is none of them, nor is a task once its caller
    /// has been told of it.
    #[must_use]
    pub fn running(self, running: usize) -> Self {
        Self { running: Some(running), ..self }
    }

    /// Lets each ask so often in that time, which must not be zero; so many may come at once.
    #[must_use]
    pub fn rate(self, requests: u32, every: Duration) -> Self {
        Self { rate: Some(Rate { tokens: requests, every }), ..self }
    }
}

impl<S> Layer<S> for PerCaller {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { inner, limits: *self, callers: Arc::default() }
    }
}

/// The service of a [`PerCaller`].
#[derive(Clone, Debug)]
pub struct Bounded<S> {
    inner: S,
    limits: PerCaller,
    callers: Arc<Callers>,
}

#[derive(Debug, Default)]
struct Callers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    callers: HashMap<Party, Account>,
    /// With how many they are looked through next.
    sweep_at: usize,
}

/// What one caller has of its bounds.
#[derive(Debug)]
struct Account {
    running: usize,
    /// How many requests it may still make, where that is bounded.
    rate: Option<Bucket>,
}

impl PerCaller {
    /// Takes one request of a caller's bounds.
    fn take(&self, account: &mut Account, now: Instant) -> Result<(), ErrorObject> {
        if let Some(most) = self.running
            && account.running >= most
        {
            let what = format!("{most} of your requests are running, as many as may: come back later");
            return Err(ErrorObject::overloaded(what, RETRY_AFTER));
        }
        if let (Some(rate), Some(bucket)) = (&self.rate, &mut account.rate) {
            bucket.take(1, rate, now).map_err(|wait| {
                let what = format!("more than {} requests in {} s", rate.tokens, rate.every.as_secs_f64());
                ErrorObject::overloaded(what, wait)
            })?;
        }
        account.running += 1;
        Ok(())
    }

    /// Whether nothing is lost if a caller is forgotten.
    fn is_whole(&self, account: &mut Account, now: Instant) -> bool {
        let whole = match (&self.rate, &mut account.rate) {
            (Some(rate), Some(bucket)) => bucket.is_full(rate, now),
            _ => true,
        };
        whole && account.running == 0
    }
}

impl Callers {
    fn enter(self: &Arc<Self>, caller: Party, limits: &PerCaller) -> Result<Running, ErrorObject> {
        let now = Instant::now();
        let mut known = self.lock();
        if known.callers.len() >= known.sweep_at.max(SWEEP) {
            known.callers.retain(|_, account| !limits.is_whole(account, now));
            known.sweep_at = 2 * known.callers.len();
        }
        let account = known.callers.entry(caller.clone()).or_insert_with(|| Account {
            running: 0,
            rate: limits.rate.map(|rate| Bucket::full(&rate, now)),
        });
        limits.take(account, now)?;
        Ok(Running { callers: Arc::clone(self), caller })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one request, until it is dropped.
struct Running {
    callers: Arc<Callers>,
    caller: Party,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(account) = self.callers.lock().callers.get_mut(&self.caller) {
            account.running -= 1;
        }
    }
}

impl<S> Service<Request> for Bounded<S>
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
        let running = match self.callers.enter(request.party(), &self.limits) {
            // It lasts as long as its client wants it.
            Ok(running) => Some(running).filter(|_| request.method() != Method::Listen),
            Err(refused) => return Box::pin(async move { Err(refused.into()) }),
        };
        let answered = self.inner.call(request);
        Box::pin(async move {
            let answered = answered.await.map_err(Into::into);
            drop(running);
            answered
        })
    }
}
