//! The endpoint as a service of `tower`, for an application that serves other things beside it.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;
use tower_service::Service;

use super::answer::Body as Answer;
use super::head::Head;
use super::peer::Known;
use super::places::Place;
use super::route::route;
use super::waiting::OpenRequest;
use super::writing::{Answers, HeldUp};
use super::{Endpoint, Options};
use crate::server::Dispatcher;

/// A server's endpoint, to be mounted in an application that speaks HTTP: with axum by `route_service`. Clones are one
/// endpoint.
///
/// A server whose callers sign in has paths beside its endpoint, at the root of its host: the documents under
/// `/.well-known/` by which clients learn how, and with a proxy of authorization `/authorize`, `/token` and others.
/// `route_service` and `nest_service` keep requests for these from it. Such a server is the application's
/// `fallback_service`, which has whatever the application has no route for. So is one with
/// [`legacy_sse`](Options::legacy_sse).
///
/// Which paths are its own is for the application to say: whatever it is asked for, but for what [`Options`] put at
/// paths of their own, is its endpoint. Hosts, origins, credentials, sizes and times are checked as
/// [`serve`](super::serve) does; bounds of connections and of their headers are the application's.
///
/// An application that knows who calls says so by a [`Caller`](crate::server::Caller) among the request's extensions.
/// It counts where there is no guard.
///
/// # Examples
///
/// ```
/// use longhaul::Server;
/// use longhaul::transport::http::server::{HttpService, Options};
///
/// # #[tokio::main] async fn main() -> Result<(), longhaul::ServeError> {
/// let service: HttpService = Server::new("weather", "1.0.0").into_http_service(Options::default()).await?;
/// // axum: Router::new().route_service("/mcp", service.clone()), or with a guard
/// //       Router::new().route("/", page).fallback_service(service.clone())
/// service.stop().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct HttpService(Arc<Mounted>);

#[derive(Debug)]
struct Mounted {
    endpoint: Arc<Endpoint>,
    tidying: AbortHandle,
}

impl HttpService {
    /// The endpoint of `dispatcher`, which has been [started](Dispatcher::start).
    ///
    /// Must be called within the tokio runtime that serves it.
    pub fn new(dispatcher: Dispatcher, options: Options) -> Self {
        let endpoint = Arc::new(Endpoint { mounted: true, ..Endpoint::new(dispatcher, options) });
        let kept = Arc::clone(&endpoint);
        let tidying = tokio::spawn(async move { match super::tidy(&kept).await {} }).abort_handle();
        Self(Arc::new(Mounted { endpoint, tidying }))
    }

    /// Lets every client go before the application ends: makes held calls durable and hands them over, ends streams
    /// that have no end of their own, and waits for other answers for [`Options::drain`]. What has not ended by then is
    /// answered with an error.
    ///
    /// Dropping the future leaves what has not ended as it is.
    pub async fn stop(&self) {
        let endpoint = &self.0.endpoint;
        if !endpoint.wind_down(endpoint.nothing_runs()).await {
            tracing::warn!("some answers did not end at all");
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.tidying.abort();
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let endpoint = Arc::clone(&self.0.endpoint);
        let known = Known::of(request.extensions_mut());
        let (parts, body) = request.into_parts();
        Box::pin(async move {
            let body = pin!(body);
            let response = route(&endpoint, known, &Head::of(&parts), body).await;
            Ok(response.map(AnswerBody::new))
        })
    }
}

/// The body of an answer: one JSON object, or events as they come. Dropping it cancels a call of the modern era.
pub struct AnswerBody {
    answer: Answer,
    connection: Option<OnConnection>,
}

/// What an answer has of a connection of ours.
struct OnConnection {
    /// What its client is yet to read.
    answers: Arc<Answers>,
    /// Whether it has a window of its own, for which its pieces wait one by one.
    has_window: bool,
    /// The last piece waits for it.
    held_up: Option<HeldUp>,
    /// Its request, which is open as long as it is.
    #[expect(dead_code, reason = "it is held")]
    request: OpenRequest,
    /// Its place, where its connection has none.
    #[expect(dead_code, reason = "it is held")]
    place: Option<Place>,
}

impl AnswerBody {
    pub(super) fn new(answer: Answer) -> Self {
        Self { answer, connection: None }
    }

    pub(super) fn of(
        answer: Answer,
        answers: Arc<Answers>,
        has_window: bool,
        request: OpenRequest,
        place: Option<Place>,
    ) -> Self {
        let connection = OnConnection { answers, has_window, held_up: None, request, place };
        Self { answer, connection: Some(connection) }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = Pin::new(&mut self.answer).poll_frame(cx);
        let Some(OnConnection { answers, has_window, held_up, .. }) = &mut self.connection else {
            return frame;
        };
        // Whoever asks for the next piece has sent the last.
        *held_up = (*has_window && matches!(frame, Poll::Ready(Some(_)))).then(|| answers.hold_up());
        frame.map_ok(|frame| frame.map_data(|bytes| answers.hold(bytes)))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").finish_non_exhaustive()
    }
}
