//! A task of the server: looked at, waited for, cancelled.

use std::pin::pin;
use std::time::Duration;

use longhaul_proto::jsonrpc::Code;
use longhaul_proto::method::Method;
use longhaul_proto::model::{CallToolResult, Task, TaskStatus};
use longhaul_tasks::environment::BoxFuture;
use tokio::time::{Instant, sleep};

use super::Client;
use super::asked::Answered;
use super::error::Error;
use super::list::read;
use super::table::Listening;

/// A task, by its id. Dropping the handle does nothing to the task.
#[derive(Debug)]
pub struct TaskHandle {
    client: Client,
    id: String,
    /// The task as its creation showed it.
    created: Option<Box<Task>>,
    /// What it has asked and was answered.
    answered: Answered,
    /// Keeps progress coming while the handle lives.
    _listening: Option<Listening>,
}

impl Client {
    /// The task of that id, which this or another client has started. Asks nothing yet.
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        let answered = Answered::default();
        TaskHandle { client: self.clone(), id: id.into(), created: None, answered, _listening: None }
    }
}

impl TaskHandle {
    pub(super) fn created(client: Client, task: Box<Task>, listening: Option<Listening>) -> Self {
        let (id, answered) = (task.id.clone(), Answered::default());
        Self { client, id, created: Some(task), answered, _listening: listening }
    }

    /// The task's id: what to save to come back to it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it stands.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTask`] when the server does not know it, or not for us.
    pub async fn get(&self) -> Result<Task, Error> {
        let text = self.ask(Method::GetTask, Some(self.client.options().request_timeout)).await?;
        let task = self.client.dialect().read_task(&text);
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
        self.watch(|_| ()).await
    }

