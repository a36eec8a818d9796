//! An engine, its callers, and a world outside for its jobs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_store::{Dialect, Digest, Filter, Json, Memory, Outcome, Owner, Progress, Rerun, Scope, TaskId};
use longhaul_tasks::environment::{BoxFuture, Environment, Tokio};
use longhaul_tasks::job::{Attached, ExternalJob, JobError, JobRun, NotStarted};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Answer, Call, Engine, Pace, Work, Worker};
use tokio::sync::watch;

pub(super) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(super) fn success() -> Outcome {
    Outcome::result(json(r#"{"content":[]}"#), false)
}

pub(super) fn ann() -> Owner {
    Owner::principal("ann").unwrap()
}

/// Where the runtime's time is stepped, what runs apart must be in it too.
#[derive(Debug)]
pub(super) struct InOneThread;

impl Environment for InOneThread {
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Tokio::new().sleep(duration)
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        Tokio::new().spawn(future);
    }

    fn random(&self, bytes: &mut [u8]) {
        Tokio::new().random(bytes);
    }
}

/// The world outside: jobs that go on whatever happens to the engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Outside(pub(super) Arc<Mutex<HashMap<TaskId, Job>>>);

#[derive(Debug)]
pub(super) struct Job {
    outcome: watch::Sender<Option<Outcome>>,
    pub(super) starts: usize,
    pub(super) kept: bool,
    /// Whether its outcome was read as one that a task has.
    pub(super) read_as_kept: Option<bool>,
    pub(super) discarded: bool,
    /// Whoever looks for it waits for ever.
    pub(super) out_of_reach: bool,
    /// How long it takes to end it, and to read how it ended.
    pub(super) takes: Duration,
    /// How often it was found.
    pub(super) finds: usize,
    /// For how long nothing is done for it but to wait.
    asleep: watch::Sender<Option<Duration>>,
    /// What it need not wait for has come.
    pub(super) is_woken: bool,
}

impl Outside {
    pub(super) fn end(&self, id: &TaskId, outcome: Outcome) {
        self.0.lock().unwrap()[id].outcome.send_replace(Some(outcome));
    }

    pub(super) fn kept(&self, id: &TaskId) -> bool {
        self.0.lock().unwrap()[id].kept
    }

    pub(super) fn only(&self) -> TaskId {
        let jobs = self.0.lock().unwrap();
        assert_eq!(jobs.len(), 1);
        jobs.keys().next().unwrap().clone()
    }

    /// From now on nothing is done for it but to wait, for so long.
    pub(super) fn fall_asleep(&self, id: &TaskId, wait: Duration) {
        self.0.lock().unwrap()[id].asleep.send_replace(Some(wait));
    }

    pub(super) fn finds(&self, id: &TaskId) -> usize {
        self.0.lock().unwrap()[id].finds
    }

    pub(super) fn outcome(&self, id: &TaskId) -> Option<Outcome> {
        self.0.lock().unwrap()[id].outcome.borrow().clone()
    }

    fn run(&self, id: &TaskId) -> Arc<dyn JobRun> {
        let jobs = self.0.lock().unwrap();
        let (ended, asleep) = (jobs[id].outcome.subscribe(), jobs[id].asleep.subscribe());
        Arc::new(Running { outside: self.clone(), id: id.clone(), ended, asleep })
    }
}

#[derive(Debug)]
struct Running {
    outside: Outside,
    id: TaskId,
    ended: watch::Receiver<Option<Outcome>>,
    asleep: watch::Receiver<Option<Duration>>,
}

impl JobRun for Running {
    fn keep(&self) -> BoxFuture<'_, Result<(), JobError>> {
        self.outside.0.lock().unwrap().get_mut(&self.id).unwrap().kept = true;
        Box::pin(std::future::ready(Ok(())))
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        let mut ended = self.ended.clone();
        Box::pin(async move { drop(ended.wait_for(Option::is_some).await.unwrap()) })
    }

    fn asleep(&self) -> BoxFuture<'_, Duration> {
        let mut asleep = self.asleep.clone();
        Box::pin(async move { asleep.wait_for(Option::is_some).await.unwrap().unwrap() })
    }

    fn is_woken(&self) -> BoxFuture<'_, bool> {
        let is_woken =
            std::mem::take(&mut self.outside.0.lock().unwrap().get_mut(&self.id).unwrap().is_woken);
        Box::pin(std::future::ready(is_woken))
    }

    fn outcome(&self, kept: bool) -> BoxFuture<'_, Outcome> {
        let mut jobs = self.outside.0.lock().unwrap();
        let job = jobs.get_mut(&self.id).unwrap();
        job.read_as_kept = Some(kept);
        let (takes, outcome) = (job.takes, self.ended.borrow().clone().unwrap());
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            outcome
        })
    }
}

