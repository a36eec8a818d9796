//! From facts to statuses: what each dialect may see of a task.
//!
//! A store keeps what happened; a status is a pure function of that, one for each dialect.

mod family;
mod output;

use std::sync::Arc;

use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::model::{CallToolResult, Task, TaskStatus};
use longhaul_store::{Dialect, Json, Outcome, Phase, Question, Record, Retention, Time};

use crate::key;

pub use output::{OUTPUT_SCHEME, OutputAddress, OutputGap, OutputPosition, PARTS, output_uri};

/// The dialect a task is looked at in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a new dialect needs every projection looked at")]
pub enum View {
    /// SEP-1686 as drafted: what has not been begun is submitted, and its caller has named the task.
    D1,
    /// 2025-11-25: a result that is an error is a failure, and results are fetched apart.
    D2,
    /// The tasks extension: any result completes, and results are inlined.
    D3,
}

/// The status of a task in one dialect.
pub fn status(record: &Record, view: View) -> TaskStatus {
    match &record.phase {
        Phase::Done(Outcome::Result { is_error: true, .. }) if view == View::D2 => TaskStatus::Failed,
        Phase::Done(Outcome::Result { .. }) => TaskStatus::Completed,
        Phase::Done(Outcome::Cancelled { .. }) => TaskStatus::Cancelled,
        Phase::Done(_) => TaskStatus::Failed,
        Phase::Queued { .. } if view == View::D1 && !record.started => TaskStatus::Submitted,
        _ if !record.questions.is_empty() => TaskStatus::InputRequired,
        _ => TaskStatus::Working,
    }
}

/// A task as one dialect shows it, with its end where results are inlined.
pub fn task(record: &Record, view: View) -> Task {
    let status = status(record, view);
    let last_updated = match view {
        View::D1 | View::D2 => record.status_changed_at,
        View::D3 => record.updated_at,
    };
    let mut task = Task::new(id(record, view), status, record.created_at.rfc3339(), last_updated.rfc3339());
    task.status_message = message(record);
    task.ttl_ms = if view == View::D1 { keep_ms(record) } else { ttl_ms(record) };
    task.poll_interval_ms = record.poll_interval_ms;
    if view != View::D1 {
        task.meta = family::told(record, output::of(record));
    }
    if view != View::D3 {
        // Reading a result costs what it is long, and nobody would look at it.
        return task;
    }
    let question = |question: &Question| (question.key.to_string(), (*question.request).to_owned());
    task.questions = record.questions.iter().map(question).collect();
    match outcome(record) {
        Some(Ok(result)) => task.result = Some(result),
        Some(Err(error)) => task.error = Some(error),
        None => {}
    }
    task
}

/// The task as whoever called for it is told that it was made, whatever has come of it since an earlier try had written its row: one
/// of 2025-11-25 begins with `working` (Tasks, Task Status Lifecycle), the other dialects show it as it is.
pub(crate) fn as_begun(record: Arc<Record>) -> Arc<Record> {
    if record.dialect != Dialect::D2 || status(&record, View::D2) == TaskStatus::Working {
        return record;
    }
    let mut begun = Record::clone(&record);
    begun.phase = Phase::Queued { not_before: begun.created_at };
    (begun.status_changed_at, begun.updated_at) = (begun.created_at, begun.created_at);
    (begun.status_message, begun.progress) = (None, None);
    begun.questions.clear();
    // It has changed since: who goes by this looks again.
    begun.seq = 0;
    Arc::new(begun)
}

/// By which id a dialect knows the task.
pub fn id(record: &Record, view: View) -> &str {
    let drafted = if view == View::D1 { key::drafted_id(record) } else { None };
    drafted.unwrap_or_else(|| record.id.as_str())
}

/// How a task ended: the tool's result, or the error its request would have been answered with. `None`
/// while it has not.
pub fn outcome(record: &Record) -> Option<Result<CallToolResult, ErrorObject>> {
    let Phase::Done(outcome) = &record.phase else { return None };
    Some(answer(outcome, Some(record.id.as_str())))
}

