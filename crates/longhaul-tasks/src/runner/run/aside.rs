//! Work that is put aside: while it only waits, and when this process goes.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{Record, Rerun};

use super::{Done, Run, batch};
use crate::runner::keeper::Keeper;
use crate::runner::operation::{give_back, look, put_aside};
use crate::runner::recovery::wake;
use crate::runner::undo;

impl Run {
    /// A task that was put aside may be due already, for what it waits for came in between.
    pub(super) async fn leave_parked(self: Box<Self>) {
        let (inner, id) = (Arc::clone(&self.listed.inner), self.listed.id.clone());
        drop(self);
        if let Done::Seen(Some(record)) = look(Arc::clone(&inner), id).await {
            wake(&inner, &record).await;
        }
    }

    /// The task has ended, whoever ended it, and its work is over: what it did is undone from now on.
    pub(super) async fn leave_to_be_undone(self: Box<Self>, record: Arc<Record>) {
        let this = *self;
        undo::begin(this.listed, &record).await;
    }

    /// Puts the task aside, if its caller has it and nothing else is under way.
    pub(super) fn park(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        match keeper.idle() {
            Some(park) if self.operation.is_none() && self.machine.is_answered() => {
                let batch = batch(self.reports.latest()).with_park(park);
                let (inner, id) = (Arc::clone(&self.listed.inner), self.listed.id.clone());
                // Before it is put aside: whoever takes it up must not take this run for one that goes on.
                self.listed.leave();
                self.operation = Some(put_aside(inner, id, self.epoch, batch));
            }
            _ => {}
        }
    }

    /// The keeper of work that can be entered again, once there is a row.
    fn re_entrant(&self) -> Option<Keeper> {
        let record = self.record.as_ref()?;
        self.keeper.clone().filter(|_| matches!(record.rerun, Rerun::Resumable | Rerun::Restart))
    }

    /// Gives the task back once no effect is under way: the next node enters its work again.
    pub(super) fn leave_soon(&mut self) {
        if let Some(keeper) = self.re_entrant() {
            self.leaving = Some(Box::pin(async move { keeper.quiet().await }));
        }
    }

    pub(super) fn give_back(&mut self) {
        self.leaving = None;
        if self.operation.is_some() || !self.machine.is_answered() || self.work.is_none() {
            // Its caller is let go first, and what is being written is written.
            let (pause, keeper) = (self.listed.inner.environment.sleep(AGAIN), self.keeper.clone());
            self.leaving = Some(Box::pin(async move {
                pause.await;
                if let Some(keeper) = keeper {
                    keeper.quiet().await;
                }
            }));
            return;
        }
        let (inner, id) = (Arc::clone(&self.listed.inner), self.listed.id.clone());
        self.listed.leave();
        self.operation = Some(give_back(inner, id, self.epoch));
    }

    /// Looks out for what the work lets go of, and for work that does nothing but wait, where it can be entered again.
    pub(super) fn watch_for_idleness(&mut self) {
        if let Some(keeper) = self.keeper.clone() {
            let hot = self.re_entrant().map(|_| self.listed.inner.pace.hot_wait);
            self.idle = Some(Box::pin(async move { keeper.idled(hot).await }));
        }
    }
}

/// How soon to see again whether a task can be given back.
const AGAIN: Duration = Duration::from_millis(10);
