//! `[jobs.<name>]`: reading one job and its requests.

use std::num::NonZeroU32;

use longhaul::{server::TaskMode, store::Rerun};
use reqwest::header::HeaderName;
use toml::de::DeValue;

use super::{CALLBACK, HttpJob, JOB, Place, ResultFrom, Status, limits, request::Request, url::UrlTemplate};
use crate::config::{
    auth::scopes,
    diagnostic::Diagnostic,
    input::read::Declared,
    outline::Form,
    reader::{At, Entry, Reader, Section},
    tool::{
        limits as of_tools,
        read::{self as tool, Context, JOINS, OUTPUTS, RERUNS},
    },
    versions::{self, Versions},
};

mod callback;
pub(in crate::config) mod message;

use message::{Names, header_name, headers, request, url};

/// Reads one job; `None` when it has a mistake that keeps it from being built.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    context: Context<'_>,
) -> Option<HttpJob> {
    tool::check_name(reader, entry);
    let section = reader.table(entry, format!("job `{}`", entry.key.escape_debug()))?;
    reader.reject_unknown(&section, &KEYS);
    let mut inputs = tool::inputs(reader, &section);
    let headers = headers(reader, &section, context, &mut Names::Fixed);
    let mut callback = callback::read(reader, &section, &inputs);
    let start = start(reader, &section, context, &mut inputs, callback.as_mut());
    callback::warn_if_unused(reader, callback.as_ref());
    let id = pointer(reader, &section, "id");
    let status_url = status_url(reader, &section);
    let status = status(reader, &section, status_url.is_some());
    let result = result(reader, &section);
    let cancel = match section.entry("cancel") {
        Some(entry) => request(reader, &entry, &section.place, context, &mut Names::Job).map(Some),
        None => Some(None),
    };
    let of_the_job = [
        status.as_ref().is_some_and(|status| status.url.as_ref().is_some_and(UrlTemplate::has_values)),
        matches!(&result, Some(ResultFrom::Url(url, _)) if url.has_values()),
        matches!(&cancel, Some(Some(cancel)) if cancel.has_values()),
    ];
    if section.entry("id").is_none() && of_the_job.contains(&true) {
        needs_id(reader, &section);
    }
    warn_of_unused(reader, &section, &inputs);
    let ttl = (of_tools::TTL_MIN, of_tools::TTL_MAX);
    let hold = (of_tools::HOLD_MIN, of_tools::DAY);
    let timeout = (of_tools::TIMEOUT_MIN, of_tools::TIMEOUT_MAX);
    let request_timeout = (limits::REQUEST_MIN, limits::REQUEST_MAX);
    let start_within = (std::time::Duration::ZERO, limits::START_WITHIN_MAX);
    let gone_after = (std::time::Duration::ZERO, limits::GONE_AFTER_MAX);
    let max_answer = (limits::MAX_ANSWER_MIN, limits::MAX_ANSWER_MAX);
    Some(HttpJob {
        name: entry.key.to_owned(),
        title: reader.owned(&section, "title"),
        description: tool::description(reader, &section, &KEYS),
        annotations: tool::annotations(reader, &section),
        scopes: scopes(reader, &section, "scope").unwrap_or_default(),
        task: task(reader, &section).unwrap_or(TaskMode::After(of_tools::TASK_AFTER)),
        ttl: reader.duration(&section, "ttl", ttl).unwrap_or(of_tools::TTL),
        orphan: tool::orphan(reader, &section),
        rerun: reader.word(&section, "rerun", &RERUNS).unwrap_or(Rerun::Reattach),
        versions: versions::read(reader, &section, &Versions::default()),
        hold: reader.duration(&section, "hold", hold).unwrap_or(of_tools::HOLD),
        join: reader.word(&section, "join", &JOINS).unwrap_or_default(),
        limit: reader.count_of(&section, "limit", 1).and_then(|limit| NonZeroU32::new(limit.value)),
        timeout: reader.duration(&section, "timeout", timeout),
        request_timeout: reader
            .duration(&section, "request_timeout", request_timeout)
            .unwrap_or(limits::REQUEST),
        start_within: reader.duration(&section, "start_within", start_within).unwrap_or(limits::START_WITHIN),
        gone_after: reader.duration(&section, "gone_after", gone_after).unwrap_or(limits::GONE_AFTER),
        max_answer: reader.size(&section, "max_answer", max_answer).unwrap_or(limits::MAX_ANSWER),
        output: reader.word(&section, "output", &OUTPUTS).unwrap_or_default(),
        idempotent: reader.boolean(&section, "idempotent").is_none_or(|at| at.value),
        key_header: key_header(reader, &section),
        callback: match callback {
            Some(declared) => Some(declared.callback?),
            None => None,
        },
        headers: headers?,
        start: start?,
        id,
        status_url,
        status: status?,
        result: result?,
        cancel: cancel?,
        inputs: inputs.into_iter().map(|declared| declared.input).collect::<Option<_>>()?,
    })
}

