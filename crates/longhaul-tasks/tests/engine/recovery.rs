//! What becomes of the tasks of a node that is gone.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    Clock, Memory, NewTask, Outcome, Rerun, Scope, Settings, StepClock, TaskId, TaskStore as _, Time,
};
use longhaul_tasks::machine::Caller;
use tokio::runtime::Runtime;

use super::rig::{Outside, ann, call, engine, future, job, json, success, task};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// K4 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn another_node_finds_the_job_of_one_that_died() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let (running, unfinished) = {
        let first = engine(store, &outside);
        let running = task(first.call(call(Caller::TakesTask, job(&outside))).await);
        let lost = task(first.call(call(Caller::TakesTask, future(100_000))).await);
        (running, lost)
    };
    // The first engine's runs live on in this runtime, as a paused process would: its store handle does too.
    let second = engine(next, &outside);
    assert_eq!(second.start().await.unwrap(), 0, "a living node keeps its tasks");
    outside.end(&running, success());
    let ended = second.ended(Scope::Operator, &running).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()));
    assert!(!second.find(Scope::Operator, &unfinished).await.unwrap().unwrap().is_terminal());
}

#[test]
fn a_node_that_dies_leaves_jobs_to_be_found_and_futures_lost() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let dying = runtime();
    let (running, lost) = dying.block_on(async {
        let first = engine(store, &outside);
        let running = task(first.call(call(Caller::TakesTask, job(&outside))).await);
        (running, task(first.call(call(Caller::TakesTask, future(100_000))).await))
    });
    drop(dying);
    runtime().block_on(async {
        let second = engine(next, &outside);
        assert_eq!(second.start().await.unwrap(), 2);
        let ended = second.ended(Scope::Operator, &lost).await.unwrap().unwrap();
        assert!(matches!(ended.outcome(), Some(Outcome::Lost { .. })));
        assert_eq!(outside.0.lock().unwrap()[&running].starts, 1, "found, not started again");
        outside.end(&running, success());
        let ended = second.ended(Scope::Operator, &running).await.unwrap().unwrap();
        assert_eq!(ended.outcome(), Some(&success()));
        let forgetful = Outside::default();
        assert!(forgetful.0.lock().unwrap().is_empty());
    });
}

#[test]
fn a_job_that_must_not_be_taken_up_again_is_ended_and_lost() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let dying = runtime();
    let id = dying.block_on(async {
        let mut call = call(Caller::TakesTask, job(&outside));
        call.rerun = Rerun::Never;
        task(engine(store, &outside).call(call).await)
    });
    drop(dying);
    runtime().block_on(async {
        let second = engine(next, &outside);
        assert_eq!(second.start().await.unwrap(), 1);
        let ended = second.ended(Scope::Operator, &id).await.unwrap().unwrap();
        assert!(matches!(ended.outcome(), Some(Outcome::Lost { .. })), "{ended:?}");
        assert_eq!(outside.outcome(&id), Some(Outcome::cancelled(None)), "and nothing of it runs on");
    });
}

#[test]
fn a_job_that_is_slow_to_be_found_keeps_no_other_waiting() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let dying = runtime();
    let ids = dying.block_on(async {
        let first = engine(store, &outside);
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(task(first.call(call(Caller::TakesTask, job(&outside))).await));
        }
        ids
    });
    drop(dying);
    runtime().block_on(async {
        for id in &ids[..2] {
            outside.0.lock().unwrap().get_mut(id).unwrap().out_of_reach = true;
        }
        let second = engine(next, &outside);
        let took = tokio::time::timeout(Duration::from_secs(1), second.start()).await;
        assert_eq!(took.unwrap().unwrap(), 3, "nor whoever starts the engine");
        outside.end(&ids[2], success());
        let ended = second.ended(Scope::Operator, &ids[2]);
        let ended = tokio::time::timeout(Duration::from_secs(1), ended).await.unwrap();
        assert_eq!(ended.unwrap().unwrap().outcome(), Some(&success()));
    });
}

