//! Several nodes on one database: who is alive, and what they do at once.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use longhaul_store::{
    Json, NewTask, Owner, Postgres, PostgresOptions, Quota, Scope, Settings, StoreError, TaskId, TaskStore,
};
use tokio::time::{Instant, sleep};

use crate::rig::{query, shared};

fn task(name: &str) -> NewTask {
    NewTask::new(TaskId::new(name).unwrap(), ann(), "build", Json::parse("{}").unwrap())
}

fn ann() -> Owner {
    Owner::principal("ann").unwrap()
}

/// Where the node that is killed finds its database.
const DATABASE: &str = "LONGHAUL_TEST_DATABASE";

/// Not a test: the node that is killed. It makes a task, says so, and waits.
#[test]
fn a_node_that_waits_to_be_killed() {
    let Ok(url) = std::env::var(DATABASE) else { return };
    crate::rig::block_on(async {
        let store = Postgres::open(&url).await.unwrap();
        store.create(task("orphan")).await.unwrap();
        std::fs::write(std::env::var("LONGHAUL_TEST_MADE").unwrap(), "made").unwrap();
        std::thread::sleep(Duration::from_secs(60));
    });
}

#[tokio::test]
async fn a_node_that_is_killed_loses_its_leases_and_no_other_does() {
    let (url, folder) = (shared().database(), tempfile::tempdir().unwrap());
    let (one, living) = (Postgres::open(&url).await.unwrap(), Postgres::open(&url).await.unwrap());
    living.create(task("kept")).await.unwrap();
    let made = folder.path().join("made");
    let mut node = Command::new(std::env::current_exe().unwrap());
    node.args(["--exact", "nodes::a_node_that_waits_to_be_killed", "--nocapture"]).env(DATABASE, &url);
    node.env("LONGHAUL_TEST_MADE", &made).stdout(Stdio::piped());
    let mut node = node.spawn().unwrap();
    until(async || made.exists()).await;
    assert!(one.claim(10, None).await.unwrap().is_empty(), "it lives");
    node.kill().unwrap();
    let _all_it_said = BufReader::new(node.stdout.take().unwrap()).lines().count();
    node.wait().unwrap();
    let mut claimed = Vec::new();
    until(async || {
        claimed.extend(one.claim(10, None).await.unwrap());
        !claimed.is_empty()
    })
    .await;
    assert_eq!(claimed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["orphan"]);
    assert!(one.claim_one(&TaskId::new("kept").unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_node_whose_sessions_are_ended_makes_others_and_keeps_its_leases() {
    let url = shared().database();
    let grace = Duration::from_secs(5);
    let open = async || PostgresOptions::new().with_session_grace(grace).open(&url).await.unwrap();
    let (one, other) = (open().await, open().await);
    let held = one.create(task("held")).await.unwrap().into_record();
    query(
        &url,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    );
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it may come back");
    let count = "SELECT 1 / (count(*) = 2)::int FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    until(async || crate::rig::try_query(&url, count)).await;
    sleep(grace).await;
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it has come back");
    let renewed = one.renew(&[(held.id.clone(), held.epoch)]).await.unwrap();
    assert!(renewed.is_empty(), "its lease is its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owners_bound_holds_while_nodes_race() {
    let url = shared().database();
    let mut settings = Settings::default();
    settings.limits.max_open_per_owner = 10;
    let open = || PostgresOptions::new().with_settings(settings.clone()).with_connections(4).open(&url);
    let nodes = [std::sync::Arc::new(open().await.unwrap()), std::sync::Arc::new(open().await.unwrap())];
    let creates = (0..40).map(|number| {
        let node = nodes[number % 2].clone();
        tokio::spawn(async move { node.create(task(&format!("t{number}"))).await })
    });
    let mut made = 0;
    for create in creates.collect::<Vec<_>>() {
        match create.await.unwrap() {
            Ok(_) => made += 1,
            Err(error) => {
                assert!(
                    matches!(error, StoreError::Overloaded { what: Quota::OpenPerOwner, .. }),
                    "{error:?}"
                );
            }
        }
    }
    assert_eq!(made, 10);
    assert_eq!(nodes[0].counts().await.unwrap().open, 10);
    assert_eq!(
        nodes[1]
            .list(Scope::Owner(&ann()), &longhaul_store::Filter::open(), None, 100)
            .await
            .unwrap()
            .tasks
            .len(),
        10
    );
}

/// Waits until it is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < patience, "it does not become so");
        sleep(Duration::from_millis(20)).await;
    }
}
