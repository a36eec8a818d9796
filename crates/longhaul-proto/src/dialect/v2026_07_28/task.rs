//! Tasks as the extension writes them (D3: SEP-2663).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{Dialect, result};
use crate::jsonrpc::{ErrorObject, ObjectWriter};
use crate::model::{Meta, Task, TaskStatus};

/// Writes what every answer about a task says.
pub(in super::super) fn write_members(task: &Task, out: &mut ObjectWriter<'_>) {
    out.field("taskId", &task.id);
    out.field("status", task.status.as_str());
    out.optional("statusMessage", task.status_message.as_ref());
    out.field("createdAt", &task.created_at);
    out.field("lastUpdatedAt", &task.last_updated_at);
    out.field("ttlMs", &task.ttl_ms);
    out.optional("pollIntervalMs", task.poll_interval_ms.as_ref());
}

/// Writes what a task asks, or how it ended, as `tasks/get` and `notifications/tasks` show it.
pub(in super::super) fn write_outcome(task: &Task, dialect: &'static Dialect, out: &mut ObjectWriter<'_>) {
    if task.status == TaskStatus::InputRequired {
        let mut requests = out.object("inputRequests");
        for (key, question) in &task.questions {
            requests.raw(key, question.get());
        }
        requests.end();
    }
    if let (TaskStatus::Completed, Some(result)) = (task.status, &task.result) {
        result::write_nested(dialect, out.object("result"), |nested| result.write(nested));
    }
    if let (TaskStatus::Failed, Some(error)) = (task.status, &task.error) {
        let error = dialect.error(error.clone());
        out.field("error", &error);
    }
}

/// A task as a server of this revision wrote it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a task")]
pub(in super::super) struct Wire {
    task_id: String,
    status: String,
    #[serde(default)]
    status_message: Option<String>,
    created_at: String,
    last_updated_at: String,
    #[serde(default)]
    ttl_ms: Option<u64>,
    #[serde(default)]
    poll_interval_ms: Option<u64>,
    #[serde(default)]
    input_requests: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<ErrorObject>,
    #[serde(rename = "_meta", default)]
    meta: Meta,
}

impl Wire {
    pub(in super::super) fn into_task(self) -> Option<Task> {
        let status = TaskStatus::from_word(&self.status)?;
        let mut task = Task::new(self.task_id, status, self.created_at, self.last_updated_at);
        task.status_message = self.status_message;
        task.ttl_ms = self.ttl_ms;
        task.poll_interval_ms = self.poll_interval_ms;
        task.questions = self.input_requests.into_iter().collect();
        task.result = match self.result {
            Some(result) => Some(serde_json::from_str(result.get()).ok()?),
            None => None,
        };
        task.error = self.error;
        task.meta = self.meta;
        Some(task)
    }
}
