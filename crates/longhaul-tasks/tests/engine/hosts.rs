//! Jobs that only the nodes of one host find, and nodes of several on one store.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    CancelAsked, Clock, HostId, Json, Memory, NewTask, Outcome, Record, Rerun, Scope, Settings, Start,
    StepClock, TaskId, TaskStore as _, Time,
};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::job::{Attached, ExternalJob, JobError, JobRun, NotStarted};
use longhaul_tasks::machine::Caller;
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Call, Engine, Pace, Work, Worker};
use tokio::runtime::Runtime;

use super::rig::{Outside, ann, call, json, success, task};

/// The jobs of one host. None begins before its task says where.
#[derive(Clone, Debug)]
struct Placed {
    host: HostId,
    outside: Outside,
    store: Arc<Memory>,
}

impl ExternalJob for Placed {
    fn host(&self) -> Option<&HostId> {
        Some(&self.host)
    }

    fn start<'a>(
        &'a self,
        key: &'a TaskId,
        arguments: &'a Json,
        durable: bool,
        reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        Box::pin(async move {
            let record = self.store.get(Scope::Operator, key).await.unwrap();
            assert_eq!(record.map(|record| record.host), durable.then(|| Some(self.host.clone())));
            self.outside.start(key, arguments, durable, reporter).await
        })
    }

    /// What is not there was begun elsewhere, or never.
    fn attach<'a>(&'a self, key: &'a TaskId, begun: bool, reporter: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(async move {
            match self.outside.attach(key, begun, reporter).await {
                Attached::NeverStarted if begun => Attached::Lost { reason: "it is not here".into() },
                attached => attached,
            }
        })
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        self.outside.cancel(key)
    }

    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()> {
        self.outside.discard(key)
    }
}

/// Hosts with a store between them.
struct Hosts {
    clock: Arc<StepClock>,
    store: Arc<Memory>,
    /// Of each, its jobs.
    outside: [Outside; 2],
}

impl Hosts {
    fn new() -> Self {
        let clock = Arc::new(StepClock::at(Time::from_unix_ms(1_800_000_000_000)));
        let store = Memory::with(Settings::default(), Arc::clone(&clock) as Arc<dyn Clock>);
        Self { clock, store: Arc::new(store), outside: Default::default() }
    }

    fn job(&self, host: usize) -> Arc<dyn ExternalJob> {
        let name = HostId::new(format!("host-{host}")).unwrap();
        Arc::new(Placed { host: name, outside: self.outside[host].clone(), store: Arc::clone(&self.store) })
    }

    /// A node of a host, with at most so many jobs at once.
    fn node(&self, host: usize, limit: Option<usize>) -> Engine {
        let worker = Worker::new("job").with_job(self.job(host)).with_limit(limit);
        Engine::new(Arc::new(self.store.another_node()), Arc::new(Tokio::new()), Pace::default(), [worker])
    }

    fn call(&self, host: usize) -> Call {
        call(Caller::TakesTask, Work::Job(self.job(host)))
    }