/// A tool's result as a store keeps it; [`answer`] reads it again.
pub fn stored(result: &CallToolResult) -> Outcome {
    match serde_json::value::to_raw_value(result) {
        Ok(value) => Outcome::result(value.into(), result.is_error),
        Err(error) => Outcome::error(Code::INTERNAL.0, format!("the result cannot be stored: {error}"), None),
    }
}

/// What a request whose call ended so is answered with; `id` names its task, if its caller knows of one.
pub fn answer(outcome: &Outcome, id: Option<&str>) -> Result<CallToolResult, ErrorObject> {
    let value = value(outcome, id)?;
    serde_json::from_str(value.as_str())
        .map_err(|_| ErrorObject::internal("internal error: the stored result cannot be read"))
}

/// The same of any request, whatever its result is: the result as it was stored.
pub fn value<'o>(outcome: &'o Outcome, id: Option<&str>) -> Result<&'o Json, ErrorObject> {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct About<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'a str>,
    }
    match outcome {
        Outcome::Result { value, .. } => Ok(value),
        Outcome::Error { code, message, data } => {
            let error = ErrorObject::new(Code(*code), message.to_string());
            Err(match data {
                Some(data) => error.with_data(data),
                None => error,
            })
        }
        Outcome::Cancelled { .. } => {
            let about = About { task_id: id, reason: None, status: Some("cancelled") };
            Err(ErrorObject::internal("Task was cancelled").with_data(&about))
        }
        Outcome::Lost { reason } => {
            let about = About { task_id: id, reason: Some("worker_lost"), status: None };
            Err(ErrorObject::internal(lost(reason)).with_data(&about))
        }
        _ => Err(ErrorObject::internal("internal error: an outcome of a later release")),
    }
}

/// What a task that was lost says of it, by the name that programs know it by.
fn lost(reason: &str) -> String {
    format!("worker_lost: {reason}")
}

/// The longest status message, in characters.
const MESSAGE: usize = 200;

/// What to say of where the task stands; of a failure, why: some clients show nothing else.
fn message(record: &Record) -> Option<String> {
    match &record.phase {
        Phase::Done(Outcome::Error { message, .. }) => Some(clip(message)),
        Phase::Done(Outcome::Lost { reason }) => Some(clip(&lost(reason))),
        Phase::Done(Outcome::Cancelled { reason: Some(reason) }) => Some(clip(reason)),
        Phase::Done(Outcome::Result { is_error: true, .. }) => {
            let result = outcome(record)?.ok()?;
            // The last block says why: a command's standard error, or all a tool said.
            let text = result.content.iter().rev().find_map(|content| content.as_text())?;
            let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
            Some(clip(line.trim()))
        }
        _ => record.status_message.as_deref().map(clip),
    }
}

fn clip(text: &str) -> String {
    // Most are so short that nobody need count their characters.
    let longer = text.len() > MESSAGE;
    let end = longer.then(|| text.char_indices().nth(MESSAGE)).flatten();
    end.map_or(text, |(end, _)| &text[..end]).to_owned()
}

/// How long the task is kept, counted from its creation as the wire does; `None` while that is open.
fn ttl_ms(record: &Record) -> Option<u64> {
    let millis = |from: Time, to: Time| u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX);
    match (record.retention, record.expires_at) {
        (Retention::Unlimited, _) | (_, None) => None,
        (_, Some(at)) => Some(millis(record.created_at, at)),
    }
}

/// How long the task is kept, counted from its end; `None` for ever.
fn keep_ms(record: &Record) -> Option<u64> {
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match (record.terminal_at, record.expires_at, record.retention) {
        (Some(ended), Some(at), _) => Some(millis(at.since(ended))),
        (None, _, Retention::AfterTerminal(keep)) => Some(millis(keep)),
        // What was left of its time when it last changed: who ends then keeps that.
        (None, Some(at), Retention::FromCreation(_)) => Some(millis(at.since(record.updated_at))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
