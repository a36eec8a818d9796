//! Tasks that a handler opens by hand: it makes one, hands it back, and finishes it from wherever it likes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{CallToolResult, Task, TaskStatus};
use longhaul_tasks::machine::{Caller as Stance, Plan, Refusal};
use longhaul_tasks::project::{self, View};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Answer, Call, Work};
use longhaul_tasks::store::{Dialect as Door, Json, Once, Outcome, Record, Rerun, Scope, StoreError};
use tokio::sync::oneshot;

use super::Answered;
use super::answer::Envelope;
use super::call::{attend, not_begun, work_of};
use super::caught::Caught;
use super::context::Cx;
use super::dispatch::Shared;
use super::hand_over::hand_over;
use super::observer::CallObserver;
use super::outlet::HeldPush;
use super::policy::TaskPolicy;
use super::tool::ToolFuture;
use super::tool_result::{IntoToolResult, ToolError};
use crate::hosted::view;

impl Cx {
    /// Opens a task by hand: it is on disk when this returns, belongs to the caller, and goes on until it is
    /// [finished](OpenedTask::finish), from wherever that is done in this process. Should the process end before, the
    /// task is lost, and says so.
    ///
    /// For functions of tools that are [`TaskPolicy::by_hand`], and for [methods](super::Server::method) of a server
    /// whose calls become tasks. A call whose task was [handed back](OpenedTask::hand_back) is answered with it; any
    /// other result is the call's own. A call that bears an idempotency key, or that asked for a task, has one before
    /// the function runs: the first that it opens is that one.
    ///
    /// # Errors
    ///
    /// Where a task cannot be opened, and nothing has begun.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul::proto::model::CallToolResult;
    /// use longhaul::server::{Elicited, OpenError, TaskPolicy, ToolError};
    /// use longhaul::{Cx, Server, Tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Build {
    ///     everything: bool,
    /// }
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Approve {
    ///     go: bool,
    /// }
    ///
    /// async fn build(cx: Cx, Build { everything }: Build) -> Result<CallToolResult, OpenError> {
    ///     if !everything {
    ///         return Ok(CallToolResult::text("nothing to do"));
    ///     }
    ///     let task = cx.open_task().await?;
    ///     let answer = task.hand_back();
    ///     // What it asks is asked of whoever follows the task.
    ///     task.run(|cx| async move {
    ///         match cx.elicit::<Approve>("Build everything?").await? {
    ///             Elicited::Accepted(Approve { go: true }) => Ok::<_, ToolError>("built"),
    ///             _ => Ok("left as it was"),
    ///         }
    ///     });
    ///     Ok(answer)
    /// }
    ///
    /// let server = Server::new("builds", "1.0.0")
    ///     .tool(Tool::typed("build", "Build", build).task(TaskPolicy::by_hand()));
    /// # assert!(server.dispatcher().is_ok());
    /// ```
    pub async fn open_task(&self) -> Result<OpenedTask, OpenError> {
        let opening = self.opening().ok_or(OpenError::NotHere)?;
        let ready = opening.state().ready.take();
        match ready {
            Some(ready) => Ok(ready),
            None => opening.open(self, None).await.map_err(|unopened| match unopened {
                Unopened::Refused(Refusal { message, overloaded, .. }) => {
                    OpenError::Refused { message, overloaded }
                }
                Unopened::MadeBefore => OpenError::MadeBefore,
            }),
        }
    }

    /// Answers the call with a task that the server keeps otherwise than in its store, and of which its
    /// [slots](super::Server::task_slots) tell. Return what this gives: whoever takes no tasks reads it.
    ///
    /// # Errors
    ///
    /// Where no slot tells of such tasks, so that nobody could ask after this one, or the call opens no tasks by hand.
    pub fn hand_back(&self, task: Task) -> Result<CallToolResult, OpenError> {
        let opening = self.opening().filter(|opening| opening.stance.is_some()).ok_or(OpenError::NotHere)?;
        if !opening.shared.slots.tell_of(self.dialect()) {
            return Err(OpenError::Untold);
        }
        let text = format!("The work goes on as task `{}`, which is {}.", task.id, task.status.as_str());
        opening.state().handed_back = Some(HandedBack::Foreign(Arc::new(task)));
        Ok(CallToolResult::text(text))
    }
}

/// Why no task was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This call can open none.
    #[error(
        "no task is opened by hand here: give the tool `TaskPolicy::by_hand`, or the server a tool whose calls become tasks"
    )]
    NotHere,
    /// No slot tells of tasks that the store does not have.
    #[error(
        "nobody could ask after that task: fill the slots `get` and `cancel`, and for sessions of 2025-11-25 `result`"
    )]
    Untold,
    /// The store has no room for it, or cannot be used.
    #[error("the task was not begun: {message}")]
    #[non_exhaustive]
    Refused {
        /// Why, in words for the caller.
        message: Arc<str>,
        /// There is too much already: the caller should come back later.
        overloaded: bool,
    },
    /// The call was made before, under the same key: it is answered with what came of it, whatever the function
    /// returns now.
    #[error("the call was made before, as another task")]
    MadeBefore,
}

