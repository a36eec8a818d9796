//! Answers: one JSON object, or a stream of events once there is something to say first.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use longhaul_proto::http::{Accept, status_of, write_comment, write_event, write_priming};
use longhaul_proto::jsonrpc::{Code, ErrorObject, RequestId};
use longhaul_tasks::environment::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::stream::EventId;
use super::{Options, Place, door};
use crate::server::{Answered, Cx, Outgoing, PendingAnswer, StreamReceiver};
use crate::trace;
use crate::wire::{self, By};

/// What a response carries.
pub(super) enum Body {
    /// All of it, at once.
    Whole(Option<Bytes>),
    /// Events, as they come.
    Events(Box<EventStream>),
    /// Pieces of a page, as they come.
    Pieces(mpsc::Receiver<Bytes>),
}

/// An answer, as soon as there is one. What takes longer is a future of its own, so that no request that is answered at once
/// has a place for it.
pub(super) enum Reply<'a> {
    /// It is there.
    Now(Response<Body>),
    /// It takes longer.
    Later(BoxFuture<'a, Response<Body>>),
}

impl<'a> Reply<'a> {
    pub(super) fn later(answer: impl Future<Output = Response<Body>> + Send + 'a) -> Self {
        Self::Later(Box::pin(answer))
    }
}

/// Where the messages of one answer come from.
pub(super) enum Source {
    /// A call that lives and dies with the response (modern era).
    Own {
        call: Cx,
        pending: Option<Box<PendingAnswer>>,
        sent: Option<StreamReceiver>,
        answer: Option<(Answered, Vec<u8>)>,
        /// Its place among the running, if it takes one.
        place: Option<Place>,
        /// It has a key: its caller may have lost its connection, and come back for it.
        is_found_again: bool,
    },
    /// A call that lives on without it, and whose answer is not kept (legacy era).
    Apart(Option<StreamReceiver>),
    /// A stream of a session, which is kept (legacy era).
    Kept(mpsc::Receiver<Box<Sent>>),
}

/// What is sent to a client.
#[derive(Debug)]
pub(super) struct Sent {
    /// What it is known by, if it was kept.
    pub(super) id: Option<EventId>,
    /// The message; empty if only its id is to be known.
    pub(super) message: Vec<u8>,
    /// What kind of answer it is, if it is one that nothing follows.
    pub(super) answered: Option<Answered>,
}

impl Source {
    pub(super) fn own(pending: PendingAnswer, place: Option<Place>, is_found_again: bool) -> Self {
        let call = pending.cx().clone();
        Self::Own { call, pending: Some(Box::new(pending)), sent: None, answer: None, place, is_found_again }
    }

    /// The response is over; before its call has ended, that is how a caller of the modern era cancels, unless it has said
    /// how to find the call again: what is durable then goes on.
    fn let_go(&mut self) {
        if let Self::Own { call, pending, is_found_again, .. } = self {
            call.outlet().close();
            match pending.as_ref().map(|pending| pending.canceller()) {
                Some(call) if *is_found_again => call.leave(),
                Some(call) => call.cancel(),
                None => {}
            }
        }
    }

