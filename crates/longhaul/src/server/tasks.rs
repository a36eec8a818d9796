//! The methods that are about tasks.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::StoredQuestion;
use longhaul_proto::jsonrpc::{ErrorObject, Params, Text};
use longhaul_proto::method::Method;
use longhaul_tasks::project;
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Answered, Dialect as Door, Owner, Record, Reply, Scope, StoreError, TaskId};

#[cfg(feature = "http")]
use super::again::Again;
use super::answer::{Dispatched, Envelope, Write, now_or_later, refused, unheard};
use super::ask::courier::deliver_result;
use super::call::missing_tasks;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange, Shared};
use super::drafted;
use super::polls::Poll;
use super::slots::{TaskAnswers, asked};
use crate::hosted::{Hosted, cancelled, failed, not_found, result_of, shown, view};

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
    let (method, asked) = (exchange.method, read(exchange.method, exchange.params));
    let drafted = if drafted::concerns(dispatcher, envelope.dialect) {
        let id = asked.as_ref().ok().map(|asked| asked.id.clone());
        id.map(|id| (drafted::Asking::new(dispatcher, &exchange), id))
    } else {
        None
    };
    let cx = Cx::new(dispatcher.0.states(), exchange.dialect, exchange.caller, None, exchange.outlet, None);
    let request = Request {
        shared: Arc::clone(&dispatcher.0),
        poll,
        hosted: Hosted { engine: dispatcher.0.engine.clone(), owner: cx.owner(), dialect: envelope.dialect },
        declared: cx.caller().capabilities.extensions.tasks,
        cx: cx.clone(),
    };
    if method == Method::TaskResult {
        #[cfg(feature = "http")]
        if let Ok(asked) = &asked {
            cx.outlet().found_again(Again::asked("tasks/result", &serde_json::json!({ "taskId": asked.id })));
        }
        return now_or_later(envelope, cx.clone(), None, waited_for(request, asked, drafted, cx), out);
    }
    let answer =
        async move { request.answer_drafted_or_not(method, asked, drafted).await.unwrap_or_else(refused) };
    now_or_later(envelope, cx, None, answer, out)
}

/// Answers with the result of a task, for which its caller is asked meanwhile.
async fn waited_for(
    request: Request,
    asked: Result<Asked, ErrorObject>,
    drafted: Option<(drafted::Asking, String)>,
    waiting: Cx,
) -> Write {
    let (engine, owner) = (request.hosted.engine.clone(), request.hosted.owner.clone());
    let id = asked.as_ref().ok().and_then(|asked| TaskId::new(asked.id.as_str()).ok());
    let answered = tokio::select! {
        biased;
        answered = request.answer_drafted_or_not(Method::TaskResult, asked, drafted) => answered,
        () = waiting.outlet().abandoned() => Err(unheard()),
        never = courier(&waiting, &engine, &owner, id.as_ref()) => match never {},
    };
    answered.unwrap_or_else(refused)
}

/// Puts what a task asks to who waits for its result.
async fn courier(cx: &Cx, engine: &Engine, owner: &Owner, id: Option<&TaskId>) -> Infallible {
    match id {
        Some(id) => deliver_result(cx, engine, owner, id).await,
        None => pending().await,
    }
}

/// Which task is asked about, and what it is told.
struct Asked {
    /// As its caller writes it: there may be no task of such an id.
    id: String,
    answers: TaskAnswers,
}

fn read(method: Method, params: &Params<'_>) -> Result<Asked, ErrorObject> {
    let Text(id) = params.require("taskId")?;
    let answers = match method {
        Method::UpdateTask => params.require("inputResponses")?,
        _ => HashMap::new(),
    };
    Ok(Asked { id: id.into_owned(), answers })
}

/// A request about a task, and as whom it is made.
struct Request {
    shared: Arc<Shared>,
    poll: Poll,
    hosted: Hosted,
    declared: bool,
    cx: Cx,
}

impl Request {
    /// A drafted task may bear any id that its caller chose.
    async fn answer_drafted_or_not(
        &self,
        method: Method,
        asked: Result<Asked, ErrorObject>,
        drafted: Option<(drafted::Asking, String)>,
    ) -> Result<Write, ErrorObject> {
        if let Some((asking, id)) = drafted
            && matches!(method, Method::GetTask | Method::TaskResult)
            && let Some(answer) = Box::pin(asking.about(method, &id)).await?
        {
            self.poll.found();
            return Ok(answer);
        }
        // An older revision has no other tasks.
        if self.hosted.dialect.asks_for_tasks() || self.hosted.dialect.has_tasks_extension() {
            self.answer(method, asked).await
        } else {
            self.poll.missed(1);
            asked.and(Err(not_found()))
        }
    }

