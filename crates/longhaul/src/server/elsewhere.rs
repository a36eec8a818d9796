//! What a server is to know that goes on with sessions of another, or tells it of what has changed.

use std::sync::Arc;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, RequestId};
use longhaul_tasks::store::{Owner, Scope, TaskId};

use super::ask::courier;
use super::changes::{Elsewhere, News};
use super::dispatch::{Caller, Dispatcher};
use super::outlet::Push;
use super::{listen, parts, parts_news};

impl Dispatcher {
    /// The resources that a session watches.
    pub(crate) fn watched(&self, push: &Arc<dyn Push>) -> Vec<String> {
        self.0.changes.as_ref().map(|changes| changes.watched_by(push)).unwrap_or_default()
    }

    /// A session that another server had watches what it watched there, as far as `caller` may.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn watch_again(
        &self,
        caller: &Caller,
        dialect: &'static Dialect,
        push: &Arc<dyn Push>,
        uris: Vec<String>,
    ) {
        for uri in uris {
            if parts::task_of(&uri).is_some() {
                parts_news::watch_again(self, caller.owner(), dialect, push, uri);
            } else if let Err(error) = listen::watch_again(&self.0, caller, dialect, push, uri) {
                tracing::debug!(%error, "a session watches a resource no longer");
            }
        }
    }

    /// A session watches a resource no longer.
    pub(crate) fn unwatch(&self, push: &Arc<dyn Push>, uri: &str) {
        if let Some(changes) = &self.0.changes {
            changes.unwatch(push, uri);
        }
    }

    /// Other servers are told of changes by this from now on. Must be called within a tokio runtime.
    pub(crate) fn tell_elsewhere(&self, elsewhere: Arc<dyn Elsewhere>) {
        if let Some(changes) = &self.0.changes {
            changes.tell_elsewhere(elsewhere);
        }
    }

    /// Another server has told of this.
    pub(crate) fn has_changed_elsewhere(&self, news: &News) {
        if let Some(changes) = &self.0.changes {
            changes.tell(news);
        }
    }

    /// Another server has seen this, which this one sees for itself as well.
    pub(crate) fn was_seen_elsewhere(&self, news: News) {
        if let Some(changes) = &self.0.changes {
            changes.gather(news);
        }
    }

    /// Whether anybody is to be told of changes.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.0.changes.as_ref().is_some_and(|changes| changes.has_listeners())
    }

    /// A client of this owner's has cancelled the call that has become this task, whose server is gone.
    pub(crate) async fn cancel_left(&self, owner: &Owner, task: &str) {
        let Ok(task) = TaskId::new(task) else { return };
        let cancelled = self.0.engine.cancel(Scope::Owner(owner), &task, Some("cancelled on request")).await;
        if let Err(error) = cancelled {
            tracing::warn!(%task, %error, "a task that its caller cancels goes on");
        }
    }

    /// A client of this owner's has answered what another server has put to it, or this one before a crash. `None` if the
    /// request with this id is no task's; else whether the task has the answer, or needs none any more.
    pub(crate) async fn answered(
        &self,
        owner: &Owner,
        id: &RequestId,
        outcome: Result<String, ErrorObject>,
    ) -> Option<bool> {
        courier::record(&self.0.engine, owner, id, outcome).await
    }
}
