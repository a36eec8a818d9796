//! Answers that may take longer than one poll.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, ResultWriter};
use longhaul_proto::jsonrpc::{Code, ErrorObject, ObjectWriter, RequestId};
use longhaul_tasks::runner::Canceller;
use serde_json::value::RawValue;

#[cfg(feature = "http")]
use super::again::Again;
use super::context::Cx;
use super::grant::Scopes;
use super::outlet::{HeldPush, Outlet};
use crate::service::Begun;
use crate::wire::{self, By};

/// What became of an exchange.
#[must_use]
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it is answered, or it is not yet")]
pub enum Dispatched {
    /// The answer is written.
    Answered(Answered),
    /// The answer takes longer.
    Pending(PendingAnswer),
}

/// How an exchange was answered.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC's two answers, of which one has more to be said of it")]
pub enum Answered {
    /// With a result.
    Result,
    /// With an error.
    Error {
        /// Its code.
        code: Code,
        /// When to try again, if it says so.
        retry_after: Option<Duration>,
    },
    /// With an error: the caller's grant lacks some of these scopes, and nothing has run. How a caller gets them is for
    /// the transport to say.
    Forbidden(Scopes),
}

/// The way an answer is addressed and written.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(super) by: By,
    pub(super) id: RequestId,
    pub(super) dialect: &'static Dialect,
    /// The method that is answered, as it is called there.
    pub(super) method: Option<&'static str>,
    /// What revisions say of a server in each result.
    pub(super) server_info: Arc<str>,
}

impl Envelope {
    /// That of an answer to the server of a session, to a request by `method`.
    #[cfg(feature = "client")]
    pub(crate) fn to_server(id: RequestId, dialect: &'static Dialect, method: &'static str) -> Self {
        Self { by: By::Client, id, dialect, method: Some(method), server_info: "".into() }
    }

    pub(crate) fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    pub(crate) fn result(&self, out: &mut Vec<u8>, body: impl FnOnce(&mut ResultWriter<'_>)) -> Answered {
        let start = out.len();
        self.dialect.write_result(out, &self.id, &self.server_info, body);
        self.said(&out[start..]);
        Answered::Result
    }

    /// The same with a result as it was written before, for the same request.
    pub(super) fn result_again(&self, out: &mut Vec<u8>, result: &RawValue) -> Answered {
        let start = out.len();
        let mut message = ObjectWriter::new(out);
        message.raw("jsonrpc", "\"2.0\"").field("id", &self.id).raw("result", result.get());
        message.end();
        self.said(&out[start..]);
        Answered::Result
    }

    pub(crate) fn error(&self, out: &mut Vec<u8>, error: &ErrorObject) -> Answered {
        let start = out.len();
        let code = self.dialect.write_error(out, &self.id, error);
        self.said(&out[start..]);
        Answered::Error { code, retry_after: error.retry_after() }
    }

    pub(super) fn forbidden(&self, out: &mut Vec<u8>, needed: &Scopes) -> Answered {
        self.error(out, &ErrorObject::forbidden(needed));
        Answered::Forbidden(needed.clone())
    }

    fn said(&self, answer: &[u8]) {
        wire::said(self.by, self.dialect, self.method, answer);
    }
}

/// What writes an answer once it is known.
pub(crate) type Write = Box<dyn FnOnce(&Envelope, &mut Vec<u8>) -> Answered + Send>;

/// An answer in the making. Dropping it lets go of the answer; its [`canceller`](Self::canceller) ends the call.
#[must_use]
pub struct PendingAnswer {
    future: Pin<Box<dyn Future<Output = Write> + Send>>,
    envelope: Envelope,
    cx: Cx,
    call: Option<Canceller>,
    push: Option<Arc<HeldPush>>,
    /// The call behind layers, whose own canceller and push are known once it has begun.
    begun: Option<Begun>,
    /// Completes when the server goes without it.
    left_behind: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// To be told that an answer is on its way.
#[derive(Clone, Debug)]
pub struct Delivery(Option<Arc<HeldPush>>, Option<Begun>);

impl Delivery {
    /// The answer is on its way: what may only follow it may follow now.
    pub fn done(&self) {
        if let Some(push) = &self.0 {
            push.release();
        }
        if let Some(behind) = self.1.as_ref().and_then(Begun::delivery) {
            behind.done();
        }
    }
}

impl PendingAnswer {
    /// What is to be told once the answer is on its way.
    pub fn delivery(&self) -> Delivery {
        Delivery(self.push.clone(), self.begun.clone())
    }

