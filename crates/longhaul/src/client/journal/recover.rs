//! Going on with the calls of a process that ended before they did.

use longhaul_proto::model::{CallToolResult, DURABLE_TASKS};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

use super::{Begun, Kept, Page};
use crate::client::Client;
use crate::client::call::Started;
use crate::client::error::Error;
use crate::client::options::CallOptions;
use crate::client::task::TaskHandle;

/// A call of an earlier process, and what has become of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// What the application calls it ([`CallOptions::name`]), if it does.
    pub name: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Box<RawValue>,
    /// What has become of it. [`Error::Unsettled`] when nobody knows: it was not made again.
    pub outcome: Result<CallToolResult, Error>,
}

impl Client {
    /// Brings every call of this server's to its end that an earlier process of [`Options::journal`](super::super::Options::journal)
    /// has begun, or this one has given up waiting for: all at once, and as [`call`](Client::call) would. Calls that are under
    /// way are left alone.
    ///
    /// What is a task is followed. What was sent, and never answered, is made again where that cannot make it happen twice: the
    /// server keeps keys ([`DURABLE_TASKS`]), or the tool says that it may be called again. What was answered is told again,
    /// if the server still asks; nobody is asked again.
    ///
    /// Unless it has a name, a call is told of once; dropping the future leaves what has not ended for another time.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read. What each call came to is its own affair.
    pub async fn recover(&self) -> Result<Vec<Recovered>, Error> {
        let Some(book) = &self.options().journal else { return Ok(Vec::new()) };
        let mut driven = JoinSet::new();
        for (nth, kept) in book.open(self.server()).await?.into_iter().enumerate() {
            let Some(page) = book.take_up(&kept) else { continue };
            let client = self.clone();
            driven.spawn(async move {
                let Begun { name, tool, arguments, .. } = kept.begun.clone();
                let outcome = client.finish(kept, &page).await;
                (nth, Recovered { name, tool, arguments, outcome })
            });
        }
        let mut recovered = driven.join_all().await;
        recovered.sort_by_key(|(nth, _)| *nth);
        Ok(recovered.into_iter().map(|(_, recovered)| recovered).collect())
    }

    /// Forgets a call by the name that it has in the journal: what became of it is no longer asked for, and the name stands
    /// for nothing.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read or written.
    pub async fn forget(&self, name: &str) -> Result<(), Error> {
        let Some(book) = &self.options().journal else { return Ok(()) };
        for kept in book.open(self.server()).await? {
            if kept.begun.name.as_deref() == Some(name) {
                book.forget(&kept.id).await?;
            }
        }
        Ok(())
    }

    async fn finish(&self, kept: Kept, page: &Arc<Page>) -> Result<CallToolResult, Error> {
        let is_named = kept.begun.name.is_some();
        match self.go_on(kept, page, CallOptions::default()).await {
            Ok(Started::Result(result)) => Ok(result),
            Ok(Started::Task(task)) => task.wait().await,
            Err(error) => {
                if matches!(error, Error::Unsettled { .. }) && !is_named {
                    page.give_up().await;
                }
                Err(error)
            }
        }
    }

    /// Goes on with a call where it was.
    pub(in crate::client) async fn go_on(
        &self,
        kept: Kept,
        page: &Arc<Page>,
        mut options: CallOptions,
    ) -> Result<Started, Error> {
        let Kept { id, begun, task, drafted, ended, .. } = kept;
        if let Some(ended) = ended {
            return ended.into_outcome(task).map(Started::Result);
        }
        if let Some(id) = task {
            return Ok(Started::Task(self.task_again(&id, drafted)?.of(&begun.tool).kept(page)));
        }
        if let Some(task) = self.found(&id).await? {
            page.task(&id, true).await?;
            return Ok(Started::Task(task.of(&begun.tool).kept(page)));
        }
        if !self.keeps_keys() && !self.may_repeat(&begun.tool).await? {
            return Err(Error::Unsettled { tool: begun.tool });
        }
        options.ttl = begun.ttl_ms.map(Duration::from_millis);
        self.begin_on(Some(Arc::clone(page)), &begun.tool, begun.arguments.get().to_owned(), options).await
    }

    /// The drafted task that a call has become, by its key: nobody has heard of it.
    async fn found(&self, key: &str) -> Result<Option<TaskHandle>, Error> {
        if !self.has_drafted_tasks() {
            return Ok(None);
        }
        let task = self.task(key);
        match task.get_patiently().await {
            Ok(_) => Ok(Some(task)),
            Err(Error::NoSuchTask { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a call that brings the key of an earlier one is that call.
    pub(in crate::client) fn keeps_keys(&self) -> bool {
        self.capabilities().extensions.find(DURABLE_TASKS).is_some()
    }

    /// Whether the tool says that calling it again does nothing that was not done.
    async fn may_repeat(&self, tool: &str) -> Result<bool, Error> {
        let tools = self.known_tools().await?;
        let hints = tools.tool(tool).and_then(|tool| tool.annotations.as_ref());
        Ok(hints
            .is_some_and(|hints| hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true)))
    }
}
