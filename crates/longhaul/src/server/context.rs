//! What a handler sees of its call.

use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, write_drafted_relation, write_related_task};
use longhaul_proto::jsonrpc::{ObjectWriter, ProgressToken};
use longhaul_proto::method::Notice;
use longhaul_proto::model::{ClientCapabilities, LoggingLevel, Progress, TraceParent};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::Keeper;
use longhaul_tasks::store::{self, Principal, TaskId};
use serde::Serialize;
use tokio::sync::Notify;

use super::ask::Interview;
use super::dispatch::Caller;
use super::grant::Grant;
use super::opened::Opening;
use super::outlet::{HeldPush, Outlet, Push as _};
use super::resumed::unheard;
use super::scope::Scope;
use super::shelf::Shelf;
use super::state::{State, States};
use super::told_progress::{self, ToldProgress};
use super::tool::Tool;
use super::tool_result::ToolError;
use crate::wire::{self, By};

/// A handler's view of its call, the same in every revision and on every transport. Clones are the same
/// call.
#[derive(Clone)]
pub struct Cx(Arc<Call>, Option<Arc<Scope>>);

struct Call {
    states: Option<Arc<States>>,
    /// The tools that its work can call, if it may become a task.
    tools: Option<Arc<Shelf<Tool>>>,
    dialect: &'static Dialect,
    caller: Caller,
    progress_token: Option<ProgressToken>,
    last_progress: Mutex<Option<Progress>>,
    outlet: Outlet,
    /// Where progress goes of a call that may become a task: the engine sends it on.
    reporter: Option<Reporter>,
    interview: Interview,
    /// Where keys are made that are in no other.
    scope: Scope,
    /// What the work of a call that may become a task has learnt.
    keeper: Option<Keeper>,
    /// The request by which the call goes on, once it was made again.
    successor: Mutex<Option<Cx>>,
    /// The drafted task that the call is: whatever is said of it names the task.
    drafted: OnceLock<Arc<str>>,
    /// Its caller has asked for the task that it is (D2), and where that is told of it if there is such a place.
    asked_for: OnceLock<Option<Arc<HeldPush>>>,
    /// What lets it open tasks by hand.
    opening: OnceLock<Box<Opening>>,
    /// Its caller follows the task that it becomes, rather than wait.
    leaves: AtomicBool,
    cancelled: AtomicBool,
    on_cancel: Notify,
    /// Its caller has gone without a word.
    left: AtomicBool,
}

impl Cx {
    pub(super) fn new(
        states: Option<&Arc<States>>,
        dialect: &'static Dialect,
        caller: Caller,
        progress_token: Option<ProgressToken>,
        outlet: Outlet,
        reporter: Option<Reporter>,
    ) -> Self {
        Self::with((states, None), dialect, caller, progress_token, outlet, reporter, None)
    }

    /// The same of a call that may become a task.
    pub(super) fn of_task(
        (states, tools): (Option<&Arc<States>>, &Arc<Shelf<Tool>>),
        dialect: &'static Dialect,
        caller: Caller,
        progress_token: Option<ProgressToken>,
        outlet: Outlet,
        reporter: Reporter,
        keeper: Keeper,
    ) -> Self {
        let around = (states, Some(tools));
        Self::with(around, dialect, caller, progress_token, outlet, Some(reporter), Some(keeper))
    }

    fn with(
        (states, tools): (Option<&Arc<States>>, Option<&Arc<Shelf<Tool>>>),
        dialect: &'static Dialect,
        caller: Caller,
        progress_token: Option<ProgressToken>,
        outlet: Outlet,
        reporter: Option<Reporter>,
        keeper: Option<Keeper>,
    ) -> Self {
        let call = Call {
            states: states.cloned(),
            tools: tools.cloned(),
            dialect,
            caller,
            progress_token,
            last_progress: Mutex::new(None),
            outlet,
            reporter,
            interview: Interview::default(),
            scope: Scope::default(),
            keeper,
            successor: Mutex::new(None),
            drafted: OnceLock::new(),
            asked_for: OnceLock::new(),
            opening: OnceLock::new(),
            leaves: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            on_cancel: Notify::new(),
            left: AtomicBool::new(false),
        };
        Self(Arc::new(call), None)
    }

    pub(crate) fn outlet(&self) -> &Outlet {
        &self.0.outlet
    }

    /// What the call has asked and been answered.
    pub(super) fn interview(&self) -> &Interview {
        &self.0.interview
    }

    /// The same call, making its keys in that scope.
    pub(super) fn within(&self, scope: Scope) -> Self {
        Self(Arc::clone(&self.0), Some(Arc::new(scope)))
    }

    /// Where it makes its keys.
    pub(super) fn current_scope(&self) -> &Scope {
        self.1.as_deref().unwrap_or(&self.0.scope)
    }

