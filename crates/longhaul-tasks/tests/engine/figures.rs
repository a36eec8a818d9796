//! What a node counts of what it has come across.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul_store::{
    Json, Memory, NewTask, Owner, Phase, Record, Reply, Rerun, RowKey, Scope, Settings, Start, StepClock,
    SystemClock, TaskId, TaskStore as _, Time,
};
use longhaul_tasks::environment::Tokio;
use longhaul_tasks::machine::Caller;
use longhaul_tasks::runner::{Engine, Figures, Pace, Worker};

use crate::resuming::{Lingering, until};
use crate::rig::{call, future};

fn on_a_clock() -> (Memory, StepClock) {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    (Memory::with(Settings::default(), Arc::new(clock.clone())), clock)
}

fn queued(store: &Memory, tool: &str) -> NewTask {
    let mut new =
        NewTask::new(TaskId::new(tool).unwrap(), Owner::Anonymous, tool, Json::parse("{}").unwrap());
    (new.start, new.rerun) = (Start::Queued { not_before: store.now() }, Rerun::Resumable);
    new
}

/// The figures, once they are so.
async fn counted(engine: &Engine, are: impl Fn(&Figures) -> bool) -> Figures {
    for _ in 0..1000 {
        let figures = engine.figures();
        if are(&figures) {
            return figures;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", engine.figures());
}

#[tokio::test(start_paused = true)]
async fn a_call_past_its_limit_has_waited_for_its_place_since_then() {
    let (store, clock) = on_a_clock();
    let workers = [Worker::new("future").with_limit(Some(1))];
    let engine = Engine::new(Arc::new(store), Arc::new(Tokio::new()), Pace::default(), workers);
    let first = engine.call(call(Caller::Waits, future(40)));
    let second = engine.call(call(Caller::Waits, future(40)));
    tokio::time::sleep(Duration::from_secs(5)).await;
    clock.advance(Duration::from_secs(10));
    let third = engine.call(call(Caller::Waits, future(40)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    clock.advance(Duration::from_secs(5));
    assert_eq!(engine.figures().queue_age, Duration::from_secs(15), "of the one that waits longest");
    first.await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.figures().queue_age, Duration::from_secs(5));
    second.cancel();
    third.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.figures().queue_age, Duration::ZERO, "who has left waits no more");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_no_node_takes_up_has_waited_since_it_was_due() {
    let (store, clock) = on_a_clock();
    store.create(queued(&store, "elsewhere")).await.unwrap();
    let engine = Engine::new(Arc::new(store.another_node()), Arc::new(Tokio::new()), Pace::default(), []);
    engine.start().await.unwrap();
    clock.advance(Duration::from_secs(100));
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(engine.figures().queue_age, Duration::from_secs(100));
    store.request_cancel(Scope::Operator, &TaskId::new("elsewhere").unwrap(), None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(engine.figures().queue_age, Duration::ZERO);
}

#[tokio::test]
async fn what_is_taken_over_and_what_is_entered_again_are_counted_apart() {
    let store = Memory::new();
    let work = Lingering { asks: true, ..Lingering::default() };
    work.let_go.store(true, Ordering::SeqCst);
    // Its node dies before anything of it is done.
    let id = store.another_node().create(queued(&store, "linger")).await.unwrap().into_record().id;
    store.another_node().claim_one(&id).await.unwrap().unwrap();
    let engine = work.engine_of(&store, "linger", longhaul_store::Accepts::default());
    assert_eq!(engine.figures(), Figures::default());
    engine.start().await.unwrap();
    until(&store, &id, |record| matches!(record.phase, Phase::Parked { .. })).await;
    let figures = engine.figures();
    assert_eq!((figures.takeovers, figures.replays), (1, 1));
    // What goes on when it is answered was nobody else's.
    engine.answer(Scope::Operator, &id, &[Reply::new("q", Json::parse("true").unwrap())]).await.unwrap();
    until(&store, &id, Record::is_terminal).await;
    let figures = counted(&engine, |figures| figures.sweeps > 0).await;
    assert_eq!((figures.takeovers, figures.replays, figures.fenced_writes), (1, 2, 0));
    assert_eq!((figures.orphans, figures.witness_violations), (0, 0));
}

#[tokio::test]
async fn a_task_that_nothing_will_move_on_is_found_and_counted_once() {
    let rows: [(RowKey, &str); 0] = [];
    let store = Memory::restored(Settings::default(), Arc::new(SystemClock::new()), rows).unwrap();
    store.create(queued(&store, "elsewhere")).await.unwrap();
    // No operation makes such a row: a mistake would have to.
    let broken: Vec<(RowKey, String)> = store
        .changes()
        .into_iter()
        .map(|change| {
            let mut row: serde_json::Value = serde_json::from_str(&change.row.unwrap()).unwrap();
            row["record"]["phase"] = serde_json::json!({"Parked": {"until": null}});
            (change.key, row.to_string())
        })
        .collect();
    let store = Memory::restored(Settings::default(), Arc::new(SystemClock::new()), broken).unwrap();
    let mut pace = Pace::default();
    pace.check_every = Duration::from_millis(5);
    let engine = Engine::new(Arc::new(store), Arc::new(Tokio::new()), pace, []);
    engine.start().await.unwrap();
    counted(&engine, |figures| figures.witness_violations > 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(engine.figures().witness_violations, 1);
}
