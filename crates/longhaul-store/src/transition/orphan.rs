//! Tasks for which nobody comes back.

use super::cancel;
use crate::{NewTask, OnOrphan, Record, Settings, Spell, SpellOver, Time};

/// When a new task is an orphan, if nobody comes back for it; never if it ends before by itself.
pub(super) fn expect_owner(record: &mut Record, task: &NewTask, now: Time) {
    let Some(rule) = task.orphan else { return };
    wait_until(record, now.after(rule.grace));
    record.on_orphan = rule.then;
}

/// Whoever worked on the task is gone, and perhaps nobody could come back for it meanwhile: its owner has as long again.
pub(super) fn wait_anew(record: &mut Record, now: Time) {
    if let Some(at) = record.orphan_at {
        let grace = at.since(waits_since(record));
        wait_until(record, at.max(now.after(grace)));
    }
}

/// Since when its owner is waited for: since a node took the task from one that was gone, or since it was made.
fn waits_since(record: &Record) -> Time {
    let was_lost = |pair: &&[Spell]| {
        matches!(pair[0].over, Some(SpellOver::Lost(_))) && pair[0].nth.saturating_add(1) == pair[1].nth
    };
    record.spells.windows(2).rev().find(was_lost).map_or(record.created_at, |pair| pair[1].from)
}

fn wait_until(record: &mut Record, at: Time) {
    record.orphan_at = Some(at).filter(|at| record.expires_at.is_none_or(|end| *at < end));
}

/// Notes that the owner of an open task has come back for it; `false` if that changes nothing: that is known, or it has ended.
pub fn came_back(record: &mut Record, now: Time) -> bool {
    if record.is_terminal() || record.came_back_at.is_some() {
        return false;
    }
    record.orphan_at = None;
    record.came_back_at = Some(now);
    true
}

/// Finds out that nobody has come back for an open task in time, and does what was to be done then; `None` if there is still
/// time or somebody came. Each task is an orphan once.
pub fn orphan(record: &mut Record, now: Time, settings: &Settings) -> Option<OnOrphan> {
    record.orphan_at.take_if(|at| *at <= now)?;
    if record.on_orphan == OnOrphan::Cancel {
        cancel(record, Some(NOBODY_CAME), now, settings);
    }
    Some(record.on_orphan)
}

/// Why an orphan is cancelled.
const NOBODY_CAME: &str = "nobody has asked after it";
