//! Hearing of changes: subscriptions of a session (legacy era) and on a stream of their own (modern era).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, write_subscription_id, write_task_subscription};
use longhaul_proto::jsonrpc::{ErrorObject, RequestId, Text};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::{Meta, SUBSCRIPTION_ID, SubscriptionFilter};
use longhaul_tasks::project;
use longhaul_tasks::store::Record;

use super::answer::{Answered, Dispatched, Envelope, Write, now_or_later};
use super::call::missing_tasks;
use super::changes::{self, Listener, News, Teller};
use super::context::Cx;
use super::dispatch::{Caller, Dispatcher, Exchange, Shared};
use super::followed::{Followed, Standing};
use super::outlet::{Outlet, Push};
use super::parts;
use super::polls::Poll;
use super::resource::not_found;
use super::subscriptions::Place;
use super::watched::{ToWatch, Unwatched, Watch};
use crate::hosted::view;
use crate::wire::{self, By};

/// `subscriptions/listen`: acknowledged first, then one notification after another until somebody ends it. When the
/// server does, it answers (2026-07-28, Patterns, Subscriptions).
pub(super) fn listen(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let shared = &dispatcher.0;
    let (mut agreed, admitted) = match admit(shared, &exchange) {
        Ok(admitted) => admitted,
        Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
    };
    let owner = exchange.caller.owner();
    let watches = watches(shared, &exchange.caller, &mut agreed);
    let cx = Cx::new(shared.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
    let subscription = Subscription { id: exchange.id.clone(), dialect: exchange.dialect };
    let (engine, slow_limit) = (dispatcher.engine().clone(), shared.subscriptions.options.slow_limit);
    // From here on nothing is missed, though it is told only after the acknowledgement.
    let listener = shared.changes.as_ref().map(|changes| changes.listen(agreed.clone()));
    let (stream, teller, learner) = (cx.clone(), Arc::clone(shared), owner.clone());
    let tells = move |record: &Record| teller.tells(record, &learner);
    let answer = async move {
        let (_place, poll) = admitted.unzip();
        let _watches = watches;
        let (outlet, its) = (stream.outlet(), &subscription);
        let telling = async {
            let followed = Followed::accept(engine.clone(), owner, its.dialect, &agreed.task_ids).await;
            if let Some(poll) = poll {
                poll.missed(followed.missed);
            }
            agreed.task_ids = followed.ids();
            if let Some(acknowledged) = its.acknowledged(&agreed) {
                Box::pin(outlet.notify(acknowledged)).await;
            }
            its.tell(outlet, listener, followed, slow_limit, &tells).await
        };
        let reason = tokio::select! {
            biased;
            () = engine.draining() => "the server is stopping",
            TooSlow = telling => "the client does not read what it is told",
        };
        // Where many streams share a connection, the end of one is said by name (2026-07-28, Cancellation).
        if outlet.is_shared()
            && let Some(cancelled) = its.cancelled(reason)
        {
            Box::pin(outlet.notify(cancelled)).await;
        }
        Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
            envelope.result(out, |result| result.meta(&Meta::new().with(SUBSCRIPTION_ID, &subscription.id)))
        }) as Write
    };
    now_or_later(envelope, cx, None, answer, out)
}

/// What a subscription may ask for, and if it follows tasks a place for it, and leave to look for them.
///
/// # Errors
///
/// `-32601` where nothing ever changes; `-32021` when it follows tasks and its caller does not declare that it takes
/// them; that it follows too many, or that too many do; that its caller asks too much.
fn admit(
    shared: &Shared,
    exchange: &Exchange<'_, '_>,
) -> Result<(SubscriptionFilter, Option<(Place, Poll)>), ErrorObject> {
    if !shared.capabilities.tasks {
        shared.changes()?;
    }
    let mut agreed = agree(shared, exchange.params.require::<SubscriptionFilter>("notifications")?);
    if agreed.task_ids.is_empty() {
        return Ok((agreed, None));
    }
    if !exchange.caller.capabilities.extensions.tasks {
        return Err(missing_tasks());
    }
    if !shared.capabilities.tasks {
        agreed.task_ids.clear();
        return Ok((agreed, None));
    }
    let place = shared.subscriptions.admit(&exchange.caller, agreed.task_ids.len())?;
    let poll = shared.polls.admit(&exchange.caller, agreed.task_ids.len())?;
    Ok((agreed, Some((place, poll))))
}

/// A subscription, as its notifications name it.
struct Subscription {
    id: RequestId,
    dialect: &'static Dialect,
}

/// Its client does not read what it is told.
struct TooSlow;

