//! One call of a tool of another server.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul::Cx;
use longhaul::client::{CallOptions, Error, Started, TaskHandle};
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{CallToolResult, Progress, Task};
use longhaul::server::{TaskMode, ToolFuture, ToolHandler};
use longhaul::store::Rerun;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::asking::Using;
use super::away::{Pauses, UNSAID};
use super::caller::{Caller, Turn};
use super::connection::{Reached, Unreached, Upstream};
use super::durable;
use crate::causes::in_words;
use crate::config::{UpstreamPolicy, format_duration};

/// A tool of another server, as it is called here.
#[derive(Clone)]
pub(super) struct Called(Arc<Parts>);

pub(super) struct Parts {
    pub(super) upstream: Arc<Upstream>,
    /// Its name there.
    pub(super) tool: String,
    pub(super) may_repeat: bool,
    /// Its server can make tasks of calls, which outlive us.
    may_be_task: bool,
    /// A call can become a task here, which waits for a server that is away.
    pub(super) may_wait: bool,
    timeout: Option<Duration>,
    idle: Option<Duration>,
}

impl Called {
    pub(super) fn new(
        upstream: &Arc<Upstream>,
        tool: &str,
        policy: &UpstreamPolicy,
        may_be_task: bool,
    ) -> Self {
        Self(Arc::new(Parts {
            upstream: Arc::clone(upstream),
            tool: tool.to_owned(),
            may_repeat: policy.rerun == Rerun::Restart,
            may_be_task,
            may_wait: policy.task != TaskMode::Never,
            timeout: policy.timeout,
            idle: policy.idle,
        }))
    }
}

impl ToolHandler for Called {
    fn call(&self, cx: Cx, arguments: &str) -> Result<ToolFuture, CallToolResult> {
        let arguments = RawValue::from_string(arguments.to_owned());
        let arguments = arguments.map_err(|error| CallToolResult::error(error.to_string()))?;
        let parts = Arc::clone(&self.0);
        Ok(Box::pin(async move { parts.call(&cx, arguments.into()).await }))
    }
}

/// A call as it is made. Clones are the same.
#[derive(Clone)]
pub(super) struct Calling {
    pub(super) parts: Arc<Parts>,
    pub(super) cx: Cx,
    /// Whom the task asks that its server makes of it.
    pub(super) caller: Arc<Caller>,
    pub(super) arguments: Arc<RawValue>,
    /// The connection over which it waits for an answer.
    waits_over: Arc<Mutex<Option<Reached>>>,
}

impl Calling {
    /// Calls it; again, where its operator allows that, if its server ends meanwhile.
    async fn until_answered(&self) -> Result<CallToolResult, ErrorObject> {
        let Self { parts, cx, .. } = self;
        let (mut tries, mut pauses) = (if parts.may_repeat { TRIES } else { 1 }, Pauses::new());
        loop {
            let (call, is_last) = (Self { caller: Caller::of(cx), ..self.clone() }, tries == 1);
            let turn = Turn::new(Arc::clone(&call.caller), async move {
                call.parts.upstream.in_turn_of(&call.caller, Box::pin(call.once(is_last))).await
            });
            match turn.await {
                Ok(Some(ended)) => return ended,
                Ok(None) => {
                    tries -= 1;
                    cx.status("its server ended: calling it again");
                }
                Err(away) if parts.may_wait && !away.is_denied => self.until_there(away, &mut pauses).await,
                Err(away) => return Ok(CallToolResult::error(away.to_string())),
            }
        }
    }

    /// Calls it; `None` if it may be called again, for its server has ended meanwhile, unless it was to be the last time.
    async fn once(&self, is_last: bool) -> Result<Option<Result<CallToolResult, ErrorObject>>, Unreached> {
        let Self { parts, cx, .. } = self;
        let (reached, answered) = parts.relaying(cx, |options| Box::pin(self.call(options))).await?;
        let is_lost = parts.is_lost(&reached, &answered).await;
        // What was given up is known as that before anybody else has the place.
        Ok((!is_lost || is_last).then(|| parts.answer(cx, answered, is_lost)))
    }

