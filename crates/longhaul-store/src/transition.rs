//! Every change a task can go through, as functions of the record and the time.
//!
//! One that fails may leave the record half changed: whoever keeps records throws that one away.
//!
//! No I/O, clock or lock: a backend brings the record here inside its own transaction and writes back what comes
//! out. A terminal record never leaves any of these changed as a caller sees it (G4), but for being
//! [erased](erase()): only how far it is undone changes. And [`Record::seq`] is the backend's to number.

mod children;
mod orphan;
mod parts;
mod spells;
mod steps;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Batch, Epoch, Lease, Limits, NewTask, NodeId, Outcome, Phase, Progress, Record, Retention, Settings,
    SpellOver, Start, Step, StoreError, Time,
};

pub use children::{Spawned, end_with_parent, hear, spawn};
pub use orphan::{came_back, orphan};
pub use steps::{Noted, answer, take_steps};

/// What is kept of a task beside its record, which a report is held against.
pub trait Kept {
    /// The step under this key.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    fn step(&mut self, key: &str) -> Result<Option<Step>, StoreError>;

    /// Whether a part was given under this key.
    ///
    /// # Errors
    ///
    /// Those of the backend.
    fn has_part(&mut self, key: &str) -> Result<bool, StoreError>;
}

/// Of a task that is new.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NothingKept;

impl Kept for NothingKept {
    fn step(&mut self, _: &str) -> Result<Option<Step>, StoreError> {
        Ok(None)
    }

