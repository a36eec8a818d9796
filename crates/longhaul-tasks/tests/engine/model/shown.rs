//! What each dialect shows of a task, as the specification's table has it: a fact a row, and the first row that is true of
//! a task counts.

use std::time::Duration;

use longhaul_proto::model::{CallToolResult, Task, TaskStatus};
use longhaul_store::{
    Digest, Json, Lease, NodeId, Once, Outcome, Owner, Parent, Phase, Question, Record, Retention, TaskId,
    Time,
};
use longhaul_tasks::key;
use longhaul_tasks::project::{self, View};
use serde_json::Value;

use super::bytes::Bytes;

use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Submitted, Working};

/// A fact that a task shows, and the status it has for it in D1, D2 and D3.
type Row = (fn(&Record) -> bool, [TaskStatus; 3]);

const TABLE: [Row; 8] = [
    (
        |task| matches!(task.phase, Phase::Queued { .. }) && !task.started && task.questions.is_empty(),
        [Submitted, Working, Working],
    ),
    (|task| is_open(task) && task.questions.is_empty(), [Working; 3]),
    (is_open, [InputRequired; 3]),
    (|task| ended(task, |end| matches!(end, Outcome::Result { is_error: false, .. })), [Completed; 3]),
    (
        |task| ended(task, |end| matches!(end, Outcome::Result { is_error: true, .. })),
        [Completed, Failed, Completed],
    ),
    (|task| ended(task, |end| matches!(end, Outcome::Error { .. })), [Failed; 3]),
    (|task| ended(task, |end| matches!(end, Outcome::Cancelled { .. })), [Cancelled; 3]),
    (|task| ended(task, |end| matches!(end, Outcome::Lost { .. })), [Failed; 3]),
];

fn is_open(task: &Record) -> bool {
    !ended(task, |_| true)
}

fn ended(task: &Record, so: fn(&Outcome) -> bool) -> bool {
    matches!(&task.phase, Phase::Done(outcome) if so(outcome))
}

/// The dialects, in the order of the table.
pub(super) const VIEWS: [View; 3] = [View::D1, View::D2, View::D3];

/// The status that a task has in a dialect.
pub(super) fn status(task: &Record, view: usize) -> TaskStatus {
    let row = TABLE.iter().find(|(holds, _)| holds(task));
    row.expect("every task is one of these").1[view]
}

/// Whether a dialect lets its status go from there to there in one look: the lists of each dialect's own text.
pub(super) fn may_go(view: usize, from: TaskStatus, to: TaskStatus) -> bool {
    let ends = matches!(to, Completed | Failed | Cancelled);
    from == to
        || match from {
            Submitted => view == 0,
            Working => ends || to == InputRequired,
            InputRequired => ends || to == Working,
            _ => false,
        }
}

/// Any task shows what it should.
pub(super) fn story(bytes: &[u8]) -> Result<(), String> {
    let task = any_task(&mut Bytes::new(bytes));
    for view in 0..VIEWS.len() {
        shows(&task, view)?;
    }
    Ok(())
}

/// Whether a dialect shows a task as it should.
pub(super) fn shows(task: &Record, view: usize) -> Result<(), String> {
    let found = project::task(task, VIEWS[view]);
    let wrong = |what: &str| Err(format!("{what} of {task:#?}\nin {:?} is that of {found:#?}", VIEWS[view]));
    if found.status != status(task, view) || project::status(task, VIEWS[view]) != found.status {
        return wrong(&format!("the status ({:?} by the table)", status(task, view)));
    }
    let named = task.once.as_ref().and_then(|once| once.key.as_str().strip_prefix("task:"));
    let id = if view == 0 { named.unwrap_or(task.id.as_str()) } else { task.id.as_str() };
    if found.id != id || project::id(task, VIEWS[view]) != id {
        return wrong("the id");
    }
    let changed = if view == 2 { task.updated_at } else { task.status_changed_at };
    if !is_date(&found.created_at, task.created_at) || !is_date(&found.last_updated_at, changed) {
        return wrong("a date");
    }
    if found.ttl_ms != kept_for(task, view) {
        return wrong(&format!("the time it is kept ({:?} by the rule)", kept_for(task, view)));
    }
    if found.poll_interval_ms != task.poll_interval_ms {
        return wrong("the pause between two looks");
    }
    if !says_why(task, found.status_message.as_deref()) {
        return wrong("the status message");
    }
    let says = |key| found.meta.find(key).map(|said| said.get());
    if says("dev.longhaul/parts").is_some() != (view > 0 && task.parts > 0) {
        return wrong("what is said of its parts");
    }
    let parent =
        task.parent.as_ref().filter(|_| view > 0).map(|parent| format!("{:?}", parent.task.as_str()));
    if says("dev.longhaul/parentTaskId") != parent.as_deref() {
        return wrong("by which task it was made");
    }
    if says("dev.longhaul/children") != has_made(task).filter(|_| view > 0).as_deref() {
        return wrong("how many it has made");
    }
    if !is_inlined(task, &found, view) {
        return wrong("what is inlined");
    }
    Ok(())
}

