//! Calling a tool: from the first request to the result, whatever it becomes in between.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Asked, Called, Declaration, RequestWriter};
use longhaul_proto::jsonrpc::Code;
use longhaul_proto::method::Method;
use longhaul_proto::model::{CallToolResult, Content, TaskSupport};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::Client;
use super::error::Error;
use super::link::{Outgoing, shared};
use super::options::{AsTask, CallOptions};
use super::rounds::Rounds;
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

    /// Calls a tool, waits for its result, and reads its structure. What has no structure but one text is read as its JSON:
    /// older servers know nothing else.
    ///
    /// ```no_run
    /// # async fn run(client: longhaul::client::Client) -> Result<(), longhaul::client::Error> {
    /// #[derive(serde::Deserialize)]
    /// struct Weather {
    ///     degrees: f64,
    /// }
    ///
    /// let weather: Weather = client.call_for("weather", &serde_json::json!({ "city": "Oslo" })).await?;
    /// println!("{}", weather.degrees);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); [`Error::Failed`] when the tool says that it failed, and [`Error::Protocol`] when its result is
    /// no `T`.
    pub async fn call_for<T: DeserializeOwned>(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<T, Error> {
        let result = self.call(name, arguments).await?;
        let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
        if result.is_error {
            return Err(Error::Failed { tool: name.to_owned(), text: texts.join("\n") });
        }
        let structure = match (&result.structured_content, &texts[..]) {
            (Some(structure), _) => structure.get(),
            (None, [text]) => text,
            (None, _) => return Err(Error::protocol(format!("the result of {name} has no structure"))),
        };
        serde_json::from_str(structure).map_err(|error| {
            Error::protocol(format!("the result of {name} is another than expected: {error}"))
        })
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
        Ok(tools.tool(name).is_some_and(|tool| tool.task_support != TaskSupport::Forbidden))
    }

    async fn send_call(
        &self,
        name: &str,
        arguments: &str,
        options: &CallOptions,
        task: Option<&str>,
    ) -> Result<Started, Error> {
        let mut declaration = self.declaration();
        if options.as_task == AsTask::Never {
            Arc::make_mut(&mut declaration).capabilities.extensions.tasks = false;
        }
        let mut rounds = Rounds::new(self);
        let mut is_listed_again = false;
        loop {
            let called = self.send_round(name, arguments, options, &declaration, task, &rounds).await;
            match called {
                Ok(Round::Over(started)) => return Ok(started),
                Ok(Round::Asked(asked)) => rounds.answer(asked).await?,
                // The arguments that headers must repeat are others than we know, or we know none.
                Err(Error::Answer(error))
                    if error.code == Code::HEADER_MISMATCH
                        && !std::mem::replace(&mut is_listed_again, true) =>
                {
                    self.0.table.cache().forget(&[Method::ListTools]);
                    self.look_at_tools().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the call, with what its round brings.
    async fn send_round(
        &self,
        name: &str,
        arguments: &str,
        options: &CallOptions,
        declaration: &Arc<Declaration>,
        task: Option<&str>,
        rounds: &Rounds<'_>,
    ) -> Result<Round, Error> {
        let body = |params: &mut RequestWriter<'_, '_>| {
            params.field("name", name).raw("arguments", arguments);
            if let Some(task) = task {
                params.raw("task", task);
            }
            rounds.write(params);
        };
        let known = self.tools_at_hand().await;
        let mut request = Outgoing::new(self.dialect(), Method::CallTool, Arc::clone(declaration), body)?;
        request.name = Some(name);
        request.repeated = known.as_ref().map(|known| known.repeated(name, arguments)).unwrap_or_default();
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
                    self.0.link.listen(self.dialect()).await;
                }
                let listening = answered.listening.filter(|_| reports);
                Round::Over(Started::Task(TaskHandle::created(self.clone(), task, listening).of(name)))
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
pub(super) fn object(arguments: &(impl Serialize + ?Sized)) -> Result<String, Error> {
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
