//! Work that is asked to end.

use std::sync::Arc;

use longhaul_store::Outcome;

use super::Keeper;

impl Keeper {
    /// The work is asked to end, for this reason; says whether it had not been before.
    pub(in super::super) fn be_asked_to_end(&self, reason: &Arc<str>) -> bool {
        self.change(|state| {
            let is_new = state.asked_to_end.is_none();
            state.asked_to_end.get_or_insert_with(|| Arc::clone(reason));
            is_new
        })
    }

    /// Whether the work is asked to end.
    pub fn is_asked_to_end(&self) -> bool {
        self.lock().asked_to_end.is_some()
    }

    /// Completes once the work is asked to end.
    pub async fn asked_to_end(&self) {
        loop {
            let news = self.0.news.notified();
            if self.is_asked_to_end() {
                return;
            }
            news.await;
        }
    }

    /// The work ends for being asked to, if it is; says whether it is.
    pub fn give_up(&self) -> bool {
        self.change(|state| {
            state.gave_up = state.asked_to_end.is_some();
            state.gave_up
        })
    }

    /// What the task of work that has [given up](Self::give_up) comes to.
    pub fn given_up(&self) -> Option<Outcome> {
        let state = self.lock();
        let reason = state.asked_to_end.as_ref().filter(|_| state.gave_up)?;
        Some(Outcome::cancelled(Some(Arc::clone(reason)).filter(|reason| !reason.is_empty())))
    }
}
