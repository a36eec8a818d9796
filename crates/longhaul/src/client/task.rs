//! A task of the server: looked at, waited for, answered, cancelled.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::jsonrpc::Code;
use longhaul_proto::method::Method;
use longhaul_proto::model::{CallToolResult, Task, TaskStatus};
use longhaul_tasks::environment::BoxFuture;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep};

use super::Client;
use super::asked::{Answered, Replies, written};
use super::drafted::{Answer, Original};
use super::error::Error;
use super::journal::Page;
use super::list::read;
use super::pace::Pauses;
use super::table::Listening;
use super::watch::Changes;

/// A task, by its id. Dropping the handle does nothing to the task.
#[derive(Debug)]
pub struct TaskHandle {
    client: Client,
    id: String,
    /// The tool that was called, if that is known.
    tool: Option<String>,
    /// The task as its creation showed it.
    created: Option<Box<Task>>,
    form: Form,
    /// What it has asked and was answered.
    answered: Answered,
    /// Where what becomes of it is noted.
    page: Option<Arc<Page>>,
    /// Keeps progress coming while the handle lives.
    _listening: Option<Listening>,
}

/// In which form a task is: how it is asked after and ended.
#[derive(Debug)]
pub(super) enum Form {
    /// That of the revision.
    Agreed,
    /// As SEP-1686 drafted it; with the call that it is, if this connection has made that.
    Drafted(Option<Original>),
}

impl Client {
    /// The task of that id, which this or another client has started. Asks nothing yet.
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        let form = if self.has_drafted_tasks() { Form::Drafted(None) } else { Form::Agreed };
        self.task_in(form, id.into())
    }

    /// The same of one that was made as a drafted one or not.
    ///
    /// # Errors
    ///
    /// [`Error::NotOffered`] when drafted ones cannot be asked after here.
    pub(super) fn task_again(&self, id: &str, is_drafted: bool) -> Result<TaskHandle, Error> {
        let form = match is_drafted {
            false => Form::Agreed,
            true if self.has_drafted_tasks() => Form::Drafted(None),
            true => {
                let revision = self.dialect().revision();
                return Err(Error::NotOffered {
                    what: "a drafted task (`Options::drafted_tasks`)",
                    revision,
                });
            }
        };
        Ok(self.task_in(form, id.to_owned()))
    }

    fn task_in(&self, form: Form, id: String) -> TaskHandle {
        let (client, answered) = (self.clone(), Answered::default());
        TaskHandle { client, id, tool: None, created: None, form, answered, page: None, _listening: None }
    }
}

impl TaskHandle {
    pub(super) fn created(client: Client, task: Box<Task>, listening: Option<Listening>) -> Self {
        let agreed = client.task_in(Form::Agreed, task.id.clone());
        Self { created: Some(task), _listening: listening, ..agreed }
    }

    pub(super) fn drafted(client: &Client, id: String, original: Option<Original>) -> Self {
        client.task_in(Form::Drafted(original), id)
    }

    pub(super) fn is_drafted(&self) -> bool {
        matches!(self.form, Form::Drafted(_))
    }

    /// The same, of a call of that tool.
    pub(super) fn of(mut self, tool: &str) -> Self {
        self.tool = Some(tool.to_owned());
        self
    }

    /// The task of a call that the journal knows.
    pub(super) fn kept(self, page: &Arc<Page>) -> Self {
        let task = self.on(page);
        for (key, answer) in page.all_earlier() {
            task.answered.note(&key, &answer);
        }
        task
    }

    /// The same, of which the journal is told.
    pub(super) fn on(mut self, page: &Arc<Page>) -> Self {
        self.page = Some(Arc::clone(page));
        self
    }

    /// Nobody wants it any more.
    pub(super) async fn give_up_page(&self) {
        if let Some(page) = &self.page {
            page.give_up().await;
        }
    }

    /// Notes what has become of it.
    pub(super) async fn settle(&self, outcome: &Result<CallToolResult, Error>) {
        let failed = outcome.as_ref().map_or(true, |result| result.is_error);
        let error = outcome.as_ref().err().map(tracing::field::display);
        tracing::debug!(task = self.id, tool = self.tool(), failed, error, "a task has ended");
        if let Some(page) = &self.page {
            page.settle(outcome).await;
        }
    }

