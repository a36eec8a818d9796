//! The steps of one task, in the order in which they began.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{Step, transition::Noted};

#[derive(Debug, Default)]
pub(super) struct Steps {
    list: BTreeMap<u64, Step>,
    by_key: HashMap<Arc<str>, u64>,
    /// How many there have ever been.
    begun: u64,
}

impl Steps {
    pub(super) fn list(&self) -> impl Iterator<Item = &Step> {
        self.list.values()
    }

    pub(super) fn find(&self, key: &str) -> Option<&Step> {
        self.by_key.get(key).map(|place| &self.list[place])
    }

    /// Forgets some, then puts each of the others in the place of the one under its key, or at the end.
    pub(super) fn note(&mut self, noted: Noted) {
        for key in noted.forgotten {
            if let Some(place) = self.by_key.remove(&key) {
                self.list.remove(&place);
            }
        }
        for step in noted.steps {
            let place = *self.by_key.entry(step.key.clone()).or_insert_with(|| {
                self.begun += 1;
                self.begun
            });
            self.list.insert(place, step);
        }
    }
}
