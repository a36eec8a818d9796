//! The engine on the memory store: calls of futures and of jobs, by callers of every kind, on two nodes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test steps the runtime's paused clock")]

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longhaul_store::{
    Dialect, Filter, Json, Limits, Memory, Outcome, Owner, Progress, Rerun, Scope, Settings, TaskId,
    TaskStore,
};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::job::{Attached, ExternalJob, JobError, JobRun, NotStarted};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Answer, Call, Engine, Pace, Ticket, Work, Worker};
use tokio::sync::watch;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn success() -> Outcome {
    Outcome::result(json(r#"{"content":[]}"#), false)
}

fn ann() -> Owner {
    Owner::principal("ann").unwrap()
}

/// The world outside: jobs that go on whatever happens to the engine.
#[derive(Clone, Debug, Default)]
struct Outside(Arc<Mutex<HashMap<TaskId, Job>>>);

#[derive(Debug)]
struct Job {
    outcome: watch::Sender<Option<Outcome>>,
    starts: usize,
    kept: bool,
    /// Whether its outcome was read as one that a task has.
    read_as_kept: Option<bool>,
    discarded: bool,
    /// Whoever looks for it waits for ever.
    out_of_reach: bool,
}

impl Outside {
    fn end(&self, id: &TaskId, outcome: Outcome) {
        self.0.lock().unwrap()[id].outcome.send_replace(Some(outcome));
    }

    fn kept(&self, id: &TaskId) -> bool {
        self.0.lock().unwrap()[id].kept
    }

    fn only(&self) -> TaskId {
        let jobs = self.0.lock().unwrap();
        assert_eq!(jobs.len(), 1);
        jobs.keys().next().unwrap().clone()
    }

    fn outcome(&self, id: &TaskId) -> Option<Outcome> {
        self.0.lock().unwrap()[id].outcome.borrow().clone()
    }

    fn run(&self, id: &TaskId) -> Arc<dyn JobRun> {
        let ended = self.0.lock().unwrap()[id].outcome.subscribe();
        Arc::new(Running { outside: self.clone(), id: id.clone(), ended })
    }
}

#[derive(Debug)]
struct Running {
    outside: Outside,
    id: TaskId,
    ended: watch::Receiver<Option<Outcome>>,
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

    fn outcome(&self, kept: bool) -> BoxFuture<'_, Outcome> {
        let mut jobs = self.outside.0.lock().unwrap();
        jobs.get_mut(&self.id).unwrap().read_as_kept = Some(kept);
        Box::pin(std::future::ready(self.ended.borrow().clone().unwrap()))
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
        };
        jobs.entry(key.clone()).or_insert_with(new).starts += 1;
        drop(jobs);
        reporter.status("started");
        reporter.progress(Progress::new(1.0, Some(2.0), None));
        Box::pin(std::future::ready(Ok(self.run(key))))
    }

    fn attach<'a>(&'a self, key: &'a TaskId, _: bool, _: Reporter) -> BoxFuture<'a, Attached> {
        let reach = self.0.lock().unwrap().get(key).map(|job| !job.out_of_reach);
        Box::pin(async move {
            match reach {
                Some(true) => Attached::Found(self.run(key)),
                Some(false) => std::future::pending().await,
                None => Attached::NeverStarted,
            }
        })
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        if let Some(job) = self.0.lock().unwrap().get(key) {
            job.outcome.send_if_modified(|outcome| {
                outcome.is_none() && outcome.replace(Outcome::cancelled(None)).is_none()
            });
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, ()> {
        if let Some(job) = self.0.lock().unwrap().get_mut(key) {
            job.discarded = true;
        }
        Box::pin(std::future::ready(()))
    }
}

fn engine(store: Memory, outside: &Outside) -> Engine {
    let job: Arc<dyn ExternalJob> = Arc::new(outside.clone());
    let workers = [Worker::new("job").with_job(job), Worker::new("future")];
    Engine::new(Arc::new(store), Arc::new(Tokio::new()), Pace::default(), workers)
}

fn call(caller: Caller, work: Work) -> Call {
    let tool = if matches!(work, Work::Job(_)) { "job" } else { "future" };
    let mut call = Call::new(ann(), tool, json("{}"), work);
    call.plan = Plan::new(caller, caller == Caller::AsksForTask);
    call.dialect = Dialect::D3;
    call.rerun = Rerun::Reattach;
    call.after = Some(Duration::from_secs(2));
    call.hold = Some(Duration::from_secs(50));
    call
}

fn job(outside: &Outside) -> Work {
    Work::Job(Arc::new(outside.clone()))
}

fn future(seconds: u64) -> Work {
    Work::Future(Box::pin(async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        success()
    }))
}

async fn open(engine: &Engine) -> usize {
    engine.list(Scope::Operator, &Filter::open(), None, 100).await.unwrap().tasks.len()
}

fn task(answer: Answer) -> TaskId {
    match answer {
        Answer::Task(record) | Answer::HandOver(record) => record.id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_call_leaves_no_row() {
    let engine = engine(Memory::new(), &Outside::default());
    let answer = engine.call(call(Caller::TakesTask, future(1))).await;
    assert!(matches!(answer, Answer::Outcome(outcome) if outcome == success()));
    assert_eq!(engine.counts().await.unwrap().retained, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_call_becomes_a_task_and_ends_as_one() {
    let engine = engine(Memory::new(), &Outside::default());
    let id = task(engine.call(call(Caller::TakesTask, future(60))).await);
    assert!(!engine.find(Scope::Owner(&ann()), &id).await.unwrap().unwrap().is_terminal());
    let ended = engine.ended(Scope::Owner(&ann()), &id).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()));
    let bob = Owner::principal("bob").unwrap();
    assert_eq!(engine.ended(Scope::Owner(&bob), &id).await.unwrap(), None, "nobody else sees it");
}

#[tokio::test(start_paused = true)]
async fn a_job_is_kept_before_its_task_is_acknowledged() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    for caller in [Caller::TakesTask, Caller::AsksForTask] {
        let id = task(engine.call(call(caller, job(&outside))).await);
        assert!(outside.kept(&id));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let record = engine.find(Scope::Operator, &id).await.unwrap().unwrap();
        assert_eq!(record.status_message.as_deref(), Some("started"));
        assert_eq!(record.progress.unwrap().value, 1.0);
        outside.end(&id, success());
        engine.ended(Scope::Operator, &id).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn calls_past_the_limit_wait_for_a_place_as_tasks() {
    let outside = Outside::default();
    let job: Arc<dyn ExternalJob> = Arc::new(outside.clone());
    let workers = [Worker::new("job").with_job(job).with_limit(Some(1))];
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(Tokio::new()), Pace::default(), workers);
    let first = task(engine.call(call(Caller::TakesTask, self::job(&outside))).await);
    let second = task(engine.call(call(Caller::TakesTask, self::job(&outside))).await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(outside.only(), first);
    let record = engine.find(Scope::Operator, &second).await.unwrap().unwrap();
    let message = "queued: 1 of job are running, its limit";
    assert_eq!(record.status_message.as_deref(), Some(message));
    outside.end(&first, success());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(outside.kept(&second), "it starts knowing that it is to outlive this process");
    outside.end(&second, success());
    engine.ended(Scope::Operator, &second).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_the_result_or_is_handed_over() {
    let engine = engine(Memory::new(), &Outside::default());
    let answer = engine.call(call(Caller::Waits, future(40))).await;
    assert!(matches!(answer, Answer::Outcome(_)));
    let answer = engine.call(call(Caller::Waits, future(60))).await;
    let Answer::HandOver(record) = answer else { panic!("{answer:?}") };
    assert!(engine.ended(Scope::Operator, &record.id).await.unwrap().unwrap().is_terminal());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_cancels_ends_its_call_and_leaves_nothing_running() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    for waited in [1, 10] {
        let ticket = engine.call(call(Caller::Waits, job(&outside)));
        tokio::time::sleep(Duration::from_secs(waited)).await;
        ticket.cancel();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(outside.outcome(&outside.only()), Some(Outcome::cancelled(None)));
        assert_eq!(open(&engine).await, 0);
        outside.0.lock().unwrap().clear();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_nothing() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    drop(engine.call(call(Caller::Waits, job(&outside))));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((open(&engine).await, outside.outcome(&outside.only())), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_committed_before_it_is_acknowledged_and_ends_the_job() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let id = task(engine.call(call(Caller::TakesTask, job(&outside))).await);
    engine.cancel(Scope::Owner(&ann()), &id, Some("enough")).await.unwrap();
    let record = engine.find(Scope::Operator, &id).await.unwrap().unwrap();
    assert!(matches!(record.outcome(), Some(Outcome::Cancelled { .. })));
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(outside.outcome(&id), Some(Outcome::cancelled(None)));
    let then = engine.find(Scope::Operator, &id).await.unwrap().unwrap();
    assert_eq!(then.outcome(), record.outcome(), "what the worker made of it changes nothing");
}

#[tokio::test(start_paused = true)]
async fn another_node_finds_the_job_of_one_that_died() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let (running, unfinished) = {
        let first = engine(store, &outside);
        let running = task(first.call(call(Caller::TakesTask, job(&outside))).await);
        let lost = task(first.call(call(Caller::TakesTask, future(100_000))).await);
        (running, lost)
    };
    // The first engine's runs live on in this runtime, as a paused process would: its store handle does too.
    let second = engine(next, &outside);
    assert_eq!(second.start().await.unwrap(), 0, "a living node keeps its tasks");
    outside.end(&running, success());
    let ended = second.ended(Scope::Operator, &running).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()));
    assert!(!second.find(Scope::Operator, &unfinished).await.unwrap().unwrap().is_terminal());
}

#[test]
fn a_node_that_dies_leaves_jobs_to_be_found_and_futures_lost() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let dying = runtime();
    let (running, lost) = dying.block_on(async {
        let first = engine(store, &outside);
        let running = task(first.call(call(Caller::TakesTask, job(&outside))).await);
        (running, task(first.call(call(Caller::TakesTask, future(100_000))).await))
    });
    drop(dying);
    runtime().block_on(async {
        let second = engine(next, &outside);
        assert_eq!(second.start().await.unwrap(), 2);
        let ended = second.ended(Scope::Operator, &lost).await.unwrap().unwrap();
        assert!(matches!(ended.outcome(), Some(Outcome::Lost { .. })));
        assert_eq!(outside.0.lock().unwrap()[&running].starts, 1, "found, not started again");
        outside.end(&running, success());
        let ended = second.ended(Scope::Operator, &running).await.unwrap().unwrap();
        assert_eq!(ended.outcome(), Some(&success()));
        let forgetful = Outside::default();
        assert!(forgetful.0.lock().unwrap().is_empty());
    });
}

#[test]
fn a_job_that_must_not_be_taken_up_again_is_ended_and_lost() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let dying = runtime();
    let id = dying.block_on(async {
        let mut call = call(Caller::TakesTask, job(&outside));
        call.rerun = Rerun::Never;
        task(engine(store, &outside).call(call).await)
    });
    drop(dying);
    runtime().block_on(async {
        let second = engine(next, &outside);
        assert_eq!(second.start().await.unwrap(), 1);
        let ended = second.ended(Scope::Operator, &id).await.unwrap().unwrap();
        assert!(matches!(ended.outcome(), Some(Outcome::Lost { .. })), "{ended:?}");
        assert_eq!(outside.outcome(&id), Some(Outcome::cancelled(None)), "and nothing of it runs on");
    });
}

#[test]
fn a_job_that_is_slow_to_be_found_keeps_no_other_waiting() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let dying = runtime();
    let ids = dying.block_on(async {
        let first = engine(store, &outside);
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(task(first.call(call(Caller::TakesTask, job(&outside))).await));
        }
        ids
    });
    drop(dying);
    runtime().block_on(async {
        for id in &ids[..2] {
            outside.0.lock().unwrap().get_mut(id).unwrap().out_of_reach = true;
        }
        let second = engine(next, &outside);
        let took = tokio::time::timeout(Duration::from_secs(1), second.start()).await;
        assert_eq!(took.unwrap().unwrap(), 3, "nor whoever starts the engine");
        outside.end(&ids[2], success());
        let ended = second.ended(Scope::Operator, &ids[2]);
        let ended = tokio::time::timeout(Duration::from_secs(1), ended).await.unwrap();
        assert_eq!(ended.unwrap().unwrap().outcome(), Some(&success()));
    });
}

