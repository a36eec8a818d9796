//! What was written before a store was sealed: whether there is any, and the part of it that is sealed afterwards.

use super::{Sealed, keys, shared};
use crate::{
    EntryKey, Json, StoreError, Swap, Value,
    transfer::{Mark, Transfer, WholeEntry, WholeTask},
};

/// Something in a store that is not sealed, in words, if there is any: a task, or an entry of what nodes share. It is looked for
/// until the first is found, in a store where all is sealed at everything, as long as that takes. What was sent in streams is
/// not looked at: it is gone [soon](crate::Settings::event_retention) in any case.
///
/// # Errors
///
/// What reading the store gives.
pub async fn written_before(store: &dyn Transfer) -> Result<Option<String>, StoreError> {
    let mut after = 0;
    loop {
        let tasks = store.whole_tasks(after).await?;
        let Some((last, _)) = tasks.last() else { break };
        after = *last;
        if let Some((_, task)) = tasks.iter().find(|(_, task)| is_plain_task(task)) {
            return Ok(Some(format!("task {}", task.record.id)));
        }
    }
    let mut after = 0;
    loop {
        let entries = store.whole_entries(after).await?;
        let Some((last, _)) = entries.last() else { return Ok(None) };
        after = *last;
        let now = store.now();
        let is_there = |entry: &WholeEntry| entry.expires_at.is_none_or(|at| at > now);
        if let Some((_, entry)) = entries.iter().find(|(_, entry)| is_there(entry) && is_plain_entry(entry)) {
            return Ok(Some(format!("an entry of {}", entry.kind)));
        }
    }
}

/// Nothing is left of a forgotten one that would be sealed.
fn is_plain_task(task: &WholeTask) -> bool {
    let is_sealed = |json: &Json| json.as_str().get(1..).is_some_and(|text| text.starts_with(keys::MARK));
    task.removable_at.is_none() && !is_sealed(&task.record.arguments)
}

fn is_plain_entry(entry: &WholeEntry) -> bool {
    // These are read before anybody knows the keys.
    ![shared::PROOF, Mark::KEY].contains(&entry.key()) && !entry.value.starts_with(&shared::MARK)
}

impl<S: Transfer> Sealed<S> {
    /// Seals the entries that are not.
    pub(super) async fn seal_entries(&self) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let entries = self.store.whole_entries(after).await?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            after = *last;
            for (_, entry) in entries.iter().filter(|(_, entry)| is_plain_entry(entry)) {
                self.seal_entry(entry.key()).await?;
            }
        }
    }

    async fn seal_entry(&self, key: EntryKey<'_>) -> Result<(), StoreError> {
        let mut found = self.store.entry(key).await?;
        while let Some(entry) = found.filter(|entry| !entry.value.starts_with(&shared::MARK)) {
            let ttl = entry.expires_at.map(|at| at.since(self.store.now()));
            let sealed = self.sealing.seal_value(key, Value { bytes: &entry.value, ttl });
            let value = Some(Value { bytes: &sealed, ttl });
            match self.store.compare_and_set(key, Some(entry.version), value).await {
                Ok(Swap::Done(_)) => return Ok(()),
                // Another node was quicker.
                Ok(Swap::Found(other)) => found = other,
                Err(error @ StoreError::TooLarge { .. }) => {
                    tracing::warn!(kind = key.kind, %error, "an entry is too long to be sealed, and stays as it is");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