impl Subscription {
    /// Tells what changes, for as long as the client reads it.
    async fn tell(
        &self,
        outlet: &Outlet,
        listener: Option<Listener>,
        mut followed: Followed,
        slow_limit: Duration,
        tells: &(impl Fn(&Record) + Sync),
    ) -> TooSlow {
        // Boxed is what is not done while nothing changes, which is nearly always: it has no place meanwhile.
        loop {
            tokio::select! {
                news = news(listener.as_ref()) => {
                    for message in
                        news.messages(self.dialect, |_| true, |params| write_subscription_id(params, &self.id))
                    {
                        Box::pin(outlet.notify(message)).await;
                    }
                }
                standing = followed.next() => {
                    let Some(message) = self.of_task(&standing) else { continue };
                    tells(&standing.record);
                    let handed = Box::pin(tokio::time::timeout(slow_limit, outlet.hand(message)));
                    if handed.await.is_err() {
                        return TooSlow;
                    }
                }
            }
        }
    }

    fn acknowledged(&self, agreed: &SubscriptionFilter) -> Option<Vec<u8>> {
        wire::notification(By::Server, self.dialect, Notice::Listening, |params| {
            params.field("notifications", agreed);
            write_subscription_id(params, &self.id);
        })
    }

    /// What `tasks/get` would say of the task.
    fn of_task(&self, Standing { record, seq }: &Standing) -> Option<Vec<u8>> {
        let task = project::task(record, view(self.dialect));
        wire::notification(By::Server, self.dialect, Notice::TaskStatus, |params| {
            self.dialect.write_task_status(&task, params);
            write_task_subscription(params, &task, &self.id, *seq);
        })
    }

    fn cancelled(&self, reason: &str) -> Option<Vec<u8>> {
        wire::notification(By::Server, self.dialect, Notice::Cancelled, |params| {
            params.field("requestId", &self.id).field("reason", reason);
            write_subscription_id(params, &self.id);
        })
    }
}

/// What has changed of what is offered, once something has.
async fn news(listener: Option<&Listener>) -> News {
    match listener {
        Some(listener) => listener.news().await,
        None => std::future::pending().await,
    }
}

/// What of `asked` this server tells: nothing of kinds that it does not offer.
fn agree(shared: &Shared, mut asked: SubscriptionFilter) -> SubscriptionFilter {
    let offers = &shared.capabilities;
    asked.tools_list_changed &= offers.list_changes && offers.tools;
    asked.prompts_list_changed &= offers.list_changes && offers.prompts;
    asked.resources_list_changed &= offers.list_changes && offers.resources;
    if !offers.resource_updates {
        asked.resource_subscriptions.clear();
    }
    asked
}

/// The resources that the caller watches from now on, and leaves out of `agreed` what is not there, what nobody tells this
/// caller of, and what is too much.
fn watches(shared: &Shared, caller: &Caller, agreed: &mut SubscriptionFilter) -> Vec<Watch> {
    let (mut watches, most) = (Vec::new(), shared.subscriptions.options.max_resources);
    let (mut seen, mut is_full) = (HashSet::new(), false);
    agreed.resource_subscriptions.retain(|uri| {
        // Whoever wants to hear of a task's parts follows the task.
        if is_full || watches.len() >= most || !seen.insert(uri.clone()) || parts::task_of(uri).is_some() {
            return false;
        }
        match watch(shared, caller, uri) {
            Some(Ok(watch)) => watches.push(watch),
            Some(Err(Unwatched::TooMany(_))) => is_full = true,
            Some(Err(Unwatched::Untold)) | None => return false,
        }
        !is_full
    });
    watches
}

/// Watches a resource, if it is there. What sessions watch that are gone keeps nobody from it.
fn watch(shared: &Shared, caller: &Caller, uri: &str) -> Option<Result<Watch, Unwatched>> {
    let offered_as = shared.offer.offered_as(uri);
    if offered_as.is_none() && shared.offer.family_of(uri).is_none() {
        return None;
    }
    let what = ToWatch { uri, offered_as: offered_as.as_deref(), grant: caller.grant.as_deref() };
    let watched = &shared.watched;
    let watch = watched.watch(caller, what);
    let made_room = || shared.changes.as_ref().is_some_and(|changes| changes.forget_gone());
    Some(match watch {
        Err(Unwatched::TooMany(_)) if made_room() => watched.watch(caller, what),
        watch => watch,
    })
}

/// Why a session does not watch a resource that is there.
const UNTOLD: &str =
    "invalid params: nobody tells this caller of changes of this resource: read it again now and then";

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
    } else {
        watch_again(shared, &exchange.caller, exchange.dialect, push, uri.into_owned())?;
    }
    Ok(envelope.result(out, |_| ()))
}

/// A session watches a resource from now on, if it does not yet.
pub(super) fn watch_again(
    shared: &Shared,
    caller: &Caller,
    dialect: &'static Dialect,
    push: &Arc<dyn Push>,
    uri: String,
) -> Result<(), ErrorObject> {
    let changes = shared.changes()?;
    if changes.is_watched(push, &uri) {
        return Ok(());
    }
    let watch = watch(shared, caller, &uri).ok_or_else(|| not_found(&uri))?;
    let watch = watch.map_err(|why| match why {
        Unwatched::Untold => ErrorObject::invalid_params(UNTOLD),
        Unwatched::TooMany(full) => changes::too_many(&full),
    })?;
    changes.watch(dialect, push, uri, || Teller::Shared(watch))
}
