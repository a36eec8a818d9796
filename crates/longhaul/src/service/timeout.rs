//! A time by which a request must be answered.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::method::Method;
use tower_layer::Layer;
use tower_service::Service;

use super::request::{BoxError, Request, Response};

/// Ends requests that take longer, and answers them with an error. A call that was answered with a task goes on; one that
/// still waits is cancelled. A subscription lasts as long as its client wants it.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(Duration);

impl Timeout {
    /// Gives each request this long.
    pub fn new(limit: Duration) -> Self {
        Self(limit)
    }
}

impl<S> Layer<S> for Timeout {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Timed<S> {
        Timed { inner, limit: self.0 }
    }
}

/// The service of a [`Timeout`].
#[derive(Clone, Debug)]
pub struct Timed<S> {
    inner: S,
    limit: Duration,
}

impl<S> Service<Request> for Timed<S>
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
        let (limit, call, lasts) = (self.limit, request.canceller(), request.method() == Method::Listen);
        let answered = self.inner.call(request);
        if lasts {
            return Box::pin(async move { answered.await.map_err(Into::into) });
        }
        Box::pin(async move {
            if let Ok(answered) = tokio::time::timeout(limit, answered).await {
                return answered.map_err(Into::into);
            }
            call.cancel();
            let seconds = limit.as_secs_f64();
            Err(ErrorObject::internal(format!("the request took longer than {seconds} s, and was ended"))
                .into())
        })
    }
}
