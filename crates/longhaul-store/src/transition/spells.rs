//! Who works on a task, from when on and until when.
//!
//! A task that is claimed as it is created, and ends so, has no spell written down: it began with its task.

use crate::{NodeId, Record, Spell, SpellOver, Time};

/// The most that are kept: the first, and the latest.
const MOST_SPELLS: usize = 16;

/// A node begins to work on a task that nobody works on any more.
pub(super) fn begin(record: &mut Record, by: &NodeId, now: Time) {
    let nth = record.spells.last().map_or(1, |last| last.nth.saturating_add(1));
    if record.spells.len() == MOST_SPELLS {
        record.spells.remove(1);
    }
    record.spells.push(Spell { nth, node: by.clone(), from: now, over: None });
}

/// Whoever works on it does so no more. Must be told before that shows in the record.
pub(super) fn end(record: &mut Record, over: SpellOver) {
    if record.spells.is_empty()
        && let Some(lease) = record.lease()
    {
        let (by, from) = (lease.node.clone(), record.created_at);
        begin(record, &by, from);
    }
    if let Some(last) = record.spells.last_mut() {
        last.over.get_or_insert(over);
    }
}

/// A node takes the task from another, if another had it.
pub(super) fn lose(record: &mut Record, now: Time) {
    if let Some(until) = record.lease().map(|lease| lease.until) {
        end(record, SpellOver::Lost(until.min(now)));
    }
}
