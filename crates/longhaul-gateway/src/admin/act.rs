//! What can be done about a task: answer it, cancel it, begin it again.

use std::sync::Arc;

use longhaul::proto::dialect::StoredQuestion;
use longhaul::proto::model::{ElicitAction, ElicitParams, ElicitResult, InputRequest};
use longhaul::store::{Answered, Cancellation, Filter, Record, Reply};
use longhaul::tasks::made_again_of;
use serde_json::value::{RawValue, to_raw_value};

use super::{Admin, AdminError, Calling, Viewer};

/// What somebody says to a question.
#[derive(Clone, Debug)]
pub(crate) struct Reaction {
    /// Which question, by its name.
    pub(crate) key: String,
    pub(crate) answer: Box<RawValue>,
}

impl Reaction {
    /// This answer of a person's.
    pub(crate) fn of(key: &str, answer: &ElicitResult) -> Self {
        let answer = to_raw_value(answer).expect("an answer is JSON");
        Self { key: key.to_owned(), answer }
    }

    /// Neither yes nor no.
    pub(crate) fn without_content(key: &str, action: ElicitAction) -> Self {
        Self::of(key, &ElicitResult::of(action))
    }
}

/// What a task asks people, by the names of its questions. What is asked of a model is not among them.
pub(crate) fn asked(record: &Record) -> Vec<(&str, ElicitParams)> {
    let asked = record.questions.iter().filter_map(|question| match InputRequest::read(&question.request) {
        Ok(InputRequest::Elicit(asked)) => Some((&*question.key, asked)),
        _ => None,
    });
    asked.collect()
}

/// How many tasks of a tool are looked at for those that make the call of another again.
const LATEST: usize = 50;

impl Admin {
    /// Answers a question of a task.
    ///
    /// # Errors
    ///
    /// [`AdminError::Unreadable`] if the answer does not fit, [`AdminError::Refused`] if nothing waits for it.
    pub(crate) async fn react(
        &self,
        viewer: &Viewer,
        id: &str,
        reaction: Reaction,
    ) -> Result<Record, AdminError> {
        let record = self.task(viewer, id).await?;
        let too_late = || {
            AdminError::Refused(
                "nothing waits for this answer: it was given, or the task has ended".to_owned(),
            )
        };
        let question = record.questions.iter().find(|question| *question.key == *reaction.key);
        let question = question.ok_or_else(too_late)?;
        let unreadable = |why: String| AdminError::Unreadable(format!("the answer does not fit: {why}"));
        let stored =
            StoredQuestion::read(&question.request).map_err(|error| unreadable(error.to_string()))?;
        stored.check(&reaction.answer).map_err(unreadable)?;
        let reply = [Reply::new(reaction.key, reaction.answer.into())];
        match self.engine().answer(viewer.scope(), &record.id, &reply).await? {
            Answered::Recorded { taken: 0, .. } => Err(too_late()),
            Answered::Recorded { record, .. } => Ok(record),
            Answered::NotFound => Err(AdminError::NoTask),
        }
    }

    /// Cancels a task, and ends what it runs. One that has ended already stays as it is.
    ///
    /// # Errors
    ///
    /// [`AdminError::Refused`] if it ended otherwise before.
    pub(crate) async fn cancel(&self, viewer: &Viewer, id: &str) -> Result<(), AdminError> {
        let record = self.task(viewer, id).await?;
        match self.engine().cancel(viewer.scope(), &record.id, Some(viewer.reason())).await? {
            Cancellation::Cancelled(_) => Ok(()),
            Cancellation::AlreadyTerminal(_) => {
                Err(AdminError::Refused("it has ended already, and stays as it ended".to_owned()))
            }
            Cancellation::NotFound => Err(AdminError::NoTask),
        }
    }

    /// The tasks that are this one's call made again, the newest first; as far as they are among the latest of its tool, for
    /// nothing leads from a task to them.
    pub(crate) async fn made_again(&self, viewer: &Viewer, record: &Record) -> Vec<String> {
        let filter = Filter::all().of_tool(Arc::clone(&record.tool));
        match self.store().list(viewer.scope(), &filter, None, LATEST).await {
            Ok(page) => {
                let is_of_it = |other: &&Record| made_again_of(other).is_some_and(|of| of == record.id);
                page.tasks.iter().filter(is_of_it).map(|other| other.id.to_string()).collect()
            }
            // A caller without a name has no list.
            Err(error) => {
                tracing::debug!(%error, "the tasks that a task was made again as are not shown");
                Vec::new()
            }
        }
    }

    /// Makes a task's call again: for the operator as another task of the same owner; for anybody else, and where nothing is
    /// kept to begin it with, as a call of `viewer`'s own, if it was one: so what its tool asks of callers is asked again.
    ///
    /// # Errors
    ///
    /// [`AdminError::Refused`] where it can be neither.
    pub(crate) async fn again(&self, viewer: &Viewer, id: &str) -> Result<Calling, AdminError> {
        let record = self.task(viewer, id).await?;
        // The engine asks nobody for scopes.
        if viewer.is_operator()
            && let Some(again) = self.engine().again(&record).await?
        {
            // Whoever is idle here begins it at once; elsewhere it is found soon.
            if let Err(error) = self.engine().take_up(&again.id).await {
                tracing::debug!(%error, "a task that was made again waits for whoever looks next");
            }
            return Ok(Calling::Task(again.id.to_string()));
        }
        match serde_json::from_str(record.arguments.as_str()) {
            Ok(arguments) if record.owner == *viewer.owner() => {
                self.call(viewer, &record.tool, &arguments).await
            }
            _ => {
                let why = "its tool never runs twice, so nothing is kept to begin it with: its caller can call again";
                Err(AdminError::Refused(why.to_owned()))
            }
        }
    }
}
