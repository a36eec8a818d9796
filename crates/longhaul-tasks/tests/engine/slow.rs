//! A store that takes long over everything.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul_store::wrap::{Operation, Wrap, Wrapped};
use longhaul_store::{Clock, Memory, Phase, Scope, Settings, StoreFuture, TaskStore as _, Time};
use longhaul_tasks::job::ExternalJob;
use longhaul_tasks::machine::Caller;
use longhaul_tasks::runner::{Engine, Pace, Worker};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::resuming::{Lingering, until};
use crate::rig::{InOneThread, Outside, call, engine, future, job, success, task};

/// The store's time is the runtime's.
#[derive(Debug)]
struct WithTheRuntime(Instant);

impl Clock for WithTheRuntime {
    fn wall(&self) -> Time {
        Time::from_unix_ms(1_800_000_000_000).after(self.0.elapsed())
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(1000) + self.0.elapsed()
    }

    fn boot(&self) -> &str {
        "one boot"
    }
}

/// Takes a second over each operation, and does one at a time.
#[derive(Debug, Default)]
struct Slow(Mutex<()>);

impl Wrap for Slow {
    fn around<'a, T: Send + 'a>(&'a self, _: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let _turn = self.0.lock().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            doing.await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn s5_a_node_whose_store_is_slow_keeps_its_leases_and_nobody_takes_them() {
    let store = Memory::with(Settings::default(), Arc::new(WithTheRuntime(Instant::now())));
    let outside = Outside::default();
    let slow: Arc<dyn ExternalJob> = Arc::new(outside.clone());
    let workers = [Worker::new("job").with_job(slow), Worker::new("future")];
    let slow = Arc::new(Wrapped::new(store.another_node(), Slow::default()));
    let slow = Engine::new(slow, Arc::new(InOneThread), Pace::default(), workers);
    slow.start().await.unwrap();
    let watchful = engine(store, &outside);
    watchful.start().await.unwrap();

    let held = task(slow.call(call(Caller::TakesTask, job(&outside))).await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(task(slow.call(call(Caller::TakesTask, future(300))).await));
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    outside.end(&held, success());
    ids.push(held);
    for id in &ids {
        let ended = watchful.ended(Scope::Operator, id).await.unwrap().unwrap();
        assert_eq!(ended.outcome(), Some(&success()), "{id}");
        assert_eq!(ended.attempt, 1, "{id} was taken from a node that lives");
    }
}

#[tokio::test(start_paused = true)]
async fn k27_who_is_done_has_written_that_its_tasks_are_given_back() {
    let store = Memory::with(Settings::default(), Arc::new(WithTheRuntime(Instant::now())));
    let work = Lingering::default();
    let engine = work.engine_at(Arc::new(Wrapped::new(store.another_node(), Slow::default())));
    engine.start().await.unwrap();
    let id = work.begin(&engine).await;
    until(&store, &id, |_| work.entered.load(Ordering::SeqCst) == 1).await;
    engine.drain(Duration::from_secs(60)).await;
    engine.finish(Duration::from_secs(60)).await;
    let record = store.get(Scope::Operator, &id).await.unwrap().unwrap();
    assert!(matches!(record.phase, Phase::Queued { .. }), "{record:?}");
}
