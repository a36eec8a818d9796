//! Tasks that a tool's function makes: spawning them, and waiting for what comes of them.

use std::fmt;
use std::future::{Future, IntoFuture, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::model::CallToolResult;
use longhaul_tasks::runner::{ChildCall, Keeper, StepError};
use longhaul_tasks::store::{
    ChildEnd, Json as Stored, Outcome, Step as Recorded, StepState, StoreError, TaskId,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::context::Cx;
use super::failure::in_words;
use super::resumed::written_for_child;
use super::scope::in_key;
use super::step::fingerprint;
use super::tool::Kind;
use super::tool_result::ToolError;

impl Cx {
    /// Makes a task of its own of a call of another tool of this server, or of the same one. It is made once: a function
    /// that is entered again finds the child it has made.
    ///
    /// A child is a task like any other: any node that has its tool works on it, it belongs to whoever the parent belongs
    /// to and counts towards what those may have open, and it can be asked after by its id. What it comes to is recorded
    /// with its parent in the moment in which it ends, and [`Child::join`] gives it.
    ///
    /// When its parent ends, however that does, a child ends too, as cancelled, and so do the children it has itself;
    /// [`SpawnCall::outlive`] changes that. A child that fails is [`join`](Child::join)'s to tell;
    /// [`SpawnCall::essential`] changes that.
    ///
    /// Children of the same tool are numbered in the order in which they are made, as [steps](Self::step) are.
    ///
    /// ```
    /// # use longhaul::{Cx, server::ToolError};
    /// async fn test_all(cx: Cx) -> Result<String, ToolError> {
    ///     let mut children = Vec::new();
    ///     for shard in 0..4 {
    ///         children.push(cx.spawn("test_shard", serde_json::json!({ "shard": shard })).await?);
    ///     }
    ///     let passed = cx.join_all(&children).await.into_iter().filter(Result::is_ok).count();
    ///     Ok(format!("{passed} of 4 shards passed"))
    /// }
    /// ```
    pub fn spawn(&self, tool: impl Into<Arc<str>>, arguments: impl Serialize) -> SpawnCall {
        let tool = tool.into();
        let key = self.reserve(&format!("spawn:{}", in_key(&*tool)));
        let arguments = to_raw_value(&arguments).map_err(|error| error.to_string());
        SpawnCall { cx: self.clone(), key: key.into(), tool, arguments, outlives: false, essential: false }
    }

    /// Waits until all of these have ended, and gives what came of each, in their order.
    pub async fn join_all(&self, children: &[Child]) -> Vec<Result<CallToolResult, ChildError>> {
        let mut ends = Vec::with_capacity(children.len());
        for child in children {
            let open: Vec<&Child> = children.iter().filter(|child| child.is_open()).collect();
            ends.push(child.ended(&open, children.len()).await);
        }
        ends
    }

    /// Waits until one of these has ended, well or not, and cancels the others. Gives its place among them and what came
    /// of it, the same however often the function is entered again; `None` where there are none.
    pub async fn race(&self, children: &[Child]) -> Option<(usize, Result<CallToolResult, ChildError>)> {
        if children.is_empty() {
            return None;
        }
        let key = self.reserve("race");
        let keeper = self.keeper()?;
        let first = match self.raced(keeper, &key, children).await {
            Ok(first) => first,
            Err(error) => self.end(error).await,
        };
        for other in children.iter().filter(|child| child.is_open()) {
            other.cancel().await;
        }
        Some((first, children.get(first)?.join().await))
    }

    /// Which has ended first, recorded so that it stays that.
    async fn raced(&self, keeper: &Keeper, key: &str, children: &[Child]) -> Result<usize, StepError> {
        let of = fingerprint("race");
        if let Some(StepState::Learnt { value, .. }) = keeper.find(key, of)? {
            return serde_json::from_str(value.as_str()).map_err(|why| keeper.changed(key, why));
        }
        let open: Vec<&Child> = children.iter().filter(|child| child.is_open()).collect();
        self.say_what_is_awaited(&open, children.len());
        let mut ends: Vec<Pin<Box<dyn Future<Output = _> + Send + '_>>> = Vec::with_capacity(children.len());
        for child in children {
            ends.push(Box::pin(keeper.learnt(&child.key)));
        }
        let first =
            poll_fn(|task| match ends.iter_mut().position(|end| end.as_mut().poll(task).is_ready()) {
                Some(first) => Poll::Ready(first),
                None => Poll::Pending,
            })
            .await;
        drop(ends);
        let value = to_raw_value(&first).map_or_else(|_| Stored::null(), Stored::from);
        keeper.record(Recorded::new(key, of, StepState::learnt(value))).await?;
        Ok(first)
    }

    /// Says in the task's status what it waits for: these of so many that it waits for together.
    fn say_what_is_awaited(&self, open: &[&Child], of: usize) {
        let counted = if open.len() < of { format!("{} of {of}", open.len()) } else { of.to_string() };
        match open {
            [] => {}
            [one] if of == 1 => self.status(format!("waits for {} ({})", one.tool, one.id)),
            [one] => self.status(format!("waits for {counted} tasks: {} ({})", one.tool, one.id)),
            several => {
                let tools: Vec<&str> = several.iter().take(NAMED).map(|child| &*child.tool).collect();
                let more = if several.len() > NAMED { ", …" } else { "" };
                self.status(format!("waits for {counted} tasks: {}{more}", tools.join(", ")));
            }
        }
    }
}

/// How many of many children a status names.
const NAMED: usize = 8;

/// A task that is to be made, once it is awaited: [`Cx::spawn`].
#[must_use = "a task is made once it is awaited"]
pub struct SpawnCall {
    cx: Cx,
    key: Arc<str>,
    tool: Arc<str>,
    arguments: Result<Box<RawValue>, String>,
    outlives: bool,
    essential: bool,
}

impl SpawnCall {
    /// It goes on when its parent has ended, however that did.
    pub fn outlive(mut self) -> Self {
        self.outlives = true;
        self
    }

    /// Its parent cannot do without it: if it ends otherwise than well, its parent fails in the same moment, wherever it
    /// is, with `-32603` and `reason: "child_failed"`, and whatever else that has made is cancelled.
    pub fn essential(mut self) -> Self {
        self.essential = true;
        self
    }

    async fn in_task(self, keeper: &Keeper) -> Result<Result<Child, SpawnError>, StepError> {
        let of = fingerprint("spawn");
        let child =
            |id| Child { cx: self.cx.clone(), key: Arc::clone(&self.key), id, tool: Arc::clone(&self.tool) };
        let of_state = |state| match state {
            StepState::Child(id) => Ok(Ok(child(id))),
            StepState::Learnt { value, .. } => match Refused::read(&value) {
                Some(refused) => Ok(Err(refused)),
                None => end_of(keeper, &self.key, &value).map(|end| Ok(child(end.task))),
            },
            _ => Err(StepError::diverged(&self.key)),
        };
        match keeper.find(&self.key, of)? {
            Some(state) => return of_state(state),
            None if keeper.is_undoing() => return pending().await,
            None => {}
        }
        let refused = match self.call() {
            Err(refused) => refused,
            Ok(call) => match keeper.spawn(call).await {
                Ok(state) => return of_state(state),
                Err(StepError::Refused(error)) => SpawnError::of(&error),
                Err(StepError::NotDurable(refusal)) => {
                    SpawnError::NoTask { why: refusal.message.to_string() }
                }
                Err(error) => return Err(error),
            },
        };
        // Also where the call is no task yet: a later try may make it one, whose work is entered again.
        let state = StepState::Learnt { value: Refused::json(&refused), is_error: true };
        keeper.record(Recorded::new(Arc::clone(&self.key), of, state)).await?;
        Ok(Err(refused))
    }

    /// The call, as the engine makes a task of it.
    fn call(&self) -> Result<ChildCall, SpawnError> {
        let tool = self.tool.to_string();
        let Some(found) = self.cx.tools().and_then(|tools| tools.find(&tool)) else {
            return Err(SpawnError::UnknownTool { tool });
        };
        if self.cx.grant().is_some_and(|grant| !grant.allows(&found.scopes)) {
            return Err(SpawnError::Forbidden { tool });
        }
        let invalid = |why: String| SpawnError::Arguments { tool: tool.clone(), why };
        let arguments = self.arguments.as_ref().map_err(|why| invalid(why.clone()))?;
        if !arguments.get().starts_with('{') {
            return Err(invalid("they must be an object".to_owned()));
        }
        let arguments = match &found.kind {
            Kind::Function(_) => Stored::from(arguments.clone()),
            Kind::Job(job) => match job.check(arguments.get()) {
                Ok(arguments) => arguments,
                Err(result) => {
                    let why = result.content.iter().find_map(|content| content.as_text());
                    return Err(invalid(why.unwrap_or("they are refused").to_owned()));
                }
            },
        };
        let mut call =
            ChildCall::new(Arc::clone(&self.key), fingerprint("spawn"), Arc::clone(&self.tool), arguments);
        (call.version, _) = found.versions().unwrap_or_default();
        (call.rerun, call.secret) = (found.rerun(), found.secret());
        call.cancel_grace = found.cancel_grace();
        call.retention = found.policy.retention(&self.cx.owner(), None);
        call.poll_interval_ms = u64::try_from(found.policy.poll_interval.as_millis()).ok();
        call.context = written_for_child(&self.cx);
        (call.outlives, call.essential) = (self.outlives, self.essential);
        Ok(call)
    }
}

impl IntoFuture for SpawnCall {
    type Output = Result<Child, SpawnError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let cx = self.cx.clone();
            let Some(keeper) = cx.keeper() else {
                return Err(SpawnError::NoTask { why: "its tool makes no tasks of its calls".to_owned() });
            };
            match self.in_task(keeper).await {
                Ok(child) => child,
                Err(error) => cx.end(error).await,
            }
        })
    }
}