    fn has_part(&mut self, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Makes the record of a new task, and what becomes of its steps; checks sizes only, for counts are the
/// backend's to know.
///
/// # Errors
///
/// [`StoreError::TooLarge`]; for its steps [`StoreError::Overloaded`] and [`StoreError::Recorded`].
pub fn create(
    task: &NewTask,
    by: &NodeId,
    now: Time,
    settings: &Settings,
) -> Result<(Record, Noted), StoreError> {
    let limits = &settings.limits;
    fits("the tool's name", task.tool.len(), limits.max_text)?;
    fits("arguments", task.arguments.as_str().len(), limits.max_arguments)?;
    fits("caller data", task.caller.as_str().len(), limits.max_caller)?;
    fits("the status message", text_len(task.status_message.as_ref()), limits.max_text)?;
    let mut record = Record::new(
        task.id.clone(),
        task.owner.clone(),
        task.tool.clone(),
        task.arguments.clone(),
        task.caller.clone(),
        now,
    );
    record.share = task.counted_share().filter(|_| limits.tells_strangers_apart());
    record.version.clone_from(&task.version);
    record.host.clone_from(&task.host);
    record.rerun = task.rerun;
    record.dialect = task.dialect;
    record.retention = task.retention;
    record.expires_at = match task.retention {
        Retention::FromCreation(ttl) => Some(now.after(ttl)),
        Retention::AfterTerminal(_) | Retention::Unlimited => None,
    };
    record.cancel_grace = task.cancel_grace.map(whole_millis);
    orphan::expect_owner(&mut record, task, now);
    record.join = task.join_digest().copied();
    record.once.clone_from(&task.once);
    record.status_message.clone_from(&task.status_message);
    record.poll_interval_ms = task.poll_interval_ms;
    match task.start {
        Start::Claimed => start(&mut record, by, now, settings),
        Start::Queued { not_before } => record.phase = Phase::Queued { not_before },
    }
    let noted = take_steps(&mut record, &[], &task.steps, &mut NothingKept, now, limits)?;
    Ok((record, noted))
}

/// Whether anyone may take the task now: queued or parked and due, or its holder dead or overdue; or ended, to be
/// undone, and the same of that. A task whose time is up is not worth starting.
pub fn is_claimable(record: &Record, now: Time, is_dead: &dyn Fn(&NodeId) -> bool) -> bool {
    if let Some(undo) = &record.undo {
        return undo::is_claimable(undo, now, is_dead);
    }
    if record.expires_at.is_some_and(|at| at <= now) {
        return false;
    }
    match &record.phase {
        Phase::Queued { not_before } => *not_before <= now,
        Phase::Parked { until } => until.is_some_and(|until| until <= now),
        Phase::Running { lease } => lease.until <= now || is_dead(&lease.node),
        Phase::Done(_) => false,
    }
}

/// Gives the task to `by` if anyone may take it; tells whether it is theirs.
pub fn claim(
    record: &mut Record,
    by: &NodeId,
    now: Time,
    settings: &Settings,
    is_dead: &dyn Fn(&NodeId) -> bool,
) -> bool {
    if !is_claimable(record, now, is_dead) {
        return false;
    }
    if record.is_terminal() {
        undo::start(record, by, now, settings);
        return true;
    }
    let begins = !record.started;
    if record.lease().is_some_and(|lease| lease.node != *by) {
        orphan::wait_anew(record, now);
        spells::lose(record, now);
    }
    if record.lease().is_none_or(|lease| lease.node != *by) {
        spells::begin(record, by, now);
    }
    start(record, by, now, settings);
    // Who works on it is nobody's to see, but that somebody has begun is.
    if begins {
        touch(record, now);
        record.status_changed_at = record.updated_at;
    }
    true
}

/// Prolongs the lease. Nobody can see it, so nothing else changes.
///
/// # Errors
///
/// [`StoreError::Fenced`].
pub fn renew(record: &mut Record, epoch: Epoch, now: Time, settings: &Settings) -> Result<(), StoreError> {
    if undo::is_held(record, epoch) {
        undo::renew(record, now, settings);
        return Ok(());
    }
    let lease = held(record, epoch)?;
    lease.until = lease.until.max(now.after(settings.lease));
    Ok(())
}

/// Puts the task back in the queue as if this claim had not been; the epoch rises all the same.
///
/// # Errors
///
/// [`StoreError::Fenced`].
pub fn release(record: &mut Record, epoch: Epoch, now: Time) -> Result<(), StoreError> {
    if undo::is_held(record, epoch) {
        undo::release(record, now);
        return Ok(());
    }
    held(record, epoch)?;
    spells::end(record, SpellOver::Back(now));
    record.phase = Phase::Queued { not_before: now };
    record.attempt = record.attempt.saturating_sub(1);
    record.epoch = record.epoch.next();
    Ok(())
}

/// Whether a worker holds the task at this epoch.
///
/// # Errors
///
/// [`StoreError::Fenced`].
pub fn check_held(record: &Record, epoch: Epoch) -> Result<(), StoreError> {
    match &record.phase {
        Phase::Running { .. } if record.epoch == epoch => Ok(()),
        _ if undo::is_held(record, epoch) => Ok(()),
        _ => Err(StoreError::Fenced { id: record.id.clone(), held: epoch }),
    }
}

/// Applies a worker's report, of which a task that is undone takes the steps alone, and when it goes on.
///
/// # Errors
///
/// [`StoreError::Fenced`], [`StoreError::TooLarge`]; for its steps and parts [`StoreError::Overloaded`], for its steps
/// [`StoreError::Recorded`].
pub fn write(
    record: &mut Record,
    epoch: Epoch,
    batch: &Batch,
    kept: &mut dyn Kept,
    now: Time,
    limits: &Limits,
) -> Result<Written, StoreError> {
    if undo::is_held(record, epoch) {
        let noted = undo::write(record, batch, kept, now, limits)?;
        return Ok(Written { changed: !noted.is_empty() || batch.park.is_some(), noted });
    }
    held(record, epoch)?;
    batch_fits(batch, limits)?;
    let noted = note(record, batch, kept, now, limits)?;
    let said = apply(record, batch);
    if said {
        touch(record, now);
    }
    let bound = batch.host.as_ref().filter(|_| record.host.is_none()).cloned();
    let is_bound = bound.is_some();
    record.host = record.host.take().or(bound);
    let attempt = batch.attempt.unwrap_or(record.attempt);
    let is_charged = attempt != std::mem::replace(&mut record.attempt, attempt);
    if let Some(park) = &batch.park {
        steps::park(record, park, kept, now)?;
    }
    let changed = said || is_bound || is_charged || !noted.is_empty() || batch.park.is_some();
    Ok(Written { changed, noted })
}

/// What a worker's report has come to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Written {
    /// Whether it said anything new.
    pub changed: bool,
    /// What becomes of the task's steps, and its new parts.
    pub noted: Noted,
}

/// Ends the task with the worker's outcome and last report, and gives what becomes of its steps and parts; `None` if it had ended
/// before, which changes nothing.
///
/// # Errors
///
/// Those of [`write()`].
pub fn finish(
    record: &mut Record,
    epoch: Epoch,
    outcome: &Outcome,
    last: &Batch,
    kept: &mut dyn Kept,
    now: Time,
    settings: &Settings,
) -> Result<Option<Noted>, StoreError> {
    if record.is_terminal() {
        return Ok(None);
    }
    held(record, epoch)?;
    fits("the outcome", outcome.len(), settings.limits.max_outcome)?;
    batch_fits(last, &settings.limits)?;
    let noted = note(record, last, kept, now, &settings.limits)?;
    apply(record, last);
    // Its work is over.
    end(record, outcome.clone(), None, now, settings);
    Ok(Some(noted))
}

/// Ends the task as cancelled and fences its worker; `false` if it had ended before, which changes nothing.
///
/// A reason longer than [`Limits::max_text`] is cut there: a cancel must not fail for its words.
pub fn cancel(record: &mut Record, reason: Option<&str>, now: Time, settings: &Settings) -> bool {
    if record.is_terminal() {
        return false;
    }
    let reason = reason.map(|words| cut(words, settings));
    end(record, Outcome::cancelled(reason), record.lease().cloned(), now, settings);
    record.epoch = record.epoch.next();
    true
}

/// What becomes of a task whose work is asked to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a backend does something else in each case")]
pub enum Asked {
    /// It is cancelled, for nothing of it is to be asked.
    Cancelled,
    /// Its work is asked, and has its time for it.
    Requested,
    /// It was asked before: its time goes on.
    Again,
    /// It had ended before.
    Over,
}

/// Asks the work of a task to end, which has its [grace](NewTask::cancel_grace) to decide how. What has none, or never
/// began, is [cancelled](cancel()) at once. What was put aside is due, so that its work hears of it.
///
/// A reason is cut as by [`cancel()`].
pub fn ask_to_cancel(record: &mut Record, reason: Option<&str>, now: Time, settings: &Settings) -> Asked {
    if record.is_terminal() {
        return Asked::Over;
    }
    if record.cancelling.is_some() {
        return Asked::Again;
    }
    let Some(grace) = record.cancel_grace.filter(|_| record.started) else {
        cancel(record, reason, now, settings);
        return Asked::Cancelled;
    };
    record.cancelling = Some(cut(reason.unwrap_or_default(), settings));
    let (until, before) = (now.after(grace), record.expires_at);
    record.expires_at = Some(before.map_or(until, |at| at.min(until)));
    record.orphan_at = None;
    if matches!(record.phase, Phase::Parked { .. }) {
        record.phase = Phase::Queued { not_before: now };
    }
    // All that its caller is told of it is how long it may go on.
    if record.expires_at != before {
        touch(record, now);
    }
    Asked::Requested
}

/// Makes a task due that was put aside; says whether it was.
pub fn make_due(record: &mut Record, now: Time) -> bool {
    let is_aside = matches!(record.phase, Phase::Parked { .. });
    if is_aside {
        record.phase = Phase::Queued { not_before: now };
    }
    is_aside
}

/// Lets a task that has ended be forgotten at once; whether that may take its payloads as well, which a task that is to be
/// undone needs until it is.
///
/// `None` if it has not ended, which changes nothing.
pub fn erase(record: &mut Record, now: Time) -> Option<bool> {
    if !record.is_terminal() {
        return None;
    }
    record.expires_at = Some(record.expires_at.map_or(now, |at| at.min(now)));
    Some(!record.is_undoing())
}

/// Until when the id of a task stays taken that is erased before its time: with its key if it has one, and else no longer than
/// until the next sweep, for nobody can ask for it again.
pub fn taken_until(record: &Record, now: Time, settings: &Settings) -> Time {
    if record.once.is_some() { now.after(settings.tombstone) } else { now }
}

/// Ends an open task whose time is up, or that of its work which was asked to end, and fences its worker; `false` if there is nothing to end.
pub fn expire(record: &mut Record, now: Time, settings: &Settings) -> bool {
    if record.is_terminal() || record.expires_at.is_none_or(|at| at > now) {
        return false;
    }
    let outcome = match &record.cancelling {
        Some(reason) => Outcome::cancelled(Some(Arc::clone(reason)).filter(|reason| !reason.is_empty())),
        None => Outcome::expired(),
    };
    end(record, outcome, record.lease().cloned(), now, settings);
    record.epoch = record.epoch.next();
    true
}

fn start(record: &mut Record, by: &NodeId, now: Time, settings: &Settings) {
    // A node that claims back what it held stood still, and has lost nothing: its attempt goes on.
    let goes_on = record.lease().is_some_and(|lease| lease.node == *by);
    record.phase = Phase::Running { lease: Lease::new(by.clone(), now.after(settings.lease)) };
    record.started = true;
    record.attempt = record.attempt.saturating_add(u32::from(!goes_on));
    record.epoch = record.epoch.next();
}

fn cut(words: &str, settings: &Settings) -> Arc<str> {
    Arc::from(&words[..words.floor_char_boundary(settings.limits.max_text)])
}

/// As every backend keeps it.
fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// `fenced`: the lease of whoever works on it, and has yet to hear of its end.
fn end(record: &mut Record, outcome: Outcome, fenced: Option<Lease>, now: Time, settings: &Settings) {
    record.phase = Phase::Done(outcome);
    record.questions.clear();
    // Its share is told once more to whoever has ended it, and kept by no store.
    record.orphan_at = None;
    // Not the date of this change, which may be a moment ahead so as to be its own: what is due from its end on is due now.
    let ended = now.max(record.created_at);
    record.terminal_at = Some(ended);
    touch(record, now);
    record.status_changed_at = record.updated_at;
    record.expires_at = match record.retention {
        Retention::FromCreation(ttl) => {
            Some(record.created_at.after(ttl).max(ended.after(settings.min_result_retention)))
        }
        Retention::AfterTerminal(keep) => Some(ended.after(keep)),
        Retention::Unlimited => None,
    };
    undo::begin(record, fenced, ended, settings);
}

/// A task's own dates never run backwards, whatever two nodes think the time is, and no two changes have the same: whoever
/// knows a task as of one date knows by the date whether it has changed.
fn touch(record: &mut Record, now: Time) {
    record.updated_at = now.max(record.updated_at.after(Duration::from_millis(1)));
}

fn held(record: &mut Record, epoch: Epoch) -> Result<&mut Lease, StoreError> {
    match &mut record.phase {
        Phase::Running { lease } if record.epoch == epoch => Ok(lease),
        _ => Err(StoreError::Fenced { id: record.id.clone(), held: epoch }),
    }
}

/// What becomes of what a report says that is kept beside the record.
fn note(
    record: &mut Record,
    batch: &Batch,
    kept: &mut dyn Kept,
    now: Time,
    limits: &Limits,
) -> Result<Noted, StoreError> {
    let mut noted = take_steps(record, &batch.forget, &batch.steps, kept, now, limits)?;
    noted.parts = parts::take_parts(record, &batch.parts, kept, now, limits)?;
    Ok(noted)
}

fn apply(record: &mut Record, batch: &Batch) -> bool {
    let before = (record.progress.clone(), record.status_message.clone());
    if let Some(new) = &batch.progress {
        record.progress = advanced(record.progress.take(), new);
    }
    if let Some(message) = &batch.status_message {
        record.status_message = Some(message.clone());
    }
    before != (record.progress.clone(), record.status_message.clone())
}

/// A value that is not greater than the last is dropped with its total (a replay starts at zero); its message
/// still says what is going on.
fn advanced(last: Option<Progress>, new: &Progress) -> Option<Progress> {
    // Adding zero turns -0, which not every backend can hold, into 0.
    let (value, total) =
        (new.value + 0.0, new.total.filter(|total| total.is_finite()).map(|total| total + 0.0));
    match last {
        _ if !value.is_finite() => last,
        None => Some(Progress { value, total, message: new.message.clone() }),
        Some(last) if value > last.value => {
            let message = new.message.clone().or(last.message);
            Some(Progress { value, total: total.or(last.total), message })
        }
        Some(last) => Some(Progress { message: new.message.clone().or(last.message), ..last }),
    }
}

fn batch_fits(batch: &Batch, limits: &Limits) -> Result<(), StoreError> {
    let message = batch.progress.as_ref().and_then(|progress| progress.message.as_ref());
    fits("the progress message", text_len(message), limits.max_text)?;
    fits("the status message", text_len(batch.status_message.as_ref()), limits.max_text)
}

fn text_len(text: Option<&Arc<str>>) -> usize {
    text.map_or(0, |text| text.len())
}

fn fits(what: &'static str, found: usize, limit: usize) -> Result<(), StoreError> {
    if found > limit { Err(StoreError::TooLarge { what, found, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
