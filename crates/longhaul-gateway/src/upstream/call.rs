//! One call of a tool of another server.

use std::sync::Arc;
use std::time::Duration;

use longhaul::Cx;
use longhaul::client::{CallOptions, Client, Error, Started, TaskHandle};
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{CallToolResult, Progress, Task};
use longhaul::server::{ToolFuture, ToolHandler};
use longhaul::store::Rerun;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::connection::{Upstream, in_words};
use crate::config::{UpstreamPolicy, format_duration};

/// A tool of another server, as it is called here.
#[derive(Clone)]
pub(super) struct Called(Arc<Parts>);

struct Parts {
    upstream: Arc<Upstream>,
    /// Its name there.
    tool: String,
    may_repeat: bool,
    timeout: Option<Duration>,
    idle: Option<Duration>,
}

impl Called {
    pub(super) fn new(upstream: &Arc<Upstream>, tool: &str, policy: &UpstreamPolicy) -> Self {
        Self(Arc::new(Parts {
            upstream: Arc::clone(upstream),
            tool: tool.to_owned(),
            may_repeat: policy.rerun == Rerun::Restart,
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
    async fn call(&self, cx: &Cx, arguments: &RawValue) -> Result<CallToolResult, ErrorObject> {
        let calling = Box::pin(self.call_until_answered(cx, arguments));
        let Some(limit) = self.timeout else { return calling.await };
        tokio::time::timeout(limit, calling).await.unwrap_or_else(|_| {
            let limit = format_duration(limit);
            Ok(self.failure(&format!("it took longer than its timeout of {limit}, and was given up")))
        })
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
            match self.call_once(cx, &client, arguments).await {
                Err(Error::Died { .. } | Error::Lost { .. } | Error::SessionLost { .. }) if tries > 0 => {
                    cx.status("its server ended: calling it again");
                }
                answered => return self.answer(answered),
            }
        }
    }

    async fn call_once(
        &self,
        cx: &Cx,
        client: &Client,
        arguments: &RawValue,
    ) -> Result<CallToolResult, Error> {
        let (told, mut news) = watch::channel(None::<Progress>);
        let mut options =
            CallOptions::default().on_progress(move |progress| drop(told.send_replace(Some(progress))));
        options.idle = self.idle;
        let calling = async {
            match client.start(&self.tool, arguments, options).await? {
                Started::Result(result) => Ok(result),
                Started::Task(task) => Followed::new(task).ended(cx).await,
            }
        };
        let mut calling = std::pin::pin!(calling);
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
    fn answer(&self, answered: Result<CallToolResult, Error>) -> Result<CallToolResult, ErrorObject> {
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
        let (server, tool) = (&self.upstream.config().name, &self.tool);
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
            error => self.failure(&in_words(&error)),
        })
    }

    fn failure(&self, why: &str) -> CallToolResult {
        CallToolResult::error(format!("the server {}: {why}", self.upstream.config().name))
    }
}

/// What a server says of itself with each answer (2026-07-28).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// How often a call is made that may be made again.
const TRIES: u32 = 5;

/// A task of the other server's. If nobody waits for it any more, it is cancelled.
struct Followed {
    task: Arc<TaskHandle>,
    is_over: bool,
}

impl Followed {
    fn new(task: TaskHandle) -> Self {
        Self { task: Arc::new(task), is_over: false }
    }

    async fn ended(mut self, cx: &Cx) -> Result<CallToolResult, Error> {
        let told = |task: &Task| {
            if let Some(message) = &task.status_message {
                cx.status(message.as_str());
            }
        };
        let ended = self.task.watch(told).await;
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
        let task = Arc::clone(&self.task);
        runtime.spawn(async move {
            if let Err(error) = task.cancel().await {
                tracing::warn!(%error, task = task.id(), "a task of another server was not cancelled");
            }
        });
    }
}
