//! Nodes that work on nothing, and go on for one another.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{Batch, Memory, Outcome, Record, Scope, TaskId, TaskStore as _};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::runner::{Answer, Engine, Observed, Observer, Pace, Ticket, Worker};

use crate::rig::{call, future, success};

#[derive(Debug)]
struct Unheard;

impl Observer for Unheard {
    fn observe<'a>(&'a self, _: Observed<'a>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn front(store: &Memory) -> Engine {
    let store = Arc::new(store.another_node());
    Engine::front(store, Arc::new(Tokio::new()), Pace::default(), [Worker::new("future")])
}

/// Waits at this node for a task of another, as if that were gone.
fn go_on(node: &Engine, id: &TaskId) -> Ticket {
    let (engine, id) = (node.clone(), id.clone());
    let found = async move {
        let found = engine.find(Scope::Operator, &id).await.unwrap();
        found.ok_or_else(|| Outcome::lost("it is not there"))
    };
    node.wait_on(found, Plan::new(Caller::Waits, true), None, Arc::new(Unheard))
}

async fn found(store: &Memory, id: &TaskId) -> Option<Record> {
    store.get(Scope::Operator, id).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nodes_go_on_with_is_answered_at_each_that_waits_for_it() {
    let store = Memory::new();
    let nodes = [front(&store), front(&store), front(&store)];
    let settle = || tokio::time::sleep(Duration::from_secs(1));
    let mut waits = call(Caller::Waits, future(1));
    (waits.hold, waits.orphan) = (None, None);
    // Its node is not gone at all, and two others go on.
    let first = nodes[0].call(waits);
    settle().await;
    let task = store.claim(1, None).await.unwrap().remove(0);
    let others = [go_on(&nodes[1], &task.id), go_on(&nodes[2], &task.id)];
    settle().await;
    store.finish(&task.id, task.epoch, success(), Batch::new()).await.unwrap();
    for waits in [first].into_iter().chain(others) {
        let answer = waits.await;
        assert!(matches!(&answer, Answer::Outcome(outcome) if *outcome == success()), "{answer:?}");
    }
    settle().await;
    assert!(found(&store, &task.id).await.is_some(), "nobody knows who waits for it still");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_other_node_went_on_with_leaves_nothing() {
    let store = Memory::new();
    let mut waits = call(Caller::Waits, future(1));
    waits.hold = None;
    let ticket = front(&store).call(waits);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let task = store.claim(1, None).await.unwrap().remove(0);
    store.finish(&task.id, task.epoch, success(), Batch::new()).await.unwrap();
    assert!(matches!(ticket.await, Answer::Outcome(outcome) if outcome == success()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(found(&store, &task.id).await, None);
}
