//! Tasks as SEP-1686 drafted them (D1), of a server that is told to have them: which request is to be one, and what is
//! asked of those there are.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{DRAFTED_TASK, Dialect, Keep};
use longhaul_proto::jsonrpc::{ErrorObject, Text};
use longhaul_proto::method::Method;
use longhaul_tasks::key;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::runner::{Answer, Engine, Ticket};
use longhaul_tasks::store::{Digest, Erasure, Once, Outcome, Owner, Record, Scope, TaskId};
use tokio::sync::oneshot;

use super::answer::{Dispatched, Envelope, Write, now_or_later, refused};
use super::ask::{Binding, courier};
use super::call::in_company;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange, Shared};
use super::once::key_of;
use super::policy::TaskMode;
use super::tool::Tool;
use crate::hosted::{failed, not_found};

/// A call that is to be a drafted task.
#[derive(Clone, Debug)]
pub(super) struct Drafted {
    /// What its caller calls it.
    pub(super) id: Arc<str>,
    /// The same, and which call it stands for.
    pub(super) once: Once,
    /// For how long after its end it is to be kept, if its caller says so.
    pub(super) keep: Option<Duration>,
}

impl Drafted {
    /// The task that a call is to be; a tool that has none is called as ever (SEP-1686, Task Support and Handling).
    pub(super) fn of(
        tool: &Tool,
        owner: &Owner,
        exchange: &Exchange<'_, '_>,
        arguments: &str,
    ) -> Result<Option<Self>, ErrorObject> {
        if matches!(tool.policy.mode, TaskMode::Never | TaskMode::ByHand) {
            return Ok(None);
        }
        let Some(task) = exchange.dialect.drafted_task(exchange.params)? else { return Ok(None) };
        let key = key_of(DRAFTED_TASK, owner, &task.id, key::drafted)?;
        let name = &tool.definition.name;
        let of = Digest::new(Binding::new(owner, "tools/call", name, arguments).digest());
        let keep = match task.keep {
            Keep::Unsaid => None,
            Keep::Millis(millis) => Some(Duration::from_millis(millis)),
            Keep::Unlimited => Some(Duration::MAX),
        };
        Ok(Some(Self { id: task.id.into(), once: Once::new(key, of), keep }))
    }
}

/// Waits for the answer of a drafted call, and puts to its caller meanwhile what its task asks. Nothing is asked before
/// the caller is told that there is a task, which `kept` names then: the one that the call is, or that it has found.
pub(super) async fn answered(
    ticket: Ticket,
    cx: &Cx,
    engine: &Engine,
    kept: oneshot::Receiver<TaskId>,
) -> Answer {
    let asked = async {
        match kept.await {
            Ok(id) => courier::deliver_result(cx, engine, &cx.owner(), &id).await,
            // There is none, and the call is refused.
            Err(_) => pending().await,
        }
    };
    tokio::select! {
        biased;
        answer = in_company(ticket, cx) => answer,
        never = asked => match never {},
    }
}

/// The id of a task is taken by another request.
pub(super) fn taken(id: &str, reason: &str) -> ErrorObject {
    ErrorObject::invalid_params("the task id was used for another request: give each task an id of its own")
        .with_data(&serde_json::json!({ "taskId": id, "reason": reason }))
}

/// Whether its server has drafted tasks, and its revision lets a caller ask for them.
pub(super) fn concerns(dispatcher: &Dispatcher, dialect: &Dialect) -> bool {
    dispatcher.0.capabilities.drafted_tasks && dialect.has_drafted_tasks()
}

/// What only the draft has.
pub(super) fn answer(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let poll = match dispatcher.0.polls.admit(&exchange.caller, 1) {
        Ok(poll) => poll,
        Err(refusal) => return Dispatched::Answered(envelope.error(out, &refusal)),
    };
    let asking = Asking::new(dispatcher, &exchange);
    let method = exchange.method;
    let id = exchange.params.require::<Text<'_>>("taskId").map(|Text(id)| id.into_owned());
    let cx = Cx::new(dispatcher.0.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
    let answered = async move {
        let answered = match id {
            Err(error) => Err(error),
            Ok(id) => asking.about(method, &id).await.and_then(|found| {
                poll.missed(usize::from(found.is_none()));
                found.ok_or_else(not_found)
            }),
        };
        answered.unwrap_or_else(refused)
    };
    now_or_later(envelope, cx, None, answered, out)
}

/// Who asks after drafted tasks.
pub(super) struct Asking {
    shared: Arc<Shared>,
    engine: Engine,
    owner: Owner,
}

impl Asking {
    pub(super) fn new(dispatcher: &Dispatcher, exchange: &Exchange<'_, '_>) -> Self {
        let (shared, engine) = (Arc::clone(&dispatcher.0), dispatcher.0.engine.clone());
        Self { shared, engine, owner: exchange.caller.owner() }
    }

    /// What is answered of the task that this caller calls so; `None` when it calls none so.
    pub(super) async fn about(&self, method: Method, id: &str) -> Result<Option<Write>, ErrorObject> {
        let Ok(key) = key::drafted(id) else { return Ok(None) };
        let found = self.engine.called(&self.owner, &key).await.map_err(|error| failed(&error))?;
        let Some(record) = found else { return Ok(None) };
        let id = id.to_owned();
        Ok(Some(match method {
            Method::GetTask => Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
                let task = project::task(&record, View::D1);
                envelope.result(out, |result| {
                    result.drafted_task(&id);
                    envelope.dialect.write_drafted_task(&task, result);
                })
            }),
            Method::TaskResult => {
                self.shared.tells(&record, &self.owner);
                result(&record, id)?
            }
            _ => {
                let erasure = self.engine.erase(Scope::Owner(&self.owner), &record.id).await;
                match erasure.map_err(|error| failed(&error))? {
                    Erasure::NotFound => return Ok(None),
                    Erasure::Open => {
                        let why = "the task has not ended: cancel its request before you delete it";
                        return Err(ErrorObject::invalid_params(why));
                    }
                    Erasure::Erased => Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
                        envelope.result(out, |result| result.drafted_task(&id))
                    }),
                }
            }
        }))
    }
}

/// The result of a task that is completed; there is none of any other (SEP-1686, Result Retrieval).
fn result(record: &Record, id: String) -> Result<Write, ErrorObject> {
    if !matches!(record.outcome(), Some(Outcome::Result { .. })) {
        let status = project::status(record, View::D1).as_str();
        let why = format!("the task is {status}: only one that is completed has a result");
        let data = serde_json::json!({ "taskId": id, "status": status });
        return Err(ErrorObject::invalid_params(why).with_data(&data));
    }
    let result = project::outcome(record).ok_or_else(not_found)??;
    Ok(Box::new(move |envelope, out| {
        envelope.result(out, |writer| {
            writer.drafted_task(&id);
            result.write(writer);
        })
    }))
}
