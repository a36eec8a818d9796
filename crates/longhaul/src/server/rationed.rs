//! How many tasks one stranger makes within a day.
//!
//! What strangers have made is kept when it has ended, a day at most, and all of it is one quota. Whose an ended task was no store
//! knows, so what is counted is what is made, in the process that makes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tasks::store::{
    Created, Limits, NewTask, Overlay, Quota, Share, StoreError, StoreFuture, TaskStore,
};
use tokio::time::Instant;

use crate::bucket::Rate;
use crate::buckets::Buckets;

/// For how long what strangers have made is kept at most.
const WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A store in which each stranger who is told from others makes only so many tasks.
#[derive(Debug)]
pub(super) struct Rationed {
    below: Arc<dyn TaskStore>,
    strangers: Mutex<Buckets<Share>>,
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
        let strangers = Mutex::new(Buckets::new(Rate { tokens, every: WITHIN }));
        Arc::new(Self { below, strangers })
    }

    /// One more task of a stranger's.
    fn take(&self, share: Share) -> Result<(), StoreError> {
        let mut strangers = self.lock();
        let limit = strangers.rate().tokens.into();
        let full = |_| StoreError::Overloaded { what: Quota::MadePerStranger, limit };
        strangers.take(share, 1, Instant::now()).map_err(full)
    }

    /// It was not made after all.
    fn give_back(&self, share: Share) {
        self.lock().give_back(&share, 1);
    }

    fn lock(&self) -> MutexGuard<'_, Buckets<Share>> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longhaul_tasks::store::{
        CallKey, Created, Digest, Json, Memory, Once, Owner, Settings, SystemClock, TaskId, TaskStore as _,
    };

    use super::{NewTask, Rationed, Share};

    fn task(number: u64, key: Option<&str>) -> NewTask {
        let id = TaskId::new(format!("t-{number}")).unwrap();
        let mut task = NewTask::new(id, Owner::Anonymous, "build", Json::parse("{}").unwrap());
        task.share = Some(Share::new(1));
        task.once = key.map(|key| Once::new(CallKey::new(key).unwrap(), Digest::new([7; 32])));
        task
    }

    #[tokio::test]
    async fn who_has_made_all_it_may_finds_what_it_made_and_makes_nothing_else() {
        let mut settings = Settings::default();
        settings.limits.max_made_per_stranger = 2;
        let store = Rationed::around(Arc::new(Memory::with(settings, Arc::new(SystemClock::new()))));
        store.create(task(1, Some("once"))).await.unwrap();
        // Found again it was not made again.
        for number in 2..6 {
            let found = store.create(task(number, Some("once"))).await.unwrap();
            assert!(matches!(found, Created::Again(_)), "{found:?}");
        }
        store.create(task(6, None)).await.unwrap();
        store.create(task(7, None)).await.unwrap_err();
        store.create(task(8, Some("another"))).await.unwrap_err();
        let found = store.create(task(9, Some("once"))).await.unwrap();
        assert!(matches!(found, Created::Again(_)), "{found:?}");
    }
}
