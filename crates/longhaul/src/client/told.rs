//! What one subscription was told and its holder has not read: one change of each kind, however slowly it reads.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::Params;
use longhaul_proto::method::Notice;
use longhaul_proto::model::{SubscriptionFilter, Task};
use tokio::sync::Notify;

use super::error::Error;

/// Something that has changed on a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// The tools are others.
    Tools,
    /// The prompts are others.
    Prompts,
    /// The resources or their templates are others.
    Resources,
    /// The resource of this URI: one that was asked for, or one within it.
    Resource(String),
    /// A task: how it stands now.
    Task(Box<Task>),
}

impl Change {
    /// What a notification says has changed, if it says that.
    pub(super) fn read(dialect: &Dialect, notice: Notice, params: &Params<'_>) -> Option<Self> {
        match notice {
            Notice::ToolsChanged => Some(Self::Tools),
            Notice::PromptsChanged => Some(Self::Prompts),
            Notice::ResourcesChanged => Some(Self::Resources),
            Notice::ResourceUpdated => params.require("uri").ok().map(Self::Resource),
            Notice::TaskStatus => {
                dialect.read_task(params.as_str()?).ok().map(|task| Self::Task(Box::new(task)))
            }
            _ => None,
        }
    }

    /// Everything that `filter` asks for, but for tasks: how those stand nobody can say.
    #[cfg(feature = "http-client")]
    pub(super) fn all_of(filter: &SubscriptionFilter) -> impl Iterator<Item = Self> {
        let lists = [
            (filter.tools_list_changed, Self::Tools),
            (filter.prompts_list_changed, Self::Prompts),
            (filter.resources_list_changed, Self::Resources),
        ];
        let lists = lists.into_iter().filter_map(|(is_wanted, list)| is_wanted.then_some(list));
        lists.chain(filter.resource_subscriptions.iter().cloned().map(Self::Resource))
    }

    /// Whether `filter` asks for it.
    pub(super) fn is_wanted(&self, filter: &SubscriptionFilter) -> bool {
        match self {
            Self::Tools => filter.tools_list_changed,
            Self::Prompts => filter.prompts_list_changed,
            Self::Resources => filter.resources_list_changed,
            Self::Resource(uri) => filter.resource_subscriptions.iter().any(|within| uri.starts_with(within)),
            Self::Task(task) => filter.task_ids.contains(&task.id),
        }
    }

    /// Whether who hears of `other` need not hear of this as well.
    fn is_told_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tools, Self::Tools)
            | (Self::Prompts, Self::Prompts)
            | (Self::Resources, Self::Resources) => true,
            (Self::Resource(uri), Self::Resource(other)) => uri == other,
            (Self::Task(task), Self::Task(other)) => task.id == other.id,
            _ => false,
        }
    }
}

/// Between who reads the connection and who holds a subscription.
pub(crate) struct Told {
    dialect: &'static Dialect,
    /// How many changes may wait to be read.
    max_unread: usize,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    /// What its server agreed to.
    agreed: Option<SubscriptionFilter>,
    changes: VecDeque<Change>,
    /// It brings nothing more, for this reason if there is one.
    over: Option<Option<Error>>,
}

impl Told {
    pub(super) fn new(dialect: &'static Dialect, max_unread: usize) -> Self {
        Self { dialect, max_unread, state: Mutex::default(), news: Notify::new() }
    }

    /// Takes a notification that belongs to the subscription.
    pub(super) fn handle(&self, notice: Notice, params: &Params<'_>) {
        if notice == Notice::Listening {
            match params.require::<SubscriptionFilter>("notifications") {
                Ok(agreed) => self.agree(agreed),
                Err(error) => tracing::debug!(%error, "passed over an acknowledgement"),
            }
        } else if let Some(change) = Change::read(self.dialect, notice, params) {
            self.tell(change);
        }
    }

    pub(super) fn agree(&self, agreed: SubscriptionFilter) {
        self.lock().agreed.get_or_insert(agreed);
        self.news.notify_one();
    }

    pub(super) fn tell(&self, change: Change) {
        let mut state = self.lock();
        if let Some(other) = state.changes.iter_mut().find(|other| change.is_told_by(other)) {
            // Of a task the latest counts.
            *other = change;
        } else if state.changes.len() < self.max_unread {
            state.changes.push_back(change);
        } else {
            tracing::warn!("a change is not told: {} others have not been read", self.max_unread);
        }
        drop(state);
        self.news.notify_one();
    }

    /// It brings nothing more.
    pub(super) fn end(&self, why: Option<Error>) {
        self.lock().over.get_or_insert(why);
        self.news.notify_one();
    }

    /// Waits until the server has agreed to it.
    pub(super) async fn agreed(&self) -> Result<SubscriptionFilter, Error> {
        loop {
            {
                let state = self.lock();
                if let Some(agreed) = &state.agreed {
                    return Ok(agreed.clone());
                }
                if let Some(why) = &state.over {
                    let unsaid = || Error::protocol("a subscription that ends before it is acknowledged");
                    return Err(why.clone().unwrap_or_else(unsaid));
                }
            }
            self.news.notified().await;
        }
    }

    /// The next change; `None` when the server has ended the subscription.
    pub(super) async fn next(&self) -> Result<Option<Change>, Error> {
        loop {
            {
                let mut state = self.lock();
                if let Some(change) = state.changes.pop_front() {
                    return Ok(Some(change));
                }
                if let Some(why) = &state.over {
                    return why.clone().map_or(Ok(None), Err);
                }
            }
            self.news.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("unread", &self.lock().changes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_read_is_kept_once_of_each_kind() {
        const MAX_UNREAD: usize = 16;
        let told = Told::new(Dialect::newest_modern(), MAX_UNREAD);
        for n in 0..2 * MAX_UNREAD {
            told.tell(Change::Tools);
            told.tell(Change::Resource(format!("a:{}", n % 2)));
        }
        told.end(None);
        let mut read = Vec::new();
        while let Some(change) = told.next().await.unwrap() {
            read.push(change);
        }
        assert!(
            matches!(&read[..], [Change::Tools, Change::Resource(a), Change::Resource(b)] if a == "a:0" && b == "a:1"),
            "{read:?}"
        );
        for n in 0..2 * MAX_UNREAD {
            told.tell(Change::Resource(n.to_string()));
        }
        assert_eq!(told.lock().changes.len(), MAX_UNREAD);
    }

    #[test]
    fn a_change_within_what_was_asked_for_is_wanted() {
        let mut filter = SubscriptionFilter::default();
        filter.resource_subscriptions = vec!["file:///a/".to_owned()];
        assert!(Change::Resource("file:///a/b".to_owned()).is_wanted(&filter));
        assert!(!Change::Resource("file:///b".to_owned()).is_wanted(&filter));
        assert!(!Change::Tools.is_wanted(&filter));
    }
}
