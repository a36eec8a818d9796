//! Tasks that one side of a session hosts and the other asks after: a server's of its tools, a client's of what it is asked.
//!
//! Here is what both answer in the same way. Who may ask, how often, and what else is told with it, is each side's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, ResultWriter};
use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::Task;
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::key;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::runner::{Engine, Observed, Observer};
use longhaul_tasks::store::{
    CancelAsked, Cancellation, Cursor, Dialect as Door, Erasure, Filter, Outcome, Owner, Record, Scope,
    StoreError, TaskId,
};

use crate::server::{Envelope, HeldPush, Push as _, Reach, Write};
use crate::wire::{self, By};

/// The tasks of one owner, asked after in one dialect.
#[derive(Clone, Debug)]
pub(crate) struct Hosted {
    pub(crate) engine: Engine,
    pub(crate) owner: Owner,
    pub(crate) dialect: &'static Dialect,
}

impl Hosted {
    /// The task, if this owner may see it in this dialect.
    pub(crate) async fn find(&self, id: &TaskId) -> Result<Option<Record>, ErrorObject> {
        let record = self.engine.find(Scope::Owner(&self.owner), id).await.map_err(|e| failed(&e))?;
        Ok(record.filter(|record| is_seen(self.dialect, record)))
    }

    /// The task once it has ended.
    pub(crate) async fn ended(&self, id: &TaskId) -> Result<Record, ErrorObject> {
        let ended = self.engine.ended(Scope::Owner(&self.owner), id).await.map_err(|e| failed(&e))?;
        ended.ok_or_else(not_found)
    }

    /// Cancels the task, as its dialect says.
    pub(crate) async fn cancel(&self, id: &TaskId) -> Result<Write, ErrorObject> {
        let scope = Scope::Owner(&self.owner);
        let reason = Some("cancelled on request");
        // Only the extension lets the work decide how its task ends.
        let asked = match self.dialect.has_tasks_extension() {
            true => self.engine.ask_to_cancel(scope, id, reason).await,
            false => self.engine.cancel(scope, id, reason).await.map(CancelAsked::AtOnce),
        };
        let cancellation = match asked.map_err(|e| failed(&e))? {
            CancelAsked::AtOnce(cancelled) => cancelled,
            CancelAsked::Requested(record) => Cancellation::Cancelled(record),
        };
        match cancellation {
            Cancellation::NotFound => Err(not_found()),
            Cancellation::AlreadyTerminal(record) if !self.dialect.has_tasks_extension() => {
                let status = project::status(&record, View::D2).as_str();
                Err(ErrorObject::invalid_params(format!(
                    "the task is {status} already: it cannot be cancelled"
                )))
            }
            Cancellation::Cancelled(record) | Cancellation::AlreadyTerminal(record) => {
                Ok(cancelled(project::task(&record, view(self.dialect))))
            }
        }
    }

    /// The drafted task that its owner calls so.
    pub(crate) async fn drafted(&self, id: &str) -> Result<Option<Record>, ErrorObject> {
        let Ok(key) = key::drafted(id) else { return Ok(None) };
        self.engine.called(&self.owner, &key).await.map_err(|error| failed(&error))
    }