    /// Time passes, everywhere alike.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.clock.advance(Duration::from_secs(1));
        }
    }

    async fn record(&self, id: &TaskId) -> Record {
        self.store.get(Scope::Operator, id).await.unwrap().unwrap()
    }

    /// How often the job of a task was started on each host.
    fn starts(&self, id: &TaskId) -> [usize; 2] {
        [0, 1].map(|host| self.outside[host].0.lock().unwrap().get(id).map_or(0, |job| job.starts))
    }

    /// A task whose job runs on host 0, all of whose nodes are gone.
    fn left_behind(&self) -> TaskId {
        runtime().block_on(async { task(self.node(0, None).call(self.call(0)).await) })
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

const WAITS: &str = "waiting for a node on its host that runs job";

#[test]
fn a_job_whose_node_is_gone_waits_for_another_of_its_host() {
    let hosts = Hosts::new();
    let id = hosts.left_behind();
    runtime().block_on(async {
        let elsewhere = hosts.node(1, None);
        assert_eq!(elsewhere.start().await.unwrap(), 0);
        hosts.pass(120).await;
        let waits = hosts.record(&id).await;
        assert_eq!((waits.outcome(), waits.status_message.as_deref()), (None, Some(WAITS)));
        assert!(!elsewhere.take_up(&id).await.unwrap());
        let back = hosts.node(0, None);
        assert_eq!(back.start().await.unwrap(), 1);
        hosts.pass(2).await;
        let taken = hosts.record(&id).await;
        assert_eq!((taken.attempt, taken.status_message.as_deref()), (2, Some("taken up again")));
        assert_eq!(hosts.starts(&id), [1, 0], "it is found, and begun nowhere else");
        hosts.outside[0].end(&id, success());
        let ended = elsewhere.ended(Scope::Operator, &id).await.unwrap().unwrap();
        assert_eq!(ended.outcome(), Some(&success()));
    });
}

#[test]
fn what_has_not_begun_is_bound_to_no_host_until_it_does() {
    let hosts = Hosts::new();
    let [running, waiting] = runtime().block_on(async {
        let node = hosts.node(0, Some(1));
        let running = task(node.call(hosts.call(0)).await);
        [running, task(node.call(hosts.call(0)).await)]
    });
    runtime().block_on(async {
        let at = |host| Some(HostId::new(format!("host-{host}")).unwrap());
        assert_eq!((hosts.record(&running).await.host, hosts.record(&waiting).await.host), (at(0), None));
        let elsewhere = hosts.node(1, None);
        assert_eq!(elsewhere.start().await.unwrap(), 1);
        hosts.pass(1).await;
        assert_eq!(hosts.record(&waiting).await.host, at(1));
        assert_eq!((hosts.starts(&running), hosts.starts(&waiting)), ([1, 0], [0, 1]));
    });
}

#[test]
fn a_cancel_at_a_node_elsewhere_ends_the_job_where_it_runs() {
    let hosts = Hosts::new();
    runtime().block_on(async {
        let (node, elsewhere) = (hosts.node(0, None), hosts.node(1, None));
        let id = task(node.call(hosts.call(0)).await);
        let asked = elsewhere.ask_to_cancel(Scope::Owner(&ann()), &id, None).await.unwrap();
        assert!(matches!(asked, CancelAsked::AtOnce(_)), "{asked:?}");
        assert!(hosts.record(&id).await.is_terminal(), "whoever asks is told at once");
        hosts.pass(1).await;
        assert_eq!(hosts.outside[0].outcome(&id), Some(Outcome::cancelled(None)));
    });
}

#[test]
fn a_task_is_lost_when_its_host_has_been_gone_for_its_time_and_not_before() {
    for is_front in [false, true] {
        let hosts = Hosts::new();
        let id = hosts.left_behind();
        runtime().block_on(async {
            let store = Arc::new(hosts.store.another_node());
            let worker = Worker::new("job").with_job(hosts.job(1));
            let make = if is_front { Engine::front } else { Engine::new };
            let elsewhere = make(store, Arc::new(Tokio::new()), Pace::default(), vec![worker]);
            elsewhere.start().await.unwrap();
            hosts.pass(10 * 60).await;
            assert_eq!(hosts.record(&id).await.outcome(), None, "{is_front}");
            // By then its lease has run out, and it was told of.
            hosts.pass(60).await;
            let lost = hosts.record(&id).await;
            let Some(Outcome::Lost { reason }) = lost.outcome() else { panic!("{lost:?}") };
            assert!(reason.contains("600 s"), "{reason}");
            assert_eq!(hosts.node(0, None).start().await.unwrap(), 0, "who comes back later has lost it");
            assert_eq!(hosts.starts(&id), [1, 0]);
        });
    }
}

#[test]
fn nodes_of_its_own_host_never_lose_a_task_for_want_of_one() {
    let hosts = Hosts::new();
    let id = hosts.left_behind();
    runtime().block_on(async {
        // It has the place and not the version.
        let accepts = longhaul_store::Accepts::new("=2").unwrap();
        let worker = Worker::new("job").with_job(hosts.job(0)).with_accepts(accepts);
        let store = Arc::new(hosts.store.another_node());
        let node = Engine::new(store, Arc::new(Tokio::new()), Pace::default(), [worker]);
        node.start().await.unwrap();
        // Nor do those of others, as long as one of its own is there.
        let elsewhere = hosts.node(1, None);
        elsewhere.start().await.unwrap();
        hosts.pass(40 * 60).await;
        assert_eq!(hosts.record(&id).await.outcome(), None);
    });
}

#[test]
fn what_could_not_be_looked_at_is_not_lost_before_its_host_had_time_to_come_back() {
    let hosts = Hosts::new();
    let id = hosts.left_behind();
    runtime().block_on(async {
        // Nobody was there for an hour, or the store was not.
        hosts.pass(60 * 60).await;
        let elsewhere = hosts.node(1, None);
        elsewhere.start().await.unwrap();
        hosts.pass(60).await;
        assert_eq!(hosts.record(&id).await.outcome(), None);
        assert_eq!(hosts.node(0, None).start().await.unwrap(), 1, "its host has come back");
    });
}

#[test]
fn a_task_of_an_earlier_release_is_found_where_it_runs_and_bound() {
    let hosts = Hosts::new();
    let id = TaskId::new("job-1").unwrap();
    runtime().block_on(async {
        let mut task = NewTask::new(id.clone(), ann(), "job", json("{}"));
        (task.rerun, task.start) = (Rerun::Reattach, Start::Queued { not_before: hosts.store.now() });
        hosts.store.create(task).await.unwrap();
        hosts.outside[0].start(&id, &json("{}"), true, Reporter::new().0).await.unwrap();
        let node = hosts.node(0, None);
        assert_eq!(node.start().await.unwrap(), 1);
        hosts.pass(1).await;
        assert_eq!(hosts.record(&id).await.host, HostId::new("host-0").ok());
        assert_eq!(hosts.starts(&id), [1, 0]);
    });
}
