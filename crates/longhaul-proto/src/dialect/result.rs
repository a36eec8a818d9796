//! Writing a result: one writer for all revisions, which adds what a revision demands and leaves out
//! what it has no word for.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Dialect, drafted, listing};
use crate::jsonrpc::{ObjectWriter, RequestId};
use crate::model::{CacheScope, InputRequest, Meta, SUBSCRIPTION_ID, Task};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The `_meta` key that says which task a message belongs to (2025-11-25, Tasks, Related Task Metadata).
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Writes the members of one result.
#[derive(Debug)]
pub struct ResultWriter<'b> {
    object: ObjectWriter<'b>,
    dialect: &'static Dialect,
    server_info: Option<&'b str>,
    result_type: &'static str,
    related_task: Option<String>,
    /// The same, as the draft says it.
    drafted_task: Option<String>,
    meta_written: bool,
}

impl Dialect {
    /// Appends a whole answer whose result is written by `body`. `server_info` is the JSON text of the
    /// server's [`Implementation`](crate::model::Implementation), for the revisions that repeat it.
    pub fn write_result(
        &'static self,
        out: &mut Vec<u8>,
        id: &RequestId,
        server_info: &str,
        body: impl FnOnce(&mut ResultWriter<'_>),
    ) {
        let mut message = ObjectWriter::new(out);
        message.raw("jsonrpc", "\"2.0\"").field("id", id);
        let object = message.object("result");
        ResultWriter::new(object, self, Some(server_info)).fill(body);
        message.end();
    }
}

impl<'b> ResultWriter<'b> {
    fn new(object: ObjectWriter<'b>, dialect: &'static Dialect, server_info: Option<&'b str>) -> Self {
        Self {
            object,
            dialect,
            server_info,
            result_type: "complete",
            related_task: None,
            drafted_task: None,
            meta_written: false,
        }
    }

    fn fill(mut self, body: impl FnOnce(&mut ResultWriter<'_>)) {
        body(&mut self);
        if self.dialect.types_results() {
            let result_type = self.result_type;
            self.object.field("resultType", result_type);
        }
        if !self.meta_written {
            self.meta(&Meta::new());
        }
        self.object.end();
    }

    /// The dialect being written.
    pub fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    /// Writes a member.
    pub fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.object.field(name, value);
    }

    /// Writes a member if there is a value.
    pub fn optional<T: Serialize>(&mut self, name: &str, value: Option<&T>) {
        self.object.optional(name, value);
    }

    /// Writes a member whose value is JSON text already.
    pub fn raw(&mut self, name: &str, json: &str) {
        self.object.raw(name, json);
    }

    /// Writes a member that is an array whose items are JSON text already, with commas between.
    pub fn raw_items(&mut self, name: &str, items: &str) {
        self.object.with(name, |out| {
            out.push(b'[');
            out.extend_from_slice(items.as_bytes());
            out.push(b']');
        });
    }

    /// Writes members of which no revision known here says anything.
    pub fn others(&mut self, others: &Meta) {
        listing::others(&mut self.object, others);
    }

    /// Opens a member that is itself an object.
    pub fn object(&mut self, name: &str) -> ObjectWriter<'_> {
        self.object.object(name)
    }

    /// Writes a member that is an array, each item as the dialect writes it.
    pub fn list<T>(&mut self, name: &str, items: &[T], write: impl Fn(&Dialect, &T, &mut Vec<u8>)) {
        let dialect = self.dialect;
        self.object.array(name, items, |out, item| write(dialect, item, out));
    }

    /// Writes all of a result that is JSON text already, whatever it is of.
    ///
    /// # Errors
    ///
    /// When it is no object; nothing is written then.
    pub fn whole(&mut self, result: &str) -> Result<(), serde_json::Error> {
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(result)?;
        let meta =
            members.remove("_meta").map(|meta| serde_json::from_str::<Meta>(meta.get())).transpose()?;
        for (name, value) in members {
            self.raw(&name, value.get());
        }
        self.meta(&meta.unwrap_or_default());
        Ok(())
    }

