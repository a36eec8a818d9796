//! The steps of one task, in the order in which they began.

use std::{collections::HashMap, sync::Arc};

use crate::Step;

#[derive(Debug, Default)]
pub(super) struct Steps {
    list: Vec<Step>,
    by_key: HashMap<Arc<str>, usize>,
}

impl Steps {
    pub(super) fn list(&self) -> &[Step] {
        &self.list
    }

    pub(super) fn find(&self, key: &str) -> Option<&Step> {
        self.by_key.get(key).map(|at| &self.list[*at])
    }

    /// Puts each in the place of the one under its key, or at the end.
    pub(super) fn put(&mut self, steps: Vec<Step>) {
        for step in steps {
            match self.by_key.get(&step.key) {
                Some(at) => self.list[*at] = step,
                None => {
                    self.by_key.insert(step.key.clone(), self.list.len());
                    self.list.push(step);
                }
            }
        }
    }
}