/// Any mode in which there may be a task: what runs elsewhere is found again, and cancelled, by its task alone.
fn task(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<TaskMode> {
    let mode = tool::task(reader, section)?;
    if mode == TaskMode::Never
        && let Some(entry) = section.entry("task")
    {
        let message = format!("`task = \"never\"` is not for {}", section.place);
        let help = "write \"after 10s\": a call whose job ends sooner is answered in place";
        reader.push(
            Diagnostic::error(message)
                .at(entry.span, "a job needs a task")
                .note("a job runs on when this server ends: its task is how it is found again, and cancelled")
                .help(help),
        );
        return None;
    }
    Some(mode)
}

fn start(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    context: Context<'_>,
    inputs: &mut [Declared],
    callback: Option<&mut callback::Declared>,
) -> Option<Request> {
    for input in inputs.iter().filter(|input| input.name == JOB) {
        let message = format!("`{JOB}` cannot be the name of an input of {}", section.place);
        let help = "`{job}` stands for the id that the API gives a job: choose another name";
        reader.push(Diagnostic::error(message).at(input.span.clone(), "taken").help(help));
    }
    match section.entry("start") {
        Some(entry) => {
            let callback = callback.map(|declared| &mut declared.used);
            request(reader, &entry, &section.place, context, &mut Names::Call { inputs, callback })
        }
        None => {
            if !tool::misspells(section, "start", &KEYS) {
                let message = format!("{} has no request that starts it", section.place);
                let help = "say where jobs are started: `start = { url = \"https://…/jobs\", body = { … } }`";
                reader.push(Diagnostic::error(message).at(section.span.clone(), "no `start`").help(help));
            }
            inputs.iter_mut().for_each(|input| input.used = true);
            callback.into_iter().for_each(|callback| callback.used = true);
            None
        }
    }
}

fn status(reader: &mut Reader<'_>, job: &Section<'_>, given: bool) -> Option<Status> {
    let help = "say how a job is asked after: `status = { url = \"https://…/jobs/{job}\", state = \"/state\", done = [\"succeeded\"] }`";
    let Some(entry) = job.entry("status") else {
        if !tool::misspells(job, "status", &KEYS) {
            let message = format!("{} has no status", job.place);
            reader.push(Diagnostic::error(message).at(job.span.clone(), "no `status`").help(help));
        }
        return None;
    };
    let section = reader.table(&entry, format!("`status` of {}", job.place))?;
    reader.reject_unknown(&section, &STATUS_KEYS);
    let at = match (section.entry("url"), given) {
        (Some(_), false) => url(reader, &section, &mut Names::Job).map(Some),
        (None, true) => Some(None),
        (Some(entry), true) => {
            let message = format!("{} has two URLs", section.place);
            let help = "`status_url` takes it from the answer to the start: remove one of the two";
            reader.push(Diagnostic::error(message).at(entry.span, "one of them").help(help));
            None
        }
        (None, false) => {
            let message = format!("{} has no URL", section.place);
            let help =
                "write `url`, or take it from the answer to the start with `status_url` beside `start`";
            reader.push(Diagnostic::error(message).at(section.span.clone(), "no `url`").help(help));
            None
        }
    };
    let before = reader.count();
    let state = pointer(reader, &section, "state");
    if state.is_none() && reader.count() == before {
        let message = format!("{} does not say where the state is", section.place);
        let help = "write a JSON pointer: `state = \"/state\"`";
        reader.push(Diagnostic::error(message).at(section.span.clone(), "no `state`").help(help));
    }
    let done = words(reader, &section, "done");
    if done.as_ref().is_some_and(Vec::is_empty) {
        let message = format!("{} has no state that ends a job", section.place);
        let help = "name what the API says of a job that has ended well: `done = [\"succeeded\"]`";
        reader.push(Diagnostic::error(message).at(section.span.clone(), "no `done`").help(help));
    }
    let failed = words(reader, &section, "failed");
    let every = reader.duration(&section, "every", (limits::EVERY_MIN, limits::EVERY_MAX));
    Some(Status {
        progress: pointer(reader, &section, "progress"),
        total: pointer(reader, &section, "total"),
        message: pointer(reader, &section, "message"),
        url: at?,
        state: state?,
        done: done?,
        failed: failed?,
        every: every.unwrap_or(limits::EVERY),
    })
}

fn result(reader: &mut Reader<'_>, job: &Section<'_>) -> Option<ResultFrom> {
    if job.entry("result").is_none() {
        return Some(ResultFrom::Status(String::new()));
    }
    let section = reader.section(job, "result", format!("`result` of {}", job.place))?;
    reader.reject_unknown(&section, &["url", "pointer"]);
    let pointer = pointer(reader, &section, "pointer").unwrap_or_default();
    match section.entry("url") {
        Some(_) => url(reader, &section, &mut Names::Job).map(|url| ResultFrom::Url(url, pointer)),
        None => Some(ResultFrom::Status(pointer)),
    }
}

/// `{job}` stands for an id that must come from somewhere.
fn needs_id(reader: &mut Reader<'_>, job: &Section<'_>) {
    let message = format!("{} does not say where the id of a job is, for which `{{job}}` stands", job.place);
    let help = "write where the answer to the start has it, as a JSON pointer: `id = \"/id\"`";
    reader.push(Diagnostic::error(message).at(job.span.clone(), "no `id`").help(help));
}

fn status_url(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<Place> {
    let text = reader.text(section, "status_url")?;
    if text.value.starts_with('/') {
        return Some(Place::Pointer(text.value.to_owned()));
    }
    header_name(reader, section, &text).map(Place::Header)
}

fn key_header(reader: &mut Reader<'_>, section: &Section<'_>) -> HeaderName {
    let default = HeaderName::from_static("idempotency-key");
    let Some(text) = reader.text(section, "idempotency_header") else { return default };
    header_name(reader, section, &text).unwrap_or(default)
}

/// A JSON pointer: nothing, or parts that each begin with `/`.
fn pointer(reader: &mut Reader<'_>, section: &Section<'_>, key: &str) -> Option<String> {
    let text = reader.text(section, key)?;
    let At { value, span } = text;
    if value.is_empty() || value.starts_with('/') {
        return Some(value.to_owned());
    }
    let message = format!("`{key}` of {} is no JSON pointer", section.place);
    let help = format!("a pointer begins with `/`: `{key} = \"/{}\"`", value.replace('.', "/"));
    reader.push(Diagnostic::error(message).at(span, "no pointer").help(help));
    None
}

fn words(reader: &mut Reader<'_>, section: &Section<'_>, key: &str) -> Option<Vec<String>> {
    reader.asks(section, key, || Form::Text);
    reader.asks(section, key, || Form::Texts);
    match section.entry(key) {
        None => Some(Vec::new()),
        // One word may stand alone.
        Some(Entry { value: DeValue::String(word), .. }) => Some(vec![word.to_string()]),
        Some(_) => Some(reader.texts(section, key)?.into_iter().map(|text| text.value.to_owned()).collect()),
    }
}

fn warn_of_unused(reader: &mut Reader<'_>, job: &Section<'_>, inputs: &[Declared]) {
    for declared in inputs.iter().filter(|declared| !declared.used) {
        let name = &declared.name;
        let message = format!("input `{}` of {} is never used", name.escape_debug(), job.place);
        let help = format!(
            "write \"{{{name}}}\" in the `url`, a header or the `body` of `start`, or remove the input"
        );
        reader.push(Diagnostic::warning(message).at(declared.span.clone(), "never used").help(help));
    }
}

const KEYS: [&str; 31] = [
    "title",
    "description",
    "input",
    "headers",
    "start",
    "id",
    "status_url",
    "status",
    "result",
    "callback",
    "cancel",
    "idempotent",
    "idempotency_header",
    "request_timeout",
    "start_within",
    "gone_after",
    "max_answer",
    "timeout",
    "limit",
    "output",
    "annotations",
    "scope",
    "task",
    "ttl",
    "on_orphan",
    "orphan_grace",
    "rerun",
    "version",
    "accepts",
    "hold",
    "join",
];

const STATUS_KEYS: [&str; 8] = ["url", "state", "done", "failed", "progress", "total", "message", "every"];
