//! Several nodes on one server: who is alive, what they do at once, and what they hear of each other.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use longhaul_store::{
    Batch, Json, NewTask, Outcome, Owner, Progress, Quota, Redis, RedisOptions, Scope, Settings, Start,
    StoreError, TaskId, TaskStore,
};

use crate::rig::{Server, block_on, shared, until};

fn task(name: &str) -> NewTask {
    NewTask::new(TaskId::new(name).unwrap(), ann(), "build", Json::parse("{}").unwrap())
}

fn ann() -> Owner {
    Owner::principal("ann").unwrap()
}

/// Where the node that is killed finds its store.
const STORE: &str = "LONGHAUL_TEST_STORE";

/// Not a test: the node that is killed. It makes a task, says so, and waits.
#[test]
fn a_node_that_waits_to_be_killed() {
    let Ok(url) = std::env::var(STORE) else { return };
    block_on(async {
        let store = Redis::open(&url).await.unwrap();
        store.create(task("orphan")).await.unwrap();
        std::fs::write(std::env::var("LONGHAUL_TEST_MADE").unwrap(), "made").unwrap();
        std::thread::sleep(Duration::from_secs(60));
    });
}

#[tokio::test]
async fn a_node_that_is_killed_loses_its_leases_and_no_other_does() {
    let (url, folder) = (shared().store(), tempfile::tempdir().unwrap());
    let (one, living) = (Redis::open(&url).await.unwrap(), Redis::open(&url).await.unwrap());
    living.create(task("kept")).await.unwrap();
    let made = folder.path().join("made");
    let mut node = Command::new(std::env::current_exe().unwrap());
    node.args(["--exact", "nodes::a_node_that_waits_to_be_killed"]).env(STORE, &url);
    let mut node = node.env("LONGHAUL_TEST_MADE", &made).stdout(Stdio::null()).spawn().unwrap();
    until(async || made.exists()).await;
    assert!(one.claim(10, None).await.unwrap().is_empty(), "it lives");
    node.kill().unwrap();
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
    let server = Server::start();
    let url = server.store();
    let grace = Duration::from_secs(3);
    let open = async || RedisOptions::new().with_session_grace(grace).open(&url).await.unwrap();
    let (one, other) = (open().await, open().await);
    let held = one.create(task("held")).await.unwrap().into_record();
    server.say(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it may come back");
    tokio::time::sleep(grace).await;
    assert!(other.claim(10, None).await.unwrap().is_empty(), "it has come back");
    let renewed = one.renew(&[(held.id.clone(), held.epoch)]).await.unwrap();
    assert!(renewed.is_empty(), "its lease is its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owners_bound_holds_while_nodes_race() {
    let url = shared().store();
    let mut settings = Settings::default();
    settings.limits.max_open_per_owner = 10;
    let open = || RedisOptions::new().with_settings(settings.clone()).open(&url);
    let nodes = [Arc::new(open().await.unwrap()), Arc::new(open().await.unwrap())];
    let creates = (0..40).map(|number| {
        let node = nodes[number % 2].clone();
        tokio::spawn(async move { node.create(task(&format!("t{number}"))).await })
    });
    let mut made = 0;
    for create in creates.collect::<Vec<_>>() {
        match create.await.unwrap() {
            Ok(_) => made += 1,
            Err(StoreError::Overloaded { what: Quota::OpenPerOwner, .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(made, 10);
    assert_eq!(nodes[1].counts().await.unwrap().open, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nodes_do_to_one_task_at_once_is_done_once_each() {
    let url = shared().store();
    let nodes = [Arc::new(Redis::open(&url).await.unwrap()), Arc::new(Redis::open(&url).await.unwrap())];
    let held = nodes[0].create(task("met")).await.unwrap().into_record();
    // Each is seen, though all change one row, and none is refused for having been tried too often.
    let writes = (0..40).map(|number| {
        let (node, id, epoch) = (nodes[number % 2].clone(), held.id.clone(), held.epoch);
        let batch = Batch::new()
            .with_progress(Progress::new(number as f64, None, None))
            .with_status_message(format!("{number}"))
            .with_part(longhaul_store::Part::new(
                format!("{number}"),
                longhaul_store::PartContent::Text("one".into()),
            ));
        tokio::spawn(async move { node.write(&id, epoch, batch).await })
    });
    let mut numbers = Vec::new();
    for write in writes.collect::<Vec<_>>() {
        numbers.push(write.await.unwrap().unwrap());
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 40, "every change has a number of its own");
    let parts = nodes[0].parts(Scope::Operator, &held.id, 0, 100).await.unwrap().unwrap();
    assert_eq!((parts.parts.len(), parts.total), (40, 40));
    let task = nodes[1].get(Scope::Operator, &held.id).await.unwrap().unwrap();
    assert_eq!(task.progress.unwrap().value, 39.0);
    // Nothing is left behind by what was tried and not done.
    let outcome = Outcome::result(Json::parse("{}").unwrap(), false);
    nodes[1].finish(&held.id, held.epoch, outcome, Batch::new()).await.unwrap();
    assert!(nodes[0].claim(10, None).await.unwrap().is_empty());
    assert_eq!(nodes[0].counts().await.unwrap().open, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_claim_at_once_share_a_queue_without_one_task_twice() {
    let url = shared().store();
    let nodes = [Arc::new(Redis::open(&url).await.unwrap()), Arc::new(Redis::open(&url).await.unwrap())];
    for number in 0..60 {
        let mut queued = task(&format!("t{number}"));
        queued.start = Start::Queued { not_before: nodes[0].now() };
        nodes[0].create(queued).await.unwrap();
    }
    let claims = (0..12).map(|number| {
        let node = nodes[number % 2].clone();
        tokio::spawn(async move { node.claim(5, None).await.unwrap() })
    });
    let mut ids = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        ids.extend(claim.await.unwrap().into_iter().map(|task| task.id));
    }
    until(async || {
        ids.extend(nodes[0].claim(60, None).await.unwrap().into_iter().map(|task| task.id));
        ids.len() >= 60
    })
    .await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 60);
}

#[tokio::test]
async fn a_change_that_no_hint_tells_of_is_found() {
    let server = Server::start();
    let url = server.store();
    let (one, other) = (Redis::open(&url).await.unwrap(), Redis::open(&url).await.unwrap());
    let held = one.create(task("watched")).await.unwrap().into_record();
    let mut watch = other.watch(&held.id);
    // A node that tells nobody: it may not speak on the channel of this store.
    let name = url.rsplit('=').next().unwrap();
    let row = format!("{{{name}}}:task:watched");
    let waiting = async {
        // What is seen for the first time may have changed, so the second one tells.
        watch.changed().await;
        server.say(&["HSET", &row, "s", "1000"]);
        watch.changed().await;
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it is found by looking");
}
