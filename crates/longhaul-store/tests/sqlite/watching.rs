//! Which waits end, and which do not.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use longhaul_store::{Batch, TaskStore, TaskWatch};

use super::{create, id, open};

fn is_ready(watch: &mut TaskWatch) -> bool {
    pin!(watch.changed()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[tokio::test]
async fn only_the_task_that_changed_wakes_whoever_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let (here, there) = (open(&path), open(&path));
    let (changed, still) = (create(&here, "changed").await, create(&here, "still").await);
    let mut watches =
        [here.watch(&changed.id), there.watch(&changed.id), here.watch(&still.id), there.watch(&still.id)];
    let report = |words: &str| Batch::new().with_status_message(words);
    // The first look of another process may wake everyone; with its second the first is surely over.
    for round in 0..2 {
        here.write(&changed.id, changed.epoch, report(&format!("warm up {round}"))).await.unwrap();
        watches[1].changed().await;
    }
    for watch in &mut watches {
        is_ready(watch);
    }
    for round in 0..3 {
        here.write(&changed.id, changed.epoch, report(&format!("round {round}"))).await.unwrap();
        watches[0].changed().await;
        watches[1].changed().await;
        assert!(!is_ready(&mut watches[2]) && !is_ready(&mut watches[3]), "nothing happened to the other");
    }
    there.write(&changed.id, changed.epoch, report("from there")).await.unwrap();
    watches[0].changed().await;
    assert!(!is_ready(&mut watches[2]));
}

#[tokio::test]
async fn a_wait_on_a_store_that_closes_ends() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("tasks.db"));
    let mut watch = store.watch(&id("never"));
    assert!(!is_ready(&mut watch));
    drop(store);
    watch.changed().await;
}
