//! Tasks for which nobody comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use longhaul_store::wrap::{Operation, Wrap, Wrapped};
use longhaul_store::{
    CallKey, Digest, Memory, OnOrphan, Once, OrphanRule, Outcome, Record, Scope, Settings, StepClock,
    StoreFuture, TaskId, Time,
};
use longhaul_tasks::machine::Caller;
use longhaul_tasks::runner::{Answer, Call, Engine, Pace, Worker};

use crate::rig::{InOneThread, Outside, call, engine, future, job, joinable, success, task};

const DAY: u64 = 24 * 3600;

/// An engine whose store is on a clock that goes with the runtime's.
struct Timed {
    clock: StepClock,
    engine: Engine,
    outside: Outside,
}

impl Timed {
    async fn new() -> Self {
        let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
        let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
        let outside = Outside::default();
        let engine = engine(store, &outside);
        engine.start().await.unwrap();
        Self { clock, engine, outside }
    }

    /// Lets time pass, and what is due be swept.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds.div_ceil(5) {
            self.clock.advance(Duration::from_secs(5));
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    async fn find(&self, id: &TaskId) -> Record {
        self.engine.find(Scope::Operator, id).await.unwrap().expect("it is kept")
    }

    fn orphans(&self) -> (u64, u64) {
        let figures = self.engine.figures();
        (figures.orphans, figures.orphans_cancelled)
    }
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn awaited(mut call: Call, then: OnOrphan) -> Call {
    call.orphan = Some(OrphanRule::new(Duration::from_secs(60), then));
    call
}

/// K2 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn k2_a_task_for_which_nobody_comes_is_counted_once_and_goes_on() {
    let rig = Timed::new().await;
    let id = task(rig.engine.call(awaited(call(Caller::AsksForTask, future(DAY)), OnOrphan::Keep)).await);
    rig.pass(55).await;
    assert_eq!(rig.orphans(), (0, 0));
    rig.pass(300).await;
    assert_eq!(rig.orphans(), (1, 0));
    assert!(!rig.find(&id).await.is_terminal());
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_is_cancelled_ends_with_its_job() {
    let rig = Timed::new().await;
    let work = job(&rig.outside);
    let id = task(rig.engine.call(awaited(call(Caller::AsksForTask, work), OnOrphan::Cancel)).await);
    rig.pass(100).await;
    assert_eq!(rig.orphans(), (1, 1));
    let ended = rig.find(&id).await;
    assert_eq!(ended.outcome(), Some(&Outcome::cancelled(Some("nobody has asked after it".into()))));
    assert_eq!(rig.outside.outcome(&id), Some(Outcome::cancelled(None)), "what runs of it is ended");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_once_keeps_the_task() {
    let rig = Timed::new().await;
    let id = task(rig.engine.call(awaited(call(Caller::AsksForTask, future(DAY)), OnOrphan::Cancel)).await);
    rig.pass(30).await;
    let seen = rig.find(&id).await;
    assert_eq!(seen.came_back_at, None, "an operator's look is nobody's coming back");
    rig.engine.came_back(&seen);
    rig.pass(300).await;
    assert_eq!(rig.orphans(), (0, 0));
    let kept = rig.find(&id).await;
    assert!(!kept.is_terminal() && kept.came_back_at.is_some(), "{kept:?}");
}

/// Counts how often it is noted that somebody came.
#[derive(Debug, Default)]
struct Notes(Arc<AtomicU32>);

impl Wrap for Notes {
    fn around<'a, T: Send + 'a>(&'a self, what: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        self.0.fetch_add(u32::from(what == Operation::CameBack), Ordering::Relaxed);
        doing
    }
}

#[tokio::test(start_paused = true)]
async fn that_somebody_came_is_noted_once_and_of_a_task_that_was_seen_to_end_never() {
    let notes = Notes::default();
    let noted = Arc::clone(&notes.0);
    let store = Arc::new(Wrapped::new(Memory::new(), notes));
    let engine = Engine::new(store, Arc::new(InOneThread), Pace::default(), [Worker::new("future")]);
    engine.start().await.unwrap();
    for (lasts, times) in [(2, 0), (DAY, 1)] {
        let id = task(engine.call(awaited(call(Caller::AsksForTask, future(lasts)), OnOrphan::Cancel)).await);
        for _ in 0..20 {
            engine.came_back(&engine.find(Scope::Operator, &id).await.unwrap().unwrap());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(noted.load(Ordering::Relaxed), times, "of one that lasts {lasts} s");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_need_come_before_he_is_told_of_the_task() {
    let rig = Timed::new().await;
    // Handed over after 50 s; whoever waits to the end is there.
    let waits = rig.engine.call(awaited(call(Caller::Waits, future(DAY)), OnOrphan::Cancel));
    let mut patient = awaited(call(Caller::Waits, future(300)), OnOrphan::Cancel);
    patient.hold = None;
    let patient = rig.engine.call(patient);
    rig.pass(100).await;
    assert_eq!(rig.orphans(), (0, 0));
    let id = task(waits.await);
    rig.pass(60).await;
    assert_eq!(rig.orphans(), (1, 1));
    assert!(rig.find(&id).await.is_terminal());
    rig.pass(200).await;
    assert!(matches!(patient.await, Answer::Outcome(outcome) if outcome == success()));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_to_ask_seldom_has_time_for_ten_looks() {
    let rig = Timed::new().await;
    let mut seldom = awaited(call(Caller::AsksForTask, future(DAY)), OnOrphan::Cancel);
    seldom.poll_interval_ms = Some(30_000);
    let id = task(rig.engine.call(seldom).await);
    rig.pass(290).await;
    assert!(!rig.find(&id).await.is_terminal());
    rig.pass(60).await;
    assert!(rig.find(&id).await.is_terminal());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_again_or_joined_has_its_caller_back() {
    let rig = Timed::new().await;
    let keyed = || {
        let mut call = awaited(call(Caller::AsksForTask, future(DAY)), OnOrphan::Cancel);
        call.once = Some(Once::new(CallKey::new("key").unwrap(), Digest::new([1; 32])));
        call
    };
    let first = task(rig.engine.call(keyed()).await);
    let led = rig.engine.call(awaited(joinable(&rig.outside), OnOrphan::Cancel));
    rig.pass(30).await;
    assert_eq!(task(rig.engine.call(keyed()).await), first);
    let joined = rig.engine.call(awaited(joinable(&rig.outside), OnOrphan::Cancel));
    rig.pass(300).await;
    assert_eq!(rig.orphans(), (0, 0));
    assert!(!rig.find(&first).await.is_terminal());
    let (led, joined) = (task(led.await), task(joined.await));
    assert_eq!(led, joined);
    assert!(!rig.find(&led).await.is_terminal());
}

#[test]
fn what_was_awaited_by_a_process_that_died_is_awaited_by_the_next() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let store = Memory::with(Settings::default(), Arc::new(clock.clone()));
    let outside = Outside::default();
    let next = store.another_node();
    let dying = paused();
    let id = dying.block_on(async {
        let work = job(&outside);
        let engine = engine(store, &outside);
        task(engine.call(awaited(call(Caller::AsksForTask, work), OnOrphan::Cancel)).await)
    });
    drop(dying);
    clock.advance(Duration::from_secs(300));
    paused().block_on(async {
        let engine = engine(next, &outside);
        engine.start().await.unwrap();
        let rig = Timed { clock, engine, outside };
        rig.pass(40).await;
        assert!(!rig.find(&id).await.is_terminal(), "nobody could come meanwhile");
        rig.pass(300).await;
        let ended = rig.find(&id).await;
        assert_eq!(ended.outcome(), Some(&Outcome::cancelled(Some("nobody has asked after it".into()))));
    });
}
