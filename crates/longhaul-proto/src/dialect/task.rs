//! Tasks on the wire: which dialect of tasks a revision speaks is decided here, once.

use super::asked::Asked;
use super::{Dialect, ResultWriter, drafted, v2025_11_25, v2026_07_28};
use crate::jsonrpc::{ErrorObject, ObjectWriter};
use crate::model::{CallToolResult, Task};

impl Dialect {
    /// Writes the answer that says a call has become a task. `meanwhile` is what its model may be told until the task has
    /// ended, where the revision has a word for it.
    pub fn write_task_created(&self, task: &Task, meanwhile: Option<&str>, out: &mut ResultWriter<'_>) {
        if self.has_tasks_extension() {
            out.as_task();
            out.members(|object| v2026_07_28::task::write_members(task, object));
            out.meta(&task.meta);
        } else {
            let mut nested = out.object("task");
            v2025_11_25::task::write_members(task, &mut nested);
            nested.end();
            let mut meta = task.meta.clone();
            if let Some(text) = meanwhile {
                meta = meta.with(v2025_11_25::task::IMMEDIATE_RESPONSE, &text);
            }
            out.meta(&meta);
        }
    }

    /// Writes the answer to `tasks/get`.
    pub fn write_task(&'static self, task: &Task, out: &mut ResultWriter<'_>) {
        out.members(|object| self.write_task_status(task, object));
        out.meta(&task.meta);
    }

    /// Appends one task of a `tasks/list` answer. In a revision that has no such lists it is that of the draft.
    pub fn write_listed_task(&self, task: &Task, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        if self.asks_for_tasks() {
            v2025_11_25::task::write_members(task, &mut object);
        } else {
            drafted::write_members(task, &mut object);
        }
        object.end();
    }

    /// Writes the answer to `tasks/cancel`: an acknowledgement (D3), or the task (D2).
    pub fn write_task_cancelled(&self, task: &Task, out: &mut ResultWriter<'_>) {
        if !self.has_tasks_extension() {
            out.members(|object| v2025_11_25::task::write_members(task, object));
        }
    }

    /// Writes the parameters of the notification that a task has changed: what `tasks/get` would show.
    pub fn write_task_status(&'static self, task: &Task, out: &mut ObjectWriter<'_>) {
        if self.has_tasks_extension() {
            v2026_07_28::task::write_members(task, out);
            v2026_07_28::task::write_outcome(task, self, out);
        } else {
            v2025_11_25::task::write_members(task, out);
        }
    }

    /// Reads the answer to `tools/call`: the tool's result, or the task that the call has become.
    ///
    /// # Errors
    ///
    /// A sentence saying what is wrong, when it is neither.
    pub fn read_call(&self, result: &str) -> Result<Called, ErrorObject> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", expecting = "the result of a call")]
        struct Shape<'a> {
            #[serde(default, borrow)]
            result_type: Option<crate::jsonrpc::Text<'a>>,
            #[serde(default)]
            task: Option<v2025_11_25::task::Wire>,
        }
        let invalid = |what: String| ErrorObject::internal(format!("the server's answer is invalid: {what}"));
        let shape: Shape<'_> = serde_json::from_str(result).map_err(|e| invalid(e.to_string()))?;
        let task = match (shape.result_type.as_ref().map(|t| t.0.as_ref()), shape.task) {
            (Some("task"), _) if self.has_tasks_extension() => self.read_task(result)?,
            (None, Some(wire)) if self.asks_for_tasks() => {
                wire.into_task().ok_or_else(|| invalid("unknown task status".to_owned()))?
            }
            (None | Some("complete"), _) => {
                return serde_json::from_str(result).map(Called::Result).map_err(|e| invalid(e.to_string()));
            }
            (Some("input_required"), _) if self.types_results() => {
                return serde_json::from_str(result).map(Called::Asked).map_err(|e| invalid(e.to_string()));
            }
            (Some(other), _) => return Err(invalid(format!("unknown resultType {other:?}"))),
        };
        Ok(Called::Task(Box::new(task)))
    }

    /// Reads the answer to `tasks/get`, or to a `tasks/cancel` that answers with the task.
    ///
    /// # Errors
    ///
    /// A sentence saying what is wrong, when it is no task.
    pub fn read_task(&self, result: &str) -> Result<Task, ErrorObject> {
        let read = if self.has_tasks_extension() {
            serde_json::from_str::<v2026_07_28::task::Wire>(result).map(v2026_07_28::task::Wire::into_task)
        } else {
            serde_json::from_str::<v2025_11_25::task::Wire>(result).map(v2025_11_25::task::Wire::into_task)
        };
        match read {
            Ok(Some(task)) => Ok(task),
            Ok(None) => Err(ErrorObject::internal("the server's answer is invalid: unknown task status")),
            Err(e) => Err(ErrorObject::internal(format!("the server's answer is invalid: {e}"))),
        }
    }
}

/// What a call came back with.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a call ends, becomes a task or asks something")]
pub enum Called {
    /// The tool's result.
    Result(CallToolResult),
    /// The call goes on as this task.
    Task(Box<Task>),
    /// The server asks something before it can answer (modern era).
    Asked(Asked),
}
