//! Joining a call that is open already: a second call of the same owner with the same arguments waits for
//! the first instead of running again.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_store::{Digest, Outcome, Owner, Scope, TaskId};
use tokio::sync::watch;

use super::Inner;
use super::call::{Answer, Waiter};
use crate::machine::Refusal;

/// How far the call that others may join has come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Nothing of it is on disk.
    Loose,
    /// It is this task.
    Durable(TaskId),
    /// It has ended so.
    Ended(Outcome),
    /// It was not begun.
    Refused(Refusal),
}

/// The calls of this node that others may join. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Joins(Arc<Mutex<Open>>);

type Open = HashMap<(Owner, Digest), watch::Receiver<Stage>>;

impl Joins {
    /// The open call to join, or the right to be it, found at `first`.
    pub(super) fn join_or_lead(
        &self,
        owner: &Owner,
        digest: Digest,
        first: Stage,
    ) -> Result<Lead, watch::Receiver<Stage>> {
        let mut joins = self.lock();
        let key = (owner.clone(), digest);
        let is_open = |stage: &Stage| matches!(stage, Stage::Loose | Stage::Durable(_));
        if let Some(stage) = joins.get(&key).filter(|stage| is_open(&stage.borrow())) {
            return Err(stage.clone());
        }
        let (stage, receiver) = watch::channel(first);
        joins.insert(key.clone(), receiver);
        Ok(Lead { joins: self.clone(), key, stage })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call that others may join. Once it is dropped a later call runs anew.
#[derive(Debug)]
pub(super) struct Lead {
    joins: Joins,
    key: (Owner, Digest),
    stage: watch::Sender<Stage>,
}

impl Lead {
    /// It is this task now.
    pub(super) fn durable(&self, id: &TaskId) {
        self.stage.send_replace(Stage::Durable(id.clone()));
    }

    pub(super) fn ended(&self, outcome: &Outcome) {
        self.stage.send_replace(Stage::Ended(outcome.clone()));
    }

    pub(super) fn refused(&self, refusal: &Refusal) {
        self.stage.send_replace(Stage::Refused(refusal.clone()));
    }

    /// Whether another call waits for this one's end. The register holds one receiver itself.
    pub(super) fn is_joined(&self) -> bool {
        self.stage.receiver_count() > 1
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut joins = self.joins.lock();
        if joins.get(&self.key).is_some_and(|known| known.same_channel(&self.stage.subscribe())) {
            joins.remove(&self.key);
        }
    }
}

/// Waits with `waiter` for the end of an open call. Once `hold` has passed, or the process is about to go, it is
/// handed over to the task, if the call is one by then or when it becomes one.
pub(super) async fn wait_for(
    inner: Arc<Inner>,
    mut open: watch::Receiver<Stage>,
    hold: Option<Duration>,
    mut waiter: Waiter,
) {
    let mut patience = pin!(async {
        match hold {
            Some(hold) => tokio::select! {
                () = inner.environment.sleep(hold) => {}
                () = inner.draining() => {}
            },
            None => inner.draining().await,
        }
    });
    let mut patient = true;
    loop {
        let task = match open.borrow_and_update().clone() {
            Stage::Ended(outcome) => return waiter.tell(Answer::Outcome(outcome)),
            Stage::Refused(refusal) => return waiter.tell(Answer::Refused(refusal)),
            Stage::Durable(id) if !patient => Some(id),
            Stage::Durable(_) | Stage::Loose => None,
        };
        if let Some(id) = &task {
            match inner.store.get(Scope::Operator, id).await {
                Ok(Some(record)) => return waiter.tell(Answer::HandOver(Box::new(record))),
                // Forgotten as soon as it ended: its end is about to be told.
                Ok(None) => {}
                Err(error) => tracing::warn!(task = %id, %error, "a task could not be read"),
            }
        }
        tokio::select! {
            changed = open.changed() => if changed.is_err() {
                let gone = Outcome::lost("the call it waited for ended without an answer");
                return waiter.tell(Answer::Outcome(gone));
            },
            () = waiter.gone() => return,
            () = &mut patience, if patient => patient = false,
            () = inner.environment.sleep(LOOK_AGAIN), if task.is_some() => {}
        }
    }
}

/// How long to wait before looking for a task again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
