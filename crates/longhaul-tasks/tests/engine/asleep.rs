//! Jobs that only wait for their next look: their tasks are put aside until then, and nothing is held meanwhile.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    Memory, Outcome, Phase, Record, Scope, Settings, StepClock, TaskId, TaskStore as _, Time,
};
use longhaul_tasks::environment::Tokio;
use longhaul_tasks::machine::Caller;
use longhaul_tasks::runner::{Answer, Engine, Pace, Worker};

use crate::rig::{Outside, call, engine, job, joinable, success, task};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A store whose time passes with the runtime's, and the world outside.
struct Scene {
    store: Memory,
    clock: StepClock,
    outside: Outside,
}

impl Scene {
    fn new() -> Self {
        let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
        let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
        Self { store, clock, outside: Outside::default() }
    }

    /// One node more.
    async fn node(&self) -> Engine {
        let engine = engine(self.store.another_node(), &self.outside);
        engine.start().await.unwrap();
        engine
    }

    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// A task whose job sleeps for so long at a time.
    async fn sleeping(&self, engine: &Engine, wait: Duration) -> TaskId {
        let id = task(engine.call(call(Caller::AsksForTask, job(&self.outside))).await);
        self.outside.fall_asleep(&id, wait);
        id
    }

    async fn record(&self, id: &TaskId) -> Record {
        self.store.get(Scope::Operator, id).await.unwrap().unwrap()
    }

    async fn is_aside(&self, id: &TaskId) -> bool {
        matches!(self.record(id).await.phase, Phase::Parked { until: Some(_) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_put_aside_between_its_looks_and_none_of_them_is_an_attempt() {
    let scene = Scene::new();
    let engine = scene.node().await;
    let id = scene.sleeping(&engine, MINUTE).await;
    let (mut aside, mut looks) = (0, Vec::new());
    for second in 0..200 {
        scene.pass(1).await;
        let record = scene.record(&id).await;
        assert!(record.attempt <= 1 && !record.is_terminal(), "{record:?}");
        assert_eq!(record.status_message.as_deref(), Some("started"), "it says what it said last");
        aside += usize::from(record.lease().is_none());
        if scene.outside.finds(&id) > looks.len() {
            looks.push(second);
        }
    }
    assert!(aside > 180, "{aside} s without a lease");
    assert_eq!(looks.len(), 3, "{looks:?}");
    scene.outside.end(&id, success());
    scene.pass(70).await;
    assert_eq!(scene.record(&id).await.outcome(), Some(&success()));
    assert_eq!((engine.figures().takeovers, scene.outside.0.lock().unwrap()[&id].starts), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn another_node_looks_when_the_first_is_gone_and_waits_for_no_lease() {
    let scene = Scene::new();
    let first = engine(scene.store.another_node(), &scene.outside);
    let id = scene.sleeping(&first, Duration::from_secs(12)).await;
    scene.pass(3).await;
    assert!(scene.is_aside(&id).await);
    // The first looks for nothing any more: it was never started.
    let second = scene.node().await;
    scene.pass(13).await;
    assert_eq!(scene.outside.finds(&id), 1);
    assert_eq!((second.figures().takeovers, scene.record(&id).await.attempt), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_waits_for_is_not_put_aside() {
    let scene = Scene::new();
    let engine = scene.node().await;
    let first = engine.call(joinable(&scene.outside));
    scene.pass(3).await;
    let id = scene.outside.only();
    scene.outside.fall_asleep(&id, HOUR);
    scene.pass(30).await;
    let second = engine.call(joinable(&scene.outside));
    scene.pass(30).await;
    assert!(matches!(first.await, Answer::HandOver(_)));
    assert!(!scene.is_aside(&id).await, "the second still waits");
    scene.pass(25).await;
    assert!(matches!(second.await, Answer::HandOver(_)));
    assert!(scene.is_aside(&id).await);

    let mut third = joinable(&scene.outside);
    third.plan = third.plan.with_row_first();
    assert_eq!(task(engine.call(third).await), id, "who makes the call again finds what was put aside");
    scene.outside.only();
}

/// A place of a tool is held for as long as its job runs, and so is the job.
#[tokio::test(start_paused = true)]
async fn a_job_of_a_tool_with_a_limit_keeps_its_place() {
    let scene = Scene::new();
    let worker = Worker::new("job").with_job(Arc::new(scene.outside.clone())).with_limit(Some(1));
    let (store, environment) = (Arc::new(scene.store.another_node()), Arc::new(Tokio::new()));
    let engine = Engine::new(store, environment, Pace::default(), [worker]);
    engine.start().await.unwrap();
    let id = scene.sleeping(&engine, HOUR).await;
    let next = task(engine.call(call(Caller::AsksForTask, job(&scene.outside))).await);
    scene.pass(20).await;
    assert!(scene.record(&id).await.lease().is_some());
    assert_eq!(scene.outside.only(), id);
    assert!(scene.record(&next).await.status_message.is_some_and(|says| says.starts_with("queued")));
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_its_time_is_looked_at_at_once() {
    let scene = Scene::new();
    let engine = scene.node().await;
    let id = scene.sleeping(&engine, HOUR).await;
    scene.pass(3).await;
    assert!(scene.is_aside(&id).await);
    engine.go_on(&id).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(scene.outside.finds(&id), 1);
    engine.go_on(&id).await;
    scene.pass(1).await;
    assert_eq!(scene.outside.finds(&id), 1, "it is at work");

    // It comes as the task is put aside: whoever told of it found nothing to make due.
    scene.outside.0.lock().unwrap().get_mut(&id).unwrap().is_woken = true;
    scene.pass(2).await;
    assert_eq!(scene.outside.finds(&id), 2);
    scene.pass(20).await;
    assert!(scene.is_aside(&id).await);
    assert_eq!(scene.outside.finds(&id), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_put_aside_is_cancelled() {
    let scene = Scene::new();
    let engine = scene.node().await;
    let id = scene.sleeping(&engine, HOUR).await;
    scene.pass(3).await;
    assert!(scene.is_aside(&id).await);
    engine.cancel(Scope::Operator, &id, None).await.unwrap();
    scene.pass(1).await;
    assert_eq!(scene.outside.outcome(&id), Some(Outcome::cancelled(None)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_leaves_what_was_put_aside_as_it_is() {
    let scene = Scene::new();
    let engine = scene.node().await;
    let id = scene.sleeping(&engine, MINUTE).await;
    scene.pass(3).await;
    let before = scene.record(&id).await;
    engine.drain(Duration::from_secs(10)).await;
    engine.finish(Duration::from_secs(10)).await;
    scene.pass(120).await;
    assert_eq!(scene.record(&id).await, before, "it is for another node");
    let _next = scene.node().await;
    scene.pass(1).await;
    assert_eq!(scene.outside.finds(&id), 1);
}
