//! Telling whoever wants to know that what is offered has changed.
//!
//! Changes are gathered for a moment, so that many in a row are told once. A session of the legacy era is told on its
//! own stream, if it has one open and there is room. A subscription of the modern era keeps what it has not told yet,
//! one of each kind: however slowly its client reads, nothing is lost and nothing piles up.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, ObjectWriter};
use longhaul_proto::method::Notice;
use longhaul_proto::model::SubscriptionFilter;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::outlet::Push;
use super::watched::Watch;
use crate::wire::{self, By};

/// How long changes are gathered before they are told.
pub(super) const MOMENT: Duration = Duration::from_millis(50);

/// How long what every node sees for itself is gathered before it is told: until the others have said that they have seen it, too.
const GATHERED: Duration = Duration::from_secs(1);

/// When to try again once a client watches too many: when it has let go of one.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A list that can change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listed {
    Tools,
    Prompts,
    Resources,
}

/// What has changed and is not told yet.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct News {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: BTreeSet<String>,
}

/// Tells other nodes of what has changed at this one.
pub(crate) trait Elsewhere: fmt::Debug + Send + Sync {
    fn tell(&self, news: &News);

    /// The same of what each of them sees for itself.
    fn tell_seen(&self, news: &News);
}

/// Where a change is seen that is told.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Seen {
    /// Here alone.
    #[default]
    Here,
    /// At every node, by itself.
    ByEach,
}

/// Who is to be told, and of what.
#[derive(Debug)]
pub(super) struct Changes {
    /// How many resources one session may watch.
    max_watched: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pending: News,
    /// What is pending of what other nodes see as well, and will say.
    seen: News,
    /// Somebody will tell what is pending.
    ringing: bool,
    /// What this node has seen or another has said to have, and every one sees.
    gathered: News,
    /// Somebody will tell what is gathered.
    gathering: bool,
    /// Where the moment passes.
    runtime: Option<Handle>,
    /// Sessions of the legacy era, by the address of their push, which the weak pointer keeps from being another's.
    sessions: HashMap<usize, Session>,
    /// With so many sessions, those that are gone are looked for.
    sweep_at: usize,
    listeners: HashMap<u64, Arc<Inbox>>,
    next_listener: u64,
    /// Who tells other nodes, if there are any.
    elsewhere: Option<Arc<dyn Elsewhere>>,
}

#[derive(Debug)]
struct Session {
    push: Weak<dyn Push>,
    dialect: &'static Dialect,
    /// What it watches, and who tells of it that no change here tells of.
    watched: HashMap<String, Teller>,
}

/// Tells of a resource by itself, until dropped.
#[derive(Debug)]
pub(super) enum Teller {
    /// To this session alone.
    Own(AbortHandle),
    /// To all who watch it.
    Shared(#[expect(dead_code, reason = "it tells for as long as it is held")] Watch),
}

impl Drop for Teller {
    fn drop(&mut self) {
        if let Self::Own(telling) = self {
            telling.abort();
        }
    }
}

impl Changes {
    /// Nobody is to be told yet; a session will watch `max_watched` resources at most.
    pub(super) fn new(max_watched: usize) -> Self {
        Self { max_watched, state: Mutex::default() }
    }

    /// A list has changed.
    pub(super) fn list_changed(self: &Arc<Self>, list: Listed, seen: Seen) {
        self.note(seen, |news| match list {
            Listed::Tools => news.tools = true,
            Listed::Prompts => news.prompts = true,
            Listed::Resources => news.resources = true,
        });
    }

    /// A resource has changed.
    pub(super) fn resource_updated(self: &Arc<Self>, uri: &str, seen: Seen) {
        self.note(seen, |news| {
            news.uris.insert(uri.to_owned());
        });
    }