    /// As [`wait`](Self::wait), and calls `on_change` with the task as first seen and whenever it looks
    /// different from before.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn watch(&self, mut on_change: impl FnMut(&Task)) -> Result<CallToolResult, Error> {
        let mut last = self.created.clone();
        if let Some(task) = &last {
            on_change(task);
        }
        let mut stuck = Stuck::new(self.client.options().stuck_after);
        // Where questions are requests of the server's, they may come on the way of the result alone (2025-11-25).
        let mut result: Option<BoxFuture<'_, Result<String, Error>>> = None;
        loop {
            if let Some(task) = &last {
                match task.status {
                    TaskStatus::Working => stuck.goes_on(),
                    TaskStatus::InputRequired => {
                        let news = self.answer(task).await?;
                        if let Err(times) = stuck.look(news) {
                            return Err(self.give_up(times).await);
                        }
                        if self.client.dialect().asks_by_request() && result.is_none() {
                            result = Some(Box::pin(self.ask(Method::TaskResult, None)));
                        }
                    }
                    _ => return self.outcome(task).await,
                }
                let mut pause = pin!(sleep(interval(task)));
                if let Some(coming) = &mut result {
                    tokio::select! {
                        () = &mut pause => {}
                        came = coming => match came {
                            Ok(text) => return read(&text),
                            // Whether it was cancelled, or nothing is wrong with it, it says itself.
                            Err(_) => result = None,
                        },
                    }
                }
                if !pause.is_elapsed() {
                    pause.await;
                }
            }
            let task = self.get_patiently().await?;
            if last.as_ref().is_none_or(|last| differs(last, &task)) {
                on_change(&task);
            }
            last = Some(Box::new(task));
        }
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
    /// When the server does not offer it, or (2025-11-25) the task has ended already.
    pub async fn cancel(&self) -> Result<(), Error> {
        if !self.client.0.welcome.cancels_tasks {
            let revision = self.client.dialect().revision();
            return Err(Error::NotOffered { what: "cancelling a task", revision });
        }
        match self.ask(Method::CancelTask, Some(self.client.options().request_timeout)).await {
            Ok(_) => Ok(()),
            // Of a task that is not there, or has ended already (2025-11-25): a look tells which.
            Err(Error::Answer(error)) if error.code == Code::INVALID_PARAMS => {
                self.get().await?;
                Err(Error::Answer(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Answers what it asks and was not answered before; whether there was anything.
    async fn answer(&self, task: &Task) -> Result<bool, Error> {
        let unanswered = || Error::InputRequired { task: Some(self.id.clone()) };
        let client = &self.client;
        if client.options().answers.is_empty() {
            return Err(unanswered());
        }
        if client.dialect().asks_by_request() {
            return Ok(client.0.table.take_asked());
        }
        let questions = task.questions.iter().map(|(key, question)| (key.as_str(), &**question));
        let questions = self.answered.news(questions);
        if questions.is_empty() {
            return Ok(false);
        }
        let answers = client.answers_to(&questions).await.ok_or_else(unanswered)?;
        // Whatever becomes of the answers, nobody is asked twice.
        self.answered.note(&questions);
        self.patiently(|| self.update(&answers)).await?;
        Ok(true)
    }

    async fn update(&self, answers: &str) -> Result<(), Error> {
        let mut request = self.client.prepare(Method::UpdateTask, |params| {
            params.field("taskId", &self.id).raw("inputResponses", answers);
        })?;
        request.name = Some(&self.id);
        self.client.ask(request).await.map(drop)
    }

    /// It waits for what nobody can give it: it is cancelled, if that can be.
    async fn give_up(&self, times: u32) -> Error {
        if let Err(error) = self.cancel().await {
            tracing::warn!(%error, task = self.id, "a task that is stuck was not cancelled");
        }
        Error::Stuck { task: Some(self.id.clone()), times }
    }

    /// What a task that has ended came to.
    async fn outcome(&self, task: &Task) -> Result<CallToolResult, Error> {
        if task.status == TaskStatus::Cancelled {
            return Err(Error::Cancelled { id: self.id.clone() });
        }
        if self.client.dialect().name_of(Method::TaskResult).is_some() {
            return read(&self.ask(Method::TaskResult, None).await?);
        }
        match (&task.result, &task.error) {
            (Some(result), _) => Ok(result.clone()),
            (None, Some(error)) => Err(Error::Answer(error.clone())),
            (None, None) => Err(Error::protocol("a task that has ended without result or error")),
        }
    }

    async fn ask(&self, method: Method, idle: Option<Duration>) -> Result<String, Error> {
        let mut request = self.client.prepare(method, |params| {
            params.field("taskId", &self.id);
        })?;
        request.name = Some(&self.id);
        request.idle = idle;
        match self.client.ask(request).await {
            Ok(answered) => Ok(answered.result),
            Err(Error::Answer(error)) if error.code == Code::INVALID_PARAMS && method == Method::GetTask => {
                Err(Error::NoSuchTask { id: self.id.clone() })
            }
            Err(error) => Err(error),
        }
    }

    async fn get_patiently(&self) -> Result<Task, Error> {
        self.patiently(|| self.get()).await
    }

    /// Asks again for as long as a server may be out of reach.
    async fn patiently<T, F: Future<Output = Result<T, Error>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, Error> {
        let until = Instant::now() + self.client.options().retry_for;
        let mut pause = FIRST_PAUSE;
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
            sleep(error.retry_after().unwrap_or(pause).min(LONGEST_INTERVAL)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// How often in a row a task was found waiting for an answer, with nothing new.
struct Stuck {
    times: u32,
    limit: u32,
}

impl Stuck {
    fn new(limit: u32) -> Self {
        Self { times: 0, limit }
    }

    /// It waits for no answer.
    fn goes_on(&mut self) {
        self.times = 0;
    }

    /// It waits for one: `Err` once it has done so too often.
    fn look(&mut self, news: bool) -> Result<(), u32> {
        self.times = if news { 0 } else { self.times + 1 };
        if self.times < self.limit.max(1) { Ok(()) } else { Err(self.times) }
    }
}

/// How long to wait before the task is looked at again.
fn interval(task: &Task) -> Duration {
    task.poll_interval_ms
        .map_or(DEFAULT_INTERVAL, Duration::from_millis)
        .clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

fn differs(a: &Task, b: &Task) -> bool {
    a.status != b.status || a.status_message != b.status_message || a.last_updated_at != b.last_updated_at
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A server that says zero is still not asked in a tight loop.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);
/// A server that says a year is still asked.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
