//! One call of a tool of another server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::Cx;
use longhaul::client::{CallOptions, Error, Started, TaskHandle};
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{CallToolResult, Progress, Task};
use longhaul::server::{ToolFuture, ToolHandler};
use longhaul::store::Rerun;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::asking::Using;
use super::connection::{Upstream, in_words};
use super::durable;
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
        Ok(Box::pin(async move { parts.call(&cx, &arguments).await }))
    }
}

impl Parts {
    async fn call(self: &Arc<Self>, cx: &Cx, arguments: &RawValue) -> Result<CallToolResult, ErrorObject> {
        let calling = Box::pin(async {
            if self.may_be_task {
                durable::call(self, cx, arguments).await
            } else {
                self.call_until_answered(cx, arguments).await
            }
        });
        let calling = self.upstream.callers.calling(cx, calling);
        let (server, tool, begun) = (&self.upstream.config().name, &self.tool, Instant::now());
        let answered = match self.timeout {
            None => calling.await,
            Some(limit) => tokio::time::timeout(limit, calling).await.unwrap_or_else(|_| {
                let limit = format_duration(limit);
                Ok(self.failure(&format!("it took longer than its timeout of {limit}, and was given up")))
            }),
        };
        let came = match &answered {
            Ok(result) if result.is_error => "a failure",
            Ok(_) => "a result",
            Err(_) => "an error",
        };
        tracing::debug!(server, tool, came, took = ?begun.elapsed(), "a tool of another server was called");
        answered
    }

    /// Calls it; again, where its operator allows that, if its server ends meanwhile.
    async fn call_until_answered(
        &self,
        cx: &Cx,
        arguments: &RawValue,
    ) -> Result<CallToolResult, ErrorObject> {
        let mut tries = if self.may_repeat { TRIES } else { 1 };
        loop {
            let client = match self.upstream.client().await {
                Ok(client) => client,
                Err(error) => return Ok(CallToolResult::error(error.to_string())),
            };
            tries -= 1;
            self.upstream.log.ask_for(cx, &client).await;
            let calling = self.relaying(cx, |options| async {
                match client.start(&self.tool, arguments, options).await? {
                    Started::Result(result) => Ok(result),
                    Started::Task(task) => Followed::new(task, self.upstream.callers.using()).ended(cx).await,
                }
            });
            match calling.await {
                Err(error) if is_gone(&error) && tries > 0 => {
                    cx.status("its server ended: calling it again");
                }
                answered => return self.answer(cx, answered),
            }
        }
    }

    /// What comes of calling with the options that are given, while progress is passed on.
    pub(super) async fn relaying<F: Future>(
        &self,
        cx: &Cx,
        calling: impl FnOnce(CallOptions) -> F,
    ) -> F::Output {
        let (told, mut news) = watch::channel(None::<Progress>);
        let mut options =
            CallOptions::default().on_progress(move |progress| drop(told.send_replace(Some(progress))));
        options.idle = self.idle;
        let mut calling = std::pin::pin!(calling(options));
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
            }
        }
    }

    /// What the caller is told.
    pub(super) fn answer(
        &self,
        cx: &Cx,
        answered: Result<CallToolResult, Error>,
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
        self.upstream.callers.give_up(cx);
        let (server, tool) = (&self.upstream.config().name, &self.tool);
        self.upstream.doubted.notify_one();
        tracing::warn!(server, tool, error = in_words(&error), "a call of another server failed");
        Ok(match error {
            // What it said last is for its operator, and logged.
            Error::Died { status, .. } => {
                self.failure(&format!("it ended before it had answered ({status})"))
            }
            Error::TimedOut { after, .. } => {
                let after = format_duration(after);
                self.failure(&format!("it gave no answer and no progress for {after}, and was given up"))
            }
            error => self.failure(&self.upstream.why(&error)),
        })
    }

    pub(super) fn failure(&self, why: &str) -> CallToolResult {
        CallToolResult::error(format!("the server {}: {why}", self.upstream.config().name))
    }
}

/// What a server says of itself with each answer (2026-07-28).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

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

    async fn ended(mut self, cx: &Cx) -> Result<CallToolResult, Error> {
        let ended = self.task.watch(|task| say(cx, task)).await;
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
