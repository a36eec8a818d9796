//! Bounds of subscriptions: of the resources that they watch, and of those that follow tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_tasks::store::Owner;

/// Bounds on subscriptions: to resources, in either era, and those that follow tasks (the tasks extension, Task Status
/// Notifications).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubscriptionOptions {
    /// How many resources one subscription, or one session, may watch. Default 256.
    pub max_resources: usize,
    /// How many resources all clients together may watch, each counted for each of them. Default 16,384.
    pub max_watched: usize,
    /// How many of them may be one principal's. Default 1,024.
    pub max_watched_each: usize,
    /// How many tasks one subscription may follow; one that names more is refused. Default 256.
    pub max_tasks: usize,
    /// How many subscriptions that follow tasks may be open; the next is refused. Default 1024.
    pub max_open: usize,
    /// How many of them may be one principal's. Default 64.
    pub max_open_each: usize,
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

    /// Lets clients watch this many resources in all, and those of one principal this many.
    #[must_use]
    pub fn max_watched(mut self, in_all: usize, each: usize) -> Self {
        (self.max_watched, self.max_watched_each) = (in_all, each);
        self
    }

    /// Lets one subscription follow this many tasks.
    #[must_use]
    pub fn max_tasks(mut self, max_tasks: usize) -> Self {
        self.max_tasks = max_tasks;
        self
    }

    /// Lets this many subscriptions follow tasks, and this many of one principal.
    #[must_use]
    pub fn max_open(mut self, in_all: usize, each: usize) -> Self {
        (self.max_open, self.max_open_each) = (in_all, each);
        self
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
            max_tasks: 256,
            max_open: 1024,
            max_open_each: 64,
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
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    in_all: usize,
    each: HashMap<Owner, usize>,
}

impl Subscriptions {
    pub(super) fn new(options: SubscriptionOptions) -> Arc<Self> {
        Arc::new(Self { options, open: Mutex::default() })
    }

    /// A place for a subscription of `owner` that follows so many tasks.
    ///
    /// # Errors
    ///
    /// `-32602` when it follows too many; an overload when too many are open.
    pub(super) fn admit(self: &Arc<Self>, owner: Owner, tasks: usize) -> Result<Place, ErrorObject> {
        let SubscriptionOptions { max_tasks, max_open, max_open_each, .. } = self.options;
        if tasks > max_tasks {
            let message = format!("{tasks} tasks are named; one subscription follows {max_tasks} at most");
            let data = serde_json::json!({ "reason": "too_many_tasks", "limit": max_tasks });
            return Err(ErrorObject::invalid_params(message).with_data(&data));
        }
        let mut open = self.lock();
        let own = open.each.get(&owner).copied().unwrap_or(0);
        let bound = match owner {
            Owner::Principal(_) => max_open_each.min(max_open),
            // Strangers share one owner, so that they share the whole.
            Owner::Anonymous => max_open,
        };
        if own >= bound || open.in_all >= max_open {
            let message =
                format!("{bound} subscriptions follow tasks, the limit: close one, or come back later");
            return Err(ErrorObject::overloaded(message, RETRY_AFTER));
        }
        open.in_all += 1;
        open.each.insert(owner.clone(), own + 1);
        Ok(Place { subscriptions: Arc::clone(self), owner })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to be open, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    subscriptions: Arc<Subscriptions>,
    owner: Owner,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.subscriptions.lock();
        open.in_all -= 1;
        if let Some(own) = open.each.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                open.each.remove(&self.owner);
            }
        }
    }
}
