//! Pages for people at a browser: tasks, tools, nodes, and how to connect to the server.
//!
//! They are made here, whole, from what [`admin`](crate::admin) says, and work without scripts; one script makes them follow
//! what happens. Whoever looks has to be let in first: see [`Dashboard`].

mod bars;
mod call_line;
mod colour;
mod connect;
mod door;
mod facts;
mod followers;
mod form;
mod frame;
mod live;
mod nodes;
mod paces;
mod question;
mod respond;
mod result;
mod route;
mod task;
mod tasks;
mod timeline;
mod tools;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::{Method, Request, Response};
use longhaul::auth::Guard;
use longhaul::server::{Caller, Scopes};
use longhaul::store::Time;
use longhaul::tasks::environment::BoxFuture;
use longhaul::transport::http::server::{PageBody, Pages};

use self::followers::Followers;
use self::paces::Paces;
use crate::admin::Admin;
use crate::config::CommandTool;
use crate::upstream::Upstream;

/// What the pages tell of their server, beside its tasks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Facts {
    /// What the server is called.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What is kept where.
    pub store: String,
    /// The file that it was set up with.
    pub config: String,
    /// The URL of its endpoint, for those on this machine.
    pub endpoint: String,
    /// Callers know it by an `https` URL: what their browsers keep for it goes over nothing else.
    pub is_https: bool,
    /// The commands that it runs.
    pub commands: Vec<CommandTool>,
    /// The names of its jobs.
    pub jobs: Vec<String>,
    /// The servers that it serves on.
    pub upstreams: Vec<Arc<Upstream>>,
    /// What to paste into which host.
    pub hosts: Vec<Snippet>,
}

/// That a configuration was read again.
#[derive(Debug)]
struct Reading {
    at: Time,
    /// What came of it.
    said: Vec<String>,
    /// What its author should look at; empty if nothing.
    diagnostics: String,
}

/// What to paste into a host, so that it knows the server.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snippet {
    /// The host.
    pub host: String,
    /// What to do, in a sentence.
    pub how: String,
    /// What to paste.
    pub text: String,
    /// A link by which the host takes it itself; empty if it has none.
    pub link: String,
}

impl Snippet {
    /// This text.
    #[must_use]
    pub fn new(host: impl Into<String>, how: impl Into<String>, text: impl Into<String>) -> Self {
        Self { host: host.into(), how: how.into(), text: text.into(), link: String::new() }
    }

    /// The same, with a link by which the host takes it itself, unless that is empty.
    #[must_use]
    pub fn with_link(self, link: impl Into<String>) -> Self {
        Self { link: link.into(), ..self }
    }
}

/// The pages of one server. Clones are the same.
///
/// Who comes with a key ([`new_key`](crate::admin::new_key)) is the operator, and so is who comes by a socket, which is its
/// user's alone. Where callers sign in, one who does sees its own tasks; and every task, if its token carries the scope
/// that says so. Nobody else sees anything.
#[derive(Clone)]
pub struct Dashboard(Arc<Inner>);

struct Inner {
    admin: Admin,
    facts: RwLock<Arc<Facts>>,
    /// When these pages began.
    began: Time,
    /// When its configuration was read again, and what came of that.
    reading: RwLock<Option<Arc<Reading>>>,
    guard: Option<Guard>,
    /// Who carries these is an operator.
    operators: Option<Scopes>,
    /// Those that follow.
    followers: Arc<Followers>,
    /// How fast those read that come back in their place.
    paces: Arc<Paces>,
}

impl Dashboard {
    /// The pages over `admin`.
    #[must_use]
    pub fn new(admin: Admin, facts: Facts) -> Self {
        let (reading, began) = (RwLock::default(), admin.now());
        let (followers, paces) = (Arc::default(), Arc::default());
        let facts = RwLock::new(Arc::new(facts));
        Self(Arc::new(Inner { admin, facts, began, reading, guard: None, operators: None, followers, paces }))
    }

    /// The same, where callers sign in as `guard` says; those whose token carries all of `operators` see every task.
    #[must_use]
    pub fn guarded(self, guard: Guard, operators: Option<Scopes>) -> Self {
        let Inner { admin, began, followers, paces, .. } = &*self.0;
        Self(Arc::new(Inner {
            admin: admin.clone(),
            facts: RwLock::new(self.0.facts()),
            began: *began,
            reading: RwLock::new(self.0.reading()),
            guard: Some(guard),
            operators,
            followers: Arc::clone(followers),
            paces: Arc::clone(paces),
        }))
    }

    /// What the pages tell of their server.
    #[must_use]
    pub fn facts(&self) -> Arc<Facts> {
        self.0.facts()
    }

    /// Tells this of the server from here on.
    pub fn tell(&self, facts: Facts) {
        *self.0.facts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(facts);
    }

    /// Tells that the configuration was read again just now: what came of it, a sentence each, and what its author should
    /// look at, as it would be printed.
    pub fn read_again(&self, said: Vec<String>, diagnostics: String) {
        let reading = Reading { at: self.0.admin.now(), said, diagnostics };
        *self.0.reading.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(reading));
    }
}

impl Inner {
    fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.facts.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn reading(&self) -> Option<Arc<Reading>> {
        self.reading.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Pages for Dashboard {
    fn has(&self, method: &Method, path: &str) -> bool {
        route::has(method, path)
    }

    fn answer(&self, visitor: Option<Caller>, request: Request<Bytes>) -> BoxFuture<'_, Response<PageBody>> {
        Box::pin(route::answer(&self.0, visitor, request))
    }
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("facts", &self.0.facts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
