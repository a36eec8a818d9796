//! What is known of each job, in the registry of the store: it is there before the job is started, and until the task
//! has ended and the API has been told.
//!
//! It is no part of the task, for nothing of a task that has ended can be changed, and whether the API knows of a
//! cancel is learnt after that.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul::store::{EntryKey, Registry, StoreError, Swap, TaskId, Value, Version};
use serde::{Deserialize, Serialize};

/// What is known of the jobs of one store.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<dyn Registry>);

/// What is known of one job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Known {
    /// When it was begun, in milliseconds since 1970.
    pub(super) begun_at: u64,
    /// What the API calls it; `None` while it is being started.
    pub(super) job: Option<Handle>,
    /// The API has said that it is over, so that there is nothing to cancel.
    #[serde(default)]
    pub(super) over: bool,
}

/// What an API calls a job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Handle {
    /// Its id, or nothing where its status has a URL.
    pub(super) id: String,
    /// Where its status is, if the API has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status_url: Option<String>,
}

/// What is known, as this process has last seen it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) known: Known,
    version: Version,
}

impl Known {
    fn now() -> Self {
        Self { begun_at: now(), job: None, over: false }
    }

    /// How long ago it was begun.
    pub(super) fn age(&self) -> Duration {
        Duration::from_millis(now().saturating_sub(self.begun_at))
    }
}

impl Ledger {
    /// That of the store with this registry.
    #[must_use]
    pub fn new(registry: Arc<dyn Registry>) -> Self {
        Self(registry)
    }

    /// What is known of a job.
    pub(super) async fn find(&self, key: &TaskId) -> Result<Option<Kept>, StoreError> {
        let entry = self.0.entry(name(key)).await?;
        Ok(entry.map(|entry| Kept { known: read(&entry.value), version: entry.version }))
    }

    /// Notes that a job is about to be started, or gives what is known of it already: whether it is new.
    pub(super) async fn begin(&self, key: &TaskId) -> Result<(Kept, bool), StoreError> {
        loop {
            let known = Known::now();
            let bytes = write(&known);
            match self.0.compare_and_set(name(key), None, Some(Value::for_ever(&bytes))).await? {
                Swap::Done(Some(entry)) => return Ok((Kept { known, version: entry.version }, true)),
                Swap::Found(Some(entry)) => {
                    return Ok((Kept { known: read(&entry.value), version: entry.version }, false));
                }
                // Removed as it was looked at.
                Swap::Done(None) | Swap::Found(None) => {}
            }
        }
    }

    /// Changes what is known; `None` if somebody else has, who goes on with the job.
    pub(super) async fn change(
        &self,
        key: &TaskId,
        kept: &Kept,
        known: Known,
    ) -> Result<Option<Kept>, StoreError> {
        let bytes = write(&known);
        // What is over is removed with the end of its task; this is for when nobody comes to do so.
        let value = if known.over { Value::lasting(&bytes, OVER) } else { Value::for_ever(&bytes) };
        match self.0.compare_and_set(name(key), Some(kept.version), Some(value)).await? {
            Swap::Done(Some(entry)) => Ok(Some(Kept { known, version: entry.version })),
            Swap::Done(None) | Swap::Found(_) => Ok(None),
        }
    }

    /// Forgets a job, if it is as it was seen.
    pub(super) async fn forget(&self, key: &TaskId, kept: &Kept) -> Result<(), StoreError> {
        self.0.compare_and_set(name(key), Some(kept.version), None).await.map(|_| ())
    }
}

fn name(key: &TaskId) -> EntryKey<'_> {
    EntryKey::of_server("http-job", key.as_str())
}

fn write(known: &Known) -> Vec<u8> {
    serde_json::to_vec(known).expect("texts and numbers are JSON")
}

/// One that cannot be read is of a later release: it has begun, and that is all there is to say.
fn read(bytes: &[u8]) -> Known {
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        tracing::warn!(%error, "what is known of a job cannot be read");
        Known::now()
    })
}

/// The time that nodes share.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

const OVER: Duration = Duration::from_secs(30 * 24 * 3600);