    /// What its session's stream is told only after the answer.
    pub(super) fn with_push(mut self, push: Option<Arc<HeldPush>>) -> Self {
        self.push = push;
        self
    }

    /// Is an error from when `left_behind` completes, if it is nothing better before.
    pub(super) fn unless(mut self, left_behind: impl Future<Output = ()> + Send + 'static) -> Self {
        self.left_behind = Some(Box::pin(left_behind));
        self
    }

    /// How the call reaches its caller meanwhile.
    pub fn outlet(&self) -> &Outlet {
        self.cx.outlet()
    }

    /// The call as its handler sees it, which an HTTP stream lets go of once it has ended.
    #[cfg(feature = "http")]
    pub(crate) fn cx(&self) -> &Cx {
        &self.cx
    }

    /// What ends the call when its caller no longer wants the answer.
    pub fn canceller(&self) -> CallCanceller {
        CallCanceller { call: self.call.clone(), begun: self.begun.clone(), cx: Some(self.cx.clone()) }
    }
}

/// Ends a call whose caller no longer wants the answer. A call that has become a task and was answered
/// goes on.
#[derive(Clone, Debug)]
pub struct CallCanceller {
    call: Option<Canceller>,
    /// The call behind layers.
    begun: Option<Begun>,
    /// The call, unless there is only that behind layers.
    cx: Option<Cx>,
}

impl CallCanceller {
    /// Ends the call. One that is not durable ends when its [`PendingAnswer`] is dropped.
    pub fn cancel(&self) {
        #[cfg(feature = "http")]
        if let Some(cx) = &self.cx {
            cx.outlet().found_again(Again::Unwanted);
        }
        if let Some(call) = &self.call {
            call.cancel();
        }
        if let Some(behind) = self.behind() {
            behind.cancel();
        }
    }

    /// The caller is gone for good: ends the call, unless it is durable.
    pub fn leave(&self) {
        // Before anything of it is dropped, which may ask.
        if let Some(cx) = &self.cx {
            cx.be_left();
        }
        if let Some(call) = &self.call {
            call.leave();
        }
        if let Some(behind) = self.behind() {
            behind.leave();
        }
    }

    /// Ends the call behind layers, once it has begun.
    pub(crate) fn of_layered(begun: Begun) -> Self {
        Self { call: None, begun: Some(begun), cx: None }
    }

    fn behind(&self) -> Option<&Self> {
        self.begun.as_ref().and_then(Begun::canceller)
    }
}

impl Future for PendingAnswer {
    type Output = (Answered, Vec<u8>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = poll_contained(this.future.as_mut(), cx, refused);
        let write = match (polled, &mut this.left_behind) {
            (Poll::Ready(write), _) => write,
            (Poll::Pending, None) => return Poll::Pending,
            (Poll::Pending, Some(left_behind)) => {
                ready!(left_behind.as_mut().poll(cx));
                refused(left())
            }
        };
        let mut out = Vec::with_capacity(256);
        Poll::Ready((write(&this.envelope, &mut out), out))
    }
}

impl fmt::Debug for PendingAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAnswer").field("envelope", &self.envelope).finish_non_exhaustive()
    }
}

/// What a request comes to that goes through layers.
pub(super) type Layered = Pin<Box<dyn Future<Output = Write> + Send>>;

/// The answer to a request that goes through layers, behind which its call begins.
pub(super) fn layered(future: Layered, envelope: Envelope, cx: Cx, begun: Begun) -> PendingAnswer {
    PendingAnswer { future, envelope, cx, call: None, push: None, begun: Some(begun), left_behind: None }
}

/// Answers later with what is known already: something was sent before, which must come first.
pub(super) fn later(envelope: Envelope, cx: Cx, write: Write) -> Dispatched {
    let future = Box::pin(std::future::ready(write));
    Dispatched::Pending(PendingAnswer {
        future,
        envelope,
        cx,
        call: None,
        push: None,
        begun: None,
        left_behind: None,
    })
}

