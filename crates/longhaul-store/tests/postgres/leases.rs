//! What it takes to keep many leases.

use std::{sync::Arc, time::Duration};

use longhaul_store::{Batch, Epoch, PostgresOptions, TaskId, TaskStore};
use tokio::time::timeout;

use crate::{
    networked::{Rig, task, until},
    rig::{Server, multiply, query, run, session, shared, try_query},
};

const MANY: u64 = 3_000;

/// Has this node hold many tasks: the last of them is called `t3000`.
async fn hold_many(store: &dyn TaskStore, url: &str) -> Vec<(TaskId, Epoch)> {
    let first = store.create(task("t1")).await.unwrap().into_record();
    multiply(url, "t1", "t", 2..=MANY);
    (1..=MANY).map(|number| (TaskId::new(format!("t{number}")).unwrap(), first.epoch)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_leases_are_renewed_by_few_questions() {
    let url = shared().database();
    let way = shared().way();
    let store = PostgresOptions::new().open(&<Server as Rig>::by(&way, &url)).await.unwrap();
    let mut held = hold_many(&store, &url).await;
    query(&url, "UPDATE longhaul.tasks SET lease_until = 0, epoch = epoch + (id = 't7')::int");
    let (taken, gone) = (TaskId::new("t7").unwrap(), TaskId::new("gone").unwrap());
    held.push((gone.clone(), held[0].1));
    let before = way.asked();
    assert_eq!(store.renew(&held).await.unwrap(), [taken, gone]);
    let asked = way.asked() - before;
    assert!(asked < MANY / 10, "asked {asked} times");
    let left = run(&url, "SELECT id FROM longhaul.tasks WHERE lease_until = 0").unwrap();
    assert_eq!(left, ["t7"], "all others are prolonged");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_that_are_renewed_keep_no_work_waiting() {
    let url = shared().database();
    let store = Arc::new(PostgresOptions::new().open(&url).await.unwrap());
    let held = hold_many(&*store, &url).await;
    let (first, epoch) = held[0].clone();
    // Somebody stands in the way of the last of them, which is left to them for longer than anything here takes.
    let holder = session(&url).await;
    let hold = format!("BEGIN; SELECT 1 FROM longhaul.tasks WHERE id = 't{MANY}' FOR UPDATE");
    holder.batch_execute(&hold).await.unwrap();
    let renewing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.renew(&held).await }
    });
    let waits = "SELECT 1 / (count(*) = 1)::int FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until(async || try_query(&url, waits)).await;
    let report = Batch::new().with_status_message("on");
    let writing = timeout(Duration::from_secs(5), store.write(&first, epoch, report));
    writing.await.expect("it does not wait for that").unwrap();
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(renewing.await.unwrap().unwrap(), [], "and all are renewed");
}