#[test]
fn a_job_whose_row_was_written_and_that_never_started_is_started_once() {
    let outside = Outside::default();
    let store = Memory::new();
    let next = store.another_node();
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let id = TaskId::new("job-1").unwrap();
    runtime().block_on(async {
        let mut task = longhaul_store::NewTask::new(id.clone(), ann(), "job", json("{}"));
        task.rerun = Rerun::Reattach;
        store.create(task).await.unwrap();
        drop(store);
    });
    runtime().block_on(async {
        let engine = engine(next, &outside);
        assert_eq!(engine.start().await.unwrap(), 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(outside.0.lock().unwrap()[&id].starts, 1);
        outside.end(&id, success());
        assert!(engine.ended(Scope::Operator, &id).await.unwrap().unwrap().is_terminal());
    });
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_before_anything_runs() {
    let outside = Outside::default();
    let mut settings = Settings::default();
    settings.limits = Limits::default();
    settings.limits.max_open_per_owner = 1;
    let engine = engine(Memory::with(settings, Arc::new(longhaul_store::SystemClock::new())), &outside);
    task(engine.call(call(Caller::AsksForTask, job(&outside))).await);
    let answer = engine.call(call(Caller::AsksForTask, job(&outside))).await;
    assert!(matches!(answer, Answer::Refused(refusal) if refusal.overloaded));
    outside.only();
}

#[tokio::test(start_paused = true)]
async fn draining_hands_over_who_waits_and_keeps_the_job() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let ticket = engine.call(call(Caller::Waits, job(&outside)));
    tokio::time::sleep(Duration::from_millis(100)).await;
    engine.drain(Duration::from_secs(10)).await;
    let Answer::HandOver(record) = ticket.await else { panic!() };
    assert!(outside.kept(&record.id));
    assert_eq!(outside.outcome(&record.id), None);
}

#[tokio::test(start_paused = true)]
async fn draining_leaves_a_call_that_may_not_be_kept_to_end_in_its_time() {
    let engine = engine(Memory::new(), &Outside::default());
    let call = |seconds| Call::new(ann(), "future", json("{}"), future(seconds));
    let (quick, slow) = (engine.call(call(5)), engine.call(call(60)));
    let began = tokio::time::Instant::now();
    engine.drain(Duration::from_secs(10)).await;
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert!(matches!(quick.await, Answer::Outcome(outcome) if outcome == success()));
    assert_eq!(engine.counts().await.unwrap().retained, 0, "there is no task of either");
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_calls_that_joined_and_hands_them_over_whatever_their_hold() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = |hold| {
        let mut call = call(Caller::Waits, job(&outside));
        call.join = Some(longhaul_store::Digest::new([7; 32]));
        call.hold = hold;
        call
    };
    let first = engine.call(call(Some(Duration::from_secs(50))));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = engine.call(call(None));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = tokio::time::Instant::now();
    engine.drain(Duration::from_secs(10)).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let now = |ticket: Ticket| {
        let mut ticket = Box::pin(ticket);
        match ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => task(answer),
            Poll::Pending => panic!("not answered when draining was over"),
        }
    };
    assert_eq!(now(first), now(second));
}

