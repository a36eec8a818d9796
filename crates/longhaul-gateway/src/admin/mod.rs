//! What becomes of calls, as data: the tasks, tools and nodes of one server, as its operator sees them, or a caller its own.
//!
//! [`Admin`] is asked; every question takes a [`Viewer`], so that none is answered with what somebody else may see.
//! [`api`](self) puts the same on the wire as JSON, and the pages of [`dashboard`](crate::dashboard) show it.

mod act;
mod api;
mod cancel_all;
mod course;
mod error;
mod find;
mod keys;
mod list;
mod look;
mod nodes;
mod output;
mod reading;
mod steps;
mod tools;
mod viewer;
mod why;

use std::sync::Arc;
use std::time::Duration;

use longhaul::server::{Dispatcher, Poll};
use longhaul::store::{Registry, TaskStore, Time};
use longhaul::tasks::runner::Engine;

pub(crate) use act::{Reaction, asked};
pub(crate) use api::{Asked, answer, failed};
pub(crate) use cancel_all::Cancelled;
pub(crate) use course::{Leg, Over, What, course};
pub use error::AdminError;
pub(crate) use find::{Find, State};
use keys::Sessions;
pub use keys::{KEY_LASTS, new_key};
pub(crate) use list::{Listing, PAGE, Pace};
pub(crate) use look::{Shown, state_of, trace_id};
pub(crate) use nodes::Nodes;
pub(crate) use output::{From, PARTS, Stretch};
pub(crate) use steps::{Ends, Place, ShownStep, Stands};
pub(crate) use tools::{Calling, Offered, Runs};
pub use viewer::Viewer;
pub(crate) use why::{When, Why, why};

use crate::fleet::Fleet;
use crate::tool::Streams;

/// The tasks, tools and nodes of one server. Clones are one.
#[derive(Clone, Debug)]
pub struct Admin(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dispatcher: Dispatcher,
    streams: Streams,
    fleet: Fleet,
    sessions: Sessions,
}

impl Admin {
    /// Those of `dispatcher`, which is one of `fleet`, what their commands write in `streams`; who is let in is kept in `registry`.
    pub fn new(dispatcher: Dispatcher, registry: Arc<dyn Registry>, streams: Streams, fleet: Fleet) -> Self {
        Self(Arc::new(Inner { dispatcher, streams, fleet, sessions: Sessions::new(registry) }))
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.0.dispatcher.engine()
    }

    pub(crate) fn store(&self) -> &dyn TaskStore {
        &**self.engine().store()
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Counts a question about so many tasks by their ids, as it would be if it were asked by the protocol.
    fn poll(&self, viewer: &Viewer, tasks: usize) -> Result<Poll, AdminError> {
        self.0.dispatcher.poll(viewer.caller(), tasks).map_err(AdminError::TooOften)
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Time {
        self.store().now()
    }
}

/// How long ago something was: of less than a second nobody asks how long.
pub(crate) fn past(ago: Duration) -> String {
    if ago < Duration::from_secs(1) { "just now".to_owned() } else { format!("{} ago", span(ago)) }
}

/// A duration in its two largest units.
pub(crate) fn span(duration: Duration) -> String {
    let rounded = match duration.as_secs() {
        0 => return format!("{}ms", duration.as_millis()),
        1..3600 => Duration::from_secs(duration.as_secs()),
        3600..86_400 => Duration::from_secs(duration.as_secs() / 60 * 60),
        _ => Duration::from_secs(duration.as_secs() / 3600 * 3600),
    };
    crate::config::format_duration(rounded)
}
