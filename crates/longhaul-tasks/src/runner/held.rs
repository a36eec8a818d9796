//! The tasks this node works on, and their leases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_store::{Epoch, TaskId};

use super::Inner;
use super::control::{Control, Controls};

/// The tasks this node holds, with how to reach their runs; and how many callers wait.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    tasks: HashMap<TaskId, (Epoch, Controls)>,
    waiting: usize,
}

impl Held {
    pub(super) fn add(&self, id: TaskId, epoch: Epoch, control: Controls) {
        self.lock().tasks.insert(id, (epoch, control));
    }

    /// The run behind `control` holds the task no longer; another that holds it since is left alone.
    pub(super) fn remove(&self, id: &TaskId, control: &Controls) {
        let mut state = self.lock();
        if state.tasks.get(id).is_some_and(|(_, holder)| holder.same(control)) {
            state.tasks.remove(id);
        }
    }

    /// Whether a run of this node has the task, which a claim has brought in again: its lease had run out
    /// while the process stood still. The run looks at it and goes on.
    pub(super) fn has(&self, id: &TaskId) -> bool {
        let state = self.lock();
        let Some((_, control)) = state.tasks.get(id) else { return false };
        control.tell(Control::LookAgain);
        true
    }

    pub(super) fn waits(&self) {
        self.lock().waiting += 1;
    }

    pub(super) fn waits_no_more(&self) {
        let mut state = self.lock();
        state.waiting = state.waiting.saturating_sub(1);
    }

    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    fn leases(&self) -> Vec<(TaskId, Epoch)> {
        self.lock().tasks.iter().map(|(id, (epoch, _))| (id.clone(), *epoch)).collect()
    }

    fn fence(&self, id: &TaskId) {
        if let Some((_, control)) = self.lock().tasks.get(id) {
            control.tell(Control::LookAgain);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews every lease of this node, for ever.
///
/// A renewal that fails is tried again soon: a lease lasts for three.
pub(super) async fn renew_leases(inner: Arc<Inner>) {
    let mut pause = inner.pace.renew_every;
    loop {
        inner.environment.sleep(pause).await;
        pause = inner.pace.renew_every;
        let leases = inner.held.leases();
        if leases.is_empty() {
            continue;
        }
        match inner.store.renew(&leases).await {
            Ok(fenced) => fenced.iter().for_each(|id| inner.held.fence(id)),
            Err(error) => {
                tracing::warn!(%error, "leases could not be renewed");
                pause = inner.pace.renew_every / 10;
            }
        }
    }
}
