//! A task as it is shown: all that its store knows of it, and nothing that is secret.

use std::sync::Arc;

use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{CallToolResult, Progress};
use longhaul::service::trace_of;
use longhaul::store::{Owner, Record, TaskId, Time};
use longhaul::tasks::project::{self, View};
use longhaul::tasks::{calling_client, calling_conversation, made_again_of, shown_arguments};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Admin, AdminError, Leg, State, Viewer, Why, course};
use crate::command::Processes;
use crate::tool::{Ended, took};

/// A task. Times are the store's, and ages are told as well: whoever reads them may have another clock.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    pub(crate) task_id: String,
    pub(crate) tool: String,
    pub(crate) status: &'static str,
    /// One sentence on what it does, waits for, or came to.
    pub(crate) now: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<Progress>,
    pub(crate) created_at: String,
    pub(crate) last_updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<i64>,
    pub(crate) age_ms: u64,
    pub(crate) took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forgotten_in_ms: Option<u64>,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_task_id: Option<String>,
    /// The task whose call it is, made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) again_of_task_id: Option<String>,
    /// When it waited for a node, was worked on, and waited otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) course: Vec<Leg>,
    pub(crate) arguments: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) questions: Vec<ShownQuestion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<CallToolResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorObject>,
    /// The client that called, as it named itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Arc<str>>,
    /// In which conversation of its user's, as it named that itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversation: Option<Arc<str>>,
    /// Of a command that runs here; for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<Processes>,
    /// Of a command that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// The trace that the call belongs to, 32 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_id: Option<String>,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownQuestion {
    pub(crate) key: String,
    pub(crate) asked_ms_ago: u64,
    pub(crate) request: Box<RawValue>,
}

impl Shown {
    /// As it stands in a list: without what it asks and came to.
    fn brief(record: &Record, why: &Why, now: Time) -> Self {
        let task = project::task(record, View::D2);
        let ms = |from: Time, to: Time| u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX);
        Self {
            task_id: record.id.to_string(),
            tool: record.tool.to_string(),
            status: state_of(record).word(),
            now: why.to_string(),
            progress: progress(record),
            created_at: task.created_at,
            last_updated_at: task.last_updated_at,
            ended_at: record.terminal_at.map(Time::unix_ms),
            age_ms: ms(record.created_at, now),
            took_ms: u64::try_from(took(record, now).as_millis()).unwrap_or(u64::MAX),
            forgotten_in_ms: record.expires_at.map(|at| ms(now, at)),
            owner: owner(record),
            attempt: record.attempt,
            node: record.lease().map(|lease| lease.node.to_string()),
            parent_task_id: record.parent.as_ref().map(|parent| parent.task.to_string()),
            again_of_task_id: made_again_of(record).map(|task| task.to_string()),
            course: Vec::new(),
            arguments: RawValue::from_string(shown_arguments(record).as_str().to_owned()).ok(),
            questions: Vec::new(),
            result: None,
            error: None,
            client: None,
            conversation: None,
            processes: None,
            exit_code: None,
            signal: None,
            trace_id: None,
        }
    }

    /// All of it.
    fn whole(record: &Record, why: &Why, now: Time) -> Self {
        let asked = record.questions.iter().map(|question| ShownQuestion {
            key: question.key.to_string(),
            asked_ms_ago: u64::try_from(now.since(question.asked_at).as_millis()).unwrap_or(u64::MAX),
            request: (*question.request).to_owned(),
        });
        let (result, error) = match project::outcome(record) {
            Some(Ok(result)) => (Some(result), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let course = course(record, now);
        let (client, trace_id) = (calling_client(record), trace_id(record));
        let Ended { exit_code, signal } = Ended::of(record.outcome()).unwrap_or_default();
        Self {
            questions: asked.collect(),
            result,
            error,
            course,
            client,
            conversation: calling_conversation(record),
            exit_code,
            signal,
            trace_id,
            ..Self::brief(record, why, now)
        }
    }
}

impl Admin {
    /// A task as it stands in a list, as of `now`.
    pub(crate) fn brief(&self, viewer: &Viewer, record: &Record, now: Time) -> Shown {
        Shown::brief(record, &self.why(viewer, record, now), now)
    }

    /// All that is shown of a task.
    pub(crate) async fn whole(&self, viewer: &Viewer, record: &Record) -> Shown {
        let (now, processes) = (self.now(), self.processes(viewer, record).await);
        Shown { processes, ..Shown::whole(record, &self.why(viewer, record, now), now) }
    }

    /// The processes of a task's command, while it runs here, for an operator: nobody else has to know them.
    pub(crate) async fn processes(&self, viewer: &Viewer, record: &Record) -> Option<Processes> {
        if !viewer.is_operator() || record.is_terminal() {
            return None;
        }
        let found = self.0.streams.processes(record).await;
        found.unwrap_or_else(|error| {
            tracing::debug!(%error, "the processes of a task are not shown");
            None
        })
    }

    /// The task, if `viewer` sees one of this name.
    ///
    /// # Errors
    ///
    /// [`AdminError::NoTask`], [`AdminError::TooOften`], and when the store cannot be read.
    pub(crate) async fn task(&self, viewer: &Viewer, id: &str) -> Result<Record, AdminError> {
        let poll = self.poll(viewer, 1)?;
        let found = self.task_again(viewer, id).await;
        if matches!(found, Err(AdminError::NoTask)) {
            poll.missed(1);
        }
        found
    }

    /// The same for who follows it, and has asked once.
    pub(crate) async fn task_again(&self, viewer: &Viewer, id: &str) -> Result<Record, AdminError> {
        let id = TaskId::new(id).map_err(|_| AdminError::NoTask)?;
        let found = self.engine().find(viewer.scope(), &id).await?;
        found.ok_or(AdminError::NoTask)
    }
}

/// Where a task stands. A tool that says it failed has failed, for whoever looks.
pub(crate) fn state_of(record: &Record) -> State {
    State::of(project::status(record, View::D2))
}

/// The trace that the call of a task belongs to, as its tools write it.
pub(crate) fn trace_id(record: &Record) -> Option<String> {
    trace_of(record).map(|trace| format!("{:032x}", trace.trace_id()))
}

fn owner(record: &Record) -> String {
    match &record.owner {
        Owner::Principal(principal) => principal.to_string(),
        Owner::Anonymous => "anonymous".to_owned(),
    }
}

/// How far a task is.
fn progress(record: &Record) -> Option<Progress> {
    let progress = record.progress.as_ref().filter(|_| !record.is_terminal())?;
    let mut shown = Progress::new(progress.value);
    shown.total = progress.total;
    shown.message = progress.message.as_deref().map(str::to_owned);
    Some(shown)
}
