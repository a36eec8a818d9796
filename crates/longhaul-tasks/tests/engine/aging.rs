//! A task's time is up while somebody waits for it.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    Clock as _, Memory, NewTask, Outcome, Overlay, Retention, Scope, Settings, StepClock, StoreFuture, Swept,
    TaskId, TaskStore as _, Time,
};
use longhaul_tasks::environment::Tokio;
use longhaul_tasks::machine::Caller;
use longhaul_tasks::runner::{Engine, Pace};

use crate::rig::{Outside, ann, call, engine, future, json, task};

/// T6 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn t6_who_waits_for_a_task_whose_time_is_up_is_answered() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
    let engine = engine(store, &Outside::default());
    engine.start().await.unwrap();
    let mut call = call(Caller::AsksForTask, future(24 * 3600));
    call.retention = Retention::FromCreation(Duration::from_secs(60));
    let id = task(engine.call(call).await);
    let waiting = tokio::spawn({
        let (engine, id) = (engine.clone(), id.clone());
        async move { engine.ended(Scope::Owner(&ann()), &id).await }
    });
    // The store's time and the runtime's go on together, so that the lease is renewed.
    while !waiting.is_finished() {
        clock.advance(Duration::from_secs(5));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(clock.wall() < Time::from_unix_ms(1_800_003_600_000), "nobody ended it");
    }
    let ended = waiting.await.unwrap().unwrap().expect("it can be read for a while");
    let Some(Outcome::Error { code: -32603, message, .. }) = ended.outcome() else { panic!("{ended:?}") };
    assert_eq!(&**message, "task expired");
    let again = engine.ended(Scope::Owner(&ann()), &id).await.unwrap();
    assert_eq!(again, Some(ended), "and is the same for who comes later");
}

/// A store of which another node sweeps as well, and is faster with half of what both look at.
#[derive(Debug)]
struct Shared(Memory);

impl Overlay for Shared {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.0
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.0.sweep(limit / 2)
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_sweep_at_once_leave_nothing_for_later() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
    for number in 0..200 {
        let id = TaskId::new(format!("t{number}")).unwrap();
        let mut new = NewTask::new(id, ann(), "elsewhere", json("{}"));
        new.retention = Retention::FromCreation(Duration::from_secs(1));
        store.create(new).await.unwrap();
    }
    clock.advance(Duration::from_secs(1));
    let pace = Pace::default();
    let soon = pace.sweep_every / 2;
    let shared = Shared(store.another_node());
    let engine = Engine::new(Arc::new(shared), Arc::new(Tokio::new()), pace, []);
    engine.start().await.unwrap();
    tokio::time::sleep(soon).await;
    assert_eq!(store.counts().await.unwrap().open, 0);
}