    async fn call(
        &self,
        options: CallOptions,
    ) -> Result<(Reached, Result<CallToolResult, Error>), Unreached> {
        let (reached, started) = self.start(options).await?;
        let answered = match started {
            Ok(Started::Result(result)) => Ok(result),
            Ok(Started::Task(task)) => {
                let followed = Followed::new(task, self.parts.upstream.callers.using());
                self.waiting(&reached, followed.ended(self, &reached)).await
            }
            Err(error) => Err(error),
        };
        Ok((reached, answered))
    }

    /// Makes the call; its server may make a task of it.
    pub(super) async fn start(
        &self,
        options: CallOptions,
    ) -> Result<(Reached, Result<Started, Error>), Unreached> {
        let (tool, arguments) = (&self.parts.tool, &*self.arguments);
        let reached = self.parts.upstream.reach().await?;
        if !self.parts.upstream.may_call(&reached, tool).await {
            return Ok((reached, Ok(Started::Result(self.parts.failure(TURNED)))));
        }
        self.ask(reached, |client| async move { client.start(tool, arguments, options).await }).await
    }

    /// Waits for an answer over that connection.
    pub(super) async fn waiting<T>(
        &self,
        reached: &Reached,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.wait_over(Some(reached.clone()));
        let answered = self.parts.upstream.waiting(asking).await;
        self.wait_over(None);
        answered
    }

    fn wait_over(&self, connection: Option<Reached>) {
        *self.waits_over.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }
}

impl Parts {
    async fn call(
        self: &Arc<Self>,
        cx: &Cx,
        arguments: Arc<RawValue>,
    ) -> Result<CallToolResult, ErrorObject> {
        let waits_over = Arc::new(Mutex::new(None));
        let call = Calling {
            parts: Arc::clone(self),
            cx: cx.clone(),
            caller: Caller::of(cx),
            arguments,
            waits_over: Arc::clone(&waits_over),
        };
        // Also while it waits for its turn or for its server, it wants the connection to stay.
        let _using = self.upstream.callers.using();
        let calling = Box::pin(async {
            if self.may_be_task { durable::call(&call).await } else { call.until_answered().await }
        });
        let (server, tool, begun) = (&self.upstream.config().name, &self.tool, Instant::now());
        // An earlier process may have begun it, and nobody may have served since.
        let left = self.timeout.map(|limit| (limit, limit.saturating_sub(cx.worked_before())));
        let answered = match left {
            None => calling.await,
            Some((limit, left)) if left.is_zero() => Ok(self.too_long(limit)),
            Some((limit, left)) => match tokio::time::timeout(left, calling).await {
                Ok(answered) => answered,
                Err(_) => {
                    if let Some(reached) = waits_over.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        let upstream = Arc::clone(&self.upstream);
                        // Its caller need not wait for that.
                        tokio::spawn(async move { upstream.is_over(&reached, true).await });
                    }
                    Ok(self.too_long(limit))
                }
            },
        };
        let came = match &answered {
            Ok(result) if result.is_error => "a failure",
            Ok(_) => "a result",
            Err(_) => "an error",
        };
        tracing::debug!(server, tool, came, took = ?begun.elapsed(), "a tool of another server was called");
        answered
    }

    /// Whether there is no answer because the server, or its session, is not there any more. One that was silent for too long is
    /// pinged first.
    pub(super) async fn is_lost(&self, reached: &Reached, answered: &Result<CallToolResult, Error>) -> bool {
        match answered {
            Ok(_) => false,
            Err(Error::TimedOut { after, .. }) => {
                self.upstream.is_over(reached, Some(*after) == self.idle).await
            }
            Err(error) => is_gone(error),
        }
    }

    /// What comes of calling with the options that are given, while progress is passed on.
    pub(super) async fn relaying<F: Future + Unpin>(
        &self,
        cx: &Cx,
        calling: impl FnOnce(CallOptions) -> F,
    ) -> F::Output {
        let (told, mut news) = watch::channel(None::<Progress>);
        let pulse = Arc::clone(&self.upstream.pulse);
        let mut options = CallOptions::default().on_progress(move |progress| {
            pulse.hear();
            told.send_replace(Some(progress));
        });
        options.idle = self.idle;
        let mut calling = calling(options);
        let mut silence = pin!(self.upstream.tell_of_silence(cx));
        loop {
            tokio::select! {
                biased;
                Ok(()) = news.changed() => {
                    let progress = news.borrow_and_update().clone();
                    if let Some(progress) = progress {
                        cx.progress(progress).await;
                    }
                }
                answered = &mut calling => return answered,
                never = &mut silence => match never {},
            }
        }
    }

    /// What the caller is told; `is_lost` says that there is no answer for want of the server.
    pub(super) fn answer(
        &self,
        cx: &Cx,
        answered: Result<CallToolResult, Error>,
        is_lost: bool,
    ) -> Result<CallToolResult, ErrorObject> {
        let error = match answered {
            Ok(mut result) => {
                // Who answers here is this server.
                result.meta = std::mem::take(&mut result.meta).without(SERVER_INFO);
                return Ok(result);
            }
            // The server's own word, which the caller gets as it is.
            Err(Error::Answer(error)) => return Err(error),
            Err(error) => error,
        };
        if !matches!(error, Error::Protocol { .. }) {
            self.upstream.callers.give_up(cx);
        }
        let (server, tool) = (&self.upstream.config().name, &self.tool);
        self.upstream.doubted.notify_one();
        tracing::warn!(server, tool, error = in_words(&error), "a call of another server failed");
        Ok(match error {
            // What it said last is for its operator, and logged.
            Error::Died { status, .. } => {
                self.failure(&format!("it ended before it had answered ({status})"))
            }
            Error::TimedOut { after, .. } => {
                let (after, to_ping) = (format_duration(after), if is_lost { HUNG } else { "" });
                self.failure(&format!(
                    "it gave no answer and no progress for {after}, and was given up{to_ping}"
                ))
            }
            error => self.failure(&self.upstream.why(&error)),
        })
    }

    fn too_long(&self, limit: Duration) -> CallToolResult {
        let limit = format_duration(limit);
        self.failure(&format!("it took longer than its timeout of {limit}, and was given up"))
    }

    pub(super) fn failure(&self, why: &str) -> CallToolResult {
        CallToolResult::error(format!("the server {}: {why}", self.upstream.config().name))
    }
}

