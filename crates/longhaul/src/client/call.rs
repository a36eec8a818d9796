//! Calling a tool: from the first request to the result, whatever it becomes in between.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Asked, Called, Declaration, RequestWriter};
use longhaul_proto::jsonrpc::Code;
use longhaul_proto::method::Method;
use longhaul_proto::model::{CallToolResult, Content, TaskSupport};
use longhaul_tasks::environment::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::Client;
use super::drafted::Named;
use super::error::Error;
use super::journal::{Begun, Page};
use super::link::{Outgoing, shared};
use super::options::{AsTask, CallOptions};
use super::pace::Pauses;
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
        // In a box, for it is large: whoever makes several at once holds them all.
        let ended = Box::pin(async {
            match self.begin(name, arguments, options).await? {
                Started::Result(result) => Ok(result),
                Started::Task(task) => task.wait().await,
            }
        });
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
        within(timeout, Box::pin(self.begin(name, arguments, options))).await
    }

    /// Makes a call, or goes on with the one that the journal knows by its name.
    async fn begin(&self, name: &str, arguments: String, options: CallOptions) -> Result<Started, Error> {
        let Some(book) = &self.options().journal else {
            return self.begin_on(None, name, arguments, options).await;
        };
        let refuse = |reason: &str| Error::Arguments { reason: reason.to_owned() };
        if let Some(call) = options.name.as_deref() {
            let open = book.open(self.server()).await?;
            if let Some(kept) = open.into_iter().find(|kept| kept.begun.name.as_deref() == Some(call)) {
                if (kept.begun.tool.as_str(), kept.begun.arguments.get()) != (name, arguments.as_str()) {
                    return Err(refuse("the journal knows another call by that name"));
                }
                let page = book.take_up(&kept).ok_or_else(|| refuse("the call of that name is under way"))?;
                return self.go_on(kept, &page, options).await;
            }
        }
        let begun = Begun {
            server: self.server().to_owned(),
            name: options.name.as_deref().map(str::to_owned),
            tool: name.to_owned(),
            arguments: RawValue::from_string(arguments.clone())
                .map_err(|error| refuse(&error.to_string()))?,
            ttl_ms: options.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        };
        let page = book.begin(begun).await?;
        self.begin_on(Some(page), name, arguments, options).await
    }

    /// Makes a call, which is noted on `page` if there is a journal.
    pub(super) async fn begin_on(
        &self,
        page: Option<Arc<Page>>,
        name: &str,
        arguments: String,
        options: CallOptions,
    ) -> Result<Started, Error> {
        if options.as_task != AsTask::Never && self.has_drafted_tasks() {
            return self.begin_drafted(page, name, arguments, options).await;
        }
        let asks = self.asks_for_task(name, options.as_task).await?;
        let is_kept = page.is_some() && self.keeps_keys() && options.as_task != AsTask::Never;
        if !asks && !is_kept {
            return self.send_call(name, &arguments, &options, &Wish::None, page.as_ref()).await;
        }
        // Such a call must be cancelled by its task's id (2025-11-25, Cancellation; a call that has a key outlives its
        // connection), which only its answer tells: it is awaited even if our caller is gone.
        let (sender, receiver) = oneshot::channel();
        let (client, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let ttl = options.ttl.map(|ttl| ttl.as_millis());
            let wish = match (asks, ttl) {
                (false, _) => Wish::None,
                (true, None) => Wish::Parameter("{}".to_owned()),
                (true, Some(ttl)) => Wish::Parameter(format!(r#"{{"ttl":{ttl}}}"#)),
            };
            let started = client.send_call(&name, &arguments, &options, &wish, page.as_ref()).await;
            // Whoever is told may take the call up at once.
            drop(page);
            if let Err(Ok(Started::Task(task))) = sender.send(started) {
                match task.cancel().await {
                    Ok(()) => task.give_up_page().await,
                    Err(error) => {
                        tracing::debug!(%error, task = task.id(), "an unwanted task was not cancelled");
                    }
                }
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

    /// Makes the call until it has ended or has become a task, and notes what it has come to.
    async fn send_call(
        &self,
        name: &str,
        arguments: &str,
        options: &CallOptions,
        wish: &Wish,
        page: Option<&Arc<Page>>,
    ) -> Result<Started, Error> {
        let sent = self.send_until_answered(name, arguments, options, wish, page).await;
        self.noted(sent, page).await
    }

    /// Notes what a call has come to.
    pub(super) async fn noted(
        &self,
        sent: Result<Started, Error>,
        page: Option<&Arc<Page>>,
    ) -> Result<Started, Error> {
        let Some(page) = page else { return sent };
        let outcome = match sent {
            Ok(Started::Task(task)) => {
                page.task(task.id(), task.is_drafted()).await?;
                return Ok(Started::Task(task.on(page)));
            }
            Ok(Started::Result(result)) => Ok(result),
            Err(error @ Error::Answer(_)) if !error.is_throttled() => Err(error),
            Err(error) => {
                if page.is_left() || error.leaves_open() {
                    page.leave();
                } else {
                    page.give_up().await;
                }
                return Err(error);
            }
        };
        page.settle(&outcome).await;
        outcome.map(Started::Result)
    }

    /// Makes the call until it has ended or has become a task.
    pub(super) async fn send_until_answered(
        &self,
        name: &str,
        arguments: &str,
        options: &CallOptions,
        wish: &Wish,
        page: Option<&Arc<Page>>,
    ) -> Result<Started, Error> {
        let mut declaration = self.declaration();
        if options.as_task == AsTask::Never {
            Arc::make_mut(&mut declaration).capabilities.extensions.tasks = false;
        }
        if let Some(page) = page {
            Arc::make_mut(&mut declaration).idempotency_key = Some(page.key().to_owned());
        }
        let mut rounds = Rounds::new(self, page);
        let mut is_listed_again = false;
        let (mut pauses, until) = (Pauses::new(), Instant::now() + self.options().retry_for);
        loop {
            let called = self.send_round(name, arguments, options, &declaration, wish, &rounds).await;
            match called {
                Ok(Round::Over(started)) => return Ok(started),
                Ok(Round::Asked(asked)) => rounds.answer(asked).await?,
                // The arguments that headers must repeat are others than we know, or we know none.
                Err(Error::Answer(error))
                    if error.code == Code::HEADER_MISMATCH
                        && !std::mem::replace(&mut is_listed_again, true) =>
                {
                    self.0.table.cache().forget(&[Method::ListTools]);
                    self.look_at_tools().await.map_err(|error| rounds.unanswered(error))?;
                }
                Err(Error::Answer(error)) if self.dialect().read_pages(&error).is_some() => {
                    rounds.visit(error).await?;
                }
                Err(error) => match page.filter(|_| self.may_send_again(&error) && Instant::now() < until) {
                    Some(page) => {
                        if rounds.have_begun() || error.leaves_open() {
                            page.leave();
                        }
                        tracing::debug!(%error, name, "a call is made again, under its key");
                        sleep(pauses.next(error.retry_after())).await;
                    }
                    None => return Err(rounds.unanswered(error)),
                },
            }
        }
    }

    /// Whether a call that has a key can be made again after that error.
    fn may_send_again(&self, error: &Error) -> bool {
        self.keeps_keys() && error.is_retryable() && self.0.link.outlives_loss()
    }

    /// Makes the call, with what its round brings.
    async fn send_round(
        &self,
        name: &str,
        arguments: &str,
        options: &CallOptions,
        declaration: &Arc<Declaration>,
        wish: &Wish,
        rounds: &Rounds<'_>,
    ) -> Result<Round, Error> {
        let body = |params: &mut RequestWriter<'_, '_>| {
            params.field("name", name).raw("arguments", arguments);
            match wish {
                Wish::None => {}
                Wish::Parameter(task) => {
                    params.raw("task", task);
                }
                Wish::Named(named) => {
                    params.drafted_task(&named.task);
                }
            }
            rounds.write(params);
        };
        let known = self.tools_at_hand().await;
        let mut request = Outgoing::new(self.dialect(), Method::CallTool, Arc::clone(declaration), body)?;
        request.name = Some(name);
        request.repeated = known.as_ref().map(|known| known.repeated(name, arguments)).unwrap_or_default();
        request.idle = options.idle;
        match wish {
            Wish::None => {}
            Wish::Parameter(_) => {
                // The answer to such a call is the task, which is made at once.
                request.idle = options.idle.or_else(|| Some(self.options().request_timeout));
                request.cancellable = false;
            }
            Wish::Named(named) => named.follow(&mut request),
        }
        request.on_progress = shared(&options.on_progress);
        let answered = self.ask(request).await?;
        let called = self.dialect().read_call(&answered.result);
        Ok(match called.map_err(|error| Error::protocol(error.message))? {
            Called::Result(result) => {
                Round::Over(Started::Result(self.fitting(Some(name), known, result).await?))
            }
            Called::Task(task) => {
                let reports = self.dialect().reports_progress_of_tasks();
                if reports {
                    self.0.link.listen(self.dialect()).await;
                }
                let listening = answered.listening.filter(|_| reports);
                let task = TaskHandle::created(self.clone(), task, listening).of(name);
                tracing::debug!(task = task.id(), tool = name, "a call has become a task");
                Round::Over(Started::Task(task))
            }
            Called::Asked(asked) => Round::Asked(asked),
        })
    }
}

/// How a call asks to be a task.
#[derive(Debug)]
pub(super) enum Wish {
    /// Not at all: its server decides.
    None,
    /// By this member `task` of its parameters (2025-11-25).
    Parameter(String),
    /// By naming the task (SEP-1686).
    Named(Arc<Named>),
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

async fn within<T>(timeout: Option<Duration>, future: BoxFuture<'_, Result<T, Error>>) -> Result<T, Error> {
    match timeout {
        None => future.await,
        Some(after) => tokio::time::timeout(after, future).await.unwrap_or(Err(Error::TimedOut { after })),
    }
}
