//! A request that goes through layers on its way to its handler.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use longhaul_proto::jsonrpc::ErrorObject;

use super::answer::{Dispatched, Envelope, Layered, Write, poll_contained, refused};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::outlet::Outlet;
use crate::service::{self, BoxError, Next, Request, Response};

pub(super) fn dispatch(
    dispatcher: &Dispatcher,
    way: &Next,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let envelope = dispatcher.envelope(exchange.id, exchange.dialect, exchange.method);
    let outlet = Arc::new(exchange.outlet);
    // Whoever carries the answer holds the outlet before the call has begun.
    let lent = Outlet::Lent(Arc::clone(&outlet));
    let cx = Cx::new(None, exchange.dialect, exchange.caller.clone(), None, lent, None);
    let request = Request::of(dispatcher, Exchange { outlet: Outlet::Lent(outlet), ..exchange });
    let begun = request.begun.clone();
    let answering = service::run(way, request);
    let answer = async move {
        match answering.await {
            Ok(Response { answered, message }) => Box::new(move |_: &Envelope, out: &mut Vec<u8>| {
                out.extend_from_slice(&message);
                answered
            }) as Write,
            Err(error) => refused(spoken(error)),
        }
    };
    let mut future: Layered = Box::pin(answer);
    match poll_contained(future.as_mut(), &mut Context::from_waker(Waker::noop()), refused) {
        Poll::Ready(write) if cx.outlet().was_used() || begun.delivery().is_some() => Dispatched::Pending(
            super::answer::layered(Box::pin(std::future::ready(write)), envelope, cx, begun),
        ),
        Poll::Ready(write) => Dispatched::Answered(write(&envelope, out)),
        Poll::Pending => Dispatched::Pending(super::answer::layered(future, envelope, cx, begun)),
    }
}

/// What a caller is told of a layer's error: what the layer says to callers, and else nothing.
fn spoken(error: BoxError) -> ErrorObject {
    match error.downcast::<ErrorObject>() {
        Ok(error) => *error,
        Err(error) => {
            tracing::error!(%error, "a layer failed");
            ErrorObject::internal("internal error: the request could not be served")
        }
    }
}