    /// What is answered of it; `None` when that is nothing the draft has, or it is gone meanwhile. `result` writes what it has come
    /// to.
    pub(crate) async fn about_drafted(
        &self,
        method: Method,
        id: &str,
        record: Record,
        result: impl FnOnce(&Record) -> Result<WriteResult, ErrorObject>,
    ) -> Result<Option<Write>, ErrorObject> {
        let named = id.to_owned();
        Ok(Some(match method {
            Method::GetTask => Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
                let task = project::task(&record, View::D1);
                envelope.result(out, |result| {
                    result.drafted_task(&named);
                    envelope.dialect().write_drafted_task(&task, result);
                })
            }),
            Method::TaskResult => {
                if !matches!(record.outcome(), Some(Outcome::Result { .. })) {
                    // There is none of any other (SEP-1686, Result Retrieval).
                    let status = project::status(&record, View::D1).as_str();
                    let why = format!("the task is {status}: only one that is completed has a result");
                    let data = serde_json::json!({ "taskId": id, "status": status });
                    return Err(ErrorObject::invalid_params(why).with_data(&data));
                }
                let write = result(&record)?;
                Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
                    envelope.result(out, |writer| {
                        writer.drafted_task(&named);
                        write(writer);
                    })
                })
            }
            Method::DeleteTask => {
                let erasure = self.engine.erase(Scope::Owner(&self.owner), &record.id).await;
                match erasure.map_err(|error| failed(&error))? {
                    Erasure::NotFound => return Ok(None),
                    Erasure::Open => {
                        let why = "the task has not ended: cancel its request before you delete it";
                        return Err(ErrorObject::invalid_params(why));
                    }
                    Erasure::Erased => Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| {
                        envelope.result(out, |result| result.drafted_task(&named))
                    }),
                }
            }
            _ => return Ok(None),
        }))
    }

    /// A page of the tasks, of each what `shown` says. What it leaves out makes a page short; it may even be empty, and
    /// another follow it.
    pub(crate) async fn list(
        &self,
        after: Option<&Cursor>,
        limit: usize,
        shown: impl Fn(&Record) -> Option<Task>,
    ) -> Result<Write, ErrorObject> {
        let page = self.engine.list(Scope::Owner(&self.owner), &Filter::all(), after, limit).await;
        let page = page.map_err(|error| match error {
            StoreError::InvalidCursor => {
                ErrorObject::invalid_params("no such cursor: list from the beginning")
            }
            StoreError::Unlistable => {
                let why = "method not found: the tasks of callers who are not signed in are not listed";
                ErrorObject::new(Code::METHOD_NOT_FOUND, why)
            }
            error => failed(&error),
        })?;
        let next = page.next.map(|next| next.as_str().to_owned());
        Ok(listed(page.tasks.iter().filter_map(shown).collect(), next))
    }
}

