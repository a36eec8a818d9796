//! Telling a session of new parts of a task that it watches: whoever owns the task, and nobody else.
//!
//! A part may be given on any node, so that each watched task is followed in the store. In the modern era whoever follows
//! a task hears of its parts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, Text};
use longhaul_proto::method::{Method, Notice};
use longhaul_tasks::runner::Engine;
#[cfg(feature = "http")]
use longhaul_tasks::store::Owner;
use longhaul_tasks::store::{Record, Scope, TaskId};

use super::answer::{Dispatched, Envelope, Write, now_or_later};
use super::changes::{Changes, MOMENT, Teller};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::outlet::{Push, Reach};
use super::parts;
use super::resource::not_found;
use crate::hosted::failed;
use crate::wire::{self, By};

/// Whether a session asks to hear of the parts of a task.
pub(super) fn are_asked_for(exchange: &Exchange<'_, '_>) -> bool {
    let uri = exchange.params.require::<Text<'_>>("uri");
    exchange.method == Method::Subscribe && uri.is_ok_and(|Text(uri)| parts::task_of(&uri).is_some())
}

/// `resources/subscribe` to the parts of a task.
pub(super) fn subscribe(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let watch = match Watch::read(dispatcher, &exchange) {
        Ok(watch) => watch,
        Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
    };
    let (states, dialect) = (dispatcher.0.states(), exchange.dialect);
    let cx = Cx::new(states, dialect, exchange.caller, None, exchange.outlet, None);
    let (engine, owner) = (dispatcher.engine().clone(), cx.owner());
    let subscribed = async move {
        // Unknown, expired and somebody else's are the same to whoever asks.
        let found = engine.find(Scope::Owner(&owner), &watch.task).await;
        let begun = match found {
            Ok(Some(record)) => {
                engine.came_back(&record);
                watch.begin(engine, record, dialect)
            }
            Ok(None) => Err(not_found(&watch.uri)),
            Err(error) => Err(failed(&error)),
        };
        let write: Write = Box::new(move |envelope, out| match begun {
            Ok(()) => envelope.result(out, |_| ()),
            Err(error) => envelope.error(out, &error),
        });
        write
    };
    now_or_later(envelope, cx, None, subscribed, out)
}

/// A session that another server had goes on to hear of the parts of a task.
#[cfg(feature = "http")]
pub(super) fn watch_again(
    dispatcher: &Dispatcher,
    owner: Owner,
    dialect: &'static Dialect,
    push: &Arc<dyn Push>,
    uri: String,
) {
    let (Some(changes), Some(task)) = (dispatcher.0.changes.clone(), parts::task_of(&uri)) else { return };
    let (engine, watch) = (dispatcher.engine().clone(), Watch { changes, push: Arc::clone(push), uri, task });
    tokio::spawn(async move {
        let begun = match engine.find(Scope::Owner(&owner), &watch.task).await {
            Ok(Some(record)) => watch.begin(engine, record, dialect),
            Ok(None) => return,
            Err(error) => Err(failed(&error)),
        };
        if let Err(error) = begun {
            tracing::debug!(%error, "a session hears of the parts of a task no longer");
        }
    });
}

/// What is to be watched, and who is told.
struct Watch {
    changes: Arc<Changes>,
    push: Arc<dyn Push>,
    uri: String,
    task: TaskId,
}

impl Watch {
    fn read(dispatcher: &Dispatcher, exchange: &Exchange<'_, '_>) -> Result<Self, ErrorObject> {
        let changes = Arc::clone(dispatcher.0.changes()?);
        let Text(uri) = exchange.params.require("uri")?;
        let Some(push) = exchange.push.clone() else {
            return Err(ErrorObject::method_not_found("resources/subscribe outside a session"));
        };
        if !dispatcher.0.offer.has_resource(&uri) {
            return Err(not_found(&uri));
        }
        let task = parts::task_of(&uri).ok_or_else(|| not_found(&uri))?;
        Ok(Self { changes, push, uri: uri.into_owned(), task })
    }

    fn begin(self, engine: Engine, record: Record, dialect: &'static Dialect) -> Result<(), ErrorObject> {
        let Self { changes, push, uri, .. } = self;
        let telling = tell(engine, record, dialect, Arc::downgrade(&push), uri.clone());
        changes.watch(dialect, &push, uri, || Teller::Own(tokio::spawn(telling).abort_handle()))
    }
}

/// Tells of new parts until the task has ended, or the session has.
async fn tell(engine: Engine, record: Record, dialect: &'static Dialect, push: Weak<dyn Push>, uri: String) {
    let (owner, id) = (record.owner.clone(), record.id.clone());
    let (mut seen, mut parts, mut ended) = (record.seq, record.parts, record.is_terminal());
    while !ended {
        let changed = tokio::time::timeout(SELDOM, engine.changed(Scope::Owner(&owner), &id, seen)).await;
        let Some(push) = push.upgrade().filter(|push| push.reach() != Reach::Gone) else { return };
        match changed {
            Err(_) => {}
            Ok(Ok(Some(record))) => {
                ended = record.is_terminal();
                // That it has ended is said where its parts are read.
                if record.parts > parts || ended {
                    let updated =
                        wire::notification(By::Server, dialect, Notice::ResourceUpdated, |params| {
                            params.field("uri", &uri);
                        });
                    updated.into_iter().for_each(|message| push.push(message));
                }
                (seen, parts) = (record.seq, record.parts);
                tokio::time::sleep(MOMENT).await;
            }
            Ok(Ok(None)) => return,
            Ok(Err(error)) => {
                tracing::warn!(task = %id, %error, "a task whose parts are watched cannot be read now");
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// How seldom it is looked whether a session is there still.
const SELDOM: Duration = Duration::from_secs(60);
/// How soon a task is read again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
