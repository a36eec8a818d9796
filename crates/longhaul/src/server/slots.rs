//! Handlers of a server's own in the places of those that answer from its store what is asked about tasks.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{CallToolResult, Task};
use longhaul_tasks::environment::BoxFuture;
use serde_json::value::RawValue;

use super::context::Cx;
use super::failure::Failure;

/// Answers to a task's questions, by their keys, as the client gave them.
pub type TaskAnswers = HashMap<String, Box<RawValue>>;

/// A page of tasks, and where the next begins, if there is one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// What the caller gives to be shown the next page.
    pub next: Option<String>,
}

impl TaskPage {
    /// A page, and where the next begins.
    pub fn new(tasks: Vec<Task>, next: Option<String>) -> Self {
        Self { tasks, next }
    }
}

type Slot<A, T> =
    Option<Arc<dyn Fn(Cx, A) -> BoxFuture<'static, Result<Option<T>, ErrorObject>> + Send + Sync>>;

/// Handlers that answer `tasks/get`, `tasks/result`, `tasks/list`, `tasks/update` and `tasks/cancel` before the server's
/// store is asked. Each fills one slot, and gives `None` for what is not its own: the store answers then, as it does in
/// every slot that is left empty.
///
/// A handler answers for all revisions: what it gives is written as that of the caller knows tasks. It is asked only by
/// callers that may ask, and no more often than [`PollOptions`](super::PollOptions) let them; whether the task is the
/// caller's is for it to look at, by [`Cx::principal`], and a foreign task must look like one that never was. Tasks that
/// only slots know are answered with by [`Cx::hand_back`]. Nobody is told of their changes unasked, and
/// those that a caller of the draft (SEP-1686) has named stay the store's.
///
/// # Examples
///
/// ```
/// use longhaul::Server;
/// use longhaul::proto::model::{Task, TaskStatus};
/// use longhaul::server::{Failure, TaskSlots};
///
/// let began = "2026-01-01T00:00:00Z".to_owned();
/// let shown = move |id: String| {
///     let ours = id.starts_with("workflow-");
///     ours.then(|| Task::new(id, TaskStatus::Working, began.clone(), began.clone()))
/// };
/// let cancelled = shown.clone();
/// let slots = TaskSlots::new()
///     .get(move |_, id| std::future::ready(Ok::<_, Failure>(shown(id))))
///     .cancel(move |_, id| std::future::ready(Ok::<_, Failure>(cancelled(id))));
/// let server = Server::new("workflows", "1.0.0").task_slots(slots);
/// # assert!(server.dispatcher().is_ok());
/// ```
#[derive(Clone, Default)]
pub struct TaskSlots {
    pub(super) get: Slot<String, Task>,
    pub(super) result: Slot<String, CallToolResult>,
    pub(super) list: Slot<Option<String>, TaskPage>,
    pub(super) update: Slot<(String, TaskAnswers), ()>,
    pub(super) cancel: Slot<String, Task>,
}

/// Fills a slot: `function` is asked, and an error it gives is the answer.
fn filled<A, T, F, E>(function: impl Fn(Cx, A) -> F + Send + Sync + 'static) -> Slot<A, T>
where
    A: Send + 'static,
    T: Send + 'static,
    F: Future<Output = Result<Option<T>, E>> + Send + 'static,
    E: Into<Failure> + Send + 'static,
{
    Some(Arc::new(move |cx, about| {
        let answering = function(cx, about);
        Box::pin(async move { answering.await.map_err(|error| ErrorObject::from(error.into())) })
    }))
}

impl TaskSlots {
    /// All empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers `tasks/get`: how the task of that id stands.
    #[must_use]
    pub fn get<F, E>(mut self, function: impl Fn(Cx, String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Option<Task>, E>> + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.get = filled(function);
        self
    }

    /// Answers `tasks/result` (2025-11-25): the result of the task of that id, once it has ended. An error is what its
    /// call would have been answered with.
    #[must_use]
    pub fn result<F, E>(mut self, function: impl Fn(Cx, String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Option<CallToolResult>, E>> + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.result = filled(function);
        self
    }

    /// Answers `tasks/list` (2025-11-25): a page of the caller's tasks, from that cursor on. Where it gives a page, the
    /// store's tasks are on none.
    #[must_use]
    pub fn list<F, E>(mut self, function: impl Fn(Cx, Option<String>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Option<TaskPage>, E>> + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.list = filled(function);
        self
    }

    /// Answers `tasks/update` (the tasks extension): takes the answers to what the task asks.
    #[must_use]
    pub fn update<F, E>(
        mut self,
        function: impl Fn(Cx, String, TaskAnswers) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Option<()>, E>> + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.update = filled(move |cx, (id, answers)| function(cx, id, answers));
        self
    }

    /// Answers `tasks/cancel`: ends the task, and tells how it stands then.
    #[must_use]
    pub fn cancel<F, E>(mut self, function: impl Fn(Cx, String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Option<Task>, E>> + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.cancel = filled(function);
        self
    }

    /// Whether none is filled.
    pub(super) fn is_empty(&self) -> bool {
        self.get.is_none()
            && self.result.is_none()
            && self.list.is_none()
            && self.update.is_none()
            && self.cancel.is_none()
    }

    /// Whether a caller of that dialect could follow to its end a task that no store has.
    pub(super) fn tell_of(&self, dialect: &Dialect) -> bool {
        let results = !dialect.asks_for_tasks() || self.result.is_some();
        self.get.is_some() && self.cancel.is_some() && results
    }
}

/// What the slot gives, if it is filled and what is asked `about` is its own.
pub(super) async fn asked<A, T>(
    slot: &Slot<A, T>,
    cx: &Cx,
    about: impl FnOnce() -> A,
) -> Result<Option<T>, ErrorObject> {
    match slot {
        Some(function) => function(cx.clone(), about()).await,
        None => Ok(None),
    }
}

impl fmt::Debug for TaskSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = [
            ("get", self.get.is_some()),
            ("result", self.result.is_some()),
            ("list", self.list.is_some()),
            ("update", self.update.is_some()),
            ("cancel", self.cancel.is_some()),
        ];
        f.debug_set().entries(filled.iter().filter(|(_, filled)| *filled).map(|(name, _)| name)).finish()
    }
}