/// K3 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_job_whose_row_was_written_and_that_never_started_is_started_once() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let id = TaskId::new("job-1").unwrap();
    runtime().block_on(async {
        let mut task = NewTask::new(id.clone(), ann(), "job", json("{}"));
        task.rerun = Rerun::Reattach;
        store.create(task).await.unwrap();
        drop(store);
    });
    runtime().block_on(async {
        let engine = engine(next, &outside);
        assert_eq!(engine.start().await.unwrap(), 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(outside.0.lock().unwrap()[&id].starts, 1);
        outside.end(&id, success());
        assert!(engine.ended(Scope::Operator, &id).await.unwrap().unwrap().is_terminal());
    });
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_leases_ran_out_while_it_stood_still_keeps_its_work() {
    let outside = Outside::default();
    let clock = clock();
    let store = Memory::with(Settings::default(), Arc::clone(&clock) as Arc<dyn Clock>);
    let engine = engine(store, &outside);
    let kept = task(engine.call(call(Caller::TakesTask, job(&outside))).await);
    let inside = task(engine.call(call(Caller::TakesTask, future(3600))).await);
    // The machine slept: the store's time went on, the runtime's did not.
    clock.advance(Duration::from_secs(600));
    assert_eq!(engine.start().await.unwrap(), 2, "it claims its own back");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for id in [&kept, &inside] {
        let record = engine.find(Scope::Operator, id).await.unwrap().unwrap();
        assert_eq!(record.outcome(), None, "{id}");
    }
    assert_eq!(outside.0.lock().unwrap()[&kept].starts, 1);
    outside.end(&kept, success());
    let ended = engine.ended(Scope::Operator, &kept).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()));
    let ended = engine.ended(Scope::Operator, &inside).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()), "the future lived on, and its end is recorded");
}

/// A job that must not be taken up again, of a node that is gone, and the store of the next.
fn left_behind(outside: &Outside, clock: &Arc<StepClock>) -> (TaskId, Memory) {
    let store = Memory::with(Settings::default(), Arc::clone(clock) as Arc<dyn Clock>);
    let next = store.another_node();
    let id = runtime().block_on(async {
        let mut call = call(Caller::TakesTask, job(outside));
        call.rerun = Rerun::Never;
        task(engine(store, outside).call(call).await)
    });
    (id, next)
}

fn clock() -> Arc<StepClock> {
    Arc::new(StepClock::at(Time::from_unix_ms(1_800_000_000_000)))
}

#[test]
fn what_ended_well_while_nobody_looked_is_not_lost_though_it_must_not_be_taken_up_again() {
    let outside = Outside::default();
    let (id, next) = left_behind(&outside, &clock());
    outside.end(&id, success());
    runtime().block_on(async {
        let second = engine(next, &outside);
        assert_eq!(second.start().await.unwrap(), 1);
        let ended = second.ended(Scope::Operator, &id).await.unwrap().unwrap();
        assert_eq!(ended.outcome(), Some(&success()));
    });
}

#[test]
fn what_never_began_begins_though_it_must_not_be_taken_up_again() {
    let outside = Outside::default();
    let (id, next) = left_behind(&outside, &clock());
    outside.0.lock().unwrap().clear();
    runtime().block_on(async {
        let second = engine(next, &outside);
        assert_eq!(second.start().await.unwrap(), 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        outside.end(&id, success());
        let ended = second.ended(Scope::Operator, &id).await.unwrap().unwrap();
        assert_eq!(ended.outcome(), Some(&success()));
    });
}

#[test]
fn a_claim_is_held_while_what_is_left_of_its_job_is_ended() {
    let (outside, clock) = (Outside::default(), clock());
    let (id, next) = left_behind(&outside, &clock);
    outside.0.lock().unwrap().get_mut(&id).unwrap().takes = Duration::from_secs(600);
    let other = next.another_node();
    runtime().block_on(async {
        let second = engine(next, &outside);
        assert_eq!(second.start().await.unwrap(), 1);
        let claimed = second.find(Scope::Operator, &id).await.unwrap().unwrap();
        for _ in 0..300 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance(Duration::from_secs(1));
            assert_eq!(other.claim_one(&id).await.unwrap(), None, "its node is at it");
        }
        let then = second.find(Scope::Operator, &id).await.unwrap().unwrap();
        assert_eq!((then.epoch, then.attempt), (claimed.epoch, claimed.attempt));
        let ended = second.ended(Scope::Operator, &id).await.unwrap().unwrap();
        assert!(matches!(ended.outcome(), Some(Outcome::Lost { .. })), "{ended:?}");
    });
}

#[test]
fn a_job_that_was_lost_is_recorded_so_though_its_claim_ran_out_meanwhile() {
    let (outside, clock) = (Outside::default(), clock());
    let (id, next) = left_behind(&outside, &clock);
    outside.0.lock().unwrap().get_mut(&id).unwrap().takes = Duration::from_secs(60);
    runtime().block_on(async {
        let second = engine(next, &outside);
        second.start().await.unwrap();
        let before = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The machine slept: the store's time went on, the runtime's did not, and the node claims its own again.
        clock.advance(Duration::from_secs(600));
        let ended = second.ended(Scope::Operator, &id).await.unwrap().unwrap();
        assert!(matches!(ended.outcome(), Some(Outcome::Lost { .. })), "{ended:?}");
        assert!(before.elapsed() < Duration::from_secs(62), "by the first to look, not by another");
    });
}
