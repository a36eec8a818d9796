//! How many tasks one stranger makes within a day, and how much they take.
//!
//! What strangers have made is kept when it has ended, a day at most, and all of it is one quota, of tasks and of bytes. Whose an ended
//! task was no store knows, so what is counted is what is made, in the process that makes it, and what it has come to, in the process
//! that ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tasks::store::{
    Batch, CancelAsked, Cancellation, Created, Epoch, Finished, Limits, NewTask, Outcome, Overlay, Quota,
    Record, Scope, Share, StoreError, StoreFuture, TaskId, TaskStore,
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
    /// As many bytes count as one more task.
    grain: u64,
}

impl Rationed {
    /// The store, around which this stands where its limits tell strangers apart.
    pub(super) fn around(below: Arc<dyn TaskStore>) -> Arc<dyn TaskStore> {
        let limits = (*below).limits();
        if !limits.tells_strangers_apart() {
            return below;
        }
        let Limits { max_made_per_stranger, max_task_bytes_per_owner, max_retained_per_owner, .. } = limits;
        let grain = (max_task_bytes_per_owner / max_retained_per_owner.max(1)).max(1);
        let tokens = u32::try_from(max_made_per_stranger).unwrap_or(u32::MAX);
        let strangers = Mutex::new(Buckets::new(Rate { tokens, every: WITHIN }));
        Arc::new(Self { below, strangers, grain })
    }

    /// As how many tasks it counts that one takes so many bytes, beside the one that it is.
    fn more(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / self.grain).unwrap_or(u32::MAX)
    }

    /// One more task of a stranger's, which counts as so many.
    fn take(&self, share: Share, many: u32) -> Result<(), StoreError> {
        let mut strangers = self.lock();
        let limit = strangers.rate().tokens.into();
        let full = |_| StoreError::Overloaded { what: Quota::MadePerStranger, limit };
        strangers.take(share, many, Instant::now()).map_err(full)
    }

    /// It was not made after all.
    fn give_back(&self, share: Share, many: u32) {
        self.lock().give_back(&share, many);
    }

    /// A task has ended, and is kept with what it has come to.
    fn ended(&self, record: &Record) {
        let Some(share) = record.share else { return };
        let made_with = bytes(record.arguments.as_str(), record.caller.as_str());
        let more = self.more(record.weight()).saturating_sub(self.more(made_with));
        if more > 0 {
            self.lock().owe(share, more, Instant::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buckets<Share>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a task is made with.
fn bytes(arguments: &str, caller: &str) -> u64 {
    (arguments.len() + caller.len()) as u64
}

impl Overlay for Rationed {
    type Below = dyn TaskStore;

    fn below(&self) -> &Self::Below {
        &*self.below
    }

    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        let Some(share) = task.counted_share() else { return self.below().create(task) };
        let many = self.more(bytes(task.arguments.as_str(), task.caller.as_str())).saturating_add(1);
        Box::pin(async move {
            if let Err(full) = self.take(share, many) {
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
                self.give_back(share, many);
            }
            created
        })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        Box::pin(async move {
            let finished = self.below().finish(id, epoch, outcome, last).await?;
            if let Finished::Recorded(record) = &finished {
                self.ended(record);
            }
            Ok(finished)
        })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        Box::pin(async move {
            let cancellation = self.below().request_cancel(scope, id, reason).await?;
            if let Cancellation::Cancelled(record) = &cancellation {
                self.ended(record);
            }
            Ok(cancellation)
        })
    }

    fn ask_to_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, CancelAsked> {
        Box::pin(async move {
            let asked = self.below().ask_to_cancel(scope, id, reason).await?;
            if let CancelAsked::AtOnce(Cancellation::Cancelled(record)) = &asked {
                self.ended(record);
            }
            Ok(asked)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longhaul_tasks::store::{
        Batch, CallKey, Created, Digest, Fingerprint, Json, Memory, Once, Outcome, Owner, Scope, Settings,
        Step, StepState, SystemClock, TaskId, TaskStore,
    };

    use super::{NewTask, Quota, Rationed, Share, StoreError};

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

    /// Bytes that count as a task.
    const GRAIN: u64 = 1000;

    /// A store where a stranger may make ten tasks.
    fn ten() -> Arc<dyn TaskStore> {
        let mut settings = Settings::default();
        let limits = &mut settings.limits;
        limits.max_made_per_stranger = 10;
        limits.max_task_bytes_per_owner = GRAIN * limits.max_retained_per_owner;
        Rationed::around(Arc::new(Memory::with(settings, Arc::new(SystemClock::new()))))
    }

    /// One that takes as many bytes as so many tasks and a half may.
    fn large(number: u64, many: usize) -> NewTask {
        let mut task = task(number, None);
        task.arguments = long(many);
        task
    }

    fn long(many: usize) -> Json {
        Json::parse(format!("\"{}\"", "x".repeat(many * 1000 + 500))).unwrap()
    }

    fn is_full<T: std::fmt::Debug>(refused: Result<T, StoreError>) {
        assert!(
            matches!(&refused, Err(StoreError::Overloaded { what: Quota::MadePerStranger, limit: 10 })),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn what_a_task_is_made_with_counts_as_so_many_more() {
        let store = ten();
        store.create(large(1, 7)).await.unwrap();
        is_full(store.create(large(2, 2)).await);
        store.create(large(3, 1)).await.unwrap();
        is_full(store.create(task(4, None)).await);
        let mut another = large(5, 9);
        another.share = Some(Share::new(2));
        store.create(another).await.unwrap();
    }

    /// A4 of `conformance/REQUIREMENTS.md`.
    #[tokio::test]
    async fn what_a_task_comes_to_counts_as_so_many_more_however_it_ends() {
        for way in ["finished", "cancelled", "asked"] {
            let store = ten();
            let made = store.create(large(1, 1)).await.unwrap().into_record();
            let step = Step::new("step", Fingerprint::new([7; 16]), StepState::learnt(long(3)));
            store.write(&made.id, made.epoch, Batch::new().with_step(step)).await.unwrap();
            let (id, scope) = (&made.id, Scope::Operator);
            match way {
                "finished" => {
                    let outcome = Outcome::result(long(3), false);
                    store.finish(id, made.epoch, outcome, Batch::new()).await.map(drop).unwrap();
                }
                "cancelled" => store.request_cancel(scope, id, None).await.map(drop).unwrap(),
                _ => store.ask_to_cancel(scope, id, None).await.map(drop).unwrap(),
            }
            // Two for what it was made with, three and more for its step, and three more for its outcome.
            let left = if way == "finished" { 1 } else { 4 };
            for number in 0..left {
                store.create(task(2 + number, None)).await.unwrap();
            }
            is_full(store.create(task(9, None)).await);
        }
    }
}