/// What is said of the tasks that it has made.
fn has_made(task: &Record) -> Option<String> {
    let made = task.children.open + task.children.ended;
    match (made, task.children.open) {
        (0, _) => None,
        (made, open) if is_open(task) => Some(format!(r#"{{"made":{made},"open":{open}}}"#)),
        (made, _) => Some(format!(r#"{{"made":{made}}}"#)),
    }
}

/// RFC 3339 to the millisecond, read back; no later than there is a way to write it.
fn is_date(shown: &str, time: Time) -> bool {
    let read: Option<jiff::Timestamp> = shown.parse().ok();
    let latest = jiff::Timestamp::MAX.as_millisecond();
    let wanted = if time.unix_ms() > latest { latest } else { time.unix_ms() };
    read.is_some_and(|read| read.as_millisecond() == wanted) && shown.ends_with('Z') && shown.contains('.')
}

/// D1 counts from a task's end, or from its latest change if it would end then, the others from its creation; neither says what nobody enforces.
fn kept_for(task: &Record, view: usize) -> Option<u64> {
    let span = |from: Time, to: Time| u64::try_from((to.unix_ms() - from.unix_ms()).max(0)).ok();
    let until = task.expires_at;
    match (view, task.terminal_at, task.retention) {
        (0, Some(end), _) => until.and_then(|until| span(end, until)),
        (0, None, Retention::AfterTerminal(keep)) => u64::try_from(keep.as_millis()).ok(),
        (0, None, Retention::FromCreation(_)) => until.and_then(|until| span(task.updated_at, until)),
        (0, ..) | (_, _, Retention::Unlimited) => None,
        (..) => until.and_then(|until| span(task.created_at, until)),
    }
}

/// A failure says why, and nothing says more than 200 characters.
fn says_why(task: &Record, shown: Option<&str>) -> bool {
    let own = task.status_message.as_deref().map(str::to_owned);
    let whole = match &task.phase {
        Phase::Done(Outcome::Error { message, .. }) => Some(message.to_string()),
        Phase::Done(Outcome::Lost { reason }) => Some(format!("worker_lost: {reason}")),
        Phase::Done(Outcome::Cancelled { reason: Some(reason) }) => Some(reason.to_string()),
        Phase::Done(Outcome::Result { is_error: true, value }) => {
            let result: Value = serde_json::from_str(value.as_str()).unwrap();
            let texts = result["content"].as_array().cloned().unwrap_or_default();
            let last = texts.iter().rev().find_map(|block| block["text"].as_str()).unwrap_or_default();
            last.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
        }
        _ => own,
    };
    shown.map(str::to_owned) == whole.map(|whole| whole.chars().take(200).collect())
}

/// D3 alone shows the questions, and of a task that has ended its result or its error.
fn is_inlined(task: &Record, found: &Task, view: usize) -> bool {
    let questions: Vec<(&str, &str)> =
        found.questions.iter().map(|(key, request)| (key.as_str(), request.get())).collect();
    let asked: Vec<(&str, &str)> =
        task.questions.iter().map(|question| (&*question.key, question.request.as_str())).collect();
    let shown = (found.result.is_some(), found.error.is_some());
    if view < 2 {
        return questions.is_empty() && shown == (false, false);
    }
    let end_is_shown = match &task.phase {
        Phase::Done(Outcome::Result { is_error, .. }) => {
            shown == (true, false) && found.result.as_ref().is_some_and(|result| result.is_error == *is_error)
        }
        Phase::Done(outcome) => {
            let error = found.error.as_ref();
            let (code, reason) = match outcome {
                Outcome::Error { code, .. } => (*code, Value::Null),
                Outcome::Lost { .. } => (-32603, "worker_lost".into()),
                _ => (-32603, Value::Null),
            };
            let data: Value = error
                .and_then(|error| error.data.as_ref())
                .map_or(Value::Null, |data| serde_json::from_str(data.get()).unwrap());
            let names_it = matches!(outcome, Outcome::Error { .. }) || data["taskId"] == task.id.as_str();
            let told = data.get("reason").cloned().unwrap_or_default();
            shown == (false, true)
                && error.is_some_and(|error| error.code.0 == code)
                && names_it
                && (matches!(outcome, Outcome::Error { .. }) || told == reason)
        }
        _ => shown == (false, false),
    };
    questions == asked && end_is_shown
}

/// A task in any state that a store could tell of.
fn any_task(bytes: &mut Bytes<'_>) -> Record {
    let created = bytes.one(&[0, 1, 999, 1_700_000_000_123, 253_402_300_799_999, 400_000_000_000_000]);
    let time = |bytes: &mut Bytes<'_>| Time::from_unix_ms(created + bytes.one(&[0, 1, 1_000, 86_400_123]));
    let json = |text: &str| Json::parse(text).unwrap();
    let id = TaskId::new("task-1").unwrap();
    let mut task =
        Record::new(id, Owner::Anonymous, "tool", json("{}"), json("null"), Time::from_unix_ms(created));
    task.started = bytes.flag();
    (task.status_changed_at, task.updated_at) = (time(bytes), time(bytes));
    task.phase = phase(bytes);
    let ended = matches!(task.phase, Phase::Done(_));
    task.terminal_at = ended.then(|| time(bytes));
    let span = Duration::from_millis(bytes.one(&[0, 1, 60_000, 600_000_000]));
    task.retention =
        bytes.one(&[Retention::FromCreation(span), Retention::AfterTerminal(span), Retention::Unlimited]);
    task.expires_at = bytes.flag().then(|| time(bytes));
    task.status_message = bytes.flag().then(|| words(bytes).into());
    task.poll_interval_ms = bytes.flag().then_some(5_000);
    task.parts = u32::try_from(bytes.below(3)).unwrap();
    task.parent = bytes.flag().then(|| Parent::new(TaskId::new("task-0").unwrap(), "s", 1));
    (task.children.open, task.children.ended) = bytes.one(&[(0, 0), (1, 0), (0, 2), (3, 4)]);
    // What was never started, or has ended, asks nothing.
    if task.started && !ended {
        for number in 0..bytes.below(3) {
            let request = json(&format!(r#"{{"method":"elicitation/create","number":{number}}}"#));
            task.questions.push(Question::new(format!("q{number}"), request));
        }
    }
    task.once = match bytes.below(4) {
        0 => Some(key::drafted("mine").unwrap()),
        1 => Some(key::idempotency("task:mine").unwrap()),
        _ => None,
    }
    .map(|key| Once::new(key, Digest::new([7; 32])));
    task
}

fn phase(bytes: &mut Bytes<'_>) -> Phase {
    let soon = Time::from_unix_ms(5);
    match bytes.below(9) {
        0 => Phase::Queued { not_before: soon },
        1 => Phase::Parked { until: bytes.flag().then_some(soon) },
        2 => Phase::Running { lease: Lease::new(NodeId::new("n").unwrap(), soon) },
        3 => Phase::Done(Outcome::error(bytes.one(&[-32602, -1]), words(bytes), None)),
        4 => Phase::Done(Outcome::lost(words(bytes))),
        5 => Phase::Done(Outcome::cancelled(bytes.flag().then(|| words(bytes).into()))),
        of => {
            let blocks = (0..bytes.below(3)).map(|_| words(bytes)).collect::<Vec<_>>();
            let content: Vec<Value> =
                blocks.iter().map(|text| serde_json::json!({ "type": "text", "text": text })).collect();
            let is_error = of != 6;
            let mut value = serde_json::json!({ "content": content });
            if is_error {
                value["isError"] = true.into();
            }
            let result: CallToolResult = serde_json::from_value(value).unwrap();
            Phase::Done(project::stored(&result))
        }
    }
}

/// Some that are empty, odd or long.
fn words(bytes: &mut Bytes<'_>) -> String {
    match bytes.below(6) {
        0 => String::new(),
        1 => "it broke".to_owned(),
        2 => "first\n  last  \n\n \n".to_owned(),
        3 => "\n\t\n".to_owned(),
        4 => "é".repeat(200),
        _ => "ü".repeat(201),
    }
}