/// A task that its handler has opened by hand. Dropped before it is [finished](Self::finish) it fails.
pub struct OpenedTask {
    cx: Cx,
    record: Arc<Record>,
    shared: Arc<Shared>,
    work: oneshot::Sender<ToolFuture>,
    state: Arc<Mutex<State>>,
}

/// Why no task was opened, as the server knows it.
enum Unopened {
    Refused(Refusal),
    MadeBefore,
}

/// Why a task was not finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// It had ended before, so.
    #[error("the task is {} already", .0.as_str())]
    Ended(TaskStatus),
    /// It is gone: it was kept for as long as it was to be.
    #[error("the task is gone")]
    Gone,
    /// Whether it is on disk cannot be told.
    #[error("the task could not be read")]
    Store(#[from] StoreError),
}

impl OpenedTask {
    /// Its id, by which its owner can ask after it.
    pub fn id(&self) -> &str {
        self.record.id.as_str()
    }

    /// The task as its work sees it: what is asked there is asked of whoever follows the task, progress and status are
    /// its own, and it is [cancelled](Cx::cancelled) when the task is.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// Answers the call that opened it with the task. Return what this gives: a caller that takes tasks gets the task
    /// in its place, and any other reads there how to follow it.
    #[must_use = "the call is answered with what its function returns"]
    pub fn hand_back(&self) -> CallToolResult {
        lock(&self.state).handed_back = Some(HandedBack::Opened(Arc::clone(&self.record)));
        hand_over(&self.shared, &self.record, None)
    }

    /// Finishes it with what a tool may return; an error of the protocol fails it. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// When it has ended otherwise, as one that was cancelled, or that cannot be told.
    pub async fn finish(self, result: impl IntoToolResult) -> Result<(), FinishError> {
        let result = result.into_tool_result();
        let wanted = result.is_ok();
        let sent = self.work.send(Box::pin(std::future::ready(result)));
        let owner = self.cx.owner();
        let ended = self.shared.engine.ended(Scope::Owner(&owner), &self.record.id).await?;
        let ended = ended.ok_or(FinishError::Gone)?;
        match (sent, ended.outcome()) {
            (Ok(()), Some(Outcome::Result { .. })) if wanted => Ok(()),
            (Ok(()), Some(Outcome::Error { .. })) if !wanted => Ok(()),
            _ => Err(FinishError::Ended(project::status(&ended, View::D3))),
        }
    }

    /// Leaves it to `work`, which goes on beside the call and ends it with what it returns. It is dropped when the task is
    /// cancelled.
    pub fn run<F, R>(self, work: impl FnOnce(Cx) -> F)
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        let work = work(self.cx.clone());
        // Who has ended the task in between needs no work.
        let _ended = self.work.send(Box::pin(async move { work.await.into_tool_result() }));
    }
}

impl fmt::Debug for OpenedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedTask").field("id", &self.record.id).finish_non_exhaustive()
    }
}

/// What lets a call open tasks.
pub(super) struct Opening {
    pub(super) shared: Arc<Shared>,
    /// Under which name its tasks are kept.
    pub(super) name: Arc<str>,
    pub(super) arguments: Json,
    /// In which conversation of its user's its client says that it calls.
    pub(super) conversation: Option<Arc<str>>,
    pub(super) policy: TaskPolicy,
    /// How its caller can be answered; `None` where a call is never answered with a task.
    pub(super) stance: Option<Stance>,
    /// Where its caller is told of a task that it asked for.
    pub(super) push: Option<Arc<HeldPush>>,
    pub(super) state: Arc<Mutex<State>>,
}

/// How far a call has come with its tasks.
#[derive(Default)]
pub(super) struct State {
    /// The task that the call has before its function runs.
    ready: Option<OpenedTask>,
    handed_back: Option<HandedBack>,
}

/// What a call is answered with, in the place of its result.
#[derive(Clone)]
enum HandedBack {
    Opened(Arc<Record>),
    Foreign(Arc<Task>),
    /// What the call came to when it was made before.
    Before(Arc<Record>),
}

