//! MCP servers that people already have, served on in every revision: their tools as durable tools, their prompts and resources as
//! they are.
//!
//! `connection` has one connection to a server (at its `target`), opened when it is needed and again when it has ended, or `pulse` finds that it
//! hangs, but to none that is this very one (`itself`); `offering` lists what the server has, which `seen` tells, and keeps the catalogue
//! like it (`kept`; `tools`, `prompts`, `resources`), or before it is there what it had (`known`), by names that `names` gives and without what `hidden` finds or `pins` holds back;
//! `call` makes the calls, `durable` those that become tasks there, `away` waits for servers that are not there and `line` for those that
//! are at enough, `request` asks for the rest, and `unlisted` for what no server lists. `asking` puts what they ask, and `logging` what
//! they log, to who made the call (`caller`); `watching` tells of resources that are watched.

mod asking;
mod away;
mod call;
mod caller;
mod connection;
mod durable;
mod hidden;
mod itself;
mod kept;
mod known;
mod line;
mod logging;
mod names;
mod offering;
mod pins;
mod prompts;
mod pulse;
mod request;
mod resources;
mod seen;
mod target;
#[cfg(test)]
mod tests;
mod tools;
mod unlisted;
mod watching;

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use longhaul::Server;
use longhaul::server::Catalogue;
use longhaul::store::Registry;
use tokio::sync::watch;
use tokio::time::timeout;

pub use connection::{Unreached, Upstream};
pub use seen::{Away, Seen};

use itself::Instance;
use known::Shelf;
use names::Names;
use unlisted::Unlisted;

/// The servers that one server serves on, in the order of the file. Clones are the same.
#[derive(Clone, Debug)]
pub struct Upstreams {
    all: All,
    names: Arc<Names>,
    serving: Arc<Mutex<Serving>>,
    instance: Instance,
    shelf: Option<Shelf>,
}

/// Those that there are, which may be others later.
#[derive(Clone, Debug)]
struct All(Arc<RwLock<Arc<[Arc<Upstream>]>>>);

/// What keeps them offered.
#[derive(Debug, Default)]
struct Serving {
    /// Who is served on by each name there ever was; `None` when nobody is.
    successors: Vec<(String, watch::Sender<Option<Arc<Upstream>>>)>,
    /// Those that only finish what they have begun.
    retired: Vec<Weak<Upstream>>,
}

impl All {
    /// The one of that name.
    fn find(&self, name: &str) -> Option<Arc<Upstream>> {
        self.now().iter().find(|upstream| upstream.config().name == name).cloned()
    }