#[tokio::test(start_paused = true)]
async fn a_second_call_joins_the_first_while_that_is_open() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = || {
        let mut call = call(Caller::Waits, job(&outside));
        call.join = Some(longhaul_store::Digest::new([7; 32]));
        call
    };
    let first = engine.call(call());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = engine.call(call());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let id = outside.only();
    assert_eq!(task(first.await), id, "handed over after its hold");
    assert_eq!(task(second.await), id, "and so is the second, to the same task");
    let third = engine.call(call());
    tokio::time::sleep(Duration::from_secs(1)).await;
    outside.end(&id, success());
    assert!(matches!(third.await, Answer::Outcome(outcome) if outcome == success()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _fourth = engine.call(call());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(outside.0.lock().unwrap().len(), 2, "once it has ended, a call runs anew");
}

/// A job that ends while its row is being written leaves what it wrote to the task.
#[tokio::test(start_paused = true)]
async fn what_a_job_leaves_is_discarded_only_when_no_task_came_of_it() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let ends_at = |after: Duration| {
        let outside = outside.clone();
        async move {
            tokio::time::sleep(after).await;
            outside.end(&outside.only(), success());
        }
    };
    let moments = [(1999, false), (2000, true), (2001, true)];
    for (millis, may_be_a_task) in moments {
        let ticket = engine.call(call(Caller::TakesTask, job(&outside)));
        ends_at(Duration::from_millis(millis)).await;
        ticket.await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let id = outside.only();
        let became_a_task = engine.find(Scope::Operator, &id).await.unwrap().is_some();
        assert!(!became_a_task || may_be_a_task);
        let jobs = outside.0.lock().unwrap();
        assert_eq!((jobs[&id].read_as_kept, jobs[&id].discarded), (Some(became_a_task), !became_a_task));
        drop(jobs);
        outside.0.lock().unwrap().clear();
    }
}

