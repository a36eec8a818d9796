//! The line for a place among the calls of a tool that may run at once.

use longhaul_store::Rerun;

use super::Run;
use crate::machine::Event;
use crate::runner::begin;

impl Run {
    /// Takes a place for the work, or waits for one.
    pub(super) fn admit(&mut self) {
        if self.place.is_some() {
            return self.happen(Event::Admitted);
        }
        let inner = &self.listed.inner;
        match inner.workers.admit(&self.tool, &self.reporter, inner.waits(&self.listed.id)) {
            Ok(place) => {
                self.place = place;
                self.happen(Event::Admitted);
            }
            Err(admission) => self.admission = Some(admission),
        }
    }

    /// The row is about to be written. Work that is never run twice may then stand in line for long: if there is no place for it, the
    /// row says that whoever claims the task begins it, and the work records that it begins before it does. If there is one it is
    /// taken, so that nothing more is written.
    pub(super) fn line_up(&mut self) {
        self.note.again = false;
        let workers = &self.listed.inner.workers;
        let is_once = self.new_task.as_deref().is_some_and(|task| task.rerun == Rerun::Never);
        if !is_once || !workers.limits(&self.tool) {
            return;
        }
        let Some(keeper) = self.keeper.clone().filter(|_| self.unstarted.is_some()) else { return };
        if self.admission.is_none() && self.place.is_none() {
            self.place = workers.free_place(&self.tool);
        }
        self.note.again = self.place.is_none();
        if self.note.again && !self.begins_once {
            self.begins_once = true;
            self.unstarted = self.unstarted.take().map(|work| begin::once(keeper, move || work));
        }
    }
}