impl ExternalJob for Outside {
    fn start<'a>(
        &'a self,
        key: &'a TaskId,
        _: &'a Json,
        durable: bool,
        reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        let mut jobs = self.0.lock().unwrap();
        let new = || Job {
            outcome: watch::channel(None).0,
            starts: 0,
            kept: durable,
            read_as_kept: None,
            discarded: false,
            out_of_reach: false,
            takes: Duration::ZERO,
            finds: 0,
            asleep: watch::channel(None).0,
            is_woken: false,
        };
        jobs.entry(key.clone()).or_insert_with(new).starts += 1;
        drop(jobs);
        reporter.status("started");
        reporter.progress(Progress::new(1.0, Some(2.0), None));
        Box::pin(std::future::ready(Ok(self.run(key))))
    }

    fn attach<'a>(&'a self, key: &'a TaskId, _: bool, _: Reporter) -> BoxFuture<'a, Attached> {
        let known = self.0.lock().unwrap().get_mut(key).map(|job| {
            job.finds += 1;
            (job.out_of_reach, job.outcome.borrow().is_some())
        });
        Box::pin(async move {
            match known {
                Some((true, _)) => std::future::pending().await,
                Some((false, true)) => Attached::Ended(self.run(key)),
                Some((false, false)) => Attached::Running(self.run(key)),
                None => Attached::NeverStarted,
            }
        })
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        let mut takes = Duration::ZERO;
        if let Some(job) = self.0.lock().unwrap().get(key) {
            takes = job.takes;
            job.outcome.send_if_modified(|outcome| {
                outcome.is_none() && outcome.replace(Outcome::cancelled(None)).is_none()
            });
        }
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            Ok(())
        })
    }

    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()> {
        if let Some(job) = self.0.lock().unwrap().get_mut(key) {
            job.discarded = true;
        }
        Box::pin(std::future::ready(()))
    }
}

pub(super) fn engine(store: Memory, outside: &Outside) -> Engine {
    let job: Arc<dyn ExternalJob> = Arc::new(outside.clone());
    let workers = [Worker::new("job").with_job(job), Worker::new("future")];
    Engine::new(Arc::new(store), Arc::new(InOneThread), Pace::default(), workers)
}

pub(super) fn call(caller: Caller, work: Work) -> Call {
    let tool = if matches!(work, Work::Job(_)) { "job" } else { "future" };
    let mut call = Call::new(ann(), tool, json("{}"), work);
    call.plan = Plan::new(caller, caller == Caller::AsksForTask);
    call.dialect = Dialect::D3;
    call.rerun = Rerun::Reattach;
    call.after = Some(Duration::from_secs(2));
    call.hold = Some(Duration::from_secs(50));
    call
}

/// A call that waits for its result, and that others like it join.
pub(super) fn joinable(outside: &Outside) -> Call {
    let mut call = call(Caller::Waits, job(outside));
    call.join = Some(Digest::new([7; 32]));
    call
}

pub(super) fn job(outside: &Outside) -> Work {
    Work::Job(Arc::new(outside.clone()))
}

pub(super) fn future(seconds: u64) -> Work {
    Work::Future(Box::pin(async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        success()
    }))
}

/// What an operation of the store in memory comes to, which waits for nothing.
pub(super) fn now<T>(done: impl Future<Output = T>) -> T {
    let mut done = std::pin::pin!(done);
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match done.as_mut().poll(&mut task) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

pub(super) async fn open(engine: &Engine) -> usize {
    engine.list(Scope::Operator, &Filter::open(), None, 100).await.unwrap().tasks.len()
}

pub(super) fn task(answer: Answer) -> TaskId {
    match answer {
        Answer::Task(record) | Answer::HandOver(record) => record.id.clone(),
        other => panic!("{other:?}"),
    }
}