/// What writes the result of a task into an answer.
pub(crate) type WriteResult = Box<dyn FnOnce(&mut ResultWriter<'_>) + Send>;

/// The id of a drafted task is taken by another request.
pub(crate) fn taken(id: &str, reason: &str) -> ErrorObject {
    ErrorObject::invalid_params("the task id was used for another request: give each task an id of its own")
        .with_data(&serde_json::json!({ "taskId": id, "reason": reason }))
}

/// A task as a list shows it: a drafted one is known to its caller by the id it gave, in every revision.
pub(crate) fn listed_as(record: &Record, view: View) -> Task {
    let mut task = project::task(record, view);
    if record.dialect == Door::D1 {
        task.id = project::id(record, View::D1).to_owned();
    }
    task
}

/// The answer that says how a task stands.
pub(crate) fn shown(task: Task) -> Write {
    Box::new(move |envelope, out| envelope.result(out, |writer| envelope.dialect().write_task(&task, writer)))
}

/// The answer that says how a task stands which was to be cancelled.
pub(crate) fn cancelled(task: Task) -> Write {
    Box::new(move |envelope, out| {
        envelope.result(out, |writer| envelope.dialect().write_task_cancelled(&task, writer))
    })
}

/// The answer that is a page of tasks, and where the next begins.
pub(crate) fn listed(tasks: Vec<Task>, next: Option<String>) -> Write {
    Box::new(move |envelope, out| {
        envelope.result(out, |result| {
            result.list("tasks", &tasks, |dialect, task, out| dialect.write_listed_task(task, out));
            result.optional("nextCursor", next.as_ref());
        })
    })
}

/// The answer that says a request has become a task. `meanwhile` is what a model may be told until it has ended.
pub(crate) fn created(record: Arc<Record>, meanwhile: Option<Arc<str>>) -> Write {
    Box::new(move |envelope, out| {
        let task = project::task(&record, view(envelope.dialect()));
        envelope
            .result(out, |result| envelope.dialect().write_task_created(&task, meanwhile.as_deref(), result))
    })
}

/// The answer that is the result of a task, which `write` writes.
pub(crate) fn result_of(id: String, write: impl FnOnce(&mut ResultWriter<'_>) + Send + 'static) -> Write {
    Box::new(move |envelope, out| {
        envelope.result(out, |writer| {
            writer.related_task(&id);
            write(writer);
        })
    })
}

/// How tasks look in a dialect.
pub(crate) fn view(dialect: &Dialect) -> View {
    if dialect.has_tasks_extension() { View::D3 } else { View::D2 }
}

/// Whether a task of that door is there for a request of this dialect.
pub(crate) fn is_seen(dialect: &Dialect, record: &Record) -> bool {
    match view(dialect) {
        View::D1 => record.dialect == Door::D1,
        View::D2 => matches!(record.dialect, Door::D2 | Door::Held),
        View::D3 => matches!(record.dialect, Door::D3 | Door::D2 | Door::Held),
    }
}

/// Unknown, expired and somebody else's are the same to whoever asks.
pub(crate) fn not_found() -> ErrorObject {
    ErrorObject::invalid_params("task not found: the id is unknown, or the task has expired")
}

/// The store failed, of which a caller learns no more than whether it may pass, and when to ask again: without that, what `tasks/result`
/// is answered with would be what the task has come to. What it was is logged.
///
/// ```
/// use longhaul::server::store_failed;
/// use longhaul::store::StoreError;
///
/// let stays = store_failed(&StoreError::Closed);
/// assert_eq!(stays.retry_after(), None);
/// ```
pub fn failed(error: &StoreError) -> ErrorObject {
    tracing::error!(%error, "the store failed");
    let failed = ErrorObject::internal("internal error: the task store could not be used; try again");
    if error.is_retryable() { failed.for_now(UNAVAILABLE, RETRY_AFTER) } else { failed }
}

/// How programs know that the store could not be used just now.
pub(crate) const UNAVAILABLE: &str = "store_unavailable";

/// When to ask again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Where whoever asked for a task is told of it.
#[derive(Clone, Debug)]
pub(crate) struct TaskNews {
    pub(crate) by: By,
    pub(crate) dialect: &'static Dialect,
    pub(crate) push: Arc<HeldPush>,
    /// The number of the last change that was told.
    told: Arc<AtomicU64>,
}

impl TaskNews {
    pub(crate) fn new(by: By, dialect: &'static Dialect, push: Arc<HeldPush>) -> Self {
        Self { by, dialect, push, told: Arc::default() }
    }

    /// Tells how the task stands.
    pub(crate) fn tell(&self, record: &Record) {
        self.note(record.seq);
        let task = project::task(record, View::D2);
        let dialect = self.dialect;
        let message = wire::notification(self.by, dialect, Notice::TaskStatus, |params| {
            dialect.write_task_status(&task, params);
            if !task.meta.is_empty() {
                params.field("_meta", &task.meta);
            }
        });
        if let Some(message) = message {
            self.push.push(message);
        }
    }

    /// That change need not be told.
    pub(crate) fn note(&self, seq: u64) {
        self.told.fetch_max(seq, Ordering::Relaxed);
    }

    /// The number of the last change that was told.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether nobody can be told any more.
    pub(crate) fn is_over(&self) -> bool {
        self.push.reach() == Reach::Gone
    }
}

impl Observer for TaskNews {
    fn observe<'a>(&'a self, observed: Observed<'a>) -> BoxFuture<'a, ()> {
        if let Observed::Changed(record) = observed {
            self.tell(record);
        }
        Box::pin(std::future::ready(()))
    }
}
