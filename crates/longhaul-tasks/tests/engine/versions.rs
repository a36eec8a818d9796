//! Tools of several versions on one store: who goes on with which task, and what is said of one that nobody runs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_store::{
    Accepts, Json, Memory, NewTask, Outcome, Owner, Phase, Record, Rerun, Scope, Start, TaskId,
    TaskStore as _, ToolVersion,
};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::job::{Attached, ExternalJob, FoundJobs, JobError, JobRun, NotStarted};
use longhaul_tasks::project::{self, View};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Engine, Pace, Worker};

use super::resuming::{Lingering, done, until};
use super::rig::{Outside, json};

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
    assert!(matches!(ended.outcome(), Some(Outcome::Lost { .. })), "{ended:?}");
    assert_eq!(work.entered.load(Ordering::SeqCst), 0);
}

/// Jobs of whichever tool, and of which it was asked whether they have begun.
#[derive(Clone, Debug, Default)]
struct Found {
    outside: Outside,
    asked: Arc<Mutex<Vec<TaskId>>>,
}

impl Found {
    async fn begin(&self, id: &TaskId) {
        self.outside.start(id, &json("{}"), true, Reporter::new().0).await.unwrap();
    }
}

impl ExternalJob for Found {
    fn start<'a>(
        &'a self,
        key: &'a TaskId,
        arguments: &'a Json,
        durable: bool,
        reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        self.outside.start(key, arguments, durable, reporter)
    }

    fn attach<'a>(&'a self, key: &'a TaskId, begun: bool, reporter: Reporter) -> BoxFuture<'a, Attached> {
        self.outside.attach(key, begun, reporter)
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        self.outside.cancel(key)
    }

    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()> {
        self.outside.discard(key)
    }
}

impl FoundJobs for Found {
    fn has_begun<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<bool, JobError>> {
        self.asked.lock().unwrap().push(key.clone());
        let has_begun = self.outside.0.lock().unwrap().contains_key(key);
        Box::pin(std::future::ready(Ok(has_begun)))
    }
}

/// A node whose tool has jobs of its own, and accepts no task of version 1: those it finds as anybody's.
fn later(store: &Memory, own: &Outside, found: &Found) -> Engine {
    let worker = Worker::new("job").with_job(Arc::new(own.clone())).with_accepts(accepts("=2"));
    let mut pace = Pace::default();
    pace.strand_after = Duration::from_secs(36_000);
    let engine = Engine::new(Arc::new(store.another_node()), Arc::new(Tokio::new()), pace, [worker]);
    engine.reach_others(Arc::new(found.clone()));
    engine
}

/// Queues a call of version 1.
async fn queue(store: &Memory, name: &str) -> TaskId {
    let id = TaskId::new(name).unwrap();
    let mut new = NewTask::new(id.clone(), Owner::Anonymous, "job", json("{}"));
    (new.version, new.rerun) = (ToolVersion::new("1").unwrap(), Rerun::Reattach);
    new.start = Start::Queued { not_before: store.now() };
    store.create(new).await.unwrap();
    id
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_job_where_what_its_version_has_begun_is_found() {
    let (store, own, found) = (Memory::new(), Outside::default(), Found::default());
    let id = queue(&store, "old").await;
    found.begin(&id).await;
    // It has one of that name, too, which is no task's of that version.
    own.start(&id, &json("{}"), true, Reporter::new().0).await.unwrap();
    later(&store, &own, &found).cancel(Scope::Operator, &id, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((found.outside.outcome(&id), own.outcome(&id)), (Some(Outcome::cancelled(None)), None));
}

#[tokio::test(start_paused = true)]
async fn it_is_not_asked_again_and_again_whether_what_waits_has_begun() {
    let (store, own, found) = (Memory::new(), Outside::default(), Found::default());
    let [waits, _] = [queue(&store, "claimed").await, queue(&store, "never").await];
    let give_back = async || {
        let other = store.another_node();
        let claimed = other.claim_one(&waits).await.unwrap().unwrap();
        other.release(&waits, claimed.epoch).await.unwrap();
    };
    give_back().await;
    let engine = later(&store, &own, &found);
    engine.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = found.asked.lock().unwrap().clone();
    // As it starts, and as it looks which tasks no node runs.
    assert_eq!(asked, [waits.clone(), waits.clone()]);
    found.begin(&waits).await;
    give_back().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(found.outside.finds(&waits), 1, "it is taken up once it has begun");
}
