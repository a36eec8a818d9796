//! The steps of one task, in the order in which they began.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{SeenStep, SeenSteps, Step, transition::Noted};

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

    /// What is seen of some of them.
    pub(super) fn seen(&self, after: u64, limit: usize) -> SeenSteps {
        SeenSteps::among(self.list.values().map(SeenStep::of), after, limit)
    }

    /// The same, each with its place.
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, &Step)> {
        self.list.iter().map(|(place, step)| (*place, step))
    }

    /// The step at a place.
    pub(super) fn at(&self, place: u64) -> Option<&Step> {
        self.list.get(&place)
    }

    /// Puts a step where it was.
    pub(super) fn restore(&mut self, place: u64, step: Step) {
        self.begun = self.begun.max(place);
        self.by_key.insert(step.key.clone(), place);
        self.list.insert(place, step);
    }

    #[cfg(test)]
    pub(super) fn forget_times(&mut self) {
        self.list.values_mut().for_each(|step| (step.began_at, step.learnt_at) = (None, None));
    }

    pub(super) fn find(&self, key: &str) -> Option<&Step> {
        self.by_key.get(key).map(|place| &self.list[place])
    }

    /// Forgets some, then puts each of the others in the place of the one under its key, or at the end. Tells the
    /// places at which something has changed.
    pub(super) fn note(&mut self, noted: Noted) -> Vec<u64> {
        let mut changed = Vec::with_capacity(noted.forgotten.len() + noted.steps.len());
        for key in noted.forgotten {
            if let Some(place) = self.by_key.remove(&key) {
                self.list.remove(&place);
                changed.push(place);
            }
        }
        for step in noted.steps {
            let place = *self.by_key.entry(step.key.clone()).or_insert_with(|| {
                self.begun += 1;
                self.begun
            });
            self.list.insert(place, step);
            changed.push(place);
        }
        changed
    }
}