    fn note(self: &Arc<Self>, seen: Seen, add: impl FnOnce(&mut News)) {
        let runtime = {
            let mut state = self.lock();
            if state.sessions.is_empty() && state.listeners.is_empty() && state.elsewhere.is_none() {
                return;
            }
            let by_others = seen == Seen::ByEach && state.elsewhere.is_some();
            add(if by_others { &mut state.seen } else { &mut state.pending });
            let Some(runtime) = state.runtime.clone().filter(|_| !state.ringing) else { return };
            state.ringing = true;
            runtime
        };
        let ring = Ring(Arc::clone(self));
        runtime.spawn(async move {
            tokio::time::sleep(MOMENT).await;
            drop(ring);
        });
    }

    /// Tells what is pending.
    fn ring(self: &Arc<Self>) {
        let (news, seen, elsewhere) = {
            let mut state = self.lock();
            state.ringing = false;
            let (news, seen) = (std::mem::take(&mut state.pending), std::mem::take(&mut state.seen));
            (news, seen, state.elsewhere.clone())
        };
        if let Some(elsewhere) = elsewhere {
            if !news.is_empty() {
                elsewhere.tell(&news);
            }
            if !seen.is_empty() {
                elsewhere.tell_seen(&seen);
                self.gather(seen);
            }
        }
        self.tell(&news);
    }

    /// Tells of what every node sees for itself, once the others have had the time to say that they have seen it. What is seen
    /// later than that is told again: nothing is taken for what was told before it.
    pub(super) fn gather(self: &Arc<Self>, news: News) {
        let runtime = {
            let mut state = self.lock();
            state.gathered.add(news);
            let Some(runtime) = state.runtime.clone().filter(|_| !state.gathering) else { return };
            state.gathering = true;
            runtime
        };
        let gathered = Gathered(Arc::clone(self));
        runtime.spawn(async move {
            tokio::time::sleep(GATHERED).await;
            drop(gathered);
        });
    }

    /// Tells what is gathered.
    fn tell_gathered(&self) {
        let news = {
            let mut state = self.lock();
            state.gathering = false;
            std::mem::take(&mut state.gathered)
        };
        self.tell(&news);
    }

    /// Tells of what has changed whoever is to be told here.
    pub(super) fn tell(&self, news: &News) {
        let (sessions, inboxes) = {
            let mut state = self.lock();
            state.forget_gone();
            let sessions: Vec<_> = state.sessions.values().filter_map(|session| session.told(news)).collect();
            (sessions, state.listeners.values().cloned().collect::<Vec<_>>())
        };
        for ToTell { push, lists, updated } in sessions {
            lists.into_iter().for_each(|message| push.push_here(message));
            updated.into_iter().for_each(|message| push.push(message));
        }
        for inbox in inboxes {
            inbox.put(news);
        }
    }

    /// Other nodes are told of changes by this from now on. Must be called within a tokio runtime.
    #[cfg(feature = "http")]
    pub(super) fn tell_elsewhere(&self, elsewhere: Arc<dyn Elsewhere>) {
        let mut state = self.lock();
        (state.runtime, state.elsewhere) = (Some(Handle::current()), Some(elsewhere));
    }

    /// Whether there is anybody to be told here.
    #[cfg(feature = "http")]
    pub(super) fn has_listeners(&self) -> bool {
        let state = self.lock();
        !(state.sessions.is_empty() && state.listeners.is_empty())
    }

    /// The resources that a session watches, in their order.
    #[cfg(feature = "http")]
    pub(super) fn watched_by(&self, push: &Arc<dyn Push>) -> Vec<String> {
        let state = self.lock();
        let session = state.sessions.get(&address(push));
        let mut watched: Vec<_> =
            session.into_iter().flat_map(|session| session.watched.keys().cloned()).collect();
        watched.sort_unstable();
        watched
    }

    /// A session has opened: it is told of every list.
    pub(super) fn attend(&self, dialect: &'static Dialect, push: &Arc<dyn Push>) {
        self.lock().session(dialect, push);
    }

