//! Tasks as SEP-1686 drafted them (D1), before a revision had any: in sessions, of servers that are told to.
//!
//! The caller names its task in `_meta` of the request, hears when it can be asked after, and gets its ordinary answer
//! all the same.

use serde::Deserialize;
use serde_json::{Number, Value};

use super::welcome::invalid;
use super::{Dialect, Era, ResultWriter, Table, find, name};
use crate::jsonrpc::{ErrorObject, ObjectWriter, Params, Text};
use crate::method::{Method, Notice};
use crate::model::{Meta, Task, TaskStatus};

/// The member of `_meta` by which a request becomes a task.
pub const DRAFTED_TASK: &str = "modelcontextprotocol.io/task";

/// The member of `_meta` that says which task a message is about.
pub(super) const RELATED_TASK: &str = "modelcontextprotocol.io/related-task";

const REQUESTS: Table<Method> = &[&[
    ("tasks/get", Method::GetTask),
    ("tasks/result", Method::TaskResult),
    ("tasks/list", Method::ListTasks),
    ("tasks/delete", Method::DeleteTask),
]];

const SERVER_NOTICES: Table<Notice> = &[&[("notifications/tasks/created", Notice::TaskCreated)]];

/// A request that is to be a task.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DraftedTask {
    /// What its caller calls it.
    pub id: String,
    /// For how long after its end it is to be kept.
    pub keep: Keep,
}

impl DraftedTask {
    /// A task that is to be called so.
    pub fn new(id: impl Into<String>, keep: Keep) -> Self {
        Self { id: id.into(), keep }
    }
}

/// How long a caller wants its task kept, after it has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the draft's three")]
pub enum Keep {
    /// As the server will.
    Unsaid,
    /// For so many milliseconds.
    Millis(u64),
    /// As long as can be.
    Unlimited,
}

impl Dialect {
    /// A request can name the task that it is to be, if the server knows the draft.
    pub fn has_drafted_tasks(&self) -> bool {
        self.era == Era::Legacy
    }

    /// What a client's request of that name means in the draft.
    pub fn drafted_request(&self, method: &str) -> Option<Method> {
        if self.has_drafted_tasks() { find(REQUESTS, method) } else { None }
    }

    /// The name of a client's request in the draft.
    pub fn drafted_name_of(&self, method: Method) -> Option<&'static str> {
        if self.has_drafted_tasks() { name(REQUESTS, method) } else { None }
    }

    /// The task of which a server's notification says that there is one.
    pub fn drafted_created(method: &str, params: &Params<'_>) -> Option<String> {
        find(SERVER_NOTICES, method).filter(|notice| *notice == Notice::TaskCreated)?;
        Self::related_task(params.as_str()?)
    }

    /// The name of a server's notification in the draft.
    pub(super) fn drafted_notice(&self, notice: Notice) -> Option<&'static str> {
        if self.has_drafted_tasks() { name(SERVER_NOTICES, notice) } else { None }
    }

    /// The task that a request is to be.
    ///
    /// # Errors
    ///
    /// `-32602`: it says something else of it than the draft lets it.
    pub fn drafted_task(&self, params: &Params<'_>) -> Result<Option<DraftedTask>, ErrorObject> {
        #[derive(Deserialize)]
        struct Meta<'a> {
            #[serde(borrow, default, rename = "modelcontextprotocol.io/task")]
            task: Option<Wire<'a>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(borrow)]
            task_id: Text<'a>,
            #[serde(default, deserialize_with = "said")]
            keep_alive: Option<Option<Number>>,
        }
        if !self.has_drafted_tasks() {
            return Ok(None);
        }
        let Some(Meta { task: Some(task) }) = params.read::<Meta<'_>>("_meta")? else { return Ok(None) };
        let keep = match task.keep_alive {
            None => Keep::Unsaid,
            Some(None) => Keep::Unlimited,
            Some(Some(number)) => Keep::Millis(millis(&number).ok_or_else(|| {
                ErrorObject::invalid_params(format!(
                    "invalid params: `keepAlive` of `{DRAFTED_TASK}` is a number of milliseconds, not {number}"
                ))
            })?),
        };
        Ok(Some(DraftedTask { id: task.task_id.0.into_owned(), keep }))
    }

    /// Reads the answer to `tasks/get`. What its server calls unknown has failed.
    ///
    /// # Errors
    ///
    /// A sentence saying what is wrong, when it is no task.
    pub fn read_drafted_task(&self, result: &str) -> Result<Task, ErrorObject> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", expecting = "a task")]
        struct Wire {
            task_id: String,
            status: String,
            #[serde(default)]
            keep_alive: Option<Number>,
            #[serde(default)]
            poll_frequency: Option<Number>,
            #[serde(default)]
            error: Option<Value>,
            #[serde(rename = "_meta", default)]
            meta: Meta,
        }
        let wire: Wire = serde_json::from_str(result).map_err(invalid)?;
        let said = wire.error.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
        let (status, message) = match wire.status.as_str() {
            "submitted" => (TaskStatus::Submitted, said),
            "unknown" => {
                let unknown = || "the server does not know what became of the task".to_owned();
                (TaskStatus::Failed, said.or_else(|| Some(unknown())))
            }
            word => {
                (TaskStatus::from_word(word).ok_or_else(|| invalid(format!("task status {word:?}")))?, said)
            }
        };
        let mut task = Task::new(wire.task_id, status, String::new(), String::new());
        task.status_message = message;
        task.ttl_ms = wire.keep_alive.as_ref().and_then(millis);
        task.poll_interval_ms = wire.poll_frequency.as_ref().and_then(millis);
        task.meta = wire.meta;
        Ok(task)
    }

    /// Writes the answer to `tasks/get`.
    pub fn write_drafted_task(&self, task: &Task, out: &mut ResultWriter<'_>) {
        out.members(|object| write_members(task, object));
    }
}

