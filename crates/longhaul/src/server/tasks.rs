//! The methods that are about tasks.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, StoredQuestion};
use longhaul_proto::jsonrpc::{ErrorObject, Params, Text};
use longhaul_proto::method::Method;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{
    Answered, CancelAsked, Cancellation, Dialect as Door, Owner, Record, Reply, Scope, StoreError, TaskId,
};
use serde_json::value::RawValue;

use super::answer::{Dispatched, Envelope, Write, now_or_later, refused, unheard};
use super::ask::courier::deliver_result;
use super::call::{is_seen, missing_tasks, view};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange, Shared};
use super::drafted;
use super::polls::Poll;

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
    let id = read_id(exchange.method, exchange.params);
    let request = Request {
        shared: Arc::clone(&dispatcher.0),
        poll,
        engine: dispatcher.0.engine.clone(),
        owner: exchange.caller.owner(),
        dialect: envelope.dialect,
        declared: exchange.caller.capabilities.extensions.tasks,
    };
    let method = exchange.method;
    let drafted = if drafted::concerns(dispatcher, envelope.dialect) {
        let id = exchange.params.read::<Text<'_>>("taskId").ok().flatten();
        id.map(|Text(id)| (drafted::Asking::new(dispatcher, &exchange), id.into_owned()))
    } else {
        None
    };
    let cx = Cx::new(dispatcher.0.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
    let waiting = cx.clone();
    let (engine, owner) = (request.engine.clone(), request.owner.clone());
    let asked = id.as_ref().ok().and_then(|asked| Some(asked.as_ref()?.0.clone()));
    let answer = async move {
        let answered = tokio::select! {
            biased;
            answered = request.answer_drafted_or_not(method, id, drafted) => answered,
            () = waiting.outlet().abandoned(), if method == Method::TaskResult => Err(unheard()),
            never = courier(&waiting, &engine, &owner, asked.as_ref()), if method == Method::TaskResult => {
                match never {}
            }
        };
        answered.unwrap_or_else(refused)
    };
    now_or_later(envelope, cx, None, answer, out)
}

/// Puts what a task asks to who waits for its result.
async fn courier(cx: &Cx, engine: &Engine, owner: &Owner, id: Option<&TaskId>) -> Infallible {
    match id {
        Some(id) => deliver_result(cx, engine, owner, id).await,
        None => pending().await,
    }
}

/// Answers to a task's questions, by their keys.
type Answers = HashMap<String, Box<RawValue>>;

/// The task that is asked about, and what it is told; `None` when there can be none of that id.
fn read_id(method: Method, params: &Params<'_>) -> Result<Option<(TaskId, Answers)>, ErrorObject> {
    let Text(id) = params.require("taskId")?;
    let answers = match method {
        Method::UpdateTask => params.require("inputResponses")?,
        _ => HashMap::new(),
    };
    Ok(TaskId::new(id.as_ref()).ok().map(|id| (id, answers)))
}

/// A request about a task, and as whom it is made.
struct Request {
    shared: Arc<Shared>,
    poll: Poll,
    engine: Engine,
    owner: Owner,
    dialect: &'static Dialect,
    declared: bool,
}

impl Request {
    /// A drafted task may bear any id that its caller chose.
    async fn answer_drafted_or_not(
        &self,
        method: Method,
        id: Result<Option<(TaskId, Answers)>, ErrorObject>,
        drafted: Option<(drafted::Asking, String)>,
    ) -> Result<Write, ErrorObject> {
        if let Some((asking, id)) = drafted
            && matches!(method, Method::GetTask | Method::TaskResult)
            && let Some(answer) = asking.about(method, &id).await?
        {
            self.poll.found();
            return Ok(answer);
        }
        // An older revision has no other tasks.
        if self.dialect.asks_for_tasks() || self.dialect.has_tasks_extension() {
            self.answer(method, id).await
        } else {
            self.poll.missed(1);
            id.and(Err(not_found()))
        }
    }

    async fn answer(
        &self,
        method: Method,
        id: Result<Option<(TaskId, Answers)>, ErrorObject>,
    ) -> Result<Write, ErrorObject> {
        let may = !self.dialect.has_tasks_extension() || self.declared;
        // Whoever does not declare the extension learns nothing of what exists, but for its own tasks of
        // the revision before, which it knows.
        let (id, answers) = match id {
            Ok(Some(asked)) => asked,
            Ok(None) if may => {
                self.poll.missed(1);
                return Err(not_found());
            }
            Err(error) if may => return Err(error),
            _ => return Err(missing_tasks()),
        };
        let record = self.find(&id).await?;
        if !may && record.as_ref().is_none_or(|record| record.dialect != Door::D2) {
            return Err(missing_tasks());
        }
        let record = record.ok_or_else(not_found)?;
        self.engine.came_back(&record);
        match method {
            Method::GetTask => Ok(self.shown(record)),
            Method::TaskResult => self.result(&id).await,
            Method::UpdateTask => self.update(&record, answers).await,
            _ => self.cancel(&id).await,
        }
    }

