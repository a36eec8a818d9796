//! Hearing of changes: subscriptions of a session (legacy era) and on a stream of their own (modern era).

use longhaul_proto::dialect::write_subscription_id;
use longhaul_proto::jsonrpc::{ErrorObject, Text};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::{Meta, SUBSCRIPTION_ID, SubscriptionFilter};

use super::answer::{Answered, Dispatched, Envelope, Write, now_or_later};
use super::changes::MAX_WATCHED;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange, Shared};
use super::resource::not_found;
use crate::wire::{self, By};

/// `subscriptions/listen`: acknowledged first, then one notification after another until somebody ends it. When the
/// server does, it answers (2026-07-28, Patterns, Subscriptions).
pub(super) fn listen(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let asked = dispatcher.0.changes().and_then(|changes| {
        let asked = exchange.params.require::<SubscriptionFilter>("notifications")?;
        Ok((agree(&dispatcher.0, asked), changes))
    });
    let (agreed, changes) = match asked {
        Ok(asked) => asked,
        Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
    };
    let cx = Cx::new(dispatcher.0.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
    let (id, dialect, engine) = (exchange.id.clone(), exchange.dialect, dispatcher.engine().clone());
    // From here on nothing is missed, though it is told only after the acknowledgement.
    let listener = changes.listen(agreed.clone());
    let stream = cx.clone();
    let answer = async move {
        let outlet = stream.outlet();
        let acknowledged = wire::notification(By::Server, dialect, Notice::Listening, |params| {
            params.field("notifications", &agreed);
            write_subscription_id(params, &id);
        });
        let telling = async {
            if let Some(acknowledged) = acknowledged {
                outlet.notify(acknowledged).await;
            }
            loop {
                let news = listener.news().await;
                for message in news.messages(dialect, |_| true, |params| write_subscription_id(params, &id)) {
                    outlet.notify(message).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = engine.draining() => {}
            () = telling => {}
        }
        // Where many streams share a connection, the end of one is said by name (2026-07-28, Cancellation).
        if outlet.is_shared()
            && let Some(cancelled) = wire::notification(By::Server, dialect, Notice::Cancelled, |params| {
                params.field("requestId", &id).field("reason", "the server is stopping");
                write_subscription_id(params, &id);
            })
        {
            outlet.notify(cancelled).await;
        }
        Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
            envelope.result(out, |result| result.meta(&Meta::new().with(SUBSCRIPTION_ID, &id)))
        }) as Write
    };
    now_or_later(envelope, cx, None, answer, out)
}

/// What of `asked` this server tells: nothing of kinds it does not offer, nor of resources that are not there.
fn agree(shared: &Shared, mut asked: SubscriptionFilter) -> SubscriptionFilter {
    let offers = &shared.capabilities;
    asked.tools_list_changed &= offers.list_changes && offers.tools;
    asked.prompts_list_changed &= offers.list_changes && offers.prompts;
    asked.resources_list_changed &= offers.list_changes && offers.resources;
    asked.resource_subscriptions.retain(|uri| offers.resource_updates && shared.offer.has_resource(uri));
    asked.resource_subscriptions.truncate(MAX_WATCHED);
    asked
}

/// `resources/subscribe` and `resources/unsubscribe` (2025-11-25, Resources, Subscriptions).
pub(super) fn subscribe(
    shared: &Shared,
    envelope: &Envelope,
    exchange: &Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Result<Answered, ErrorObject> {
    let changes = shared.changes()?;
    let Text(uri) = exchange.params.require("uri")?;
    let Some(push) = &exchange.push else {
        return Err(ErrorObject::method_not_found("resources/subscribe outside a session"));
    };
    if exchange.method == Method::Unsubscribe {
        changes.unwatch(push, &uri);
    } else if shared.offer.has_resource(&uri) {
        changes.watch(exchange.dialect, push, uri.into_owned())?;
    } else {
        return Err(not_found(&uri));
    }
    Ok(envelope.result(out, |_| ()))
}