    /// Notes an answer that is about to be told.
    async fn note(&self, key: &str, answer: &RawValue) -> Result<(), Error> {
        self.answered.note(key, answer);
        match &self.page {
            Some(page) => page.answered(key, answer).await,
            None => Ok(()),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn created_as(&self) -> Option<&Task> {
        self.created.as_deref()
    }

    pub(super) fn answered(&self) -> &Answered {
        &self.answered
    }

    /// The task's id: what to save to come back to it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tool that was called, if this client knows: a task that was come back to by its id alone has none.
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// Where it stands.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTask`] when the server does not know it, or not for us.
    pub async fn get(&self) -> Result<Task, Error> {
        let text = self.ask(Method::GetTask, Some(self.client.options().request_timeout)).await?;
        let task = match self.form {
            Form::Agreed => self.client.dialect().read_task(&text),
            Form::Drafted(_) => self.client.dialect().read_drafted_task(&text),
        };
        let task = task.map_err(|error| Error::protocol(error.message))?;
        if task.id == self.id {
            Ok(task)
        } else {
            Err(Error::protocol(format!("asked for task {} and was told of another", self.id)))
        }
    }

    /// Waits for it to end and gives its result. Dropping the future leaves the task running.
    ///
    /// Asks no more often than the task says; a server that cannot be reached, or is overloaded, is asked
    /// again for as long as [`Options::retry_for`](super::Options) says.
    ///
    /// # Errors
    ///
    /// The error that the call would have been answered with; [`Error::Cancelled`];
    /// [`Error::InputRequired`] for what the application does not answer, after which the task goes on waiting;
    /// [`Error::Stuck`], after which it is cancelled.
    pub async fn wait(&self) -> Result<CallToolResult, Error> {
        self.changes().result().await
    }

    /// As [`wait`](Self::wait), and calls `on_change` with the task as first seen and whenever it looks
    /// different from before.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn watch(&self, mut on_change: impl FnMut(&Task)) -> Result<CallToolResult, Error> {
        let mut changes = self.changes();
        while let Some(task) = changes.next().await? {
            on_change(&task);
        }
        changes.result().await
    }

    /// The task as it changes, one change after the other.
    pub fn changes(&self) -> Changes<'_> {
        Changes::new(self, self.created.clone())
    }

    /// Its result, if it has ended; does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`], and as [`wait`](Self::wait).
    pub async fn result(&self) -> Result<CallToolResult, Error> {
        let task = self.get().await?;
        if task.status.is_terminal() {
            self.outcome(&task).await
        } else {
            Err(Error::StillRunning { id: self.id.clone() })
        }
    }

