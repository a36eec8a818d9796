//! `tasks/list`: the tasks that its caller can ask after, in pages.

use std::sync::Arc;

use longhaul_proto::jsonrpc::{Code, ErrorObject, Text};
use longhaul_proto::model::Task;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::store::{Cursor, Dialect as Door, Filter, Record, Scope, StoreError};

use super::answer::{Dispatched, Envelope, Write, now_or_later, refused};
use super::call::is_seen;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::drafted;
use super::slots::asked;
use super::tasks::failed;

pub(super) fn answer(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    if let Err(refusal) = dispatcher.0.polls.admit(&exchange.caller, 0) {
        return Dispatched::Answered(envelope.error(out, &refusal));
    }
    let (engine, owner) = (dispatcher.0.engine.clone(), exchange.caller.owner());
    let (dialect, limit) = (exchange.dialect, dispatcher.0.page_size);
    let drafted = drafted::concerns(dispatcher, dialect);
    let view = if dialect.asks_for_tasks() { View::D2 } else { View::D1 };
    let after =
        exchange.params.read::<Text<'_>>("cursor").map(|text| text.map(|Text(text)| text.into_owned()));
    let cx = Cx::new(dispatcher.0.states(), dialect, exchange.caller, None, exchange.outlet, None);
    let (shared, its) = (Arc::clone(&dispatcher.0), cx.clone());
    let answered = async move {
        let after = after?;
        // A draft's caller knows its tasks by ids of its own.
        if view == View::D2
            && let Some(page) = asked(&shared.slots.list, &its, || after.clone()).await?
        {
            return Ok(written(page.tasks, page.next));
        }
        let after = after.map(Cursor::from_text);
        let page = engine.list(Scope::Owner(&owner), &Filter::all(), after.as_ref(), limit).await;
        let page = page.map_err(|error| refusal(&error))?;
        // What is left out makes a page short; it may even be empty, and another follow it.
        let seen = page.tasks.iter().filter(|record| match record.dialect {
            Door::D1 => drafted,
            _ => view == View::D2 && is_seen(dialect, record),
        });
        let tasks = seen.map(|record| shown(record, view)).collect();
        Ok(written(tasks, page.next.map(|next| next.as_str().to_owned())))
    };
    now_or_later(envelope, cx, None, async { answered.await.unwrap_or_else(refused) }, out)
}

/// A drafted task is known to its caller by the id it gave, in every revision.
fn shown(record: &Record, view: View) -> Task {
    let mut task = project::task(record, view);
    if record.dialect == Door::D1 {
        task.id = project::id(record, View::D1).to_owned();
    }
    task
}

fn written(tasks: Vec<Task>, next: Option<String>) -> Write {
    Box::new(move |envelope, out| {
        envelope.result(out, |result| {
            result.list("tasks", &tasks, |dialect, task, out| dialect.write_listed_task(task, out));
            result.optional("nextCursor", next.as_ref());
        })
    })
}

fn refusal(error: &StoreError) -> ErrorObject {
    match error {
        StoreError::InvalidCursor => ErrorObject::invalid_params("no such cursor: list from the beginning"),
        StoreError::Unlistable => {
            let why = "method not found: the tasks of callers who are not signed in are not listed";
            ErrorObject::new(Code::METHOD_NOT_FOUND, why)
        }
        error => failed(error),
    }
}
