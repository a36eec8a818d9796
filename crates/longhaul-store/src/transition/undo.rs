//! What becomes of a task that ended without success while something was owed: it is undone, and nobody sees it.
//!
//! Of such a task nothing changes that a caller can see. Whoever undoes it holds a lease on it, as whoever works on one
//! does: it is renewed, given back, and lost in the same ways.

use super::{Kept, Noted, take_steps};
use crate::{
    Batch, Epoch, Lease, Limits, NodeId, Outcome, Park, Record, Settings, Step, StepState, StoreError, Time,
    Undo, UndoPhase,
};

/// The task has ended just now. `fenced`: by whom it was worked on who has not heard of that; until this lease is over,
/// or given back, nothing is undone, for what is to be undone may still be done.
pub(super) fn begin(record: &mut Record, fenced: Option<Lease>, ended: Time, settings: &Settings) {
    let has_succeeded = record.outcome().is_some_and(Outcome::is_success);
    if has_succeeded || record.owed == 0 {
        return;
    }
    let phase = match fenced {
        Some(lease) => UndoPhase::Running { lease },
        None => UndoPhase::Queued { not_before: ended },
    };
    let until = Some(ended.after(settings.undo_retention));
    record.undo = Some(Undo { phase, until, attempt: 0, failed: 0 });
}

/// Whether anyone may take the task now, to undo it.
pub(super) fn is_claimable(undo: &Undo, now: Time, is_dead: &dyn Fn(&NodeId) -> bool) -> bool {
    undo.until.is_some_and(|until| until > now)
        && match &undo.phase {
            UndoPhase::Queued { not_before } => *not_before <= now,
            UndoPhase::Running { lease } => lease.until <= now || is_dead(&lease.node),
            UndoPhase::Done => false,
        }
}

pub(super) fn start(record: &mut Record, by: &NodeId, now: Time, settings: &Settings) {
    // A node that claims back what it held stood still, and has lost nothing: its attempt goes on.
    let goes_on = record.lease().is_some_and(|lease| lease.node == *by);
    if let Some(undo) = &mut record.undo {
        undo.phase = UndoPhase::Running { lease: Lease::new(by.clone(), now.after(settings.lease)) };
        undo.attempt = undo.attempt.saturating_add(u32::from(!goes_on)).max(1);
        record.epoch = record.epoch.next();
    }
}

/// Whether a node holds the task at this epoch, to undo it.
pub(super) fn is_held(record: &Record, epoch: Epoch) -> bool {
    record.epoch == epoch
        && record.undo.as_ref().is_some_and(|undo| matches!(undo.phase, UndoPhase::Running { .. }))
}

pub(super) fn renew(record: &mut Record, now: Time, settings: &Settings) {
    if let Some(Undo { phase: UndoPhase::Running { lease }, .. }) = &mut record.undo {
        lease.until = lease.until.max(now.after(settings.lease));
    }
}

pub(super) fn release(record: &mut Record, now: Time) {
    if let Some(undo) = &mut record.undo {
        (undo.phase, undo.attempt) = (UndoPhase::Queued { not_before: now }, undo.attempt.saturating_sub(1));
        record.epoch = record.epoch.next();
    }
}

/// Takes what was owed and is done, and nothing else. Put aside, the task is due again at its time, and the attempt was
/// one.
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
    let Some(undo) = &mut record.undo else { return Ok(noted) };
    undo.failed = undo.failed.saturating_add(u32::try_from(failed).unwrap_or(u32::MAX));
    if !noted.steps.is_empty() {
        // It gets on: what ends processes is charged to the next step alone.
        undo.attempt = 1;
    }
    if owed == 0 {
        (undo.phase, undo.until) = (UndoPhase::Done, None);
    } else if let Some(Park { until, .. }) = &batch.park {
        undo.phase = UndoPhase::Queued { not_before: until.unwrap_or(now) };
        record.epoch = record.epoch.next();
    }
    Ok(noted)
}
