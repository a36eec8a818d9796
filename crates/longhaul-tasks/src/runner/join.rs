//! Joining a call that is open already: a second call of the same owner with the same arguments waits for
//! the first instead of running again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_store::{Digest, Outcome, Owner, TaskId};
use tokio::sync::watch;

/// How far the call that others may join has come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Nothing of it is on disk.
    Loose,
    /// It is this task.
    Durable(TaskId),
    /// It has ended so.
    Ended(Outcome),
}

/// The calls of this node that others may join.
#[derive(Debug, Default)]
pub(super) struct Joins(Mutex<HashMap<(Owner, Digest), watch::Receiver<Stage>>>);

impl Joins {
    /// The open call to join, or the right to be it: then `stage` is what later calls see.
    pub(super) fn join_or_lead(
        &self,
        owner: &Owner,
        digest: Digest,
        first: Stage,
    ) -> Result<watch::Sender<Stage>, watch::Receiver<Stage>> {
        let mut joins = self.lock();
        let key = (owner.clone(), digest);
        // A sender that is gone left without an end: its call is not there to join.
        if let Some(stage) = joins.get(&key).filter(|stage| stage.has_changed().is_ok()) {
            return Err(stage.clone());
        }
        let (sender, receiver) = watch::channel(first);
        joins.insert(key, receiver);
        Ok(sender)
    }

    /// The call that led with `stage` has ended: a later one runs anew.
    pub(super) fn leave(&self, owner: &Owner, digest: Digest, stage: &watch::Sender<Stage>) {
        let (mut joins, key) = (self.lock(), (owner.clone(), digest));
        if joins.get(&key).is_some_and(|known| known.same_channel(&stage.subscribe())) {
            joins.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Owner, Digest), watch::Receiver<Stage>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
