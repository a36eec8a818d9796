//! Several nodes on one server: who is alive, and what they do at once.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use longhaul_store::{
    Batch, Filter, Json, Outcome, Owner, Part, PartContent, Progress, Quota, Scope, Settings, Start,
    StoreError, TaskId, TaskStore,
};
use tokio::time::timeout;

use super::{Rig, task, until};

/// Where the node that is killed finds its store.
const STORE: &str = "LONGHAUL_TEST_STORE";

/// The node that is killed, if this process is it: it makes a task, says so, and waits.
pub(crate) async fn wait_to_be_killed<R: Rig>() {
    let Ok(url) = std::env::var(STORE) else { return };
    let store = R::join(&url, Settings::default()).await;
    store.create(task("orphan")).await.unwrap();
    std::fs::write(std::env::var("LONGHAUL_TEST_MADE").unwrap(), "made").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

pub(crate) async fn a_node_that_is_killed_loses_its_leases_and_no_other_does<R: Rig>() {
    let (url, folder) = (R::shared().store(), tempfile::tempdir().unwrap());
    let (one, living) = (R::join(&url, Settings::default()).await, R::join(&url, Settings::default()).await);
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

/// What it knows of that ends with the server, and begins again with it.
pub(crate) async fn a_node_knows_until_when_nobody_takes_it_for_dead<R: Rig>() {
    let mut server = R::start();
    let node = R::join(&server.store(), Settings::default()).await;
    let lives = || node.alive_until().is_some_and(|until| node.now() <= until);
    until(async || lives()).await;
    server.kill();
    until(async || !lives()).await;
    server.launch();
    until(async || lives()).await;
}

pub(crate) async fn an_owners_bound_holds_while_nodes_race<R: Rig>() {
    let url = R::shared().store();
    let mut settings = Settings::default();
    settings.limits.max_open_per_owner = 10;
    let nodes = [R::join(&url, settings.clone()).await, R::join(&url, settings).await];
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
    assert_eq!(nodes[0].counts().await.unwrap().open, 10);
    let ann = Owner::principal("ann").unwrap();
    let listed = nodes[1].list(Scope::Owner(&ann), &Filter::open(), None, 100).await.unwrap();
    assert_eq!(listed.tasks.len(), 10);
}

pub(crate) async fn what_nodes_do_to_one_task_at_once_is_done_once_each<R: Rig>() {
    let url = R::shared().store();
    let nodes = [R::join(&url, Settings::default()).await, R::join(&url, Settings::default()).await];
    let held = nodes[0].create(task("met")).await.unwrap().into_record();
    // Each is seen, though all change one row, and none is refused for having been tried too often.
    let writes = (0..40).map(|number| {
        let (node, id, epoch) = (nodes[number % 2].clone(), held.id.clone(), held.epoch);
        let batch = Batch::new()
            .with_progress(Progress::new(number as f64, None, None))
            .with_status_message(format!("{number}"))
            .with_part(Part::new(format!("{number}"), PartContent::Text("one".into())));
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

pub(crate) async fn nodes_that_claim_at_once_share_a_queue_without_one_task_twice<R: Rig>() {
    let url = R::shared().store();
    let nodes = [R::join(&url, Settings::default()).await, R::join(&url, Settings::default()).await];
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
    let many = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((many, ids.len()), (60, 60), "none comes twice");
}

/// A node that does not look hears of what another writes; `other` looks for itself so rarely that no test is that long.
pub(crate) async fn hints_tell_of_changes(one: Arc<dyn TaskStore>, other: Arc<dyn TaskStore>) {
    let held = one.create(task("watched")).await.unwrap().into_record();
    let mut watch = other.watch(&held.id);
    // A session looks once when it begins, so one of these might come of that.
    for number in 0..3 {
        let batch = Batch::new().with_progress(Progress::new(f64::from(number), None, None));
        one.write(&held.id, held.epoch, batch).await.unwrap();
        timeout(Duration::from_secs(60), watch.changed()).await.expect("it is told of");
    }
}
