//! What a caller that cannot take a task is told when its patience is nearly spent: a result like any
//! other, which says that the work goes on and how to come back to it.

use std::time::Duration;

use longhaul_proto::model::{CallToolResult, Content, ResourceLink, either_schema};
use longhaul_tasks::project::{self, View, output_uri};
use longhaul_tasks::store::Record;
use serde::Serialize;
use serde_json::value::RawValue;

use super::companion::asked;
use super::dispatch::Shared;
use super::parts;
use crate::handed_over;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HandOver<'a> {
    task_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
}

/// The schema of a result that is either a tool's own or a hand-over.
pub(super) fn or_hand_over(own: &RawValue) -> Box<RawValue> {
    let hand_over = RawValue::from_string(SCHEMA.to_owned()).expect("it is JSON");
    either_schema(own, &hand_over)
}

const SCHEMA: &str = r#"{"type":"object","description":"The work goes on as a task: call task_wait with its id","properties":{"taskId":{"type":"string"},"status":{"type":"string"},"statusMessage":{"type":"string"},"progress":{"type":"number"},"total":{"type":"number"}},"required":["taskId","status"]}"#;

/// The result that hands a caller over to its task.
pub(super) fn hand_over(shared: &Shared, record: &Record, waited: Option<Duration>) -> CallToolResult {
    let id = record.id.as_str();
    let mut text = "Still running".to_owned();
    if let Some(waited) = waited.filter(|waited| waited.as_secs() > 0) {
        text.push_str(&format!(" after {} s", waited.as_secs()));
    }
    if let Some(progress) = &record.progress {
        text.push_str(&format!(": {}", progress.value));
        if let Some(total) = progress.total {
            text.push_str(&format!(" of {total}"));
        }
    }
    if let Some(message) = &record.status_message {
        text.push_str(&format!(" ({message})"));
    }
    let output = output_uri(id, "stdout", 0);
    let writes = shared.engine.runs_as_job(&record.tool) && shared.offer.family_of(&output).is_some();
    let read = match (writes, record.parts) {
        (true, _) => ", `task_output` to read what it has written so far,",
        (false, 0) => "",
        (false, _) => ", `task_output` to read what it has given of it so far,",
    };
    text.push_str(&format!(
        ". The work goes on as task `{id}`. Call `task_wait` with it to wait for the result{read} or \
         `task_cancel` to stop it. Do not start it again."
    ));
    if shared.offer.tools.find(&record.tool).is_some_and(|tool| tool.answer_by_model) {
        let asked = asked(record);
        if !asked.is_empty() {
            text.push_str(&format!(" It asks, and goes on when `task_answer` is called:{asked}"));
        }
    }
    let structured = HandOver {
        task_id: id,
        status: project::status(record, View::D3).as_str(),
        status_message: record.status_message.as_deref(),
        progress: record.progress.as_ref().map(|progress| progress.value),
        total: record.progress.as_ref().and_then(|progress| progress.total),
    };
    let mut result = CallToolResult::text(text);
    if writes {
        let mut link = ResourceLink::new(output, "stdout");
        link.description = Some("What it has written so far".to_owned());
        result.content.push(Content::ResourceLink(link));
    } else if record.parts > 0 {
        result.content.push(parts::link(id));
    }
    // Not every revision has structured results, and a tool may have members of the same names in its own.
    result.meta = handed_over::mark(&structured);
    match serde_json::value::to_raw_value(&structured) {
        Ok(structured) => result.with_structured(structured),
        // Finite numbers and strings are always JSON; without them the text says it all.
        Err(_) => result,
    }
}