    /// A session watches a resource. `tell` is asked, unless it watches the resource already, for who tells of it that no
    /// change here tells of.
    ///
    /// # Errors
    ///
    /// An overload when it watches too many.
    pub(super) fn watch(
        &self,
        dialect: &'static Dialect,
        push: &Arc<dyn Push>,
        uri: String,
        tell: impl FnOnce() -> Teller,
    ) -> Result<(), ErrorObject> {
        let mut state = self.lock();
        let watched = &mut state.session(dialect, push).watched;
        if watched.contains_key(&uri) {
            return Ok(());
        }
        if watched.len() >= self.max_watched {
            return Err(too_many(&format_args!("{}, the limit of a session", self.max_watched)));
        }
        watched.insert(uri, tell());
        Ok(())
    }

    /// Whether a session watches a resource already.
    pub(super) fn is_watched(&self, push: &Arc<dyn Push>, uri: &str) -> bool {
        self.lock().sessions.get(&address(push)).is_some_and(|session| session.watched.contains_key(uri))
    }

    /// A session watches a resource no longer.
    pub(super) fn unwatch(&self, push: &Arc<dyn Push>, uri: &str) {
        if let Some(session) = self.lock().sessions.get_mut(&address(push)) {
            session.watched.remove(uri);
        }
    }

    /// Lets go of what sessions watched that are gone. `false` if there were none.
    pub(super) fn forget_gone(&self) -> bool {
        self.lock().forget_gone()
    }