impl fmt::Debug for SpawnCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnCall").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A task that this one has made. Clones are the same task; dropping it changes nothing.
#[derive(Clone)]
pub struct Child {
    cx: Cx,
    key: Arc<str>,
    id: TaskId,
    tool: Arc<str>,
}

impl Child {
    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Its tool.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Waits until it has ended and gives what came of it, as often as it is asked. A task that may be entered again takes
    /// no memory meanwhile.
    ///
    /// # Errors
    ///
    /// When it ended otherwise than well. As a [`ToolError`] that keeps what the child's caller would have been told.
    pub async fn join(&self) -> Result<CallToolResult, ChildError> {
        self.ended(&[self], 1).await
    }

    /// The same, read as a `T`: its structured content, or without any its text, which is to be JSON.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join), and when it is no `T`.
    pub async fn join_as<T: DeserializeOwned>(&self) -> Result<T, ChildError> {
        let result = self.join().await?;
        let json = match &result.structured_content {
            Some(json) => json.get(),
            None => result.content.iter().find_map(|content| content.as_text()).unwrap_or_default(),
        };
        serde_json::from_str(json)
            .map_err(|why| ChildError::Unread { task: self.id.clone(), why: Arc::new(why) })
    }

    /// Cancels it; nothing happens if it has ended. Whoever [joins](Self::join) it is told.
    pub async fn cancel(&self) {
        let Some(keeper) = self.cx.keeper() else { return };
        if keeper.is_undoing() && self.is_open() {
            return pending().await;
        }
        keeper.cancel_child(&self.id, "the task that made it has cancelled it").await;
    }

