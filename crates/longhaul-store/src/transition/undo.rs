//! What becomes of a task that ended without success while something was owed: it is undone, and nobody sees it.
//!
//! Of such a task nothing changes that a caller can see. Whoever undoes it has a lease too: until then it is not due.

use super::{Kept, Noted, take_steps};
use crate::{Batch, Epoch, Limits, Outcome, Record, Settings, Step, StepState, StoreError, Time, Undo};

/// The task has just ended.
pub(super) fn begin(record: &mut Record, settings: &Settings) {
    let has_succeeded = record.outcome().is_some_and(Outcome::is_success);
    if has_succeeded || record.owed == 0 {
        return;
    }
    let ended = record.updated_at;
    record.undo = Some(Undo { due: Some(ended), ..Undo::default() });
    // It is not forgotten before, and not even its caller is told otherwise later.
    record.expires_at = record.expires_at.map(|at| at.max(ended.after(settings.undo_retention)));
}

pub(super) fn start(record: &mut Record, now: Time, settings: &Settings) {
    if let Some(undo) = &mut record.undo {
        undo.due = Some(now.after(settings.lease));
        undo.attempt = undo.attempt.saturating_add(1);
        record.epoch = record.epoch.next();
    }
}

/// Whether a node holds the task at this epoch, to undo it.
pub(super) fn is_held(record: &Record, epoch: Epoch) -> bool {
    record.is_undoing() && record.epoch == epoch && record.undo.as_ref().is_some_and(|undo| undo.attempt > 0)
}

pub(super) fn renew(record: &mut Record, now: Time, settings: &Settings) {
    if let Some(undo) = &mut record.undo {
        undo.due = undo.due.map(|due| due.max(now.after(settings.lease)));
    }
}

pub(super) fn release(record: &mut Record, now: Time) {
    if let Some(undo) = &mut record.undo {
        (undo.due, undo.attempt) = (Some(now), undo.attempt.saturating_sub(1));
        record.epoch = record.epoch.next();
    }
}

/// Takes what was owed and is done, and nothing else.
pub(super) fn write(
    record: &mut Record,
    batch: &Batch,
    kept: &mut dyn Kept,
    now: Time,
    limits: &Limits,
) -> Result<Noted, StoreError> {
    for step in &batch.steps {
        let owed = matches!(
            kept.step(&step.key)?.map(|known| known.state),
            Some(StepState::Owed | StepState::Learnt { .. })
        );
        if !owed {
            return Err(StoreError::Recorded { id: record.id.clone(), key: step.key.clone() });
        }
    }
    let noted = take_steps(record, &[], &batch.steps, kept, now, limits)?;
    let is_failed = |step: &&Step| matches!(step.state, StepState::Learnt { is_error: true, .. });
    let failed = noted.steps.iter().filter(is_failed).count();
    let owed = record.owed;
    if let Some(undo) = &mut record.undo {
        undo.failed = undo.failed.saturating_add(u32::try_from(failed).unwrap_or(u32::MAX));
        undo.due = undo.due.filter(|_| owed > 0);
        if !noted.steps.is_empty() {
            // It gets on: what ends processes is charged to the next step alone.
            undo.attempt = 1;
        }
    }
    Ok(noted)
}
