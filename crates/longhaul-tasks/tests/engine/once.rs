//! Calls that are made once, under a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_store::{CallKey, Dialect, Digest, Memory, Once, Outcome, Scope};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::runner::{Answer, Call, Engine, Work};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use super::rig::{Outside, call, engine, job, success, task};

/// Counts how often its work runs.
#[derive(Clone, Default)]
struct Effects(Arc<AtomicUsize>);

impl Effects {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Work that takes so long.
    fn work(&self, seconds: u64) -> Work {
        let effects = self.0.clone();
        Work::Future(Box::pin(async move {
            effects.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            success()
        }))
    }
}

fn keyed(caller: Caller, work: Work, of: u8) -> Call {
    let mut call = call(caller, work);
    call.plan = Plan::new(caller, true);
    call.once = Some(Once::new(CallKey::new("key:1").unwrap(), Digest::new([of; 32])));
    call
}

fn outcome(answer: Answer) -> Outcome {
    match answer {
        Answer::Outcome(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn refused(answer: Answer) -> &'static str {
    match answer {
        Answer::Refused(refusal) => refusal.reason.expect("a reason"),
        other => panic!("{other:?}"),
    }
}

async fn kept(engine: &Engine) -> u64 {
    engine.counts().await.unwrap().retained
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn d2_the_same_call_twice_at_once_on_two_nodes_is_one_task() {
    let (store, effects) = (Memory::new(), Effects::default());
    let nodes = [
        engine(store.another_node(), &Outside::default()),
        engine(store.another_node(), &Outside::default()),
    ];
    for caller in [Caller::TakesTask, Caller::AsksForTask] {
        let [first, second] = nodes.each_ref().map(|node| node.call(keyed(caller, effects.work(60), 1)));
        let (first, second) = tokio::join!(first, second);
        assert_eq!(task(first), task(second));
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!((effects.count(), kept(&nodes[0]).await), (1, 1));
    let later = task(nodes[1].call(keyed(Caller::TakesTask, effects.work(60), 1)).await);
    let found = nodes[1].find(Scope::Operator, &later).await.unwrap().unwrap();
    assert_eq!((found.outcome(), effects.count()), (Some(&success()), 1), "also after it has ended");
}

#[tokio::test(start_paused = true)]
async fn d2_without_a_key_the_same_call_twice_is_two_tasks() {
    let engine = engine(Memory::new(), &Outside::default());
    let first = task(engine.call(call(Caller::TakesTask, Effects::default().work(60))).await);
    assert_ne!(first, task(engine.call(call(Caller::TakesTask, Effects::default().work(60))).await));
}

#[tokio::test(start_paused = true)]
async fn d3_the_key_of_another_call_is_refused_and_nothing_is_created() {
    let (engine, effects) = (engine(Memory::new(), &Outside::default()), Effects::default());
    let first = task(engine.call(keyed(Caller::TakesTask, effects.work(1), 1)).await);
    for caller in [Caller::TakesTask, Caller::AsksForTask, Caller::Waits] {
        let answer = engine.call(keyed(caller, effects.work(1), 2)).await;
        assert_eq!(refused(answer), "idempotency_conflict");
    }
    engine.ended(Scope::Operator, &first).await.unwrap();
    assert_eq!((effects.count(), kept(&engine).await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_held_repeat_waits_for_the_call_that_runs_on_whichever_node() {
    let (store, effects) = (Memory::new(), Effects::default());
    let nodes = [
        engine(store.another_node(), &Outside::default()),
        engine(store.another_node(), &Outside::default()),
    ];
    let first = nodes[0].call(keyed(Caller::Waits, effects.work(20), 1));
    yield_now().await;
    // Its connection is lost.
    drop(first);
    let again = nodes.each_ref().map(|node| node.call(keyed(Caller::Waits, effects.work(20), 1)));
    for answer in again {
        assert_eq!(outcome(answer.await), success());
    }
    assert_eq!(outcome(nodes[1].call(keyed(Caller::Waits, effects.work(20), 1)).await), success());
    assert_eq!((effects.count(), kept(&nodes[0]).await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_held_repeat_is_handed_over_when_it_has_waited_long_enough() {
    let (engine, effects) = (engine(Memory::new(), &Outside::default()), Effects::default());
    let first = engine.call(keyed(Caller::Waits, effects.work(1_000), 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = engine.call(keyed(Caller::Waits, effects.work(1_000), 1));
    let (first, again) = tokio::join!(first, again);
    assert!(matches!((&first, &again), (Answer::HandOver(_), Answer::HandOver(_))));
    assert_eq!(task(first), task(again));
}

#[tokio::test(start_paused = true)]
async fn who_makes_a_call_again_can_cancel_it() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    drop(engine.call(keyed(Caller::Waits, job(&outside), 1)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = engine.call(keyed(Caller::Waits, job(&outside), 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    again.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = outside.only();
    assert!(matches!(outside.outcome(&id), Some(Outcome::Cancelled { .. })), "its job is ended");
    let task = engine.find(Scope::Operator, &id).await.unwrap().unwrap();
    assert!(matches!(task.outcome(), Some(Outcome::Cancelled { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_nothing_while_another_waits_for_the_same_call() {
    let (engine, effects) = (engine(Memory::new(), &Outside::default()), Effects::default());
    let first = engine.call(keyed(Caller::Waits, effects.work(20), 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = engine.call(keyed(Caller::Waits, effects.work(20), 1));
    let third = engine.call(keyed(Caller::Waits, effects.work(20), 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.cancel();
    third.cancel();
    assert_eq!((outcome(again.await), effects.count()), (success(), 1));
}

#[tokio::test(start_paused = true)]
async fn who_makes_a_call_again_and_hangs_up_ends_it_for_nobody_who_waits() {
    let store = Memory::new();
    let [here, elsewhere] = [(); 2].map(|()| engine(store.another_node(), &Outside::default()));
    for node in [&here, &elsewhere] {
        let effects = Effects::default();
        let of = |seconds| {
            let mut call = keyed(Caller::Waits, effects.work(seconds), 1);
            let name = if std::ptr::eq(node, &here) { "key:here" } else { "key:elsewhere" };
            call.once = Some(Once::new(CallKey::new(name).unwrap(), Digest::new([1; 32])));
            call
        };
        let first = here.call(of(20));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let again = node.call(of(20));
        tokio::time::sleep(Duration::from_secs(1)).await;
        again.cancel();
        assert_eq!((outcome(first.await), effects.count()), (success(), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_who_waits_for_a_call_can_cancel_it() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let first = engine.call(keyed(Caller::Waits, job(&outside), 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = engine.call(keyed(Caller::Waits, job(&outside), 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(outside.outcome(&outside.only()), None, "another waits");
    again.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(outside.outcome(&outside.only()), Some(Outcome::Cancelled { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_call_in_place_is_made_once_and_never_handed_over() {
    let (engine, effects) = (engine(Memory::new(), &Outside::default()), Effects::default());
    let make = || {
        let mut call = keyed(Caller::Waits, effects.work(20), 1);
        (call.plan, call.after, call.hold, call.dialect) = (Plan::in_place_once(), None, None, Dialect::Held);
        engine.call(call)
    };
    let first = make();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = make();
    let drained = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        engine.drain(Duration::from_secs(100)).await;
    };
    let (first, again, ()) = tokio::join!(first, again, drained);
    assert_eq!((outcome(first), outcome(again), effects.count()), (success(), success(), 1));
}

/// The caller of the first process never hears of its task.
#[test]
fn k2_after_commit_before_the_response_the_same_key_gives_the_same_task() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let dying = runtime();
    let id = dying.block_on(async {
        let first = engine(store, &outside);
        drop(first.call(keyed(Caller::TakesTask, job(&outside), 1)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        outside.only()
    });
    drop(dying);
    runtime().block_on(async {
        let second = engine(next, &outside);
        second.start().await.unwrap();
        assert_eq!(task(second.call(keyed(Caller::TakesTask, job(&outside), 1)).await), id);
        let held = second.call(keyed(Caller::Waits, job(&outside), 1));
        yield_now().await;
        outside.end(&id, success());
        assert_eq!(outcome(held.await), success());
        assert_eq!(outside.0.lock().unwrap()[&id].starts, 1, "it ran once");
    });
}

/// What may not run twice does not, however often it is asked for.
#[test]
fn k8_work_that_was_lost_is_not_run_again_for_the_same_key() {
    let (store, effects) = (Memory::new(), Effects::default());
    let next = store.another_node();
    let dying = runtime();
    dying.block_on(async {
        drop(engine(store, &Outside::default()).call(keyed(Caller::Waits, effects.work(100), 1)));
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    drop(dying);
    runtime().block_on(async {
        let second = engine(next, &Outside::default());
        second.start().await.unwrap();
        for _ in 0..2 {
            let answer = second.call(keyed(Caller::Waits, effects.work(100), 1)).await;
            assert!(matches!(outcome(answer), Outcome::Lost { .. }));
        }
        assert_eq!((effects.count(), kept(&second).await), (1, 1));
    });
}