    /// Whether it is not known to have ended.
    fn is_open(&self) -> bool {
        let state = self.cx.keeper().and_then(|keeper| keeper.find(&self.key, fingerprint("spawn")).ok());
        matches!(state, Some(Some(StepState::Child(_))))
    }

    /// Waits until it has ended, as one of those that are open of the so many that the work waits for.
    async fn ended(&self, open: &[&Self], of: usize) -> Result<CallToolResult, ChildError> {
        let Some(keeper) = self.cx.keeper() else { return pending().await };
        if self.is_open() {
            self.cx.say_what_is_awaited(open, of);
        }
        let (value, _) = keeper.learnt(&self.key).await;
        self.cx.status(format!("{} has ended", self.tool));
        match end_of(keeper, &self.key, &value) {
            Ok(end) => told(end),
            Err(error) => self.cx.end(error).await,
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.id).field("tool", &self.tool).finish_non_exhaustive()
    }
}

fn end_of(keeper: &Keeper, key: &str, value: &Stored) -> Result<ChildEnd, StepError> {
    ChildEnd::read(value).map_err(|why| keeper.changed(key, why))
}

/// What a parent is told of a child's end.
fn told(ChildEnd { task, outcome, .. }: ChildEnd) -> Result<CallToolResult, ChildError> {
    match outcome {
        Outcome::Result { value, is_error } => match serde_json::from_str::<CallToolResult>(value.as_str()) {
            Ok(result) if is_error => Err(ChildError::Failed { task, result: Box::new(result) }),
            Ok(result) => Ok(result),
            Err(why) => Err(ChildError::Unread { task, why: Arc::new(why) }),
        },
        Outcome::Error { code, message, data } => {
            let error = ErrorObject::new(Code(code), message.to_string());
            let error = match data {
                Some(data) => error.with_data(&data),
                None => error,
            };
            Err(ChildError::Refused { task, error })
        }
        Outcome::Cancelled { reason } => Err(ChildError::Cancelled { task, reason }),
        Outcome::Lost { reason } => Err(ChildError::Lost { task, reason }),
        _ => Err(ChildError::Lost { task, reason: "it ended in a way that a later release knows".into() }),
    }
}

