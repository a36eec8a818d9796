//! Tools of several versions on one store: who goes on with which task, and what is said of one that nobody runs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul_store::{
    Accepts, Json, Memory, NewTask, Owner, Phase, Record, TaskId, TaskStore as _, ToolVersion,
};
use longhaul_tasks::project::{self, View};

use super::resuming::{Lingering, done, until};

fn accepts(requirement: &str) -> Accepts {
    Accepts::new(requirement).unwrap()
}

/// The record, once it says that nobody runs it.
async fn stranded(store: &Memory, id: &TaskId, message: &str) -> Record {
    let is_told = |record: &Record| {
        matches!(record.phase, Phase::Queued { .. }) && record.status_message.as_deref() == Some(message)
    };
    let record = until(store, id, is_told).await;
    for view in [View::D1, View::D2, View::D3] {
        assert_eq!(project::task(&record, view).status_message.as_deref(), Some(message), "{view:?}");
    }
    record
}

#[tokio::test]
async fn v1_a_task_is_gone_on_with_only_by_who_accepts_its_version() {
    let (store, work) = (Memory::new(), Lingering::default());
    let (old, new) =
        (work.engine_of(&store, "linger", accepts("=1")), work.engine_of(&store, "linger", accepts("=2")));
    old.start().await.unwrap();
    new.start().await.unwrap();
    let id = work.begin_as(&old, ToolVersion::new("1").unwrap()).await;
    until(&store, &id, |_| work.entered.load(Ordering::SeqCst) == 1).await;
    old.drain(Duration::from_secs(5)).await;

    let queued = stranded(&store, &id, "queued: no node runs version 1.0.0 of linger").await;
    assert_eq!(queued.attempt, 0, "nothing is charged for it");
    let both = work.engine_of(&store, "linger", accepts(">=1, <3"));
    both.start().await.unwrap();
    until(&store, &id, |record| record.status_message.as_deref() == Some("taken up again")).await;
    work.let_go.store(true, Ordering::SeqCst);
    let ended = until(&store, &id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), ended.attempt), (Some(&done()), 1));
    assert_eq!(work.entered.load(Ordering::SeqCst), 2, "by who accepts it");
}

#[tokio::test]
async fn v2_a_task_whose_tool_is_gone_waits_and_says_so() {
    let (store, work) = (Memory::new(), Lingering::default());
    let one = work.engine_of(&store, "linger", Accepts::default());
    one.start().await.unwrap();
    let id = work.begin_as(&one, ToolVersion::default()).await;
    until(&store, &id, |_| work.entered.load(Ordering::SeqCst) == 1).await;
    one.drain(Duration::from_secs(5)).await;
    let renamed = work.engine_of(&store, "tarry", Accepts::default());
    renamed.start().await.unwrap();
    let queued = stranded(&store, &id, "queued: no node runs linger").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let later = until(&store, &id, |_| true).await;
    assert_eq!(later, queued, "it is said once");
    assert_eq!(work.entered.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn v2_what_never_runs_twice_is_lost_in_whichever_version() {
    let (store, work) = (Memory::new(), Lingering::default());
    let id = TaskId::new("once").unwrap();
    let mut new = NewTask::new(id.clone(), Owner::Anonymous, "linger", Json::parse("{}").unwrap());
    new.version = ToolVersion::new("1").unwrap();
    // Its node is gone at once.
    store.another_node().create(new).await.unwrap();
    let later = work.engine_of(&store, "linger", accepts("=2"));
    later.start().await.unwrap();
    let ended = until(&store, &id, Record::is_terminal).await;
    assert!(matches!(ended.outcome(), Some(longhaul_store::Outcome::Lost { .. })), "{ended:?}");
    assert_eq!(work.entered.load(Ordering::SeqCst), 0);
}
