//! Rounds of a call that is a task by now: its caller takes no tasks, so the answer to its request says what the task
//! asks, and it comes back for the same task with the answers (2026-07-28, Multi Round-Trip Requests).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::StoredQuestion;
use longhaul_proto::jsonrpc::{Code, ErrorObject, Params};
use longhaul_proto::model::Retry;
use longhaul_tasks::runner::Engine;
use longhaul_tasks::store::{Answered, Outcome, Question, Record, Reply, Scope, StoreError, TaskId};
use serde_json::value::RawValue;

use super::super::answer::Write;
use super::super::context::Cx;
use super::desk::Desk;
use super::rounds::{Subject, Topic};

/// What a state holds that names a task.
pub(super) const TASK: u8 = 2;

/// The rounds of one request.
#[derive(Clone)]
pub(in super::super) struct TaskRounds {
    desk: Arc<Desk>,
    subject: Arc<Subject>,
}

/// What a request brings that was answered with what a task asks.
pub(in super::super) struct Back {
    task: TaskId,
    answers: Vec<(String, Box<RawValue>)>,
}

impl TaskRounds {
    /// The rounds of a request that may ask so, or comes back.
    pub(in super::super) fn of(
        desk: &Arc<Desk>,
        cx: &Cx,
        topic: &Topic<'_>,
        params: &Params<'_>,
    ) -> Option<Self> {
        (Self::may_ask(cx) || Self::may_be_back(cx, params)).then(|| Self::new(desk, cx, topic))
    }

    /// The rounds of a request.
    pub(in super::super) fn new(desk: &Arc<Desk>, cx: &Cx, topic: &Topic<'_>) -> Self {
        Self { desk: Arc::clone(desk), subject: Arc::new(Subject::new(cx, topic)) }
    }

    /// Whether its caller can be asked anything so.
    pub(in super::super) fn may_ask(cx: &Cx) -> bool {
        !cx.dialect().asks_by_request() && is_able(cx)
    }

    /// Whether it may be one that comes back: [`back`](Self::back) says so.
    pub(in super::super) fn may_be_back(cx: &Cx, params: &Params<'_>) -> bool {
        !cx.dialect().asks_by_request() && !matches!(Retry::read(params), Ok(None))
    }

    /// How long a round is waited for.
    pub(in super::super) fn patience(&self) -> Duration {
        self.desk.options.patience
    }

    /// The task that the request comes back for, if it was answered with what one asks.
    ///
    /// # Errors
    ///
    /// `-32602` for a state that is not good for this request.
    pub(in super::super) fn back(&self, params: &Params<'_>) -> Result<Option<Back>, ErrorObject> {
        let Some(Retry { state: Some(state), answers, .. }) = Retry::read(params)? else { return Ok(None) };
        let content = self.desk.open(&state, &self.subject.owner, &self.subject.binding())?;
        let Some((&TASK, id)) = content.split_first() else { return Ok(None) };
        let task = std::str::from_utf8(id).ok().and_then(|id| TaskId::new(id).ok());
        let task =
            task.ok_or_else(|| ErrorObject::internal("the state that was sealed here cannot be read"))?;
        let answers = answers.into_iter();
        let answers = answers.map(|(key, answer)| (key.into_owned(), answer.to_owned())).collect();
        Ok(Some(Back { task, answers }))
    }

    /// Answers with what the task asks and this caller can answer, if that is anything.
    pub(in super::super) fn ask(&self, cx: &Cx, record: &Record) -> Option<Write> {
        let questions: Vec<Question> =
            record.questions.iter().filter(|question| can_answer(cx, question)).cloned().collect();
        if questions.is_empty() {
            return None;
        }
        let content = [&[TASK], record.id.as_str().as_bytes()].concat();
        let state = self.desk.sealer.seal(&content, &self.subject.binding().0, self.desk.options.patience)?;
        Some(Box::new(move |envelope, out| {
            envelope.result(out, |result| {
                let questions = questions.iter().map(|question| (&*question.key, &*question.request));
                result.input_required_of_task(questions, &state);
            })
        }))
    }
}

fn is_able(cx: &Cx) -> bool {
    let can = &cx.caller().capabilities;
    can.roots || can.elicitation.is_some() || can.sampling.is_some()
}

fn can_answer(cx: &Cx, question: &Question) -> bool {
    let asked = StoredQuestion::read(&question.request);
    asked.is_ok_and(|asked| asked.kind().check(cx.dialect(), &cx.caller().capabilities).is_ok())
}

impl Back {
    /// Gives the task the answers that it asks for, and the task; of an answer that does not fit it is asked again.
    ///
    /// # Errors
    ///
    /// What its caller is told: the task is gone, or its answers cannot be taken.
    pub(in super::super) async fn answer(self, engine: Engine, cx: Cx) -> Result<Record, Outcome> {
        let (owner, Self { task, answers }) = (cx.owner(), self);
        let scope = Scope::Owner(&owner);
        let found = engine.find(scope, &task).await.map_err(|error| failed(&error))?;
        let record = found.ok_or_else(|| Outcome::lost("the task is forgotten"))?;
        engine.came_back(&record);
        let replies = fitting(&record, answers);
        if replies.is_empty() {
            return Ok(record);
        }
        match engine.answer(scope, &task, &replies).await {
            Ok(Answered::Recorded { record, .. }) => Ok(record),
            Ok(Answered::NotFound) => Err(Outcome::lost("the task is forgotten")),
            Err(error @ (StoreError::TooLarge { .. } | StoreError::Overloaded { .. })) => {
                let message = format!("the answers are not taken, and are asked for still: {error}");
                Err(Outcome::error(Code::INVALID_PARAMS.0, message, None))
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

fn fitting(record: &Record, answers: Vec<(String, Box<RawValue>)>) -> Vec<Reply> {
    let questions: HashMap<&str, &Question> =
        record.questions.iter().map(|question| (&*question.key, question)).collect();
    let fits = |(key, answer): &(String, Box<RawValue>)| {
        let asked = questions.get(key.as_str()).map(|question| StoredQuestion::read(&question.request));
        matches!(asked, Some(Ok(asked)) if asked.check(answer).is_ok())
    };
    answers.into_iter().filter(fits).map(|(key, answer)| Reply::new(key, answer.into())).collect()
}

fn failed(error: &StoreError) -> Outcome {
    let error = crate::hosted::failed(error);
    Outcome::error(error.code.0, error.message.as_ref(), None)
}