    async fn answer(&self, method: Method, asked: Result<Asked, ErrorObject>) -> Result<Write, ErrorObject> {
        let may = !self.hosted.dialect.has_tasks_extension() || self.declared;
        // Whoever does not declare the extension learns nothing of what exists, but for its own tasks of
        // the revision before, which it knows.
        let Asked { id, answers } = asked.map_err(|error| if may { error } else { missing_tasks() })?;
        if may && let Some(answered) = self.in_slot(method, &id, &answers).await? {
            self.poll.found();
            return Ok(answered);
        }
        let Ok(id) = TaskId::new(id) else {
            self.poll.missed(usize::from(may));
            return Err(if may { not_found() } else { missing_tasks() });
        };
        let record = self.find(&id).await?;
        if !may && record.as_ref().is_none_or(|record| record.dialect != Door::D2) {
            return Err(missing_tasks());
        }
        let record = record.ok_or_else(not_found)?;
        self.hosted.engine.came_back(&record);
        // Tasks are asked after more often than anything else of them, and that must not make room for the others.
        match method {
            Method::GetTask => Ok(self.shown(record)),
            Method::TaskResult => Box::pin(self.result(&id)).await,
            Method::UpdateTask => Box::pin(self.update(&record, answers)).await,
            _ => Box::pin(self.hosted.cancel(&id)).await,
        }
    }

    /// What the server's own handler answers, if it has one for this and the task is that one's.
    async fn in_slot(
        &self,
        method: Method,
        id: &str,
        answers: &TaskAnswers,
    ) -> Result<Option<Write>, ErrorObject> {
        let (slots, cx) = (&self.shared.slots, &self.cx);
        Ok(match method {
            Method::GetTask => asked(&slots.get, cx, || id.to_owned()).await?.map(shown),
            Method::TaskResult => {
                let result = asked(&slots.result, cx, || id.to_owned()).await?;
                result.map(|result| result_of(id.to_owned(), move |writer| result.write(writer)))
            }
            Method::UpdateTask => {
                let updated = asked(&slots.update, cx, || (id.to_owned(), answers.clone())).await?;
                updated.map(|()| acknowledged())
            }
            _ => asked(&slots.cancel, cx, || id.to_owned()).await?.map(cancelled),
        })
    }

    /// The task, if this caller may see it in this dialect.
    async fn find(&self, id: &TaskId) -> Result<Option<Record>, ErrorObject> {
        let record = self.hosted.find(id).await?;
        self.poll.missed(usize::from(record.is_none()));
        Ok(record)
    }

    /// Who asks so often that it will be refused soon is told to ask less often, while there is more to come.
    fn shown(&self, mut record: Record) -> Write {
        if self.hosted.dialect.has_tasks_extension() {
            // Results are inlined there.
            self.shared.tells(&record, &self.hosted.owner);
        }
        if !record.is_terminal() {
            record.poll_interval_ms = self.poll.paced(record.poll_interval_ms);
        }
        shown(project::task(&record, view(self.hosted.dialect)))
    }

    /// What the call would have been answered with, once it has ended (2025-11-25, Tasks, Retrieving Task
    /// Results).
    async fn result(&self, id: &TaskId) -> Result<Write, ErrorObject> {
        let record = tokio::select! {
            biased;
            ended = self.hosted.ended(id) => ended?,
            () = self.hosted.engine.draining() => return Err(stopping()),
        };
        self.shared.tells(&record, &self.hosted.owner);
        let result = project::outcome(&record).ok_or_else(not_found)??;
        Ok(result_of(id.as_str().to_owned(), move |writer| result.write(writer)))
    }

    /// Answers what the task asks; an answer to anything else is passed over (SEP-2663, Updating a Task).
    async fn update(&self, record: &Record, answers: TaskAnswers) -> Result<Write, ErrorObject> {
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
        let scope = Scope::Owner(&self.hosted.owner);
        let answered = match replies.is_empty() {
            true => Ok(Answered::Recorded { record: record.clone(), taken: 0 }),
            false => self.hosted.engine.answer(scope, &record.id, &replies).await,
        };
        let refused = |error| match error {
            error @ (StoreError::TooLarge { .. } | StoreError::Overloaded { .. }) => {
                ErrorObject::invalid_params(format!("the answers are not taken: {error}"))
            }
            error => failed(&error),
        };
        match answered.map_err(refused)? {
            Answered::NotFound => Err(not_found()),
            Answered::Recorded { .. } => Ok(acknowledged()),
        }
    }
}

fn acknowledged() -> Write {
    Box::new(|envelope, out| envelope.result(out, |_| ()))
}

/// The task goes on: its result can be asked for again where it goes on.
pub(super) fn stopping() -> ErrorObject {
    let error = ErrorObject::internal("the server is stopping; the task is kept: ask for its result again");
    error.for_now("stopping", Duration::from_secs(1))
}
