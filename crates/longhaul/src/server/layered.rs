//! A request that goes through layers on its way to its handler.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use longhaul_proto::jsonrpc::{ErrorObject, Text};

use super::answer::{Dispatched, Envelope, Layered, Write, contained, refused};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::outlet::Outlet;
use crate::service::{self, Answer, Begun, BoxError, Next, Request, Response, Stored};

pub(super) fn dispatch(
    dispatcher: &Dispatcher,
    way: &Next,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let envelope = Envelope {
        id: exchange.id.clone(),
        dialect: exchange.dialect,
        server_info: Arc::clone(&dispatcher.0.info_json),
    };
    let outlet = Arc::new(exchange.outlet);
    // Whoever carries the answer holds the outlet before the call has begun.
    let lent = Outlet::Lent(Arc::clone(&outlet));
    let cx = Cx::new(None, exchange.dialect, exchange.caller.clone(), None, lent, None);
    let named = exchange.method.named_by();
    let item = named.and_then(|member| exchange.params.read::<Text<'_>>(member).ok().flatten());
    let begun = Begun::default();
    let request = Request {
        dispatcher: dispatcher.clone(),
        item: item.map(|Text(item)| item.into_owned()),
        begun: begun.clone(),
        stored: Stored {
            id: exchange.id.clone(),
            dialect: exchange.dialect,
            method: exchange.method,
            name: exchange.name.to_owned(),
            params: exchange.params.to_stored(),
            progress_token: exchange.progress_token,
            caller: exchange.caller,
            outlet: Outlet::Lent(outlet),
            push: exchange.push,
        },
    };
    let forbidden = Arc::new(OnceLock::new());
    let needs = Arc::clone(&forbidden);
    let answering = service::run(way, request);
    let mut future: Layered = Box::pin(contained(async move {
        match answering.await {
            Ok(Response(Answer::Written(answered, message))) => {
                Box::new(move |_: &Envelope, out: &mut Vec<u8>| {
                    out.extend_from_slice(&message);
                    answered
                }) as Write
            }
            Ok(Response(Answer::Forbidden(needed))) => {
                let refusal = refused(ErrorObject::forbidden(&needed));
                // Whoever has polled this first asks for it.
                let _ = needs.set(needed);
                refusal
            }
            Err(error) => refused(spoken(error)),
        }
    }));
    match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(write) => match forbidden.get() {
            Some(needed) => Dispatched::Forbidden(needed.clone()),
            None if cx.outlet().was_used() || begun.delivery().is_some() => Dispatched::Pending(
                super::answer::layered(Box::pin(std::future::ready(write)), envelope, cx, begun),
            ),
            None => Dispatched::Answered(write(&envelope, out)),
        },
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
