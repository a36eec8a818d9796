//! The engine on the memory store: calls of futures and of jobs, by callers of every kind, on two nodes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test steps the runtime's paused clock")]

mod aging;
mod asleep;
mod claimed_back;
mod deaf;
mod fencing;
mod figures;
mod fronts;
mod hosts;
mod joining;
mod letting_go;
mod line;
mod lost_answer;
mod model;
mod once;
mod orphans;
mod recovery;
mod resuming;
mod rig;
mod room;
mod slow;
mod versions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul_store::{
    Fingerprint, Limits, Memory, Outcome, Owner, Question, Rerun, Scope, Settings, Step, StepState,
};
use longhaul_tasks::environment::{BoxFuture, Environment, Tokio};
use longhaul_tasks::job::ExternalJob;
use longhaul_tasks::machine::Caller;
use longhaul_tasks::runner::{Answer, Call, Engine, InLine, Keeper, Pace, Work, Worker};

use rig::{Outside, ann, call, engine, future, job, json, open, success, task};

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
    assert_eq!(engine.in_line(&record), Some(InLine::new(0, 1)));
    let third = task(engine.call(call(Caller::TakesTask, self::job(&outside))).await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let last = engine.find(Scope::Operator, &third).await.unwrap().unwrap();
    assert_eq!(engine.in_line(&last), Some(InLine::new(1, 1)));
    engine.cancel(Scope::Operator, &third, None).await.unwrap();
    outside.end(&first, success());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(outside.kept(&second), "it starts knowing that it is to outlive this process");
    assert_eq!([engine.in_line(&record), engine.in_line(&last)], [None, None]);
    outside.end(&second, success());
    engine.ended(Scope::Operator, &second).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_replaced_has_the_places_that_it_had() {
    let outside = Outside::default();
    let worker = || {
        let job: Arc<dyn ExternalJob> = Arc::new(outside.clone());
        Worker::new("job").with_job(job).with_limit(Some(1))
    };
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(Tokio::new()), Pace::default(), [worker()]);
    let first = task(engine.call(call(Caller::TakesTask, job(&outside))).await);
    engine.employ(worker());
    let second = task(engine.call(call(Caller::TakesTask, job(&outside))).await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(outside.only(), first, "what runs of the one before it counts");
    for id in [first, second] {
        tokio::time::sleep(Duration::from_secs(1)).await;
        outside.end(&id, success());
        engine.ended(Scope::Operator, &id).await.unwrap().unwrap();
    }
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
async fn what_ends_with_its_process_has_its_time_and_is_lost_after_it() {
    let engine = engine(Memory::new(), &Outside::default());
    let quick = task(engine.call(call(Caller::TakesTask, future(8))).await);
    let slow = task(engine.call(call(Caller::TakesTask, future(60))).await);
    let keeper = Keeper::new();
    let in_a_step = {
        let keeper = keeper.clone();
        async move {
            let of = Fingerprint::new([7; Fingerprint::LEN]);
            keeper.become_durable(true).await.unwrap();
            let question = Question::new("q", json(r#"{"method": "elicitation/create"}"#));
            keeper.record(Step::new("ask", of, StepState::Asked(question))).await.unwrap();
            let (_asks, _under_way) = (Asks(keeper.clone(), of), keeper.body());
            std::future::pending().await
        }
    };
    let mut resumed = call(Caller::TakesTask, Work::Future(Box::pin(in_a_step)));
    (resumed.rerun, resumed.keeper) = (Rerun::Resumable, keeper);
    let resumed = task(engine.call(resumed).await);
    engine.drain(Duration::from_secs(10)).await;
    let began = tokio::time::Instant::now();
    engine.finish(Duration::from_secs(10)).await;
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
    let found = async |id| engine.find(Scope::Operator, id).await.unwrap().unwrap();
    assert_eq!(found(&quick).await.outcome(), Some(&success()));
    let lost = found(&slow).await;
    assert!(
        matches!(lost.outcome(), Some(Outcome::Lost { reason }) if reason.contains("was stopped")),
        "{lost:?}"
    );
    let resumed = found(&resumed).await;
    assert!(!resumed.is_terminal(), "another node goes on with it");
    assert_eq!(resumed.questions.len(), 1, "and asks what it asks: {resumed:?}");
}

/// A question that is let go of when it is dropped.
struct Asks(Keeper, Fingerprint);

impl Drop for Asks {
    fn drop(&mut self) {
        self.0.let_go("ask", self.1);
    }
}

/// Time that is over at once, and whether anybody has waited for it.
#[derive(Debug, Default)]
struct NoTime(Arc<AtomicBool>);

impl Environment for NoTime {
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        let is_over = Arc::clone(&self.0);
        Box::pin(async move { is_over.store(true, Ordering::SeqCst) })
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        Tokio::new().spawn(future);
    }

    fn random(&self, bytes: &mut [u8]) {
        Tokio::new().random(bytes);
    }
}

#[tokio::test]
async fn whoever_has_nothing_left_to_do_is_not_out_of_time() {
    let environment = NoTime::default();
    let is_over = Arc::clone(&environment.0);
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(environment), Pace::default(), []);
    // What is looked at first may be left to chance.
    for _ in 0..64 {
        engine.finish(Duration::ZERO).await;
    }
    assert!(!is_over.load(Ordering::SeqCst), "it is said that some work was not done in time");
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
async fn draining_hands_over_who_waits_for_a_task_whose_outcome_is_still_being_read() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let ticket = engine.call(call(Caller::Waits, job(&outside)));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let id = outside.only();
    outside.0.lock().unwrap().get_mut(&id).unwrap().takes = Duration::from_secs(40);
    outside.end(&id, success());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    engine.drain(Duration::from_secs(10)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(task(ticket.await), id);
}
