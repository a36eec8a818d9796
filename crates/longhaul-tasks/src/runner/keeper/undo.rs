//! The journal of a task that is undone: what it owes, and how the work has said that this is done.

use std::sync::Arc;

use longhaul_store::{Record, Step, StepState, Time};

use super::{Keeper, Shared, Standing, StepError};
use crate::environment::BoxFuture;

/// Undoes a step, as often as it is called: each time with what came of it, or why it failed.
pub type Undoing = Box<dyn FnMut() -> BoxFuture<'static, Result<(), String>> + Send>;

impl Keeper {
    /// The journal of a task that has failed, whose work is entered to learn how it is undone: it is given what it has
    /// learnt, and does nothing anew.
    pub(in super::super) fn undo(steps: Vec<Step>, record: &Record) -> Self {
        let (version, epoch) = (record.version.clone(), record.epoch);
        let shared = Shared { entered_again: true, undoing: true, version, ..Shared::default() };
        let _once = shared.id.set(record.id.clone());
        let this = Self(Arc::new(shared));
        let mut state = this.lock();
        steps.into_iter().for_each(|step| state.put(step));
        state.standing = Standing::Held(epoch);
        drop(state);
        this
    }

    /// The keys of what is owed, the latest first.
    pub(in super::super) fn owed(&self) -> Vec<Arc<str>> {
        let state = self.lock();
        let owed = state.steps.iter().filter(|step| matches!(step.state, StepState::Owed));
        owed.rev().map(|step| Arc::clone(&step.key)).collect()
    }

    /// Completes once the work has said how all that is owed is undone.
    pub(in super::super) async fn is_all_known(&self) {
        loop {
            let news = self.0.news.notified();
            let owed = self.owed();
            if owed.iter().all(|key| self.lock().undo.contains_key(key)) {
                return;
            }
            news.await;
        }
    }

    /// How the work has said that this is undone.
    pub(in super::super) fn take_undoing(&self, key: &str) -> Option<Undoing> {
        self.lock().undo.remove(key)
    }

    /// Records that what is owed under `key` is done, which `began` then, or will not be.
    ///
    /// # Errors
    ///
    /// Whatever [`StepError`] there is.
    pub(in super::super) async fn record_undone(
        &self,
        key: &str,
        state: StepState,
        began: Time,
    ) -> Result<(), StepError> {
        let Some(of) = self.what_is(key) else { return Err(StepError::diverged(key)) };
        self.write(None, vec![Step::new(key, of, state).between(Some(began), None)], None).await.map(drop)
    }

    /// Whether the work is entered to learn how what it did is undone: it must do nothing anew, and waits where it has
    /// learnt nothing.
    pub fn is_undoing(&self) -> bool {
        self.0.undoing
    }

    /// Says how the step is undone that is owed under `key`.
    pub fn undo_by(&self, key: &str, undoing: Undoing) {
        self.change(|state| drop(state.undo.insert(key.into(), undoing)));
    }
}
