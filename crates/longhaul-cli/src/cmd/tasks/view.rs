//! A task as it is shown, wherever it was found.

use std::time::Duration;

use longhaul::client::TaskHandle;
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{Progress, Task, TaskStatus};
use longhaul::store::{Phase, Record, Time};
use longhaul::tasks::project::{self, View};
use longhaul::tasks::shown_arguments;
use longhaul_gateway::config::format_duration;
use serde::Serialize;
use serde_json::value::RawValue;

use super::watch::asked_of;
use crate::ask::Question;
use crate::failure::{Failure, Outcome};
use crate::term::{clean, counted};

/// A task, with what only its store knows of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    pub(crate) task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// As the protocol has it, to which what a tool says of its failure is a result like any other.
    pub(crate) status: &'static str,
    pub(crate) failed: bool,
    pub(crate) status_message: Option<String>,
    pub(crate) created_at: String,
    pub(crate) last_updated_at: String,
    pub(crate) ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// What it asks a person, as a failure of `call` tells it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) questions: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorObject>,
}

impl Shown {
    pub(crate) fn of_task(task: &Task) -> Self {
        Self {
            task_id: task.id.clone(),
            tool: None,
            status: task.status.as_str(),
            failed: stands(task) == TaskStatus::Failed,
            status_message: task.status_message.clone(),
            created_at: task.created_at.clone(),
            last_updated_at: task.last_updated_at.clone(),
            ttl_ms: task.ttl_ms,
            progress: None,
            owner: None,
            attempt: None,
            node: None,
            arguments: None,
            questions: Question::of_task(task).iter().map(Question::json).collect(),
            result: task.result.as_ref().and_then(|result| serde_json::value::to_raw_value(result).ok()),
            error: task.error.clone(),
        }
    }

    pub(crate) fn of_record(record: &Record) -> Self {
        let task = project::task(record, View::D3);
        let owner = match &record.owner {
            longhaul::store::Owner::Principal(principal) => principal.as_str().to_owned(),
            longhaul::store::Owner::Anonymous => "anonymous".to_owned(),
        };
        Self {
            tool: Some(record.tool.to_string()),
            progress: progress(record),
            owner: Some(owner),
            attempt: Some(record.attempt),
            node: record.lease().map(|lease| lease.node.to_string()),
            arguments: RawValue::from_string(shown_arguments(record).as_str().to_owned()).ok(),
            questions: asked_of(record).iter().map(Question::json).collect(),
            ..Self::of_task(&task)
        }
    }

    pub(crate) fn json(&self) -> Outcome<String> {
        let text = serde_json::to_string(self).map_err(anyhow::Error::new)?;
        Ok(clean::json(&text))
    }
}

/// Where a task stands, for a person: a tool that says it failed has failed.
pub(crate) fn stands(task: &Task) -> TaskStatus {
    let is_failure = task.result.as_ref().is_some_and(|result| result.is_error);
    if is_failure { TaskStatus::Failed } else { task.status }
}

/// The same of one in a store.
pub(crate) fn stands_in(record: &Record) -> TaskStatus {
    project::status(record, View::D2)
}

/// How far a task is, as its caller would be told.
pub(crate) fn progress(record: &Record) -> Option<Progress> {
    let progress = record.progress.as_ref()?;
    let mut shown = Progress::new(progress.value);
    shown.total = progress.total;
    shown.message = progress.message.as_deref().map(str::to_owned);
    Some(shown)
}

/// `212/412 running api::auth`, or why it ended, in so many characters at most.
pub(crate) fn now(record: &Record, limit: usize) -> String {
    let message = project::task(record, View::D2).status_message.unwrap_or_default();
    let progress = progress(record).filter(|_| !record.is_terminal());
    match record.phase {
        Phase::Queued { .. } if message.is_empty() && progress.is_none() => {
            clean::line("queued: waits for a server with a place for its tool", limit)
        }
        _ => clean::line(&counted(progress.as_ref(), &message, " "), limit),
    }
}

/// How long it took, or has taken so far.
pub(crate) fn took(record: &Record, now: Time) -> String {
    age(longhaul_gateway::tool::took(record, now))
}

/// How long ago something was: of less than a second nobody asks how long.
pub(crate) fn past(ago: Duration) -> String {
    if ago < Duration::from_secs(1) { "just now".to_owned() } else { format!("{} ago", age(ago)) }
}

/// When something will be: what is due is not in no time at all.
pub(crate) fn ahead(left: Duration) -> String {
    if left < Duration::from_secs(1) { "now".to_owned() } else { format!("in {}", age(left)) }
}

/// A duration in its two largest units.
pub(crate) fn age(duration: Duration) -> String {
    let rounded = match duration.as_secs() {
        0 => return format!("{}ms", duration.as_millis()),
        1..3600 => Duration::from_secs(duration.as_secs()),
        3600..86_400 => Duration::from_secs(duration.as_secs() / 60 * 60),
        _ => Duration::from_secs(duration.as_secs() / 3600 * 3600),
    };
    format_duration(rounded)
}

/// What a server says of a task, told apart from there being none.
pub(crate) async fn ask(task: &TaskHandle) -> Outcome<Task> {
    task.get().await.map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (ms, text) in
            [(12, "12ms"), (61_900, "1m1s"), (3_725_000, "1h2m"), (90_061_000, "1d1h"), (7_200_000, "2h")]
        {
            assert_eq!(age(Duration::from_millis(ms)), text);
        }
        assert_eq!((past(Duration::ZERO), ahead(Duration::ZERO)), ("just now".to_owned(), "now".to_owned()));
        let minute = Duration::from_secs(60);
        assert_eq!((past(minute), ahead(minute)), ("1m ago".to_owned(), "in 1m".to_owned()));
    }
}