/// Writes the `_meta` that relates a notification to a drafted task.
pub fn write_drafted_relation(params: &mut ObjectWriter<'_>, id: &str) {
    let mut meta = params.object("_meta");
    write_related(&mut meta, id);
    meta.end();
}

pub(super) fn write_related(meta: &mut ObjectWriter<'_>, id: &str) {
    let mut related = meta.object(RELATED_TASK);
    related.field("taskId", id);
    related.end();
}

/// What the draft has a request say of a task.
#[derive(Debug)]
pub(super) enum Said {
    /// The request is to be it.
    Is(DraftedTask),
    /// It is about that of this id.
    About(String),
}

impl Said {
    pub(super) fn write(&self, meta: &mut ObjectWriter<'_>) {
        match self {
            Self::Is(task) => {
                let mut object = meta.object(DRAFTED_TASK);
                object.field("taskId", &task.id);
                match task.keep {
                    Keep::Unsaid => {}
                    Keep::Millis(millis) => {
                        object.field("keepAlive", &millis);
                    }
                    Keep::Unlimited => {
                        object.raw("keepAlive", "null");
                    }
                }
                object.end();
            }
            Self::About(id) => write_related(meta, id),
        }
    }
}

/// There are no dates in the draft.
pub(super) fn write_members(task: &Task, out: &mut ObjectWriter<'_>) {
    out.field("taskId", &task.id).field("status", task.status.as_str());
    out.field("keepAlive", &task.ttl_ms).optional("pollFrequency", task.poll_interval_ms.as_ref());
    if task.status == TaskStatus::Failed {
        out.optional("error", task.status_message.as_ref());
    }
}

/// A member that is there, be it `null`.
fn said<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Number>>, D::Error> {
    Option::<Number>::deserialize(deserializer).map(Some)
}