    fn now(&self) -> Arc<[Arc<Upstream>]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Upstreams {
    /// Those servers, beside tools of one's own by these names.
    pub fn new(all: Vec<Arc<Upstream>>, own_tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let instance = Instance::new();
        all.iter().for_each(|upstream| upstream.be_behind(&instance));
        let all = All(Arc::new(RwLock::new(all.into())));
        Self { all, names: Arc::new(Names::new(own_tools)), serving: Arc::default(), instance, shelf: None }
    }

    /// The same, keeping what they have there, where they are started by their first call: what is offered until then. Without it
    /// such a server is started once by each process, to learn what it has.
    #[must_use]
    pub fn known_by(mut self, registry: Arc<dyn Registry>) -> Self {
        self.shelf = Some(Shelf::new(registry));
        self
    }

    /// Each of them, as they are now.
    pub fn iter(&self) -> impl Iterator<Item = Arc<Upstream>> {
        self.all.now().to_vec().into_iter()
    }

    /// Takes the name of one more tool of one's own.
    ///
    /// # Errors
    ///
    /// The name of the server that has a tool of this name: what callers know as that one's does not become another's.
    pub fn take_tool(&self, name: &str) -> Result<(), String> {
        self.names.take_tool(name)
    }

    /// The server with room for what they have, and where that is put. Resources that are its own are given to it first.
    #[must_use]
    pub fn room(&self, server: Server) -> (Server, Catalogue) {
        let (server, catalogue) = self.instance.declare(server).tasks_to_come(true).dynamic();
        let (all, names, its) = (self.all.clone(), Arc::clone(&self.names), catalogue.seen_by_each());
        let server = server
            .resources(Arc::new(Unlisted { all: self.all.clone(), names: Arc::clone(&self.names) }))
            .tell_of_resources(move |what| watching::tell(&all, &names, &its, what));
        (server, catalogue)
    }

    /// Begins to serve on what they have, for as long as the runtime lives. Must be called within it, once the server is put
    /// together.
    pub fn keep_offered(&self, catalogue: &Catalogue) {
        let all = self.all.now();
        for (place, upstream) in all.iter().enumerate() {
            let before = all[..place].iter().map(|other| other.seen()).collect();
            self.begin(upstream, catalogue, before);
        }
    }

    /// Serves on these from here on, in the order of `names`: those that are in `put`, in place of those of the same names if there
    /// are any, and of the others those that are named.
    ///
    /// What is not served on any more finishes what it has begun, and its connection ends whenever nobody uses it. What one in place
    /// of another has is listed in place of what that one had, in one moment where it answers soon.
    pub fn change(&self, put: Vec<Arc<Upstream>>, names: &[String], catalogue: &Catalogue) {
        put.iter().for_each(|upstream| upstream.be_behind(&self.instance));
        let before = self.all.now();
        let by_name = |all: &[Arc<Upstream>], name: &str| {
            all.iter().find(|upstream| upstream.config().name == name).cloned()
        };
        let next = names.iter().filter_map(|name| by_name(&put, name).or_else(|| by_name(&before, name)));
        let next: Arc<[Arc<Upstream>]> = next.collect();
        *self.all.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        for old in before.iter().filter(|old| !next.iter().any(|new| Arc::ptr_eq(old, new))) {
            let name = &old.config().name;
            let successor = by_name(&next, name);
            let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, order)) = serving.successors.iter().find(|(its, _)| its == name) {
                order.send_replace(successor.clone());
            }
            serving.retired.retain(|retired| retired.strong_count() > 0);
            serving.retired.push(Arc::downgrade(old));
            drop(serving);
            old.retire();
        }
        for new in next.iter().filter(|new| by_name(&before, &new.config().name).is_none()) {
            self.begin(new, catalogue, Vec::new());
        }
    }

    /// Ends every connection in order, with the processes at their other ends, and opens no other. Who takes long is not waited for.
    pub async fn close(&self) {
        let retired: Vec<_> = {
            let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
            serving.retired.iter().filter_map(Weak::upgrade).collect()
        };
        let mut closing = tokio::task::JoinSet::new();
        for upstream in self.all.now().iter().cloned().chain(retired) {
            closing.spawn(async move { upstream.close_for_good().await });
        }
        if timeout(LONGEST_CLOSE, closing.join_all()).await.is_err() {
            tracing::warn!("not every connection to another server has ended in order");
        }
    }

    fn begin(&self, upstream: &Arc<Upstream>, catalogue: &Catalogue, before: Vec<watch::Receiver<Seen>>) {
        let name = upstream.config().name.clone();
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        // One of its name was there before, and may not have gone yet.
        if let Some((_, order)) = serving.successors.iter().find(|(its, _)| *its == name) {
            order.send_replace(Some(Arc::clone(upstream)));
            return;
        }
        let (order, orders) = watch::channel(Some(Arc::clone(upstream)));
        serving.successors.push((name, order));
        drop(serving);
        let (catalogue, names) = (catalogue.seen_by_each(), Arc::clone(&self.names));
        tokio::spawn(offering::keep_offered(orders, catalogue, names, self.shelf.clone(), before));
    }
}

/// How long the ends of connections are waited for.
const LONGEST_CLOSE: Duration = Duration::from_secs(10);