    /// Writes members through the plain object underneath.
    pub(crate) fn members(&mut self, body: impl FnOnce(&mut ObjectWriter<'_>)) {
        body(&mut self.object);
    }

    /// Writes `structuredContent`; where only objects are allowed, another value goes under `value`.
    pub fn structured(&mut self, content: &RawValue) {
        if self.dialect.structures_objects_only() && !content.get().trim_start().starts_with('{') {
            let mut wrapped = self.object.object("structuredContent");
            wrapped.raw("value", content.get());
            wrapped.end();
        } else {
            self.object.raw("structuredContent", content.get());
        }
    }

    /// Says how long, in milliseconds, and by whom the result may be kept, where the revision has words
    /// for it.
    pub fn cacheable(&mut self, ttl_ms: u64, scope: CacheScope) {
        if self.dialect.types_results() {
            self.object.field("ttlMs", &ttl_ms).field("cacheScope", &scope);
        }
    }

    /// Marks the result as the creation of a task (D3).
    pub(crate) fn as_task(&mut self) {
        self.result_type = "task";
    }

    /// Writes a result that asks something back: its questions by their keys, and what the request is to bring again
    /// with the answers (2026-07-28, Multi Round-Trip Requests).
    pub fn input_required(&mut self, questions: &[(String, InputRequest)], state: &str) {
        self.result_type = "input_required";
        let dialect = self.dialect;
        let mut requests = self.object.object("inputRequests");
        for (key, question) in questions {
            requests.with(key, |out| dialect.write_input_request(out, question));
        }
        requests.end();
        self.object.field("requestState", state);
    }

    /// The same of questions that a task keeps, by their keys.
    pub fn input_required_of_task<'q>(
        &mut self,
        questions: impl IntoIterator<Item = (&'q str, &'q RawValue)>,
        state: &str,
    ) {
        self.result_type = "input_required";
        let mut requests = self.object.object("inputRequests");
        for (key, question) in questions {
            requests.raw(key, question.get());
        }
        requests.end();
        self.object.field("requestState", state);
    }

    /// Says which task the result belongs to, where messages are related so. Call it before
    /// [`meta`](Self::meta).
    pub fn related_task(&mut self, id: &str) {
        if self.dialect.relates_messages_to_tasks() {
            self.related_task = Some(id.to_owned());
        }
    }

    /// Says which drafted task the result belongs to. Call it before [`meta`](Self::meta).
    pub fn drafted_task(&mut self, id: &str) {
        self.drafted_task = Some(id.to_owned());
    }

    /// Writes `_meta`: what the result itself attaches and what the dialect adds. At most once.
    pub fn meta(&mut self, meta: &Meta) {
        self.meta_written = true;
        let server_info = self.server_info.filter(|_| self.dialect.names_server_in_results());
        let related = self.related_task.is_some() || self.drafted_task.is_some();
        if meta.is_empty() && server_info.is_none() && !related {
            return;
        }
        let mut object = self.object.object("_meta");
        for (key, value) in meta.iter().filter(|(key, _)| !reserved(key)) {
            object.raw(key, value.get());
        }
        if let Some(info) = server_info {
            object.raw(SERVER_INFO, info);
        }
        if let Some(id) = &self.related_task {
            write_related(&mut object, id);
        }
        if let Some(id) = &self.drafted_task {
            drafted::write_related(&mut object, id);
        }
        object.end();
    }
}

/// Writes a result within a message, such as the one a finished task carries.
pub(super) fn write_nested(
    dialect: &'static Dialect,
    object: ObjectWriter<'_>,
    body: impl FnOnce(&mut ResultWriter<'_>),
) {
    ResultWriter::new(object, dialect, None).fill(body);
}

/// Writes the `_meta` that relates a notification to a task, where messages are related so (D2).
pub fn write_related_task(params: &mut ObjectWriter<'_>, id: &str) {
    let mut meta = params.object("_meta");
    write_related(&mut meta, id);
    meta.end();
}

/// Writes the `_meta` that says to which subscription a notification belongs (2026-07-28, Patterns, Subscriptions).
pub fn write_subscription_id(params: &mut ObjectWriter<'_>, id: &RequestId) {
    let mut meta = params.object("_meta");
    meta.field(SUBSCRIPTION_ID, id);
    meta.end();
}

/// The same of a notification about a task, with what else is said of that: `seq` counts those of this task in this
/// subscription, from 1.
pub fn write_task_subscription(params: &mut ObjectWriter<'_>, task: &Task, id: &RequestId, seq: u64) {
    let mut meta = params.object("_meta");
    for (key, value) in task.meta.iter().filter(|(key, _)| *key != SUBSCRIPTION_ID && *key != SEQ) {
        meta.raw(key, value.get());
    }
    meta.field(SUBSCRIPTION_ID, id).field(SEQ, &seq);
    meta.end();
}

/// The `_meta` key under which the notifications about one task are counted.
const SEQ: &str = "dev.longhaul/seq";

fn write_related(meta: &mut ObjectWriter<'_>, id: &str) {
    let mut related = meta.object(RELATED_TASK);
    related.field("taskId", id);
    related.end();
}

/// Keys that only the dialect writes, so that none stands twice.
fn reserved(key: &str) -> bool {
    key == SERVER_INFO || key == RELATED_TASK || key == drafted::RELATED_TASK
}
