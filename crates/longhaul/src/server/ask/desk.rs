//! Where a server keeps what it needs to ask in rounds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul_tasks::store::{Registry, StoreError};

use super::held::Held;
use crate::seal::Sealer;

/// Bounds on calls that are made in rounds (2026-07-28, Multi Round-Trip Requests).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoundOptions {
    /// How long a client may take over its answers, and how long the outcome of a call is kept in case it is lost.
    /// Default 15 minutes.
    pub patience: Duration,
    /// How many calls may wait in memory for their answers; the next is refused. Default 1024.
    pub max_waiting: usize,
    /// How many of them may be one principal's. Default 128.
    pub max_waiting_each: usize,
}

impl RoundOptions {
    /// Gives clients this long for their answers.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Lets this many calls wait in memory, and this many of one principal.
    #[must_use]
    pub fn max_waiting(mut self, in_all: usize, each: usize) -> Self {
        (self.max_waiting, self.max_waiting_each) = (in_all, each);
        self
    }
}

impl Default for RoundOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(15 * 60), max_waiting: 1024, max_waiting_each: 128 }
    }
}

/// What seals the states, and the calls that wait in memory.
#[derive(Debug)]
pub(in super::super) struct Desk {
    pub(super) sealer: Sealer,
    pub(super) held: Arc<Held>,
    pub(super) options: RoundOptions,
    /// Where the nodes share the key.
    registry: Option<SharedRegistry>,
}

struct SharedRegistry(Arc<dyn Registry>);

impl fmt::Debug for SharedRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Desk {
    pub(in super::super) fn new(options: RoundOptions, registry: Option<Arc<dyn Registry>>) -> Self {
        let (sealer, held) = (Sealer::new(), Held::new(options.clone()));
        Self { sealer, held, options, registry: registry.map(SharedRegistry) }
    }

    /// Takes the key that the nodes share, or gives them one.
    pub(in super::super) async fn start(&self) -> Result<(), StoreError> {
        let Some(SharedRegistry(registry)) = &self.registry else { return Ok(()) };
        self.sealer.share_through(&**registry, "request-state").await
    }
}
