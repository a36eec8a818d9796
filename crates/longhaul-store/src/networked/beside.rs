//! What is kept of a task beside its record, as far as a report is held against it.

use std::collections::{HashMap, HashSet};

use crate::{Batch, Step, StoreError, transition::Kept};

/// What was read of it.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) steps: HashMap<String, Step>,
    pub(crate) parts: HashSet<String>,
}

impl Beside {
    /// The keys of the steps and of the parts that this report is held against.
    pub(crate) fn wanted(batch: &Batch) -> (Vec<&str>, Vec<&str>) {
        let waits = batch.park.iter().flat_map(|park| &park.children);
        let steps = batch.steps.iter().map(|step| &step.key);
        let child = batch.child.iter().map(|child| &child.step);
        let steps = batch.forget.iter().chain(steps).chain(waits).chain(child).map(|key| &**key).collect();
        (steps, batch.parts.iter().map(|part| &*part.key).collect())
    }
}

impl Kept for Beside {
    fn step(&mut self, key: &str) -> Result<Option<Step>, StoreError> {
        Ok(self.steps.get(key).cloned())
    }

    fn has_part(&mut self, key: &str) -> Result<bool, StoreError> {
        Ok(self.parts.contains(key))
    }
}
