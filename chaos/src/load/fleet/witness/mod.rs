//! Who sees every change of every task as the database makes it, and by whom (I6): one node writes under an epoch, and what
//! was written for ever stays. PostgreSQL notes it by triggers, and a server of Redis tells whoever listens all that it does.

mod monitor;
mod triggers;

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::Result;

use super::Kind;
use monitor::Monitor;
use triggers::Triggers;
pub(super) use triggers::asked;

/// Whoever looks.
#[derive(Debug)]
pub(super) enum Witness {
    Postgres(Triggers),
    Redis(Monitor),
}

impl Witness {
    /// From now on every change is seen of the store that is there, by a way on which nothing fails.
    pub(super) fn begin(kind: Kind, address: SocketAddr, url: &str) -> Result<Self> {
        Ok(match kind {
            Kind::Postgres => Self::Postgres(Triggers::install(url)?),
            Kind::Redis => Self::Redis(Monitor::begin(address)?),
        })
    }

    /// All that was seen until now.
    pub(super) fn end(self) -> Result<Seen> {
        match self {
            Self::Postgres(triggers) => triggers.read(),
            Self::Redis(monitor) => monitor.end(),
        }
    }
}

/// Where a task stands, as far as fences are about it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Standing {
    epoch: u64,
    /// Who has a lease on it.
    holder: Option<String>,
    /// How it ended and when, in whatever words.
    end: Option<String>,
    /// It is forgotten.
    is_erased: bool,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether whoever writes is named as the nodes are.
    by_nodes: bool,
    /// Else by which process each node writes: by the one that has claimed for it.
    writers: HashMap<String, String>,
    pub(super) changes: usize,
    /// Leases that were given, and those of them that another node had before.
    pub(super) claims: usize,
    pub(super) taken: usize,
    /// Tasks that whoever held them put back, put aside or ended, and steps that were recorded so.
    pub(super) ends: usize,
    pub(super) steps: usize,
    /// How often changes may have been missed, for the database was killed.
    pub(super) gaps: usize,
    pub(super) broken: Vec<String>,
}

impl Seen {
    /// A task has changed by a write of this process: another epoch, another lease, or another end. What it was before is not
    /// known of one that is new, or was not seen.
    fn changed(&mut self, task: &str, by: &str, before: Option<&Standing>, now: &Standing) {
        self.changes += 1;
        let Some(before) = before else {
            if let Some(holder) = &now.holder {
                self.claims += 1;
                self.holds(task, holder, by, "has made it for itself");
            }
            return;
        };
        let has_ended = now.end.is_some();
        let mut complain = |what: String| self.broken.push(format!("I6: {task}: {what}, by {by}"));
        if now.is_erased {
            // Nothing else is left of it, its epoch neither.
            if before.end.is_none() && !before.is_erased {
                complain("it was forgotten while it was open".to_owned());
            }
            return;
        }
        if now.epoch < before.epoch {
            complain(format!("its epoch fell from {} to {}", before.epoch, now.epoch));
        }
        if before.end.is_some() && before.end != now.end {
            complain(format!("it had ended as {:?}, and is {:?}", before.end, now.end));
            return;
        }
        let is_end = has_ended && before.end.is_none();
        match (&before.holder, &now.holder) {
            (held, Some(holder)) if held.as_ref() != Some(holder) => {
                if now.epoch == before.epoch {
                    complain(format!("{holder} has got it from {held:?} without another epoch"));
                }
                self.claims += 1;
                self.taken += usize::from(held.is_some());
                self.holds(task, holder, by, "has taken it");
            }
            // Whoever else ends it fences who works on it.
            (Some(holder), _) if is_end && now.epoch == before.epoch => {
                self.ends += 1;
                self.holds(task, holder, by, "held it when it ended");
            }
            (None, _) if is_end && now.epoch == before.epoch => {
                complain("nobody held it, and it ended without another epoch".to_owned());
            }
            (Some(holder), None) if !is_end => {
                self.ends += 1;
                self.holds(task, holder, by, "held it when its lease was given back");
            }
            _ => {}
        }
    }