    /// The task, if this caller may see it in this dialect.
    async fn find(&self, id: &TaskId) -> Result<Option<Record>, ErrorObject> {
        let record = self.engine.find(Scope::Owner(&self.owner), id).await.map_err(|e| failed(&e))?;
        let record = record.filter(|record| is_seen(self.dialect, record));
        self.poll.missed(usize::from(record.is_none()));
        Ok(record)
    }

    /// Who asks so often that it will be refused soon is told to ask less often, while there is more to come.
    fn shown(&self, mut record: Record) -> Write {
        if self.dialect.has_tasks_extension() {
            // Results are inlined there.
            self.shared.tells(&record, &self.owner);
        }
        if !record.is_terminal() {
            record.poll_interval_ms = self.poll.paced(record.poll_interval_ms);
        }
        Box::new(move |envelope, out| {
            let task = project::task(&record, view(envelope.dialect));
            envelope.result(out, |writer| envelope.dialect.write_task(&task, writer))
        })
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
        self.shared.tells(&record, &self.owner);
        let result = project::outcome(&record).ok_or_else(not_found)??;
        let id = id.clone();
        Ok(Box::new(move |envelope, out| {
            envelope.result(out, |writer| {
                writer.related_task(id.as_str());
                result.write(writer);
            })
        }))
    }

    /// Answers what the task asks; an answer to anything else is passed over (SEP-2663, Updating a Task).
    async fn update(&self, record: &Record, answers: Answers) -> Result<Write, ErrorObject> {
        let mut replies = Vec::with_capacity(answers.len().min(record.questions.len()));
        for (key, answer) in answers {
            let Some(question) = record.questions.iter().find(|question| *question.key == *key) else {
                continue;
            };
            let asked = StoredQuestion::read(&question.request).map_err(|error| error.to_string());
            asked.and_then(|asked| asked.check(&answer)).map_err(|wrong| {
                let message =
                    format!("the answer to {key} does not fit the question: {wrong}; it is asked still");
                ErrorObject::invalid_params(message)
            })?;
            replies.push(Reply::new(key, answer.into()));
        }
        let scope = Scope::Owner(&self.owner);
        let answered = match replies.is_empty() {
            true => Ok(Answered::Recorded { record: record.clone(), taken: 0 }),
            false => self.engine.answer(scope, &record.id, &replies).await,
        };
        let refused = |error| match error {
            error @ (StoreError::TooLarge { .. } | StoreError::Overloaded { .. }) => {
                ErrorObject::invalid_params(format!("the answers are not taken: {error}"))
            }
            error => failed(&error),
        };
        match answered.map_err(refused)? {
            Answered::NotFound => Err(not_found()),
            Answered::Recorded { .. } => Ok(Box::new(|envelope, out| envelope.result(out, |_| ()))),
        }
    }

    async fn cancel(&self, id: &TaskId) -> Result<Write, ErrorObject> {
        let scope = Scope::Owner(&self.owner);
        let reason = Some("cancelled on request");
        // Only the extension lets the work decide how its task ends.
        let asked = match self.dialect.has_tasks_extension() {
            true => self.engine.ask_to_cancel(scope, id, reason).await,
            false => self.engine.cancel(scope, id, reason).await.map(CancelAsked::AtOnce),
        };
        let cancelled = match asked.map_err(|e| failed(&e))? {
            CancelAsked::AtOnce(cancelled) => cancelled,
            CancelAsked::Requested(record) => Cancellation::Cancelled(record),
        };
        match cancelled {
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

/// Unknown, expired and somebody else's are the same to whoever asks.
pub(super) fn not_found() -> ErrorObject {
    ErrorObject::invalid_params("task not found: the id is unknown, or the task has expired")
}

/// The task goes on: its result can be asked for again where it goes on.
pub(super) fn stopping() -> ErrorObject {
    let error = ErrorObject::internal("the server is stopping; the task is kept: ask for its result again");
    error.for_now("stopping", Duration::from_secs(1))
}

pub(super) fn failed(error: &StoreError) -> ErrorObject {
    tracing::error!(%error, "the store failed");
    ErrorObject::internal("internal error: the task store could not be used; try again")
}
