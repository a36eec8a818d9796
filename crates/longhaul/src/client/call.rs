//! Calling a tool: from the first request to the result, whatever it becomes in between.

use std::borrow::Cow;
use std::time::Duration;

use longhaul_proto::dialect::{Asked, Called, Declaration, RequestWriter};
use longhaul_proto::method::Method;
use longhaul_proto::model::{CallToolResult, TaskSupport};
use serde::Serialize;
use tokio::sync::oneshot;

use super::Client;
use super::error::Error;
use super::link::shared;
use super::options::{AsTask, CallOptions};
use super::task::TaskHandle;

/// What a call has come to so far.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a call ends or becomes a task")]
pub enum Started {
    /// It has ended with this.
    Result(CallToolResult),
    /// It goes on as this task.
    Task(TaskHandle),
}

impl Client {
    /// Calls a tool and waits for its result; what becomes a task is followed to its end.
    ///
    /// Dropping the future cancels the call as long as it is no task; a task runs on.
    ///
    /// # Errors
    ///
    /// When there is no result. That the tool failed is a result ([`CallToolResult::is_error`]).
    pub async fn call(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<CallToolResult, Error> {
        self.call_with(name, arguments, CallOptions::default()).await
    }

    /// Calls a tool with other [`CallOptions`], and waits for its result.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and when [`CallOptions::timeout`] runs out.
    pub async fn call_with(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
        options: CallOptions,
    ) -> Result<CallToolResult, Error> {
        let arguments = object(arguments)?;
        let timeout = options.timeout;
        let ended = async {
            match self.begin(name, arguments, options).await? {
                Started::Result(result) => Ok(result),
                Started::Task(task) => task.wait().await,
            }
        };
        within(timeout, ended).await
    }

    /// Calls a tool and returns as soon as it has ended or has become a task.
    ///
    /// Dropping the future cancels the call. [`CallOptions::timeout`] counts until it returns.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn start(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
        options: CallOptions,
    ) -> Result<Started, Error> {
        let arguments = object(arguments)?;
        let timeout = options.timeout;
        within(timeout, self.begin(name, arguments, options)).await
    }

    async fn begin(&self, name: &str, arguments: String, options: CallOptions) -> Result<Started, Error> {
        if !self.asks_for_task(name, options.as_task).await? {
            return self.send_call(name, &arguments, &options, None).await;
        }
        // Such a call must be cancelled by its task's id (2025-11-25, Cancellation), which only its answer
        // tells: it is awaited even if our caller is gone.
        let (sender, receiver) = oneshot::channel();
        let (client, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let ttl = options.ttl.map(|ttl| ttl.as_millis());
            let task = ttl.map_or_else(|| "{}".to_owned(), |ttl| format!(r#"{{"ttl":{ttl}}}"#));
            let started = client.send_call(&name, &arguments, &options, Some(&task)).await;
            if let Err(Ok(Started::Task(task))) = sender.send(started)
                && let Err(error) = task.cancel().await
            {
                tracing::debug!(%error, task = task.id(), "an unwanted task was not cancelled");
            }
        });
        receiver.await.unwrap_or(Err(Error::Lost { cause: None }))
    }

    /// Whether to ask for a task: where callers do that, if the server offers it and the tool allows it.
    async fn asks_for_task(&self, name: &str, as_task: AsTask) -> Result<bool, Error> {
        if as_task == AsTask::Never || !self.dialect().asks_for_tasks() || !self.capabilities().tasks {
            return Ok(false);
        }
        let tools = self.known_tools().await?;
        let tool = tools.iter().find(|tool| tool.name == name);
        Ok(tool.is_some_and(|tool| tool.task_support != TaskSupport::Forbidden))
    }

    async fn send_call(
        &self,
        name: &str,
        arguments: &str,
        options: &CallOptions,
        task: Option<&str>,
    ) -> Result<Started, Error> {
        let declaration = match options.as_task {
            AsTask::Allowed => Cow::Borrowed(&self.0.declaration),
            AsTask::Never => {
                let mut without_tasks = self.0.declaration.clone();
                without_tasks.capabilities.extensions.tasks = false;
                Cow::Owned(without_tasks)
            }
        };
        let mut rounds = 0;
        let mut brings = None;
        loop {
            let called =
                self.send_round(name, arguments, options, &declaration, task, brings.as_ref()).await?;
            let asked = match called {
                Round::Over(started) => return Ok(started),
                Round::Asked(asked) => asked,
            };
            if self.options().answers.is_empty() {
                return Err(Error::InputRequired { task: None });
            }
            rounds += 1;
            let times = self.options().stuck_after;
            if rounds > times {
                return Err(Error::Stuck { task: None, times });
            }
            let questions: Vec<_> = asked.questions.iter().map(|(key, raw)| (key.as_str(), &**raw)).collect();
            let answers = self.answers_to(&questions).await.ok_or(Error::InputRequired { task: None })?;
            brings = Some((answers, asked.state));
        }
    }

    /// Makes the call, with the answers to what it asked the last time if it did.
    async fn send_round(
        &self,
        name: &str,
        arguments: &str,
        options: &CallOptions,
        declaration: &Declaration,
        task: Option<&str>,
        brings: Option<&(String, Option<String>)>,
    ) -> Result<Round, Error> {
        let body = |params: &mut RequestWriter<'_, '_>| {
            params.field("name", name).raw("arguments", arguments);
            if let Some(task) = task {
                params.raw("task", task);
            }
            if let Some((answers, state)) = brings {
                params.raw("inputResponses", answers);
                if let Some(state) = state {
                    params.field("requestState", state);
                }
            }
        };
        let mut request = super::Outgoing::new(self.dialect(), Method::CallTool, declaration, body)?;
        request.name = Some(name);
        request.idle = options.idle;
        if task.is_some() {
            // The answer to such a call is the task, which is made at once.
            request.idle = options.idle.or_else(|| Some(self.options().request_timeout));
            request.cancellable = false;
        }
        request.on_progress = shared(&options.on_progress);
        let answered = self.ask(request).await?;
        let called = self.dialect().read_call(&answered.result);
        Ok(match called.map_err(|error| Error::protocol(error.message))? {
            Called::Result(result) => Round::Over(Started::Result(result)),
            Called::Task(task) => {
                let reports = self.dialect().reports_progress_of_tasks();
                if reports {
                    self.0.link.listen(self.dialect());
                }
                let listening = answered.listening.filter(|_| reports);
                Round::Over(Started::Task(TaskHandle::created(self.clone(), task, listening)))
            }
            Called::Asked(asked) => Round::Asked(asked),
        })
    }
}

/// What came of making a call once.
enum Round {
    Over(Started),
    /// It is to be made again, with answers.
    Asked(Asked),
}

/// The arguments as the text of an object. Nothing at all is an empty one.
fn object(arguments: &(impl Serialize + ?Sized)) -> Result<String, Error> {
    let refuse = |reason: String| Error::Arguments { reason };
    let text = serde_json::to_string(arguments).map_err(|error| refuse(error.to_string()))?;
    match text.trim_start().as_bytes().first() {
        Some(b'{') => Ok(text),
        _ if text == "null" => Ok("{}".to_owned()),
        _ => Err(refuse(format!("they are {}", longhaul_proto::jsonrpc::clip(&text)))),
    }
}

async fn within<T>(
    timeout: Option<Duration>,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match timeout {
        None => future.await,
        Some(after) => tokio::time::timeout(after, future).await.unwrap_or(Err(Error::TimedOut { after })),
    }
}
