//! What a node notes of a request whose answer it owes on a stream, so that another can answer once that node is gone; and how
//! nodes know that one is.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul_proto::jsonrpc::RequestId;
use longhaul_tasks::store::{EntryKey, Registry, StoreError, Value};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::session::new_id;
use crate::server::Again;

/// What is known elsewhere of a request that is answered on a stream.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Note {
    /// Which request it is.
    pub(super) id: RequestId,
    /// The node that owes the answer.
    pub(super) node: Arc<str>,
    /// What is done in its place.
    #[serde(default, skip_serializing_if = "Again::is_lost")]
    pub(super) again: Again,
    /// That node owes it no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_over: bool,
}

impl Note {
    /// The task that its call has become, and which is nobody else's: whoever cancels the call ends it.
    pub(super) fn own_task(&self) -> Option<&str> {
        match &self.again {
            Again::Followed { task, is_anothers: false, .. } => Some(task),
            _ => None,
        }
    }
}

/// As it is kept.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// A request that is answered here, as it is noted for others.
pub(super) struct Noting {
    id: RequestId,
    again: Option<watch::Receiver<Again>>,
    node: Arc<str>,
    _here: Arc<Here>,
    /// What else can be done is known by now, for better or worse.
    settled: bool,
    /// Others know what there was to note last.
    pub(super) is_noted: bool,
    /// They were told of a task that its call has become.
    pub(super) is_call_noted: bool,
}

impl fmt::Debug for Noting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noting").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Noting {
    /// It as it stands.
    pub(super) fn note(&mut self) -> Note {
        let again = self.again.as_mut().map(|again| {
            let found = again.borrow_and_update();
            self.is_noted &= !found.has_changed();
            found.clone()
        });
        let again = again.unwrap_or_default();
        Note { id: self.id.clone(), node: Arc::clone(&self.node), again, is_over: false }
    }

    /// Completes once there is more to note than there was.
    pub(super) async fn changed(&mut self) {
        if let Some(again) = self.again.as_mut().filter(|_| !self.settled) {
            if again.changed().await.is_ok() {
                self.is_noted = false;
                return;
            }
            self.settled = true;
        }
        std::future::pending().await
    }
}

/// The nodes that owe answers, each of which says that it is there for as long as it does.
#[derive(Debug)]
pub(super) struct Nodes {
    registry: Arc<dyn Registry>,
    name: Arc<str>,
    here: Mutex<Weak<Here>>,
    /// When this node has said last that it is there, as far as it knows.
    said: Arc<Mutex<Instant>>,
}

/// For as long as one is held, this node says that it is there.
#[derive(Debug)]
struct Here;

impl Nodes {
    pub(super) fn new(registry: Arc<dyn Registry>) -> Self {
        let said = Arc::new(Mutex::new(Instant::now()));
        Self { registry, name: new_id().into(), here: Mutex::default(), said }
    }

    /// That this node owes the answer to this request. `again` says what else can be done, once that is known.
    ///
    /// Must be called within a tokio runtime.
    pub(super) fn owe(&self, id: RequestId, again: Option<watch::Receiver<Again>>) -> Noting {
        let (node, here) = (Arc::clone(&self.name), self.stay());
        Noting { id, again, node, _here: here, settled: false, is_noted: false, is_call_noted: false }
    }

    fn stay(&self) -> Arc<Here> {
        let mut here = lock(&self.here);
        if let Some(here) = here.upgrade() {
            return here;
        }
        *lock(&self.said) = Instant::now();
        let stays = Arc::new(Here);
        *here = Arc::downgrade(&stays);
        let (registry, name, held) = (Arc::clone(&self.registry), Arc::clone(&self.name), here.clone());
        let last = Arc::clone(&self.said);
        tokio::spawn(async move {
            while held.strong_count() > 0 {
                let begun = Instant::now();
                match registry.put(EntryKey::of_server(KIND, &name), Value::lasting(b"", SAID)).await {
                    Ok(_) => *lock(&last) = begun,
                    Err(error) => {
                        tracing::debug!(%error, "other servers are not told now that this one is there");
                    }
                }
                sleep(EVERY).await;
            }
        });
        stays
    }

    /// Whether others may take this node for gone: it has stood still, or the store is out of reach.
    pub(super) fn may_be_missed(&self) -> bool {
        lock(&self.said).elapsed() >= GONE
    }

    /// As if this node had stood still for long.
    #[cfg(test)]
    pub(super) fn say_nothing(&self) {
        *lock(&self.said) = Instant::now() - GONE;
    }

    /// Whether the node that owes an answer has said within so long that it is there. What this node owes, it would be at: where it is
    /// looked for, it is not.
    pub(super) async fn is_there(&self, node: &str) -> Result<bool, StoreError> {
        if *node == *self.name {
            return Ok(false);
        }
        let said = self.registry.entry(EntryKey::of_server(KIND, node)).await?;
        Ok(said.is_some())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What these entries are.
const KIND: &str = "answering";

/// How often a node says that it is there.
const EVERY: Duration = Duration::from_secs(2);

/// How long what it has said holds.
const SAID: Duration = Duration::from_secs(6);

/// How long nobody must have said so for a node to be gone: it may have been kept from it by the store.
pub(super) const GONE: Duration = Duration::from_secs(4);

/// How often a stream in which nothing is said is renewed, with what was noted of it: as long as it is carried, neither is to be
/// forgotten.
pub(super) const RENEWED_EVERY: Duration = Duration::from_secs(300);