    /// The call is this drafted task.
    pub(super) fn be_drafted(&self, id: Arc<str>) {
        // It is said once, before anything runs.
        let _ = self.0.drafted.set(id);
    }

    /// The call is a task that its caller has asked for (D2): whatever is said of it names the task, and goes to `push` once
    /// the caller knows that there is one.
    pub(super) fn be_asked_for(&self, push: Option<Arc<HeldPush>>) {
        // It is said once, before anything runs.
        let _ = self.0.asked_for.set(push);
    }

    /// The same caller, as the work of a task sees it that the call has opened. What it sends to the caller itself is
    /// heard by nobody: the task outlives the request.
    pub(super) fn of_opened(&self, tools: &Arc<Shelf<Tool>>, reporter: Reporter, keeper: Keeper) -> Self {
        let call = &*self.0;
        Self::of_task(
            (call.states.as_ref(), tools),
            call.dialect,
            call.caller.clone(),
            call.progress_token.clone(),
            unheard(),
            reporter,
            keeper,
        )
    }

    /// The call opens tasks by hand.
    pub(super) fn may_open(&self, opening: Opening) {
        // It is said once, before anything runs.
        let _ = self.0.opening.set(Box::new(opening));
    }

    /// What lets it open tasks by hand, if it may.
    pub(super) fn opening(&self) -> Option<&Opening> {
        self.0.opening.get().map(|opening| &**opening)
    }

    /// Its caller waits for it, or else follows the task that it becomes.
    pub(super) fn be_waited_for(&self, waits: bool) {
        self.0.leaves.store(!waits, Ordering::Relaxed);
    }

