//! From what an API says of a job to the result of its call.

use longhaul::proto::model::{CallToolResult, Content, Meta};
use longhaul::store::Outcome;
use longhaul::tasks::project;
use serde::Serialize;
use serde_json::Value;

use crate::clean;
use crate::config::{HttpJob, Output, StatusAt};

/// How much of a text a result repeats, in bytes.
const TEXT: usize = 64 << 10;

/// The facts of a job, in `_meta`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts<'f> {
    /// What the API calls it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) job_id: &'f str,
    /// Its last state, in the API's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<&'f str>,
    /// How long it has taken, as far as this server knows.
    pub(super) duration_ms: u64,
}

/// A job that has ended well.
pub(super) fn done(job: &HttpJob, value: &Value, facts: &Facts<'_>) -> Outcome {
    let text = match (job.output, value) {
        (Output::Text, Value::String(text)) => text.clone(),
        _ => value.to_string(),
    };
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(Content::text(beginning(text)));
    }
    let mut result = CallToolResult::new(content);
    if job.output == Output::Json {
        result.structured_content = serde_json::value::to_raw_value(value).ok();
    }
    project::stored(&result.with_meta(Meta::new().with(META, facts)))
}

/// A call that failed, in the API's words or in ours.
pub(super) fn failed(text: String, facts: &Facts<'_>) -> Outcome {
    let result = CallToolResult::error(beginning(text));
    project::stored(&result.with_meta(Meta::new().with(META, facts)))
}

/// How a job stands, by its status and in the API's word.
pub(super) fn state(job: &HttpJob, status: &Value) -> Option<String> {
    text_at(status, job.status_at().state)
}

/// Why a job has failed, by its last status.
pub(super) fn reason(job: &HttpJob, status: &Value, state: &str) -> String {
    let said = job.status_at().message.and_then(|pointer| text_at(status, pointer));
    match said {
        Some(said) => format!("{} failed ({state}): {said}\n{status}", job.name),
        None => format!("{} failed ({state})\n{status}", job.name),
    }
}

/// What stands at a pointer, as one word or line: a text as it is, anything else as JSON; `None` for nothing.
pub(super) fn text_at(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// How far a status says that its job is.
pub(super) fn progress(status: &Value, at: &StatusAt<'_>) -> Option<(f64, Option<f64>)> {
    let number = |pointer: Option<&str>| match status.pointer(pointer?)? {
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok(),
        number => number.as_f64(),
    };
    Some((number(at.progress)?, number(at.total)))
}

/// A line for people: one, and not too long.
pub(super) fn line(text: &str) -> String {
    clean::line(text, LINE)
}

/// A text, or as much of it as is repeated.
fn beginning(text: String) -> String {
    if text.len() <= TEXT {
        return text;
    }
    let end = text.floor_char_boundary(TEXT);
    format!("{}\n(cut: {} of {} bytes)", &text[..end], end, text.len())
}

const META: &str = "dev.longhaul/job";
const LINE: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_an_escape_in_a_line() {
        assert_eq!(line("at 1\u{1b}[31m\r\n of\t2\u{1b}]0;title\u{7}"), "at 1  of 2");
        assert!(line(&"x".repeat(500)).chars().count() <= LINE);
    }
}