/// Answers at once if `future` is ready at its first poll, else later.
pub(super) fn now_or_later(
    envelope: Envelope,
    cx: Cx,
    call: Option<Canceller>,
    future: impl Future<Output = Write> + Send + 'static,
    out: &mut Vec<u8>,
) -> Dispatched {
    let mut future: Pin<Box<dyn Future<Output = Write> + Send>> = Box::pin(future);
    match poll_contained(future.as_mut(), &mut Context::from_waker(Waker::noop()), refused) {
        Poll::Ready(write) if cx.outlet().was_used() => later(envelope, cx, write),
        Poll::Ready(write) => Dispatched::Answered(write(&envelope, out)),
        Poll::Pending => {
            let left_behind = None;
            Dispatched::Pending(PendingAnswer {
                future,
                envelope,
                cx,
                call,
                push: None,
                begun: None,
                left_behind,
            })
        }
    }
}

/// Answers with what a request has come to at its first poll.
pub(super) fn at_once<T: Send + 'static>(
    envelope: Envelope,
    cx: Cx,
    outcome: Result<T, ErrorObject>,
    write: fn(&T, &mut ResultWriter<'_>),
    out: &mut Vec<u8>,
) -> Dispatched {
    // What it has said until now goes before its answer.
    if cx.outlet().was_used() {
        return later(envelope, cx, written(outcome, write));
    }
    Dispatched::Answered(match outcome {
        Ok(done) => envelope.result(out, |result| write(&done, result)),
        Err(error) => envelope.error(out, &error),
    })
}

/// Writes what a request has come to.
pub(super) fn written<T: Send + 'static>(
    outcome: Result<T, ErrorObject>,
    write: fn(&T, &mut ResultWriter<'_>),
) -> Write {
    match outcome {
        Ok(done) => Box::new(move |envelope, out| envelope.result(out, |result| write(&done, result))),
        Err(error) => refused(error),
    }
}

/// Answers with what `start` begins, once it is done, as `write` writes it. A panic on the way becomes an answer too.
pub(super) fn when_done<T: Send + 'static, F>(
    envelope: Envelope,
    cx: Cx,
    start: impl FnOnce() -> Result<F, ErrorObject>,
    write: fn(&T, &mut ResultWriter<'_>),
    out: &mut Vec<u8>,
) -> Dispatched
where
    F: Future<Output = Result<T, ErrorObject>> + Send + 'static,
{
    let working = match started(start) {
        Ok(working) => working,
        Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
    };
    now_or_later(envelope, cx, None, async move { written(working.await, write) }, out)
}

/// What `start` begins; a panic on the way is an error.
pub(super) fn started<F>(start: impl FnOnce() -> Result<F, ErrorObject>) -> Result<F, ErrorObject> {
    // Nothing of ours is reached through what `start` took after it has panicked.
    catch_unwind(AssertUnwindSafe(start)).unwrap_or_else(|_| Err(panicked()))
}

/// What the future comes to; `refused` of a panic on the way.
#[cfg(feature = "client")]
pub(crate) async fn contained<T>(future: impl Future<Output = T> + Send, refused: fn(ErrorObject) -> T) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| poll_contained(future.as_mut(), cx, refused)).await
}

/// The same of one poll, for whoever has the future boxed already: within another it would have its place twice.
pub(super) fn poll_contained<T>(
    future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    cx: &mut Context<'_>,
    refused: fn(ErrorObject) -> T,
) -> Poll<T> {
    // Nothing of ours is reached through the future after it has panicked.
    let polled = catch_unwind(AssertUnwindSafe(|| future.poll(cx)));
    polled.unwrap_or_else(|_| Poll::Ready(refused(panicked())))
}

fn panicked() -> ErrorObject {
    tracing::error!("answering a request panicked");
    ErrorObject::internal("internal error: answering the request panicked")
}

/// What a mere wait comes to that nobody listens to any more. It can be made again, and holds nobody's place till then.
pub(super) fn unheard() -> ErrorObject {
    ErrorObject::internal("nobody listens to the answer any more: ask again")
}

/// The server goes before the call has ended. Nobody says to try again: it has begun.
fn left() -> ErrorObject {
    let message = "the server has stopped before this call ended: see what it has done before calling again";
    ErrorObject::internal(message).with_data(&serde_json::json!({ "reason": "stopping" }))
}

/// Answers with an error.
pub(crate) fn refused(error: ErrorObject) -> Write {
    Box::new(move |envelope, out| envelope.error(out, &error))
}