    /// Gathers what `filter` lets through, until what this gives is dropped.
    pub(super) fn listen(self: &Arc<Self>, filter: SubscriptionFilter) -> Listener {
        let inbox = Arc::new(Inbox {
            watched: filter.resource_subscriptions.iter().cloned().collect(),
            filter,
            news: Mutex::default(),
            heard: Notify::new(),
        });
        let mut state = self.lock();
        state.runtime = Handle::try_current().ok().or_else(|| state.runtime.take());
        let number = state.next_listener;
        state.next_listener += 1;
        state.listeners.insert(number, Arc::clone(&inbox));
        Listener { changes: Arc::clone(self), number, inbox }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses to watch another resource, for this is what there is too much of.
pub(super) fn too_many(full: &impl fmt::Display) -> ErrorObject {
    let message = format!("too many resources are watched: {full}; let go of one");
    ErrorObject::overloaded(message, RETRY_AFTER)
}

impl State {
    fn session(&mut self, dialect: &'static Dialect, push: &Arc<dyn Push>) -> &mut Session {
        self.runtime = Handle::try_current().ok().or_else(|| self.runtime.take());
        if self.sessions.len() >= self.sweep_at {
            self.forget_gone();
            self.sweep_at = (2 * self.sessions.len()).max(64);
        }
        let opened = || Session { push: Arc::downgrade(push), dialect, watched: HashMap::new() };
        self.sessions.entry(address(push)).or_insert_with(opened)
    }

    /// `false` if no session is gone.
    fn forget_gone(&mut self) -> bool {
        let known = self.sessions.len();
        self.sessions.retain(|_, session| session.push.strong_count() > 0);
        self.sessions.len() < known
    }
}

/// What a session is told, and how.
struct ToTell {
    push: Arc<dyn Push>,
    /// Which lists have changed, of which it is told at every node that has it.
    lists: Vec<Vec<u8>>,
    /// Which resources have, as far as it watches them here: at another it may not, or not yet.
    updated: Vec<Vec<u8>>,
}

impl Session {
    fn told(&self, news: &News) -> Option<ToTell> {
        let lists: Vec<_> = news.lists(self.dialect, |_| ()).collect();
        let updated: Vec<_> =
            news.updated(self.dialect, |uri| self.watched.contains_key(uri), |_| ()).collect();
        if lists.is_empty() && updated.is_empty() {
            return None;
        }
        Some(ToTell { push: self.push.upgrade()?, lists, updated })
    }
}

fn address(push: &Arc<dyn Push>) -> usize {
    Arc::as_ptr(push).cast::<()>().addr()
}

/// Tells what is pending when it is dropped: because its moment has passed, or because its runtime ends.
struct Ring(Arc<Changes>);

impl Drop for Ring {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// The same of what is gathered.
struct Gathered(Arc<Changes>);

impl Drop for Gathered {
    fn drop(&mut self) {
        self.0.tell_gathered();
    }
}

impl News {
    fn add(&mut self, more: Self) {
        self.tools |= more.tools;
        self.prompts |= more.prompts;
        self.resources |= more.resources;
        self.uris.extend(more.uris);
    }

    /// The same in two parts, of which the first has the lists. `None` if there is no resource to part from the rest.
    #[cfg(feature = "http")]
    pub(crate) fn halves(mut self) -> Option<[Self; 2]> {
        let of_lists = self.tools || self.prompts || self.resources;
        let middle = if of_lists { 0 } else { self.uris.len().div_ceil(2) };
        let from = self.uris.iter().nth(middle).cloned()?;
        let uris = self.uris.split_off(&from);
        Some([self, Self { uris, ..Self::default() }])
    }

    fn is_empty(&self) -> bool {
        !(self.tools || self.prompts || self.resources) && self.uris.is_empty()
    }

    /// The notifications that say it; `mark` adds to the parameters of each.
    pub(super) fn messages(
        &self,
        dialect: &Dialect,
        watches: impl Fn(&str) -> bool,
        mark: impl Fn(&mut ObjectWriter<'_>),
    ) -> Vec<Vec<u8>> {
        self.lists(dialect, &mark).chain(self.updated(dialect, watches, &mark)).collect()
    }

    /// Those that say which lists have changed.
    fn lists(
        &self,
        dialect: &Dialect,
        mark: impl Fn(&mut ObjectWriter<'_>),
    ) -> impl Iterator<Item = Vec<u8>> {
        let lists = [
            (self.tools, Notice::ToolsChanged),
            (self.prompts, Notice::PromptsChanged),
            (self.resources, Notice::ResourcesChanged),
        ];
        let lists = lists.into_iter().filter(|(changed, _)| *changed);
        lists.filter_map(move |(_, notice)| {
            wire::notification(By::Server, dialect, notice, |params| mark(params))
        })
    }

    /// Those that say which resources have.
    fn updated(
        &self,
        dialect: &Dialect,
        watches: impl Fn(&str) -> bool,
        mark: impl Fn(&mut ObjectWriter<'_>),
    ) -> impl Iterator<Item = Vec<u8>> {
        self.uris.iter().filter(move |uri| watches(uri)).filter_map(move |uri| {
            wire::notification(By::Server, dialect, Notice::ResourceUpdated, |params| {
                params.field("uri", uri);
                mark(params);
            })
        })
    }
}

/// What one subscription has not told yet.
#[derive(Debug)]
struct Inbox {
    filter: SubscriptionFilter,
    watched: BTreeSet<String>,
    news: Mutex<News>,
    heard: Notify,
}

impl Inbox {
    fn put(&self, news: &News) {
        let mut kept = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tools |= news.tools && self.filter.tools_list_changed;
        kept.prompts |= news.prompts && self.filter.prompts_list_changed;
        kept.resources |= news.resources && self.filter.resources_list_changed;
        kept.uris.extend(news.uris.intersection(&self.watched).cloned());
        if !kept.is_empty() {
            self.heard.notify_one();
        }
    }
}

/// The receiving end of a subscription.
#[derive(Debug)]
pub(super) struct Listener {
    changes: Arc<Changes>,
    number: u64,
    inbox: Arc<Inbox>,
}

impl Listener {
    /// What has changed since the last time, once something has. Dropping the future loses nothing.
    pub(super) async fn news(&self) -> News {
        loop {
            self.inbox.heard.notified().await;
            let news = std::mem::take(&mut *self.inbox.news.lock().unwrap_or_else(PoisonError::into_inner));
            if !news.is_empty() {
                return news;
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.changes.lock().listeners.remove(&self.number);
    }
}

#[cfg(all(test, feature = "http"))]
mod tests;
