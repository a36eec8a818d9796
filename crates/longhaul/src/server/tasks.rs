//! The methods that are about tasks.

use std::collections::HashMap;
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, Params, Text};
use longhaul_proto::method::Method;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Cancellation, Dialect as Door, Owner, Record, Scope, StoreError, TaskId};
use serde::de::IgnoredAny;

use super::answer::{Dispatched, Envelope, Write, now_or_later, refused, unheard};
use super::call::{missing_tasks, view};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};

pub(super) fn answer(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let id = read_id(exchange.method, exchange.params);
    let request = Request {
        engine: dispatcher.0.engine.clone(),
        owner: exchange.caller.owner(),
        dialect: envelope.dialect,
        declared: exchange.caller.capabilities.extensions.tasks,
    };
    let method = exchange.method;
    let cx = Cx::new(dispatcher.0.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
    let waiting = cx.clone();
    let answer = async move {
        let answered = tokio::select! {
            biased;
            answered = request.answer(method, id) => answered,
            () = waiting.outlet().abandoned(), if method == Method::TaskResult => Err(unheard()),
        };
        answered.unwrap_or_else(refused)
    };
    now_or_later(envelope, cx, None, answer, out)
}

/// The task that is asked about; `None` when there can be none of that id.
fn read_id(method: Method, params: &Params<'_>) -> Result<Option<TaskId>, ErrorObject> {
    let Text(id) = params.require("taskId")?;
    if method == Method::UpdateTask {
        // Nothing asks yet, so that no key is outstanding and every one is ignored.
        params.require::<HashMap<String, IgnoredAny>>("inputResponses")?;
    }
    Ok(TaskId::new(id.as_ref()).ok())
}

/// A request about a task, and as whom it is made.
struct Request {
    engine: Engine,
    owner: Owner,
    dialect: &'static Dialect,
    declared: bool,
}

impl Request {
    async fn answer(
        &self,
        method: Method,
        id: Result<Option<TaskId>, ErrorObject>,
    ) -> Result<Write, ErrorObject> {
        let may = !self.dialect.has_tasks_extension() || self.declared;
        // Whoever does not declare the extension learns nothing of what exists, but for its own tasks of
        // the revision before, which it knows.
        let id = match id {
            Ok(Some(id)) => id,
            Ok(None) if may => return Err(not_found()),
            Err(error) if may => return Err(error),
            _ => return Err(missing_tasks()),
        };
        let record = self.find(&id).await?;
        if !may && record.as_ref().is_none_or(|record| record.dialect != Door::D2) {
            return Err(missing_tasks());
        }
        let record = record.ok_or_else(not_found)?;
        match method {
            Method::GetTask => Ok(shown(record)),
            Method::TaskResult => self.result(&id).await,
            Method::UpdateTask => Ok(Box::new(|envelope, out| envelope.result(out, |_| ()))),
            _ => self.cancel(&id).await,
        }
    }

    /// The task, if this caller may see it in this dialect.
    async fn find(&self, id: &TaskId) -> Result<Option<Record>, ErrorObject> {
        let record = self.engine.find(Scope::Owner(&self.owner), id).await.map_err(|e| failed(&e))?;
        Ok(record.filter(|record| match view(self.dialect) {
            View::D2 => matches!(record.dialect, Door::D2 | Door::Held),
            View::D3 => matches!(record.dialect, Door::D3 | Door::D2 | Door::Held),
        }))
    }

    /// What the call would have been answered with, once it has ended (2025-11-25, Tasks, Retrieving Task
    /// Results).
    async fn result(&self, id: &TaskId) -> Result<Write, ErrorObject> {
        let ended = tokio::select! {
            biased;
            ended = self.engine.ended(Scope::Owner(&self.owner), id) => ended.map_err(|e| failed(&e))?,
            () = self.engine.draining() => return Err(stopping()),
        };
        let record = ended.ok_or_else(not_found)?;
        let result = project::outcome(&record).ok_or_else(not_found)??;
        let id = id.clone();
        Ok(Box::new(move |envelope, out| {
            envelope.result(out, |writer| {
                writer.related_task(id.as_str());
                result.write(writer);
            })
        }))
    }

    async fn cancel(&self, id: &TaskId) -> Result<Write, ErrorObject> {
        let scope = Scope::Owner(&self.owner);
        let cancelled = self.engine.cancel(scope, id, Some("cancelled on request")).await;
        match cancelled.map_err(|e| failed(&e))? {
            Cancellation::NotFound => Err(not_found()),
            Cancellation::AlreadyTerminal(record) if !self.dialect.has_tasks_extension() => {
                let status = project::status(&record, View::D2).as_str();
                Err(ErrorObject::invalid_params(format!(
                    "the task is {status} already: it cannot be cancelled"
                )))
            }
            Cancellation::Cancelled(record) | Cancellation::AlreadyTerminal(record) => {
                Ok(Box::new(move |envelope, out| {
                    let task = project::task(&record, view(envelope.dialect));
                    envelope.result(out, |writer| envelope.dialect.write_task_cancelled(&task, writer))
                }))
            }
        }
    }
}

fn shown(record: Record) -> Write {
    Box::new(move |envelope, out| {
        let task = project::task(&record, view(envelope.dialect));
        envelope.result(out, |writer| envelope.dialect.write_task(&task, writer))
    })
}

/// Unknown, expired and somebody else's are the same to whoever asks.
fn not_found() -> ErrorObject {
    ErrorObject::invalid_params("task not found: the id is unknown, or the task has expired")
}

/// The task goes on: its result can be asked for again where it goes on.
fn stopping() -> ErrorObject {
    let error = ErrorObject::internal("the server is stopping; the task is kept: ask for its result again");
    error.for_now("stopping", Duration::from_secs(1))
}

fn failed(error: &StoreError) -> ErrorObject {
    tracing::error!(%error, "the store failed");
    ErrorObject::internal("internal error: the task store could not be used; try again")
}
