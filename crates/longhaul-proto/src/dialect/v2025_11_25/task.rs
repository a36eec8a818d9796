//! Tasks as 2025-11-25 writes them (D2: Basic, Utilities, Tasks).

use serde::Deserialize;

use crate::jsonrpc::ObjectWriter;
use crate::model::{Meta, Task, TaskStatus};

/// The `_meta` key of what a model may be told until a task has ended (Tasks, Model Immediate Response).
pub(in super::super) const IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";

/// Writes the members of a task.
pub(in super::super) fn write_members(task: &Task, out: &mut ObjectWriter<'_>) {
    out.field("taskId", &task.id).field("status", task.status.as_str());
    out.optional("statusMessage", task.status_message.as_ref());
    out.field("createdAt", &task.created_at).field("lastUpdatedAt", &task.last_updated_at);
    out.field("ttl", &task.ttl_ms).optional("pollInterval", task.poll_interval_ms.as_ref());
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
    ttl: Option<u64>,
    #[serde(default)]
    poll_interval: Option<u64>,
    #[serde(rename = "_meta", default)]
    meta: Meta,
}

impl Wire {
    pub(in super::super) fn into_task(self) -> Option<Task> {
        let status = TaskStatus::from_word(&self.status)?;
        let mut task = Task::new(self.task_id, status, self.created_at, self.last_updated_at);
        task.status_message = self.status_message;
        task.ttl_ms = self.ttl;
        task.poll_interval_ms = self.poll_interval;
        task.meta = self.meta;
        Some(task)
    }
}
