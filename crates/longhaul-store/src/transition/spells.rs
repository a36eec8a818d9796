//! Who works on a task, from when on and until when.
//!
//! A task that is claimed as it is created, and ends so, has no spell written down: it began with its task.

use crate::{Epoch, NodeId, Record, Spell, SpellOver, Time};

/// The most that are kept: the first, and the latest.
const MOST_SPELLS: usize = 16;

/// A node begins to work on a task that nobody works on any more.
pub(super) fn begin(record: &mut Record, by: &NodeId, now: Time) {
    if let Some(last) = record.spells.last_mut() {
        // A node that knows of no spells has put the task aside.
        last.over.get_or_insert(SpellOver::Lost(now));
    }
    let nth = record.spells.last().map_or(1, |last| last.nth.saturating_add(1));
    if record.spells.len() == MOST_SPELLS {
        record.spells.remove(1);
    }
    record.spells.push(Spell { nth, node: by.clone(), from: now, over: None });
}

/// Whoever works on it does so no more. Must be told before that shows in the record.
pub(super) fn end(record: &mut Record, over: SpellOver) {
    // Later ones are written down, unless by a node that knows of none: nothing is made up for it.
    if record.spells.is_empty()
        && record.epoch == Epoch::FIRST
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

#[cfg(test)]
mod tests {
    use crate::{Json, Lease, Owner, Phase, TaskId};

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_unix_ms(seconds * 1000)
    }

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    /// A task that a node has since its first second.
    fn held() -> Record {
        let id = TaskId::new("t").unwrap();
        let mut record = Record::new(id, Owner::Anonymous, "build", Json::null(), Json::null(), at(1));
        record.phase = Phase::Running { lease: Lease::new(node("a"), at(9)) };
        record.epoch = Epoch::FIRST;
        record
    }

    #[test]
    fn a_spell_that_an_older_node_left_open_is_over_when_the_next_begins() {
        let mut record = held();
        begin(&mut record, &node("a"), at(2));
        begin(&mut record, &node("b"), at(7));
        let spells: Vec<_> = record.spells.iter().map(|spell| (spell.nth, spell.from, spell.over)).collect();
        assert_eq!(spells, [(1, at(2), Some(SpellOver::Lost(at(7)))), (2, at(7), None)]);
    }

    #[test]
    fn of_a_task_that_an_older_node_has_worked_on_nothing_is_made_up() {
        let mut first = held();
        end(&mut first, SpellOver::Aside(at(5)));
        assert_eq!(first.spells.len(), 1);
        let mut later = held();
        later.epoch = Epoch::FIRST.next();
        end(&mut later, SpellOver::Aside(at(5)));
        assert_eq!(later.spells, []);
    }
}