    /// Cancels it. The server has then been told; whether the work still ends otherwise is its affair.
    ///
    /// # Errors
    ///
    /// When the server does not offer it, (2025-11-25) the task has ended already, or (one that is drafted) another connection has
    /// begun it.
    pub async fn cancel(&self) -> Result<(), Error> {
        if self.form.cancel(&self.client).await? {
            tracing::debug!(task = self.id, tool = self.tool(), "a drafted task is told to end");
            return Ok(());
        }
        if !self.client.0.welcome.cancels_tasks {
            let revision = self.client.dialect().revision();
            return Err(Error::NotOffered { what: "cancelling a task", revision });
        }
        match self.ask(Method::CancelTask, Some(self.client.options().request_timeout)).await {
            Ok(_) => {
                tracing::debug!(task = self.id, tool = self.tool(), "a task is told to end");
                Ok(())
            }
            // Of a task that is not there, or has ended already (2025-11-25): a look tells which.
            Err(Error::Answer(error)) if error.code == Code::INVALID_PARAMS => {
                self.get().await?;
                Err(Error::Answer(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Has the server delete it, and what is kept of it: one as SEP-1686 drafted them, that has ended.
    ///
    /// # Errors
    ///
    /// When the task is another, or has not ended, or the server keeps it for as long as it likes.
    pub async fn delete(&self) -> Result<(), Error> {
        self.ask(Method::DeleteTask, Some(self.client.options().request_timeout)).await.map(drop)
    }

    /// Answers questions of the task's, each by its key ([`Task::questions`]), in the place of what [`Options`](super::Options)
    /// were given for it: the answer to a form is an [`ElicitResult`](longhaul_proto::model::ElicitResult), and so on.
    ///
    /// A server that cannot be reached is asked again, as by [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`Error::Arguments`] when an answer cannot be written; when the revision answers tasks in another way (2025-11-25: by
    /// the answer to a request of the server's), or the server knows no such task.
    pub async fn answer<K: AsRef<str>, A: Serialize>(
        &self,
        answers: impl IntoIterator<Item = (K, A)>,
    ) -> Result<(), Error> {
        let mut replies = Replies::new();
        for (key, answer) in answers {
            let answer =
                to_raw_value(&answer).map_err(|error| Error::Arguments { reason: error.to_string() })?;
            self.note(key.as_ref(), &answer).await?;
            replies.insert(key.as_ref().to_owned(), answer);
        }
        self.say(&replies).await
    }

    /// Answers what it asks; whether there was anything that it had not asked before.
    pub(super) async fn answer_questions(&self, task: &Task) -> Result<bool, Error> {
        let unanswered = || Error::InputRequired { task: Some(self.id.clone()) };
        let client = &self.client;
        if client.options().answers.is_empty() {
            return Err(unanswered());
        }
        if client.dialect().asks_by_request() {
            return Ok(client.0.table.take_asked());
        }
        let questions = || task.questions.iter().map(|(key, question)| (key.as_str(), &**question));
        let news = self.answered.news(questions());
        let mut is_all = true;
        // One is put after the other: there is one user.
        for (key, question) in &news {
            match client.answer_to(key, question).await {
                // Whatever becomes of the answer, nobody is asked twice.
                Some(answer) => self.note(key, &answer).await?,
                None => is_all = false,
            }
        }
        let due = self.answered.due(questions().map(|(key, _)| key));
        if !due.is_empty() {
            self.say(&due).await?;
        }
        if is_all { Ok(!news.is_empty()) } else { Err(unanswered()) }
    }

    /// Has the server take these answers.
    async fn say(&self, replies: &Replies) -> Result<(), Error> {
        let answers = written(replies);
        self.patiently(|| self.update(&answers)).await?;
        self.answered.note_taken(replies.keys());
        Ok(())
    }

    async fn update(&self, answers: &str) -> Result<(), Error> {
        let mut request = self.client.prepare(Method::UpdateTask, |params| {
            params.field("taskId", &self.id).raw("inputResponses", answers);
        })?;
        request.name = Some(&self.id);
        self.client.ask(request).await.map(drop)
    }

    /// It waits for what nobody can give it: it is cancelled, if that can be.
    pub(super) async fn give_up(&self, times: u32) -> Error {
        if let Err(error) = self.cancel().await {
            tracing::warn!(%error, task = self.id, "a task that is stuck was not cancelled");
        }
        self.give_up_page().await;
        Error::Stuck { task: Some(self.id.clone()), times }
    }

    /// What brings its result beside the looks at it, if anything does before it asks something.
    pub(super) fn coming(&self) -> Option<BoxFuture<'_, Option<Answer>>> {
        self.form.coming()
    }

    /// The same once it asks something: its questions are requests of the server's, which may come on the way of its result alone
    /// (2025-11-25).
    pub(super) fn coming_with_questions(&self) -> Option<BoxFuture<'_, Option<Answer>>> {
        if self.is_drafted() || !self.client.dialect().asks_by_request() {
            return None;
        }
        Some(Box::pin(async {
            // Whether it was cancelled, or nothing is wrong with it, it says itself.
            let text = self.ask(Method::TaskResult, None).await.ok()?;
            Some(self.fitting(&text).await)
        }))
    }

    /// A result of it that was fetched apart.
    async fn fitting(&self, result: &str) -> Result<CallToolResult, Error> {
        self.client.fitting(self.tool(), self.client.tools_at_hand().await, read(result)?).await
    }

    /// What a task that has ended came to.
    pub(super) async fn outcome(&self, task: &Task) -> Result<CallToolResult, Error> {
        let outcome = self.fetch(task).await;
        self.settle(&outcome).await;
        outcome
    }

    async fn fetch(&self, task: &Task) -> Result<CallToolResult, Error> {
        if task.status == TaskStatus::Cancelled {
            return Err(Error::Cancelled { id: self.id.clone() });
        }
        if let Some(failure) = self.form.failure(task).await {
            return failure;
        }
        if self.is_drafted() || self.client.dialect().name_of(Method::TaskResult).is_some() {
            return self.fitting(&self.patiently(|| self.ask(Method::TaskResult, None)).await?).await;
        }
        match (&task.result, &task.error) {
            (Some(result), _) => {
                let known = self.client.tools_at_hand().await;
                self.client.fitting(self.tool(), known, result.clone()).await
            }
            (None, Some(error)) => Err(Error::Answer(error.clone())),
            (None, None) => Err(Error::protocol("a task that has ended without result or error")),
        }
    }

    async fn ask(&self, method: Method, idle: Option<Duration>) -> Result<String, Error> {
        let mut request = match self.form {
            Form::Agreed => self.client.prepare(method, |params| {
                params.field("taskId", &self.id);
            })?,
            Form::Drafted(_) => self.client.prepare_drafted(method, &self.id)?,
        };
        request.name = Some(&self.id);
        request.idle = idle;
        match self.client.ask(request).await {
            Ok(answered) => Ok(answered.result),
            Err(Error::Answer(error)) if error.code == Code::INVALID_PARAMS && method == Method::GetTask => {
                let gone = Err(Error::NoSuchTask { id: self.id.clone(), answer: Some(error) });
                self.settle(&gone).await;
                gone.map(|_| String::new())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn get_patiently(&self) -> Result<Task, Error> {
        self.patiently(|| self.get()).await
    }

    /// Asks again for as long as a server may be out of reach.
    async fn patiently<T, F: Future<Output = Result<T, Error>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, Error> {
        let until = Instant::now() + self.client.options().retry_for;
        let mut pauses = Pauses::new();
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_over = matches!(error, Error::Lost { .. }) && !self.client.0.link.outlives_loss();
            let may_pass = error.is_retryable() || error.is_timeout();
            if is_over || !may_pass || Instant::now() >= until {
                return Err(error);
            }
            tracing::debug!(%error, task = self.id, "asking again");
            sleep(pauses.next(error.retry_after())).await;
        }
    }
}
