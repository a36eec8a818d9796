//! Asking whoever follows a task: the question is a fact of the task, and so is its answer.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::model::InputRequest;
use longhaul_tasks::journal::Fingerprint;
use longhaul_tasks::runner::{Keeper, StepError};
use longhaul_tasks::store::{Json, Question, Step, StepState};
use serde::{Deserialize, Serialize};

use super::super::context::Cx;
use super::AskError;
use crate::hex::hex;

/// Why a question has no answer, as it is kept in the place of one.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Unanswered {
    /// The client answered with an error.
    Refused { code: i64, message: String },
    /// Nobody answered in time.
    TimedOut { after_ms: u64 },
    /// It was not put to the client, which had this many open.
    TooMany { limit: usize },
    /// The client could not be reached any more.
    Gone,
}

impl Unanswered {
    /// Why there is none, where the same question would not be refused so in any case.
    fn of(error: &AskError) -> Option<Self> {
        Some(match error {
            AskError::Refused(error) => {
                Self::Refused { code: error.code.0, message: error.message.to_string() }
            }
            AskError::TimedOut { after } => {
                Self::TimedOut { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
            }
            AskError::TooMany { limit } => Self::TooMany { limit: *limit },
            AskError::Gone => Self::Gone,
            AskError::Invalid { .. } | AskError::NoForm { .. } | AskError::NoPage { .. } => return None,
        })
    }

    fn json(&self) -> Json {
        serde_json::value::to_raw_value(self).map_or_else(|_| Json::null(), Json::from)
    }
}

/// Asks once, however often the work is entered again, and waits for the first answer that is recorded.
pub(super) async fn ask(
    cx: Cx,
    key: String,
    of: Fingerprint,
    question: Arc<InputRequest>,
    (within, default): (Option<Duration>, Option<Json>),
) -> Result<String, AskError> {
    let Some(keeper) = cx.keeper() else { return Err(AskError::Gone) };
    match asked(&cx, keeper, &key, of, &question, (within, default)).await {
        Ok(answer) => answer,
        Err(error) => cx.end(error).await,
    }
}

/// The answer that `asking` brings, or why there is none, kept as a step's: work that is entered again need not ask, and
/// is told the same.
pub(super) async fn kept(
    cx: Cx,
    key: String,
    of: Fingerprint,
    asking: impl Future<Output = Result<String, AskError>> + Send,
) -> Result<String, AskError> {
    let answer = asking.await;
    let came_to = match &answer {
        Ok(answer) => Json::parse(answer.as_str()).ok().map(StepState::learnt),
        Err(error) => Unanswered::of(error)
            .map(|unanswered| StepState::Learnt { value: unanswered.json(), is_error: true }),
    };
    if let Some(keeper) = cx.keeper().filter(|keeper| keeper.is_entered_again())
        && let Some(came_to) = came_to
        && let Err(error) = keeper.record(Step::new(key, of, came_to)).await
    {
        cx.end(error).await;
    }
    answer
}

async fn asked(
    cx: &Cx,
    keeper: &Keeper,
    key: &str,
    of: Fingerprint,
    question: &InputRequest,
    (within, default): (Option<Duration>, Option<Json>),
) -> Result<Result<String, AskError>, StepError> {
    if keeper.has_let_go(key) {
        // Its handler dropped it before, and is to do so again.
        return pending().await;
    }
    let stands = match keeper.find(key, of)? {
        Some(stands) => stands,
        None => {
            keeper.become_durable(true).await?;
            let within = within.or_else(|| cx.interview().patience());
            let deadline = within.and_then(|within| Some(keeper.now()?.after(within)));
            let question = Question::new(public_key(keeper), stored(cx, keeper, question)).until(deadline);
            keeper.settle(Step::new(key, of, StepState::Asked(question))).await?
        }
    };
    let question = match stands {
        StepState::Learnt { value, is_error } => return Ok(read(&value, is_error)),
        StepState::Asked(question) => question,
        StepState::Begun | StepState::Due(_) | StepState::Owed | StepState::Child(_) => {
            return Err(StepError::diverged(key));
        }
    };
    let Some(deadline) = question.deadline else {
        let (value, is_error) = keeper.learnt(key).await;
        return Ok(read(&value, is_error));
    };
    tokio::select! {
        biased;
        (value, is_error) = keeper.learnt(key) => Ok(read(&value, is_error)),
        () = keeper.until(deadline) => {
            let after = within.unwrap_or_else(|| deadline.since(question.asked_at));
            let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            let is_error = default.is_none();
            let value = default.unwrap_or_else(|| Unanswered::TimedOut { after_ms }.json());
            match keeper.settle(Step::new(key, of, StepState::Learnt { value, is_error })).await? {
                // An answer may have been there first.
                StepState::Learnt { value: first, is_error } => Ok(read(&first, is_error)),
                _ => Ok(Err(AskError::TimedOut { after })),
            }
        }
    }
}

fn read(value: &Json, is_error: bool) -> Result<String, AskError> {
    if !is_error {
        return Ok(value.as_str().to_owned());
    }
    match serde_json::from_str(value.as_str()) {
        Ok(Unanswered::Refused { code, message }) => {
            Err(AskError::Refused(ErrorObject::new(Code(code), message)))
        }
        Ok(Unanswered::TimedOut { after_ms }) => {
            Err(AskError::TimedOut { after: Duration::from_millis(after_ms) })
        }
        Ok(Unanswered::TooMany { limit }) => Err(AskError::TooMany { limit }),
        Ok(Unanswered::Gone) => Err(AskError::Gone),
        Err(error) => Err(AskError::Invalid { what: error.to_string() }),
    }
}

/// An error in place of an answer, as it is kept.
pub(in super::super) fn refusal(error: &ErrorObject) -> Json {
    Unanswered::Refused { code: error.code.0, message: error.message.to_string() }.json()
}

/// 128 random bits: the name means this question for ever.
fn public_key(keeper: &Keeper) -> String {
    let mut random = [0; 16];
    keeper.random(&mut random);
    hex(&random)
}

/// The question as it is put to a client of the revision that called.
fn stored(cx: &Cx, keeper: &Keeper, question: &InputRequest) -> Json {
    let mut text = Vec::with_capacity(256);
    match cx.drafted() {
        Some(id) => cx.dialect().write_drafted_question_to_store(&mut text, question, id),
        None => {
            let id = keeper.id();
            let id = id.as_ref().map_or("", |id| id.as_str());
            cx.dialect().write_question_to_store(&mut text, question, id);
        }
    }
    String::from_utf8(text).ok().and_then(|text| Json::parse(text).ok()).unwrap_or_else(Json::null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_is_never_taken_for_a_timeout() {
        let error = ErrorObject::new(Code::INTERNAL, "no answer came in time");
        let Err(AskError::Refused(kept)) = read(&refusal(&error), true) else { panic!("it was refused") };
        assert_eq!((kept.code, kept.message), (error.code, error.message));
        let over = Unanswered::TimedOut { after_ms: 1500 }.json();
        assert_eq!(over.as_str(), r#"{"timedOut":{"afterMs":1500}}"#);
        let Err(AskError::TimedOut { after }) = read(&over, true) else { panic!("it was over") };
        assert_eq!(after, Duration::from_millis(1500));
    }
}