#[tokio::test(start_paused = true)]
async fn strangers_never_join_each_other() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = || {
        let mut call = call(Caller::Waits, job(&outside));
        call.owner = Owner::Anonymous;
        call.join = Some(longhaul_store::Digest::new([7; 32]));
        call
    };
    let (_first, _second) = (engine.call(call()), engine.call(call()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(outside.0.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_for_a_call_that_others_joined_does_not_end_it() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = || {
        let mut call = call(Caller::Waits, job(&outside));
        call.join = Some(longhaul_store::Digest::new([7; 32]));
        call
    };
    let (first, second) = (engine.call(call()), engine.call(call()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = outside.only();
    assert_eq!(outside.outcome(&id), None, "the other one waits for it");
    outside.end(&id, success());
    assert!(matches!(second.await, Answer::Outcome(outcome) if outcome == success()));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_leases_ran_out_while_it_stood_still_keeps_its_work() {
    let outside = Outside::default();
    let clock =
        Arc::new(longhaul_store::StepClock::at(longhaul_store::Time::from_unix_ms(1_800_000_000_000)));
    let store = Memory::with(Settings::default(), Arc::clone(&clock) as Arc<dyn longhaul_store::Clock>);
    let engine = engine(store, &outside);
    let kept = task(engine.call(call(Caller::TakesTask, job(&outside))).await);
    let inside = task(engine.call(call(Caller::TakesTask, future(3600))).await);
    // The machine slept: the store's time went on, the runtime's did not.
    clock.advance(Duration::from_secs(600));
    assert_eq!(engine.start().await.unwrap(), 2, "it claims its own back");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for id in [&kept, &inside] {
        let record = engine.find(Scope::Operator, id).await.unwrap().unwrap();
        assert_eq!(record.outcome(), None, "{id}");
    }
    assert_eq!(outside.0.lock().unwrap()[&kept].starts, 1);
    outside.end(&kept, success());
    let ended = engine.ended(Scope::Operator, &kept).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()));
    let ended = engine.ended(Scope::Operator, &inside).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()), "the future lived on, and its end is recorded");
}
