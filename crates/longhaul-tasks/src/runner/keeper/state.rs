//! The steps of a journal as they stand in memory.

use std::sync::Arc;

use longhaul_store::{Fingerprint, Limits, Step, StepState, StoreError};

use super::{Standing, State, StepError};

impl State {
    pub(super) fn find(&self, key: &str) -> Option<&Step> {
        self.by_key.get(key).map(|at| &self.steps[*at])
    }

    /// What stands under `key`, if it is a step `of` that kind.
    pub(super) fn known(&self, key: &str, of: Fingerprint) -> Result<Option<StepState>, StepError> {
        match self.find(key) {
            None => Ok(None),
            Some(step) if step.of == of => Ok(Some(step.state.clone())),
            Some(step) => Err(StepError::Diverged { key: Arc::clone(&step.key) }),
        }
    }

    /// What stands in the places of `steps`.
    pub(super) fn standing(&self, steps: &[Step]) -> Result<Vec<StepState>, StepError> {
        let stands = |step: &Step| {
            let known = self.known(&step.key, step.of)?;
            known.ok_or_else(|| StepError::Diverged { key: Arc::clone(&step.key) })
        };
        steps.iter().map(stands).collect()
    }

    /// Puts steps, unless others stand in their places, and gives what stands there now.
    pub(super) fn settle(&mut self, steps: &[Step]) -> Result<Vec<StepState>, StepError> {
        for step in steps {
            self.known(&step.key, step.of)?;
        }
        steps.iter().for_each(|step| self.put(step.clone()));
        self.standing(steps)
    }

    /// Refuses steps that the store would not take in the place of those that are `gone`.
    pub(super) fn admit(&self, gone: &[Arc<str>], steps: &[Step], limits: &Limits) -> Result<(), StoreError> {
        let freed: u64 = gone.iter().filter_map(|key| self.find(key)).map(|step| step.size() as u64).sum();
        let mut count = u32::try_from(self.steps.len() - gone.len()).unwrap_or(u32::MAX);
        let mut bytes = self.bytes.saturating_sub(freed);
        for step in steps {
            let before = self.find(&step.key).filter(|before| !gone.contains(&before.key));
            bytes = limits.admit_step(count, bytes, before, step)?;
            count = count.saturating_add(u32::from(before.is_none()));
        }
        Ok(())
    }

    pub(super) fn try_again(&mut self) {
        if let Standing::Refused(_) = self.standing {
            self.standing = Standing::Loose;
        }
    }

    /// The keys of what `steps` stand in the place of.
    pub(super) fn replaced(&self, prefix: Option<&str>, steps: &[Step]) -> Vec<Arc<str>> {
        let Some(prefix) = prefix else { return Vec::new() };
        let is_replaced =
            |key: &&Arc<str>| key.starts_with(prefix) || steps.iter().any(|step| step.key == **key);
        self.by_key.keys().filter(is_replaced).cloned().collect()
    }

    pub(super) fn forget(&mut self, keys: &[Arc<str>]) {
        if keys.is_empty() {
            return;
        }
        for key in keys {
            self.by_key.remove(key);
        }
        self.steps.retain(|step| self.by_key.contains_key(&step.key));
        self.bytes = self.steps.iter().map(|step| step.size() as u64).sum();
        for (at, step) in self.steps.iter().enumerate() {
            self.by_key.insert(Arc::clone(&step.key), at);
        }
    }

    /// What was learnt stays.
    pub(super) fn put(&mut self, step: Step) {
        match self.by_key.get(&step.key) {
            Some(at) if matches!(self.steps[*at].state, StepState::Learnt { .. }) => {}
            Some(at) => {
                self.bytes = self.bytes.saturating_sub(self.steps[*at].size() as u64) + step.size() as u64;
                self.steps[*at] = step;
            }
            None => {
                self.bytes += step.size() as u64;
                self.by_key.insert(Arc::clone(&step.key), self.steps.len());
                self.steps.push(step);
            }
        }
    }
}
