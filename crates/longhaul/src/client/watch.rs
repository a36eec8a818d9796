//! Following a task to its end: looked at as often as it says, its questions answered on the way.

use std::pin::pin;

use longhaul_proto::model::{CallToolResult, Task, TaskStatus};
use longhaul_tasks::environment::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::drafted::Answer;
use super::error::Error;
use super::pace::interval;
use super::task::TaskHandle;

/// A task as it changes, until it has ended. Dropping it leaves the task running.
///
/// What the task asks meanwhile is answered by what [`Options`](super::Options) were given for it.
///
/// ```no_run
/// # async fn run(task: longhaul::client::TaskHandle) -> Result<(), longhaul::client::Error> {
/// let mut changes = task.changes();
/// while let Some(task) = changes.next().await? {
///     println!("{}", task.status.as_str());
/// }
/// println!("{:?}", changes.result().await?.content);
/// # Ok(()) }
/// ```
pub struct Changes<'t> {
    task: &'t TaskHandle,
    last: Option<Box<Task>>,
    /// Whether `last` was given to whoever watches.
    is_told: bool,
    /// When to look again.
    look: Option<Instant>,
    stuck: Stuck,
    /// What brings its result beside the looks at it.
    coming: Option<BoxFuture<'t, Option<Answer>>>,
    came: Option<Answer>,
}

impl<'t> Changes<'t> {
    pub(super) fn new(task: &'t TaskHandle, created: Option<Box<Task>>) -> Self {
        let stuck = Stuck::new(task.client().options().stuck_after);
        // A call that is made again may find its task ended; only a look tells with what.
        let created = created.filter(|created| !created.status.is_terminal());
        Self { task, last: created, is_told: false, look: None, stuck, coming: task.coming(), came: None }
    }

    /// The task as first seen, and then whenever it looks different from before; `None` once it has ended, and was seen so
    /// or has sent its result before. Dropping the future misses no change; what the user is being asked is asked again.
    ///
    /// # Errors
    ///
    /// As [`TaskHandle::wait`], but for what the task itself ends with.
    pub async fn next(&mut self) -> Result<Option<Task>, Error> {
        loop {
            if self.came.is_some() {
                return Ok(None);
            }
            if let Some(task) = self.last.as_deref().filter(|_| !self.is_told) {
                self.is_told = true;
                return Ok(Some(task.clone()));
            }
            if self.last.as_ref().is_some_and(|task| task.status.is_terminal()) {
                return Ok(None);
            }
            self.look().await?;
        }
    }

    /// Waits for its end, and gives its result.
    ///
    /// # Errors
    ///
    /// As [`TaskHandle::wait`].
    pub async fn result(mut self) -> Result<CallToolResult, Error> {
        while self.next().await?.is_some() {}
        match (self.came, &self.last) {
            (Some(outcome), _) => {
                self.task.settle(&outcome).await;
                outcome
            }
            (None, Some(task)) => self.task.outcome(task).await,
            (None, None) => Err(Error::protocol("a task that has ended and was never seen")),
        }
    }

    /// Does what is to be done about the task as last seen, waits for as long as it says, and looks again.
    async fn look(&mut self) -> Result<(), Error> {
        if let Some(task) = self.last.clone() {
            let look = match self.look {
                Some(look) => look,
                None => {
                    self.attend(&task).await?;
                    // From here on it is only waited.
                    *self.look.insert(Instant::now() + interval(&task))
                }
            };
            let mut pause = pin!(sleep_until(look));
            if let Some(coming) = &mut self.coming {
                tokio::select! {
                    () = &mut pause => {}
                    came = coming => {
                        self.coming = None;
                        if came.is_some() {
                            self.came = came;
                            return Ok(());
                        }
                    }
                }
            }
            if !pause.is_elapsed() {
                pause.await;
            }
        }
        let task = self.task.get_patiently().await?;
        self.look = None;
        self.is_told = self.last.as_ref().is_some_and(|last| !differs(last, &task));
        self.last = Some(Box::new(task));
        Ok(())
    }

    /// Answers what it asks.
    async fn attend(&mut self, task: &Task) -> Result<(), Error> {
        if task.status != TaskStatus::InputRequired {
            self.stuck.goes_on();
            return Ok(());
        }
        let news = self.task.answer_questions(task).await?;
        if let Err(times) = self.stuck.look(news) {
            return Err(self.task.give_up(times).await);
        }
        if self.coming.is_none() {
            self.coming = self.task.coming_with_questions();
        }
        Ok(())
    }
}

impl std::fmt::Debug for Changes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("task", &self.task.id()).finish_non_exhaustive()
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

fn differs(a: &Task, b: &Task) -> bool {
    a.status != b.status || a.status_message != b.status_message || a.last_updated_at != b.last_updated_at
}