/// How a child ended that did not end well.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// Its tool says that it failed.
    #[error("task {task} says that it failed: {}", text_of(.result))]
    #[non_exhaustive]
    Failed {
        /// Which.
        task: TaskId,
        /// What it says.
        result: Box<CallToolResult>,
    },
    /// It ended with an error of the protocol.
    #[error("task {task} failed ({}): {}", .error.code.0, .error.message)]
    #[non_exhaustive]
    Refused {
        /// Which.
        task: TaskId,
        /// Its code, message and data.
        error: ErrorObject,
    },
    /// It was cancelled.
    #[error("task {task} was cancelled: {}", .reason.as_deref().unwrap_or("nobody said why"))]
    #[non_exhaustive]
    Cancelled {
        /// Which.
        task: TaskId,
        /// Why, if that was said.
        reason: Option<Arc<str>>,
    },
    /// Whoever worked on it is gone, and it is not run twice.
    #[error("task {task} is lost: {reason}")]
    #[non_exhaustive]
    Lost {
        /// Which.
        task: TaskId,
        /// What is known of it.
        reason: Arc<str>,
    },
    /// What it came to is not what it is read as.
    #[error("what task {task} came to cannot be read")]
    #[non_exhaustive]
    Unread {
        /// Which.
        task: TaskId,
        /// Why.
        #[source]
        why: Arc<serde_json::Error>,
    },
}

impl ChildError {
    /// What a function fails with that fails with its child.
    pub(super) fn to_tool_error(&self) -> ToolError {
        match self {
            Self::Failed { result, .. } => ToolError::with_content(result.content.clone()),
            Self::Refused { error, .. } => ToolError::protocol(error.clone()),
            other => ToolError::new(in_words(other)),
        }
    }
}

fn text_of(result: &CallToolResult) -> &str {
    result.content.iter().find_map(|content| content.as_text()).unwrap_or("and nothing more")
}

/// Why a task was not made. What was refused once is refused to whoever enters the function again.
#[derive(Clone, Debug, Deserialize, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum SpawnError {
    /// This server offers no such tool.
    #[error("no tool {tool} is offered here: a child's tool must be")]
    #[non_exhaustive]
    UnknownTool {
        /// Which.
        tool: String,
    },
    /// The caller of the parent may not call it.
    #[error("the caller of this task lacks a scope that {tool} asks for")]
    #[non_exhaustive]
    Forbidden {
        /// Which.
        tool: String,
    },
    /// It is not called so.
    #[error("{tool} cannot be called so: {why}")]
    #[non_exhaustive]
    Arguments {
        /// Which.
        tool: String,
        /// What is wrong with its arguments.
        why: String,
    },
    /// There are as many as there may be.
    #[error("{message}")]
    #[non_exhaustive]
    Overloaded {
        /// The name of the limit in [`Limits`](longhaul_tasks::store::Limits).
        limit: String,
        /// Which limit it is, and how high.
        message: String,
    },
    /// It is larger than a task may be, or the store will not take it.
    #[error("{message}")]
    #[non_exhaustive]
    Refused {
        /// Why.
        message: String,
    },
    /// The call that would make it is no task, and cannot become one.
    #[error("only a task makes tasks: {why}")]
    #[non_exhaustive]
    NoTask {
        /// Why not.
        why: String,
    },
}

impl SpawnError {
    fn of(error: &StoreError) -> Self {
        let message = in_words(error);
        match error {
            StoreError::Overloaded { what, .. } => {
                Self::Overloaded { limit: what.setting().to_owned(), message }
            }
            _ => Self::Refused { message },
        }
    }
}

/// A refusal as a step keeps it.
#[derive(Deserialize, Serialize)]
struct Refused<E> {
    refused: E,
}

impl Refused<SpawnError> {
    fn json(refused: &SpawnError) -> Stored {
        to_raw_value(&Refused { refused }).map_or_else(|_| Stored::null(), Stored::from)
    }

    fn read(json: &Stored) -> Option<SpawnError> {
        serde_json::from_str::<Self>(json.as_str()).ok().map(|kept| kept.refused)
    }
}
