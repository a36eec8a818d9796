//! The tools of a server, and calls of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{
    AsTask, CallOptions, Client, Entry, Error, Journal, JournalError, Kept, Options, Started, handed_over,
};
use longhaul::proto::model::{CallToolResult, Tool};
use longhaul::server::TaskPolicy;
use longhaul::store::{Filter, TaskId, Time};
use longhaul::tasks::environment::BoxFuture;
use longhaul::transport::memory;
use serde_json::{Map, Value};

use super::reading::Reading;
use super::{Admin, AdminError, PAGE, State, Viewer, state_of};
use crate::tool::took;

/// What a call came to while its caller waited.
#[derive(Debug)]
pub(crate) enum Calling {
    /// It is this task.
    Task(String),
    /// It is over.
    Result(Box<CallToolResult>),
}

/// A tool as it is listed.
pub(crate) type Offered = Tool;

/// What is kept of the calls of tools that became tasks.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    tools: HashMap<Arc<str>, RunsOf>,
    /// So many were found, of the newest tasks, and older ones were not looked at.
    pub(crate) newest_only: Option<usize>,
}

/// What is kept of the calls of one tool.
#[derive(Debug, Default)]
pub(crate) struct RunsOf {
    pub(crate) tasks: usize,
    /// The latest, newest first: never none.
    pub(crate) latest: Vec<Run>,
    /// How long those took that were completed.
    took: Vec<Duration>,
}

/// A task that a call of a tool became.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: TaskId,
    pub(crate) state: State,
    pub(crate) began: Time,
}

impl Runs {
    pub(crate) fn of(&self, tool: &str) -> Option<&RunsOf> {
        self.tools.get(tool)
    }
}

impl RunsOf {
    /// When the latest was begun.
    pub(crate) fn began(&self) -> Option<Time> {
        self.latest.first().map(|run| run.began)
    }

    /// How long half of those took at most that were completed, if any was.
    pub(crate) fn median(&self) -> Option<Duration> {
        let mut took = self.took.clone();
        let middle = took.len().checked_sub(1)? / 2;
        Some(*took.select_nth_unstable(middle).1)
    }
}

/// How many of the latest calls of a tool are named.
const LATEST: usize = 5;

/// How many tasks are looked at for the calls of tools.
const MOST: usize = 1000;

/// How long a page waits for a call that can be no task.
const PATIENCE: Duration = Duration::from_secs(60);

impl Admin {
    /// What the server offers `viewer`, the tools for hosts without tasks excepted.
    ///
    /// # Errors
    ///
    /// When the list cannot be had.
    pub(crate) async fn tools(&self, viewer: &Viewer) -> Result<Vec<Offered>, AdminError> {
        let client = self.client(viewer).await?;
        let tools = client.list_tools().await.map_err(refused);
        client.close().await;
        tools
    }

    /// The calls of all tools, or of one, as far as `viewer` sees their tasks and the newest of these tell.
    ///
    /// # Errors
    ///
    /// [`AdminError::TooOften`], and when the store cannot be read.
    pub(crate) async fn runs(&self, viewer: &Viewer, tool: Option<&str>) -> Result<Runs, AdminError> {
        let _poll = self.poll(viewer, 0)?;
        let filter = tool.map_or_else(Filter::all, |tool| Filter::all().of_tool(tool));
        let (mut runs, mut seen, now) = (Runs::default(), 0, self.now());
        let mut reading = Reading::new(self, viewer, &filter, None);
        while seen < MOST
            && let Some(tasks) = reading.more(PAGE).await?
        {
            seen += tasks.len();
            for record in &tasks {
                let (tool, state) =
                    (runs.tools.entry(Arc::clone(&record.tool)).or_default(), state_of(record));
                tool.tasks += 1;
                if tool.latest.len() < LATEST {
                    tool.latest.push(Run { id: record.id.clone(), state, began: record.created_at });
                }
                if state == State::Completed {
                    tool.took.push(took(record, now));
                }
            }
        }
        runs.newest_only = reading.has_more().then_some(seen);
        Ok(runs)
    }

    /// When calls of a tool become tasks, and what becomes of those; `None` if there is no such tool.
    pub(crate) fn policy(&self, tool: &str) -> Option<TaskPolicy> {
        self.0.dispatcher.task_policy(tool)
    }

    /// Calls a tool as `viewer`.
    ///
    /// # Errors
    ///
    /// [`AdminError::Refused`] with what the server says.
    pub(crate) async fn call(
        &self,
        viewer: &Viewer,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Calling, AdminError> {
        let client = self.client(viewer).await?;
        let options = CallOptions::default().as_task(AsTask::Allowed).timeout(PATIENCE);
        let started = client.start(tool, arguments, options).await;
        let started = started.map_err(refused).map(|started| match started {
            Started::Task(task) => Calling::Task(task.id().to_owned()),
            Started::Result(result) => match handed_over(&result) {
                Some(id) => Calling::Task(id),
                None => Calling::Result(Box::new(result)),
            },
        });
        client.close().await;
        started
    }

    /// A client of this very server, who calls as `viewer`.
    async fn client(&self, viewer: &Viewer) -> Result<Client, AdminError> {
        let target = memory::serve_caller(self.0.dispatcher.clone(), viewer.caller().clone());
        // What is asked of the task that a call becomes is answered on its page; before that there is nobody to ask.
        let options = Options::default().on_form(|_| std::future::pending());
        let options = options.on_page(|_| std::future::pending()).journal(Unkept);
        Client::connect_with(target, options).await.map_err(refused)
    }
}

/// A journal that keeps nothing. Calls have keys for it, and so are tasks before they ask anything.
#[derive(Debug)]
struct Unkept;

impl Journal for Unkept {
    fn note<'a>(&'a self, _: &'a str, _: Entry) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn open(&self) -> BoxFuture<'_, Result<Vec<Kept>, JournalError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

fn refused(error: Error) -> AdminError {
    match error.answer() {
        Some(answer) => AdminError::Refused(answer.message.to_string()),
        None if error.is_timeout() => AdminError::Refused(format!(
            "it took longer than {} s and can be no task, so it was given up",
            PATIENCE.as_secs()
        )),
        None => AdminError::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_those_that_were_completed_took_no_longer_than_the_median() {
        let median = |seconds: &[u64]| {
            let took = seconds.iter().copied().map(Duration::from_secs).collect();
            RunsOf { took, ..RunsOf::default() }.median().map(|median| median.as_secs())
        };
        assert_eq!(median(&[]), None);
        assert_eq!((median(&[7]), median(&[9, 2]), median(&[9, 1, 4])), (Some(7), Some(2), Some(4)));
    }
}
