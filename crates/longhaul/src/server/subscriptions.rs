//! Bounds of subscriptions: of the resources that they watch, and of those that follow tasks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;

use super::dispatch::Caller;
use super::places::{Bounds, Places, Whose};

/// Bounds on subscriptions: to resources, in either era, and those that follow tasks (the tasks extension, Task Status
/// Notifications).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubscriptionOptions {
    /// How many resources one subscription, or one session, may watch. Default 256.
    pub max_resources: usize,
    /// How many resources all clients together may watch, each counted for each of them. Default 16,384.
    pub max_watched: usize,
    /// How many of them may be one caller's: a principal's, or a stranger's as far as it is told from others. Default 1,024.
    pub max_watched_each: usize,
    /// How many of them may be of all callers without a principal together, so that the others are for principals. Default 8,192.
    pub max_watched_anonymous: usize,
    /// How many tasks one subscription may follow; one that names more is refused. Default 256.
    pub max_tasks: usize,
    /// How many subscriptions that follow tasks may be open; the next is refused. Default 1024.
    pub max_open: usize,
    /// How many of them may be one caller's: a principal's, or a stranger's as far as it is told from others. Default 64.
    pub max_open_each: usize,
    /// How many of them may be of all callers without a principal together, so that the others are for principals. Default 512.
    pub max_open_anonymous: usize,
    /// How long a notification may wait for a client that does not read. Then the subscription is closed, as it is when
    /// the server stops; its client can open it again, and is told first how its tasks stand. Over HTTP the connection
    /// has such a limit of its own. Default 30 s.
    pub slow_limit: Duration,
}

impl SubscriptionOptions {
    /// Lets one subscription, or one session, watch this many resources.
    #[must_use]
    pub fn max_resources(mut self, max_resources: usize) -> Self {
        self.max_resources = max_resources;
        self
    }

    /// Lets clients watch this many resources in all, and one caller this many.
    #[must_use]
    pub fn max_watched(mut self, in_all: usize, each: usize) -> Self {
        (self.max_watched, self.max_watched_each) = (in_all, each);
        self
    }

    /// Lets callers without a principal watch this many of them.
    #[must_use]
    pub fn max_watched_anonymous(mut self, together: usize) -> Self {
        self.max_watched_anonymous = together;
        self
    }

    /// Lets one subscription follow this many tasks.
    #[must_use]
    pub fn max_tasks(mut self, max_tasks: usize) -> Self {
        self.max_tasks = max_tasks;
        self
    }

    /// Lets this many subscriptions follow tasks, and this many of one caller.
    #[must_use]
    pub fn max_open(mut self, in_all: usize, each: usize) -> Self {
        (self.max_open, self.max_open_each) = (in_all, each);
        self
    }

    /// Lets this many of them be of callers without a principal.
    #[must_use]
    pub fn max_open_anonymous(mut self, together: usize) -> Self {
        self.max_open_anonymous = together;
        self
    }

    /// How many resources may be watched.
    pub(super) fn watched(&self) -> Bounds {
        Bounds {
            in_all: self.max_watched,
            each: self.max_watched_each,
            anonymous: self.max_watched_anonymous,
        }
    }

    /// How many subscriptions may follow tasks.
    fn open(&self) -> Bounds {
        Bounds { in_all: self.max_open, each: self.max_open_each, anonymous: self.max_open_anonymous }
    }

    /// Waits this long for a client that does not read.
    #[must_use]
    pub fn slow_limit(mut self, slow_limit: Duration) -> Self {
        self.slow_limit = slow_limit;
        self
    }
}

impl Default for SubscriptionOptions {
    fn default() -> Self {
        Self {
            max_resources: 256,
            max_watched: 16_384,
            max_watched_each: 1_024,
            max_watched_anonymous: 8_192,
            max_tasks: 256,
            max_open: 1024,
            max_open_each: 64,
            max_open_anonymous: 512,
            slow_limit: Duration::from_secs(30),
        }
    }
}

/// When to try again once too many are open.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Those of one server that follow tasks.
#[derive(Debug)]
pub(super) struct Subscriptions {
    pub(super) options: SubscriptionOptions,
    open: Mutex<Places>,
}

impl Subscriptions {
    pub(super) fn new(options: SubscriptionOptions) -> Arc<Self> {
        let open = Mutex::new(Places::new(options.open()));
        Arc::new(Self { options, open })
    }

    /// A place for a subscription of this caller's that follows so many tasks.
    ///
    /// # Errors
    ///
    /// `-32602` when it follows too many; an overload when too many are open.
    pub(super) fn admit(self: &Arc<Self>, caller: &Caller, tasks: usize) -> Result<Place, ErrorObject> {
        let max_tasks = self.options.max_tasks;
        if tasks > max_tasks {
            let message = format!("{tasks} tasks are named; one subscription follows {max_tasks} at most");
            let data = serde_json::json!({ "reason": "too_many_tasks", "limit": max_tasks });
            return Err(ErrorObject::invalid_params(message).with_data(&data));
        }
        let whose = Whose::of(caller);
        self.lock().take(&whose).map_err(|full| {
            let message =
                format!("too many subscriptions follow tasks: {full}; close one, or come back later");
            ErrorObject::overloaded(message, RETRY_AFTER)
        })?;
        Ok(Place { subscriptions: Arc::clone(self), whose })
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to be open, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    subscriptions: Arc<Subscriptions>,
    whose: Whose,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.subscriptions.lock().leave(&self.whose);
    }
}