/// What a server says of itself with each answer (2026-07-28).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What is said of a server that was ended because it hung.
const HUNG: &str = "; it answered no ping either, and is started anew by the next call";

/// What is said of a tool that its pins hold back.
const TURNED: &str = "its tool says something else of itself than when it was first seen, or has not said it again, and is not called";

/// How often a call is made that may be made again.
pub(super) const TRIES: u32 = 5;

/// Whether an error says that the server, or its session, is not there any more.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Died { .. } | Error::Lost { .. } | Error::SessionLost { .. })
}

/// What a task says of itself, said of ours.
pub(super) fn say(cx: &Cx, task: &Task) {
    if let Some(message) = &task.status_message {
        cx.status(message.as_str());
    }
}

/// A task of the other server's. If nobody waits for it any more, it is cancelled.
struct Followed {
    task: Arc<TaskHandle>,
    is_over: bool,
    /// Until its cancel was sent, too.
    using: Option<Using>,
}

impl Followed {
    fn new(task: TaskHandle, using: Using) -> Self {
        Self { task: Arc::new(task), is_over: false, using: Some(using) }
    }

    async fn ended(mut self, call: &Calling, reached: &Reached) -> Result<CallToolResult, Error> {
        let ended = call.until_ended(reached, &self.task, Some(UNSAID)).await;
        self.is_over = true;
        ended
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_over {
            return;
        }
        let (task, using) = (Arc::clone(&self.task), self.using.take());
        runtime.spawn(async move {
            let _using = using;
            if let Err(error) = task.cancel().await {
                tracing::warn!(%error, task = task.id(), "a task of another server was not cancelled");
            }
        });
    }
}
