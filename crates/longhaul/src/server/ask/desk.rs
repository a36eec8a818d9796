//! Where a server keeps what it needs to ask in rounds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_tasks::store::{Owner, Registry, StoreError};

use super::binding::Binding;
use super::held::Held;
use super::ledger::Ledger;
use crate::audit::{Forged, Trail};
use crate::seal::{Sealer, Unopened};

/// Bounds on calls that are made in rounds (2026-07-28, Multi Round-Trip Requests).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoundOptions {
    /// How long a client may take over its answers, and how long the outcome of a call is kept in case it is lost.
    /// Default 15 minutes. All rounds of a call that is run again for each together may take four times as long.
    pub patience: Duration,
    /// How many calls may wait in memory for their answers; the next is refused. Default 1024.
    pub max_waiting: usize,
    /// How many of them may be one caller's: a principal's, or a stranger's as far as it is told from others. Default 128.
    pub max_waiting_each: usize,
    /// How many of them may be of all callers without a principal together, so that the others are for principals.
    /// Default 512.
    pub max_waiting_anonymous: usize,
}

impl RoundOptions {
    /// Gives clients this long for their answers.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Lets this many calls wait in memory, and this many of one caller.
    #[must_use]
    pub fn max_waiting(mut self, in_all: usize, each: usize) -> Self {
        (self.max_waiting, self.max_waiting_each) = (in_all, each);
        self
    }

    /// Lets this many of them be of callers without a principal.
    #[must_use]
    pub fn max_waiting_anonymous(mut self, together: usize) -> Self {
        self.max_waiting_anonymous = together;
        self
    }
}

impl Default for RoundOptions {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(15 * 60),
            max_waiting: 1024,
            max_waiting_each: 128,
            max_waiting_anonymous: 512,
        }
    }
}

/// What seals the states, and the calls that wait in memory.
#[derive(Debug)]
pub(in super::super) struct Desk {
    pub(super) sealer: Sealer,
    pub(super) held: Arc<Held>,
    pub(super) ledger: Ledger,
    pub(super) options: RoundOptions,
    /// What results say of the server, as JSON.
    pub(super) server_info: Arc<str>,
    /// Where it is noted who brings states that are none, if anywhere.
    trail: Option<Trail>,
    /// What the nodes share: the key, and answers that came to the wrong one.
    registry: Option<SharedRegistry>,
    /// Answers are looked for that came to other nodes.
    listening: AtomicBool,
}

struct SharedRegistry(Arc<dyn Registry>);

impl fmt::Debug for SharedRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Desk {
    pub(in super::super) fn new(
        options: RoundOptions,
        registry: Option<Arc<dyn Registry>>,
        server_info: Arc<str>,
        trail: Option<Trail>,
    ) -> Self {
        let (sealer, held) = (Sealer::new(), Held::new(options.clone()));
        let ledger = Ledger::new(registry.clone(), options.patience);
        let registry = registry.map(SharedRegistry);
        let listening = AtomicBool::new(false);
        Self { sealer, held, ledger, options, server_info, trail, registry, listening }
    }

    /// What the state holds that `owner` brings for this.
    ///
    /// # Errors
    ///
    /// `-32602`: it is not good for it.
    pub(super) fn open(&self, state: &str, owner: &Owner, binding: &Binding) -> Result<Vec<u8>, ErrorObject> {
        self.sealer.open(state, &binding.0).map_err(|why| {
            if let (Unopened::NotOurs, Some(trail)) = (why, &self.trail) {
                trail.forged(Forged::State, owner);
            }
            unopened(why)
        })
    }

    /// What the nodes share, if they do.
    pub(in super::super) fn registry(&self) -> Option<&Arc<dyn Registry>> {
        self.registry.as_ref().map(|SharedRegistry(registry)| registry)
    }

    /// Whether nobody looked yet for answers that came to other nodes. Whoever is told so does from now on.
    pub(super) fn begins_to_listen(&self) -> bool {
        !self.listening.swap(true, Ordering::AcqRel)
    }

    /// Whether nobody needs to look for them any more, as no call waits.
    pub(super) fn ends_to_listen(&self) -> bool {
        self.listening.store(false, Ordering::Release);
        // One may have come to wait just now.
        self.held.is_empty() || !self.begins_to_listen()
    }

    /// Takes the key that the nodes share, or gives them one.
    pub(in super::super) async fn start(&self) -> Result<(), StoreError> {
        let Some(SharedRegistry(registry)) = &self.registry else { return Ok(()) };
        self.sealer.share_through(&**registry, "request-state").await
    }
}

/// `-32602` saying what to do, for a state that was not given here for this request, or has expired.
fn unopened(why: Unopened) -> ErrorObject {
    let what = match why {
        Unopened::NotOurs => {
            "was not given by this server to this caller for this request, or was changed since"
        }
        Unopened::Expired => "has expired",
    };
    ErrorObject::invalid_params(format!(
        "invalid params: `requestState` {what}; make the request again without `requestState` and `inputResponses`"
    ))
}
