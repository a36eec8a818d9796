//! How many tasks one stranger makes within a day, and how much they take.
//!
//! What strangers have made is kept when it has ended, a day at most, and all of it is one quota, of tasks and of bytes. Whose an ended
//! task was no store knows, so what is counted is what is made, in the process that makes it, and what it has come to, in the process
//! that ends it, by its run or by a cancel. What ends in any other way, past its time or with its parent, is not counted for what it
//! has come to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tasks::store::{
    Batch, CancelAsked, Cancellation, Created, Epoch, Finished, Limits, NewTask, Outcome, Overlay, Quota,
    Record, Scope, Share, StoreError, StoreFuture, TaskId, TaskStore,
};
use tokio::time::Instant;

use crate::bucket::Rate;
use crate::buckets::Buckets;

/// As which part of the bytes of all strangers' tasks those of one may take that makes as many as it may.
const PART: u64 = 10;

/// Bytes that no limits make count as one more task.
const LEAST_GRAIN: u64 = 4 << 10;

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
        let grain = grain_of(&limits);
        let tokens = u32::try_from(limits.max_made_per_stranger).unwrap_or(u32::MAX);
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

    /// A task was ended here, and is kept with what it has come to.
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

/// How many bytes count as one more task: whoever makes as many tasks as it may, each of so many bytes, has its part of them.
fn grain_of(limits: &Limits) -> u64 {
    let Limits { max_made_per_stranger, max_task_bytes_per_owner, .. } = limits;
    (max_task_bytes_per_owner / PART / max_made_per_stranger.max(&1)).max(LEAST_GRAIN)
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
            let counts = match &created {
                Ok(Created::New(_)) => many,
                // It may be written, and is most likely not: it counts as a task, and is tried again as one.
                Err(StoreError::Unreachable { .. }) => 1,
                _ => 0,
            };
            if counts < many {
                self.give_back(share, many - counts);
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

    use super::{LEAST_GRAIN, Limits, NewTask, Quota, Rationed, Share, StoreError, grain_of};

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
    const GRAIN: u64 = 5000;

    /// A store where a stranger may make ten tasks.
    fn ten() -> Arc<dyn TaskStore> {
        Rationed::around(Arc::new(Memory::with(of_ten(), Arc::new(SystemClock::new()))))
    }

    fn of_ten() -> Settings {
        let mut settings = Settings::default();
        let limits = &mut settings.limits;
        limits.max_made_per_stranger = 10;
        limits.max_task_bytes_per_owner = GRAIN * 10 * 10;
        settings
    }

    /// One that takes as many bytes as so many tasks and a half may.
    fn large(number: u64, many: usize) -> NewTask {
        let mut task = task(number, None);
        task.arguments = long(many);
        task
    }

    fn long(many: usize) -> Json {
        let grain = usize::try_from(GRAIN).unwrap();
        Json::parse(format!("\"{}\"", "x".repeat(many * grain + grain / 2))).unwrap()
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

    #[test]
    fn however_many_tasks_may_be_kept_one_has_a_tenth_of_the_bytes() {
        let grain = |change: fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            grain_of(&limits)
        };
        assert_eq!(grain(|_| {}), 42_949);
        for kept in [1, u64::from(u32::MAX), u64::MAX] {
            let mut limits = Limits::default();
            limits.max_retained_per_owner = kept;
            assert_eq!(grain_of(&limits), 42_949, "{kept}");
        }
        assert_eq!(grain(|limits| limits.max_made_per_stranger = 100), 4_294_967);
        // Whoever may make very many is not refused what is small, and where none may be made there is nothing to share.
        assert_eq!(grain(|limits| limits.max_made_per_stranger = u64::MAX), LEAST_GRAIN);
        assert_eq!(grain(|limits| limits.max_made_per_stranger = 0), 429_496_729);
    }

    /// Apart, for the calls of the other tests would be of two traits.
    mod away {
        use std::sync::Arc;

        use longhaul_tasks::store::{Created, Memory, NewTask, Overlay, StoreError, StoreFuture};

        /// A store that cannot be reached.
        #[derive(Debug)]
        pub(super) struct Away(pub(super) Memory);

        impl Overlay for Away {
            type Below = Memory;

            fn below(&self) -> &Memory {
                &self.0
            }

            fn create(&self, _: NewTask) -> StoreFuture<'_, Created> {
                let source = Arc::new(std::io::Error::other("it is away"));
                Box::pin(async { Err(StoreError::Unreachable { place: "elsewhere".to_owned(), source }) })
            }
        }
    }

    #[tokio::test]
    async fn what_could_not_be_said_to_be_written_counts_as_a_task_however_large() {
        let store =
            Rationed::around(Arc::new(away::Away(Memory::with(of_ten(), Arc::new(SystemClock::new())))));
        for number in 0..10 {
            let away = store.create(if number == 0 { large(number, 9) } else { task(number, None) }).await;
            assert!(matches!(away, Err(StoreError::Unreachable { .. })), "{number} {away:?}");
        }
        is_full(store.create(task(10, None)).await);
    }

    /// A4 of `conformance/REQUIREMENTS.md`.
    #[tokio::test]
    async fn what_a_task_comes_to_counts_as_so_many_more_where_its_run_or_a_cancel_ends_it() {
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