    /// Whether its caller waits for it to the end, or to be handed over.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.0.leaves.load(Ordering::Relaxed)
    }

    /// The drafted task that it is, by its caller's name.
    pub(super) fn drafted(&self) -> Option<&Arc<str>> {
        self.0.drafted.get()
    }

    /// The tools that its work can call.
    pub(super) fn tools(&self) -> Option<&Shelf<Tool>> {
        self.0.tools.as_deref()
    }

    /// What its work has learnt, if it may become a task.
    pub(super) fn keeper(&self) -> Option<&Keeper> {
        self.0.keeper.as_ref()
    }

    /// The call goes on by another request, which from now on is where its caller hears of it.
    pub(super) fn succeed(&self, by: Self) {
        *self.0.successor.lock().unwrap_or_else(PoisonError::into_inner) = Some(by);
    }

    /// The request by which the call goes on now.
    pub(super) fn now(&self) -> Self {
        let successor = self.0.successor.lock().unwrap_or_else(PoisonError::into_inner);
        successor.clone().unwrap_or_else(|| self.clone())
    }

    /// The value of type `T` that the server's handlers share; `None` when the server was given none.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        self.0.states.as_ref()?.get()
    }

    /// Who the caller is proven to be; `None` when it is anonymous.
    pub fn principal(&self) -> Option<&Principal> {
        self.0.caller.principal.as_ref()
    }

    /// What the caller's credential lets it do, and what its issuer says of it; `None` when it needed none.
    pub fn grant(&self) -> Option<&Grant> {
        self.0.caller.grant.as_deref()
    }

    /// To whom the caller's tasks belong.
    pub fn owner(&self) -> store::Owner {
        self.0.caller.owner()
    }

    /// What the caller declared it can do.
    pub fn capabilities(&self) -> ClientCapabilities {
        self.now().0.caller.capabilities.clone()
    }

    /// Who asks, and what it can do.
    pub(crate) fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// Reports progress: to the caller if it asked for it, and to whoever looks at the task if there is
    /// one.
    ///
    /// A value that does not rise is dropped, as the specification demands. Waits only while the
    /// caller's stream is full.
    pub async fn progress(&self, progress: Progress) {
        if let Some(reporter) = &self.0.reporter {
            let message = progress.message.map(Arc::from);
            return reporter.progress(store::Progress::new(progress.value, progress.total, message));
        }
        self.now().notify_progress(&progress).await;
    }

    /// Says in a line what the call is doing, for whoever looks at its task. What has more bytes than the store takes
    /// ([`Limits::max_text`](crate::store::Limits::max_text)) is cut off there.
    pub fn status(&self, status: impl Into<Arc<str>>) {
        if let Some(reporter) = &self.0.reporter {
            reporter.status(status);
        }
    }

    /// Sends progress to the caller, if it asked for it.
    pub(crate) async fn notify_progress(&self, progress: &Progress) {
        let Some(token) = &self.0.progress_token else { return };
        if !self.is_told_by_its_task()
            && self.rises(progress)
            && let Some(message) = self.progress_message(token, progress, None)
        {
            self.0.outlet.notify(message).await;
        }
    }

    /// Sends progress to the caller if it asked for it and there is room.
    pub(crate) fn try_notify_progress(&self, progress: &Progress) {
        if let Some(token) = &self.0.progress_token
            && !self.is_told_by_its_task()
            && self.rises(progress)
            && let Some(message) = self.progress_message(token, progress, self.named_task().as_ref())
        {
            self.try_tell(message);
        }
    }

    /// The notification of progress of a task, under the token of the call that created it (D2), if the
    /// caller asked for it.
    pub(crate) fn task_progress_message(&self, progress: &Progress, task: &TaskId) -> Option<Vec<u8>> {
        let token = self.0.progress_token.as_ref()?;
        if self.rises(progress) { self.progress_message(token, progress, Some(task)) } else { None }
    }

    /// How progress is told of the task that goes on without this.
    pub(super) fn told_progress(&self) -> ToldProgress {
        let (token, drafted) = (self.0.progress_token.clone(), self.drafted().cloned());
        ToldProgress { dialect: self.0.dialect, token, drafted, last: self.last_progress() }
    }

    /// How the caller's revision is written.
    pub(crate) fn dialect(&self) -> &'static Dialect {
        self.0.dialect
    }

    fn progress_message(
        &self,
        token: &ProgressToken,
        progress: &Progress,
        task: Option<&TaskId>,
    ) -> Option<Vec<u8>> {
        let task = task.map(TaskId::as_str);
        told_progress::message(self.0.dialect, token, progress, task, self.drafted().map(|id| &**id))
    }

    /// The task that its caller has asked for, which is named in what is said of it.
    fn named_task(&self) -> Option<TaskId> {
        self.0.asked_for.get()?;
        self.keeper()?.id()
    }

    /// Names the task in what is said of it.
    pub(super) fn relate(&self, params: &mut ObjectWriter<'_>) {
        if let Some(id) = self.drafted() {
            write_drafted_relation(params, id);
        }
        if let Some(id) = self.named_task() {
            write_related_task(params, id.as_str());
        }
    }

    /// Sends the caller a notification: of a task that it has asked for where it is told of it, for its own stream ends with
    /// its answer.
    pub(super) async fn tell(&self, message: Vec<u8>) {
        match self.0.asked_for.get() {
            Some(Some(push)) => push.push(message),
            Some(None) | None => self.0.outlet.notify(message).await,
        }
    }

    /// The same if there is room for it.
    fn try_tell(&self, message: Vec<u8>) {
        match self.0.asked_for.get() {
            Some(Some(push)) => push.push(message),
            Some(None) | None => self.0.outlet.try_notify(message),
        }
    }

    /// Says that there is a drafted task, which can be asked after from now on.
    pub(super) fn notify_created(&self) {
        if self.drafted().is_none() {
            return;
        }
        let message = wire::notification(By::Server, self.0.dialect, Notice::TaskCreated, |params| {
            self.relate(params);
        });
        if let Some(message) = message {
            self.0.outlet.try_notify(message);
        }
    }

    /// Sends a log message, if the caller wants messages that severe. A caller that follows the task of its call is told
    /// of it on its session's stream where its revision has one (2025-11-25), and in no other.
    pub async fn log(&self, level: LoggingLevel, data: &(impl Serialize + ?Sized + Sync)) {
        let now = self.now();
        if let Some(message) = now.log_message(level, None, data) {
            now.tell(message).await;
        }
    }

    /// The least severe log message that the caller wants; `None` for none.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.now().0.caller.log_level
    }

    /// Passes on what another program has logged, by its name for itself, if the caller wants messages that severe and there is
    /// room for this one: it waits for nobody.
    pub fn pass_log(&self, level: LoggingLevel, logger: Option<&str>, data: &(impl Serialize + ?Sized)) {
        let now = self.now();
        if let Some(message) = now.log_message(level, logger, data) {
            now.try_tell(message);
        }
    }

    /// The log message, if this request wants messages that severe.
    pub(super) fn log_message(
        &self,
        level: LoggingLevel,
        logger: Option<&str>,
        data: &(impl Serialize + ?Sized),
    ) -> Option<Vec<u8>> {
        if self.0.caller.log_level.is_none_or(|least| level < least) || self.is_told_by_its_task() {
            return None;
        }
        wire::notification(By::Server, self.0.dialect, Notice::Log, |params| {
            params.field("level", &level).optional("logger", logger.as_ref());
            params.field("data", data);
            self.relate(params);
        })
    }

    /// Whether there is its task by now, and its caller takes tasks: of one there is neither progress nor logging, though its
    /// answer be still on its way (the tasks extension, Notifications).
    fn is_told_by_its_task(&self) -> bool {
        let takes = !self.is_waited_for() && self.0.asked_for.get().is_none();
        takes && self.keeper().is_some_and(|keeper| keeper.epoch().is_some())
    }

    /// Closes the connection that waits for the answer, where the caller's revision and transport let it come back
    /// for what follows (2025-11-25 over HTTP, in a session): a call that takes long holds no connection then. The
    /// call goes on, and what it sends is kept. Anywhere else nothing happens.
    pub async fn close_stream(&self) {
        if self.0.dialect.primes_streams() {
            self.0.outlet.let_go().await;
        }
    }

    /// Whether the caller no longer wants the answer.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire) || self.keeper().is_some_and(Keeper::is_asked_to_end)
    }

    /// Completes when the caller no longer wants the answer.
    ///
    /// An async handler need not watch it, for its future is dropped then; what it has spawned or runs on other threads
    /// should. Where its policy is [`Cooperative`](super::CancelPolicy::Cooperative) a task that is cancelled goes on for
    /// its grace: the handler is told so by this, and ends as it sees fit. Entered again it is told anew.
    ///
    /// ```
    /// # use longhaul::{Cx, server::ToolError};
    /// # async fn copy(_: &Cx) -> Result<String, ToolError> { Ok(String::new()) }
    /// # async fn clean_up() {}
    /// async fn backup(cx: Cx) -> Result<String, ToolError> {
    ///     tokio::select! {
    ///         copied = copy(&cx) => copied,
    ///         () = cx.cancelled() => {
    ///             clean_up().await;
    ///             Err(cx.give_up())
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn cancelled(&self) {
        let dropped = async {
            loop {
                let notified = self.0.on_cancel.notified();
                if self.0.cancelled.load(Ordering::Acquire) {
                    return;
                }
                notified.await;
            }
        };
        let asked = async {
            match self.keeper() {
                Some(keeper) => keeper.asked_to_end().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = dropped => {}
            () = asked => {}
        }
    }

    /// Whether the caller has gone without cancelling the call: its connection or its session has ended, or it did not come back
    /// with answers. Of a task that is never so, for it outlives its caller.
    pub fn is_left(&self) -> bool {
        let is_task = self.keeper().is_some_and(|keeper| keeper.epoch().is_some());
        !is_task && [self, &self.now()].iter().any(|cx| cx.0.left.load(Ordering::Acquire))
    }

    /// The caller has gone without a word.
    pub(super) fn be_left(&self) {
        self.0.left.store(true, Ordering::Release);
    }

    /// Which trace of the caller's the call belongs to, if it says so (`traceparent` of W3C Trace Context, in `_meta`): the
    /// same whenever the work of a task is entered again. Hand it on to what the work calls.
    pub fn trace_parent(&self) -> Option<TraceParent> {
        self.0.caller.trace_parent
    }

    /// How long ago the work of the task was first begun when it was entered this time, whatever it waited for since: by the
    /// store's time, so that it does not matter on which node. Nothing if it was not begun before; of work that
    /// may be entered again what it stood in line for a place counts, too. Whoever bounds how long a
    /// call may take in all takes this from it.
    pub fn worked_before(&self) -> Duration {
        self.keeper().map_or(Duration::ZERO, Keeper::worked_before)
    }

    /// The failure by which a handler ends that was [told](Self::cancelled) to: its task is cancelled then. In any other
    /// call it is a failure in words.
    pub fn give_up(&self) -> ToolError {
        if let Some(keeper) = self.keeper() {
            keeper.give_up();
        }
        ToolError::new("cancelled")
    }

    /// Whether the caller asked for progress.
    pub(super) fn hears_progress(&self) -> bool {
        self.0.progress_token.is_some()
    }

    /// Tells a caller that waits that its call goes on, without overtaking the progress to come: half of what
    /// is left to the next whole step.
    pub(crate) async fn heartbeat(&self) {
        let mut beat = self.last_progress().unwrap_or_else(|| Progress::new(0.0));
        let next = beat.value.floor() + 1.0;
        beat.value += (next - beat.value) / 2.0;
        if beat.value >= next {
            // No room is left below the next step, which must still be able to rise.
            return;
        }
        if beat.message.is_none() {
            beat.message = Some("still running".to_owned());
        }
        self.notify_progress(&beat).await;
    }

    fn last_progress(&self) -> Option<Progress> {
        self.0.last_progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this progress is further than the last, which it then replaces.
    fn rises(&self, progress: &Progress) -> bool {
        let mut last = self.0.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
        told_progress::rises(&mut last, progress)
    }

    /// A guard that, dropped before it is defused, marks the call as cancelled.
    pub(crate) fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(Some(self.clone()))
    }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("caller", &self.0.caller).finish_non_exhaustive()
    }
}

pub(crate) struct CancelOnDrop(Option<Cx>);

impl CancelOnDrop {
    pub(crate) fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cx) = &self.0 {
            cx.0.cancelled.store(true, Ordering::Release);
            cx.0.on_cancel.notify_waiters();
        }
    }
}