    /// A step is recorded that nobody but its worker knows of, while somebody holds its task.
    fn recorded(&mut self, task: &str, by: &str, step: &str, holder: Option<&str>) {
        if let Some(holder) = holder {
            self.steps += 1;
            self.holds(task, holder, by, &format!("held it when {step:?} was recorded"));
        }
    }

    /// A step was recorded before, and is another.
    fn recorded_otherwise(&mut self, task: &str, by: &str, step: &str) {
        self.broken.push(format!("I6: {task}: what was learnt of {step:?} has changed, by {by}"));
    }

    /// This node has the lease, so the write is its own.
    fn holds(&mut self, task: &str, holder: &str, by: &str, what: &str) {
        let its = match self.by_nodes {
            true => holder,
            false => self.writers.entry(holder.to_owned()).or_insert_with(|| by.to_owned()),
        };
        if its != by {
            self.broken
                .push(format!("I6: {task}: {holder}, which is {its}, {what}, and it was {by} that wrote"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64, holder: Option<&str>, end: Option<&str>) -> Standing {
        let own = |word: &str| word.to_owned();
        Standing { epoch, holder: holder.map(own), end: end.map(own), is_erased: false }
    }

    /// What is said of a task that goes from one to the next, each by a process.
    fn said(all: &[(&str, Standing)]) -> Vec<String> {
        let mut seen = Seen::default();
        let mut before: Option<&Standing> = None;
        for (by, now) in all {
            seen.changed("t", by, before, now);
            before = Some(now);
        }
        seen.broken
    }

    #[test]
    fn whoever_holds_a_task_may_end_it_and_others_fence_it() {
        let none: [String; 0] = [];
        let erased = Standing { is_erased: true, ..at(3, None, None) };
        let ends = [
            ("a", at(1, Some("na"), None)),
            ("a", at(2, None, None)),
            ("b", at(3, Some("nb"), None)),
            ("b", at(3, None, Some("done"))),
            ("c", erased),
        ];
        assert_eq!(said(&ends), none);
        let cancelled = [("a", at(1, Some("na"), None)), ("b", at(2, None, Some("cancelled")))];
        assert_eq!(said(&cancelled), none);
        let undone = [
            ("a", at(1, Some("na"), None)),
            ("a", at(1, None, Some("failed"))),
            ("b", at(2, Some("nb"), Some("failed"))),
            ("b", at(2, None, Some("failed"))),
        ];
        assert_eq!(said(&undone), none);
    }

    #[test]
    fn what_a_fence_keeps_out_is_seen() {
        let found = |all: &[(&str, Standing)], what: &str| {
            let said = said(all);
            assert!(said.len() == 1 && said[0].contains(what), "{what}: {said:?}");
        };
        let (held, taken) = (("a", at(1, Some("na"), None)), ("b", at(2, Some("nb"), None)));
        found(&[held.clone(), taken.clone(), ("a", at(2, None, Some("done")))], "held it when it ended");
        found(&[held.clone(), taken.clone(), ("a", at(3, None, None))], "when its lease was given back");
        found(&[held.clone(), ("b", at(1, Some("nb"), None))], "without another epoch");
        found(&[taken, held], "its epoch fell");
        let ended = ("a", at(1, None, Some("done")));
        found(&[ended.clone(), ("a", at(1, None, Some("otherwise")))], "it had ended as");
        found(&[ended.clone(), ("a", at(2, None, None))], "it had ended as");
        found(&[("a", at(1, None, None)), ended], "nobody held it");
        let erased = Standing { is_erased: true, ..at(1, None, None) };
        found(&[("a", at(1, None, None)), ("b", erased)], "while it was open");
    }

    #[test]
    fn only_whoever_holds_a_task_records_its_steps() {
        let mut seen = Seen::default();
        seen.changed("t", "a", None, &at(1, Some("na"), None));
        seen.recorded("t", "a", "step", Some("na"));
        seen.recorded("t", "b", "step", None);
        assert_eq!((seen.steps, seen.broken.len()), (1, 0));
        seen.recorded("t", "b", "step", Some("na"));
        seen.recorded_otherwise("t", "a", "step");
        assert_eq!(seen.broken.len(), 2);
    }
}