/// What is too long to be counted is as long as can be.
fn millis(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        // A fraction of a millisecond is nothing.
        number.as_f64().filter(|millis| *millis >= 0.0).map(|millis| millis as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Declaration, Revision};
    use crate::jsonrpc::{Limits, Message};

    fn read(revision: Revision, meta: &str) -> Result<Option<DraftedTask>, ErrorObject> {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","_meta":{meta}}}}}"#
        );
        let Ok(Message::Request(request)) = Message::decode(text.as_bytes(), &Limits::default()) else {
            panic!("{text}")
        };
        Dialect::of(revision).drafted_task(&request.params)
    }

    #[test]
    fn r1_02_a_request_says_which_task_it_is_to_be_and_how_long_to_keep_it() {
        let task =
            |keep: &str| format!(r#"{{"modelcontextprotocol.io/task":{{"taskId":"a"{keep}}},"other":1}}"#);
        for (text, keep) in [
            ("", Keep::Unsaid),
            (r#","keepAlive":60000"#, Keep::Millis(60_000)),
            (r#","keepAlive":0"#, Keep::Millis(0)),
            (r#","keepAlive":1.5"#, Keep::Millis(1)),
            (r#","keepAlive":1e300"#, Keep::Millis(u64::MAX)),
            (r#","keepAlive":null"#, Keep::Unlimited),
        ] {
            let read = read(Revision::V2025_06_18, &task(text)).unwrap().unwrap();
            assert_eq!((read.id.as_str(), read.keep), ("a", keep), "{text}");
        }
        for wrong in [r#","keepAlive":-1"#, r#","keepAlive":"1""#] {
            assert!(read(Revision::V2025_06_18, &task(wrong)).is_err(), "{wrong}");
        }
        assert!(read(Revision::V2025_06_18, r#"{"modelcontextprotocol.io/task":{"taskId":1}}"#).is_err());
        assert_eq!(read(Revision::V2025_06_18, r#"{"other":1}"#).unwrap(), None);
    }

    #[test]
    fn r1_02_a_request_is_read_as_it_is_written() {
        let dialect = Dialect::of(Revision::V2025_06_18);
        for keep in [Keep::Unsaid, Keep::Millis(60_000), Keep::Unlimited] {
            let (mut out, task) = (Vec::new(), DraftedTask::new("a", keep));
            let declared = Declaration::default();
            dialect.write_request(&mut out, &1.into(), "tools/call", &declared, Some(&2.into()), |params| {
                params.field("name", "t").drafted_task(&task);
            });
            let text = String::from_utf8(out).unwrap();
            let Ok(Message::Request(request)) = Message::decode(text.as_bytes(), &Limits::default()) else {
                panic!("{text}")
            };
            assert_eq!(dialect.drafted_task(&request.params).unwrap(), Some(task), "{text}");
            assert!(text.contains("progressToken"), "{text}");
        }
    }

    #[test]
    fn r1_13_whatever_is_asked_of_a_task_names_it() {
        let (mut out, dialect) = (Vec::new(), Dialect::of(Revision::V2025_06_18));
        let name = dialect.drafted_name_of(Method::GetTask).unwrap();
        dialect.write_request(&mut out, &1.into(), name, &Declaration::default(), None, |params| {
            params.field("taskId", "a").about_drafted_task("a");
        });
        let text = String::from_utf8(out).unwrap();
        let asked: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(Dialect::related_task(&asked["params"].to_string()).as_deref(), Some("a"), "{text}");
    }

    #[test]
    fn a_task_is_read_as_it_is_written_and_what_is_unknown_has_failed() {
        let dialect = Dialect::of(Revision::V2025_06_18);
        for status in [TaskStatus::Submitted, TaskStatus::Working, TaskStatus::Failed] {
            let mut task = Task::new("a", status, String::new(), String::new());
            (task.ttl_ms, task.poll_interval_ms) = (Some(5), Some(7));
            task.status_message = (status == TaskStatus::Failed).then(|| "it broke".to_owned());
            let mut out = Vec::new();
            let mut object = ObjectWriter::new(&mut out);
            write_members(&task, &mut object);
            object.end();
            let read = dialect.read_drafted_task(std::str::from_utf8(&out).unwrap()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{task:?}"));
        }
        let unknown =
            dialect.read_drafted_task(r#"{"taskId":"a","status":"unknown","keepAlive":1e300}"#).unwrap();
        assert_eq!((unknown.status, unknown.ttl_ms), (TaskStatus::Failed, Some(u64::MAX)));
        assert!(unknown.status_message.is_some());
        assert!(dialect.read_drafted_task(r#"{"taskId":"a","status":"asleep"}"#).is_err());
    }

    #[test]
    fn r1_17_a_task_that_failed_says_why_and_no_task_says_when() {
        let mut task = Task::new("a", TaskStatus::Failed, "then".to_owned(), "now".to_owned());
        task.status_message = Some("it broke".to_owned());
        let write = |task: &Task| {
            let mut out = Vec::new();
            Dialect::of(Revision::V2025_06_18).write_result(&mut out, &1.into(), "{}", |result| {
                result.drafted_task(&task.id);
                Dialect::newest_legacy().write_drafted_task(task, result);
            });
            let answer: Value = serde_json::from_slice(&out).unwrap();
            answer["result"].clone()
        };
        let related = serde_json::json!({ RELATED_TASK: { "taskId": "a" } });
        let failed = serde_json::json!({
            "taskId": "a", "status": "failed", "keepAlive": null, "error": "it broke", "_meta": related,
        });
        assert_eq!(write(&task), failed);
        (task.status, task.ttl_ms, task.poll_interval_ms) = (TaskStatus::Submitted, Some(5), Some(7));
        let submitted = serde_json::json!({
            "taskId": "a", "status": "submitted", "keepAlive": 5, "pollFrequency": 7, "_meta": related,
        });
        assert_eq!(write(&task), submitted);
    }

    #[test]
    fn the_modern_era_knows_nothing_of_the_draft() {
        let modern = Dialect::newest_modern();
        assert_eq!(read(modern.revision(), r#"{"modelcontextprotocol.io/task":7}"#).unwrap(), None);
        assert_eq!(modern.drafted_request("tasks/list"), None);
        assert!(modern.notification(Notice::TaskCreated, |_| ()).is_none());
        assert_eq!(Dialect::newest_legacy().drafted_request("tasks/list"), Some(Method::ListTasks));
    }
}