impl Opening {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Opens a task of the call; under that key, if it is to be made once.
    async fn open(&self, cx: &Cx, once: Option<Once>) -> Result<OpenedTask, Unopened> {
        let engine = &self.shared.engine;
        let (reporter, reports) = Reporter::new();
        let keeper = engine.keeper(Arc::clone(&self.name), false);
        let cx = cx.of_opened(&self.shared.offer.tools, reporter.clone(), keeper.clone());
        cx.interview().leave_to_task();
        cx.be_waited_for(false);
        let takes = cx.caller().capabilities.extensions.tasks;
        let is_followed = if cx.dialect().asks_by_request() { cx.caller().line.is_some() } else { takes };
        if is_followed {
            cx.interview().be_followed();
        }
        let (send, work) = oneshot::channel::<ToolFuture>();
        let work = async move {
            match work.await {
                Ok(work) => work.await,
                Err(_) => {
                    Err(ErrorObject::internal("internal error: what was to finish the task let go of it"))
                }
            }
        };
        let work = work_of(cx.clone(), &self.name, 1, Caught::of(Box::pin(work)));
        let mut call =
            Call::new(cx.owner(), Arc::clone(&self.name), self.arguments.clone(), Work::Future(work));
        (call.share, call.client) = (cx.caller().share(), cx.caller().client_line());
        call.conversation.clone_from(&self.conversation);
        call.plan = Plan::new(Stance::TakesTask, true);
        call.dialect = match self.stance {
            Some(Stance::AsksForTask) => Door::D2,
            Some(Stance::TakesTask) => Door::D3,
            None if takes && cx.dialect().has_tasks_extension() => Door::D3,
            None | Some(Stance::Waits) => Door::Held,
        };
        (call.rerun, call.orphan) = (Rerun::Never, Some(self.policy.orphan));
        call.retention = self.policy.retention(&call.owner, None);
        call.cancel_grace = self.policy.cancel.grace();
        call.poll_interval_ms = u64::try_from(self.policy.poll_interval.as_millis()).ok();
        call.after = Some(Duration::ZERO);
        (call.reports, call.keeper) = ((reporter, reports), keeper.clone());
        call.once = once;
        call.observer = Arc::new(CallObserver::new(cx.clone(), self.push.clone()).0);
        let record = match engine.call(call).await {
            Answer::Task(record) | Answer::HandOver(record) => record,
            Answer::Refused(refusal) => return Err(Unopened::Refused(refusal)),
            // It was cancelled, or the runtime goes.
            Answer::Outcome(_) => {
                let refusal = Refusal::new("the task ended before it was opened", false);
                return Err(Unopened::Refused(refusal));
            }
        };
        if keeper.id().is_none_or(|id| id != record.id) {
            self.state().handed_back = Some(HandedBack::Before(record));
            return Err(Unopened::MadeBefore);
        }
        if self.stance == Some(Stance::AsksForTask) {
            attend(&self.shared, &cx, &record, self.push.clone(), None);
        }
        Ok(OpenedTask {
            cx,
            record,
            shared: Arc::clone(&self.shared),
            work: send,
            state: Arc::clone(&self.state),
        })
    }

    /// Opens the task that the call must have before its function runs.
    ///
    /// # Errors
    ///
    /// Why it cannot; or that there is nothing to run, for the call was made before.
    pub(super) async fn make_ready(&self, cx: &Cx, once: Option<Once>) -> Result<(), ErrorObject> {
        if once.is_none() && self.stance != Some(Stance::AsksForTask) {
            return Ok(());
        }
        let ready = self.open(cx, once).await.map_err(|unopened| match unopened {
            Unopened::Refused(refusal) => not_begun(refusal),
            Unopened::MadeBefore => ErrorObject::internal(OpenError::MadeBefore.to_string()),
        })?;
        self.state().ready = Some(ready);
        Ok(())
    }

    /// The function has returned: a task that it had from the start and did not open ends with its result.
    pub(super) async fn settle(&self, outcome: &Result<CallToolResult, ErrorObject>) {
        let Some(ready) = self.state().ready.take() else { return };
        if self.stance == Some(Stance::AsksForTask) {
            let _answer = ready.hand_back();
        }
        let record = Arc::clone(&ready.record);
        if let Err(error) = ready.finish(outcome.clone().map_err(ToolError::protocol)).await {
            tracing::debug!(task = %record.id, %error, "a task ended before its call");
        }
    }

    /// Answers with the task that was handed back, if one was.
    pub(super) fn write(
        &self,
        cx: &Cx,
        envelope: &Envelope,
        out: &mut Vec<u8>,
        outcome: &Result<CallToolResult, ErrorObject>,
        meanwhile: Option<&str>,
    ) -> Answered {
        // Who comes back with answers may have declared something else.
        let now = cx.now();
        let declared = now.dialect().has_tasks_extension() && now.caller().capabilities.extensions.tasks;
        let takes = self.stance == Some(Stance::AsksForTask) || declared;
        let task = match self.state().handed_back.clone() {
            Some(HandedBack::Foreign(task)) if takes => Task::clone(&task),
            Some(HandedBack::Opened(record) | HandedBack::Before(record)) if takes => {
                project::task(&record, view(envelope.dialect))
            }
            Some(HandedBack::Before(record)) => {
                let result =
                    project::outcome(&record).unwrap_or_else(|| Ok(hand_over(&self.shared, &record, None)));
                return plain(envelope, out, &result);
            }
            _ => return plain(envelope, out, outcome),
        };
        envelope.result(out, |result| envelope.dialect.write_task_created(&task, meanwhile, result))
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("name", &self.name).finish_non_exhaustive()
    }
}

pub(super) fn plain(
    envelope: &Envelope,
    out: &mut Vec<u8>,
    outcome: &Result<CallToolResult, ErrorObject>,
) -> Answered {
    match outcome {
        Ok(result) => envelope.result(out, |writer| result.write(writer)),
        Err(error) => envelope.error(out, error),
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