    /// The next message. `None` once there is nothing more.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Sent>> {
        match self {
            Self::Apart(None) => Poll::Ready(None),
            Self::Apart(Some(receiver)) => poll_sent(|| receiver.poll_recv(cx)),
            Self::Kept(receiver) => receiver.poll_recv(cx).map(|sent| sent.map(|sent| *sent)),
            Self::Own { call: exchange, pending, sent, answer, place, .. } => {
                // The call runs first, so that what it sends is there to be sent on.
                if let Some(call) = pending
                    && let Poll::Ready(message) = Pin::new(call).poll(cx)
                {
                    (*pending, *place) = (None, None);
                    *answer = Some(message);
                }
                let next = match (poll_sent(|| exchange.outlet().poll_sent(sent, cx)), &answer) {
                    (Poll::Pending, Some(_)) => Poll::Ready(None),
                    (next, _) => next,
                };
                match next {
                    Poll::Ready(None) if pending.is_some() => Poll::Pending,
                    Poll::Ready(None) => Poll::Ready(answer.take().map(|(answered, message)| Sent {
                        id: None,
                        message,
                        answered: Some(answered),
                    })),
                    other => other,
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Sent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// The next message of a stream that is not kept: its client cannot come back, so it is not let go.
fn poll_sent(mut next: impl FnMut() -> Poll<Option<Outgoing>>) -> Poll<Option<Sent>> {
    loop {
        let (message, answered) = match next() {
            Poll::Ready(Some(Outgoing::Notification { message, .. })) => (message, None),
            Poll::Ready(Some(Outgoing::Answer { answered, message, .. })) => {
                (message, Some(of_session(answered)))
            }
            Poll::Ready(Some(Outgoing::LetGo)) => continue,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        return Poll::Ready(Some(Sent { id: None, message, answered }));
    }
}

/// Answers from `source`: as JSON if its answer comes before anything else does, and before silence has
/// lasted too long for the proxies in between; as a stream otherwise.
pub(super) async fn answer_with(options: &Options, accept: Accept, mut source: Source) -> Response<Body> {
    if !accept.events {
        loop {
            match source.next().await {
                Some(Sent { message, answered: Some(answered), .. }) => {
                    return json(options, answered, message);
                }
                Some(_) => {}
                None => {
                    return text(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "the call ended without an answer".into(),
                    );
                }
            }
        }
    }
    match tokio::time::timeout(options.stream_after, source.next()).await {
        Ok(Some(Sent { message, answered: Some(answered), .. }))
            if !options.always_stream || !matches!(answered, Answered::Result) =>
        {
            json(options, answered, message)
        }
        Ok(first) => events(options, source, first),
        Err(_) => events(options, source, None),
    }
}

/// A response that is a stream of events, opened by `first`, or else by a comment.
pub(super) fn events(options: &Options, source: Source, first: Option<Sent>) -> Response<Body> {
    let mut ready = Vec::new();
    match first {
        Some(sent) => add_event(&mut ready, &sent, options.retry),
        None => write_comment(&mut ready),
    }
    opened(options, source, ready)
}

/// A response that is a stream of events, opened by what is `ready`.
pub(super) fn opened(options: &Options, source: Source, ready: Vec<u8>) -> Response<Body> {
    let (keep_alive, retry) = (options.keep_alive, options.retry);
    let timer = Box::pin(tokio::time::sleep(keep_alive));
    let stream = EventStream { source: Some(source), ready, keep_alive, retry, timer };
    let mut response = Response::new(Body::Events(Box::new(stream)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn add_event(ready: &mut Vec<u8>, sent: &Sent, retry: Duration) {
    let id = sent.id.as_ref().map(EventId::to_string);
    if sent.message.is_empty() {
        return write_priming(ready, id.as_deref().unwrap_or_default(), retry.as_millis());
    }
    trace::sent(&sent.message);
    write_event(ready, id.as_deref(), &sent.message);
}

/// The body of a stream of events. Dropping it drops a call that is its own.
pub(super) struct EventStream {
    source: Option<Source>,
    ready: Vec<u8>,
    keep_alive: Duration,
    retry: Duration,
    timer: Pin<Box<Sleep>>,
}

/// How many bytes of events to gather into one write.
const GATHER: usize = 32 << 10;

impl EventStream {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while let Some(source) = &mut self.source
            && self.ready.len() < GATHER
        {
            match source.poll_next(cx) {
                Poll::Ready(Some(sent)) => {
                    add_event(&mut self.ready, &sent, self.retry);
                    if sent.answered.is_some() {
                        self.source = None;
                    }
                }
                Poll::Ready(None) => self.source = None,
                Poll::Pending => break,
            }
        }
        if self.source.is_some() && self.ready.is_empty() {
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            write_comment(&mut self.ready);
        }
        self.timer.as_mut().reset(Instant::now() + self.keep_alive);
        if self.source.is_some() {
            // A reset timer must be polled again to wake anybody.
            let _ = self.timer.as_mut().poll(cx);
        }
        if self.ready.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Ready(Some(std::mem::take(&mut self.ready).into()))
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Events(stream) => stream.poll_bytes(cx),
            Self::Pieces(pieces) => pieces.poll_recv(cx),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Events(_) | Self::Pieces(_) => SizeHint::default(),
        }
    }
}

/// A JSON answer. Only what says that the request could not be served at all has a status of its own.
pub(super) fn json(options: &Options, answered: Answered, message: Vec<u8>) -> Response<Body> {
    match answered {
        Answered::Forbidden(needed) => {
            door::with_step_up(options, json_with(StatusCode::FORBIDDEN, None, message), &needed)
        }
        Answered::Error {
            code: code @ (Code::METHOD_NOT_FOUND | Code::MISSING_CAPABILITY | Code::OVERLOADED),
            retry_after,
        } => json_with(status_for(code), retry_after, message),
        _ => json_with(StatusCode::OK, None, message),
    }
}

/// The same answer in a session, where all have one status but the one that sends its caller for another credential.
pub(super) fn of_session(answered: Answered) -> Answered {
    match answered {
        forbidden @ Answered::Forbidden(_) => forbidden,
        _ => Answered::Result,
    }
}

/// The status of a modern request that was refused.
pub(super) fn status_for(code: Code) -> StatusCode {
    StatusCode::from_u16(status_of(code)).unwrap_or(StatusCode::BAD_REQUEST)
}

fn json_with(status: StatusCode, retry_after: Option<Duration>, message: Vec<u8>) -> Response<Body> {
    trace::sent(&message);
    let mut response = Response::new(Body::Whole(Some(message.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(after) = retry_after {
        // In whole seconds, and none too early.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A JSON-RPC error as the whole answer.
pub(super) fn refusal(status: StatusCode, id: Option<&RequestId>, error: &ErrorObject) -> Response<Body> {
    let mut out = Vec::with_capacity(160);
    wire::refuse(By::Server, &mut out, id, error);
    let retry_after = if status.is_success() { None } else { error.retry_after() };
    json_with(status, retry_after, out)
}

/// A sentence for a person, where no JSON-RPC message can answer.
pub(super) fn text(status: StatusCode, sentence: String) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(sentence.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// `405`, where these methods are taken and no other.
pub(super) fn only(methods: &'static str, sentence: String) -> Response<Body> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, sentence);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// `503`: the request cannot be served now, and can be later.
pub(super) fn no_room(sentence: &str) -> Response<Body> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, sentence.into());
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(super::RETRY_AFTER.as_secs()));
    response
}

/// A status and nothing more.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_says_something_every_fifteen_seconds() {
        let (sender, receiver) = crate::server::own_stream(1);
        let mut body = events(&Options::default(), Source::Apart(Some(receiver)), None).into_body();
        let mut next = async || body.frame().await.unwrap().unwrap().into_data().unwrap();
        let mut heard = Instant::now();
        assert_eq!(next().await, ":\n\n", "which opens it");
        for turn in 0..3 {
            assert_eq!(next().await, ":\n\n");
            assert_eq!(heard.elapsed().as_secs(), 15, "{turn}");
            heard = Instant::now();
        }
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert!(sender.send(Outgoing::pushed(b"x".to_vec())).await);
        assert_eq!(next().await, "data: x\n\n");
        heard = Instant::now();
        assert_eq!(next().await, ":\n\n");
        assert_eq!(heard.elapsed().as_secs(), 15, "counted from what was said last");
        drop(sender);
        assert!(body.frame().await.is_none());
    }
}
