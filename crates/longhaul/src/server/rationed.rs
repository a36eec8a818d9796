//! How many tasks one stranger makes within a day.
//!
//! What strangers have made is kept when it has ended, a day at most, and all of it is one quota. Whose an ended task was no store
//! knows, so what is counted is what is made, in the process that makes it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tasks::store::{
    Created, Limits, NewTask, Overlay, Quota, Share, StoreError, StoreFuture, TaskStore,
};
use tokio::time::Instant;

use crate::bucket::{Bucket, Rate};

/// For how long what strangers have made is kept at most.
const WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// With how many strangers those are forgotten that may make all they may.
const SWEEP: usize = 1024;

/// A store in which each stranger who is told from others makes only so many tasks.
#[derive(Debug)]
pub(super) struct Rationed {
    below: Arc<dyn TaskStore>,
    rate: Rate,
    strangers: Mutex<Strangers>,
}

#[derive(Debug)]
struct Strangers {
    left: HashMap<Share, Bucket>,
    /// With how many they are looked through next.
    sweep_at: usize,
}

impl Rationed {
    /// The store, around which this stands where its limits tell strangers apart.
    pub(super) fn around(below: Arc<dyn TaskStore>) -> Arc<dyn TaskStore> {
        let limits = (*below).limits();
        if !limits.tells_strangers_apart() {
            return below;
        }
        let Limits { max_made_per_stranger, .. } = limits;
        let tokens = u32::try_from(max_made_per_stranger).unwrap_or(u32::MAX);
        let strangers = Mutex::new(Strangers { left: HashMap::new(), sweep_at: SWEEP });
        Arc::new(Self { below, rate: Rate { tokens, every: WITHIN }, strangers })
    }

    /// One more task of a stranger's.
    fn take(&self, share: Share) -> Result<(), StoreError> {
        let (now, mut strangers) = (Instant::now(), self.lock());
        if strangers.left.len() >= strangers.sweep_at {
            strangers.left.retain(|_, left| !left.is_full(&self.rate, now));
            strangers.sweep_at = SWEEP.max(2 * strangers.left.len());
        }
        let left = strangers.left.entry(share).or_insert_with(|| Bucket::full(&self.rate, now));
        let full =
            |_| StoreError::Overloaded { what: Quota::MadePerStranger, limit: self.rate.tokens.into() };
        left.take(1, &self.rate, now).map_err(full)
    }

    /// It was not made after all.
    fn give_back(&self, share: Share) {
        if let Some(left) = self.lock().left.get_mut(&share) {
            left.give_back(1, &self.rate);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overlay for Rationed {
    type Below = dyn TaskStore;

    fn below(&self) -> &Self::Below {
        &*self.below
    }

    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        let Some(share) = task.counted_share() else { return self.below().create(task) };
        Box::pin(async move {
            if let Err(full) = self.take(share) {
                // What was made before is there, however much was made since.
                return match &task.once {
                    Some(once) if self.below().called(&task.owner, &once.key).await?.is_some() => {
                        self.below().create(task).await
                    }
                    _ => Err(full),
                };
            }
            let created = self.below().create(task).await;
            // Of one that could not be said to be written it counts as written.
            let is_new = match &created {
                Ok(created) => matches!(created, Created::New(_)),
                Err(error) => matches!(error, StoreError::Unreachable { .. }),
            };
            if !is_new {
                self.give_back(share);
            }
            created
        })
    }
}
