//! Work that can be entered again: given back, put aside, given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_store::{
    Accepts, Batch, Fingerprint, Json, Memory, NewTask, Outcome, Owner, Phase, Progress, Question, Record,
    Reply, Rerun, Scope, Step, StepState, TaskId, TaskStore, ToolVersion,
};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Answer, Call, Engine, Entry, Keeper, Pace, Work, Worker};
use serde_json::value::RawValue;

const OF: Fingerprint = Fingerprint::new([7; Fingerprint::LEN]);

pub(super) fn done() -> Outcome {
    Outcome::result(Json::parse("{}").unwrap(), false)
}

fn pace() -> Pace {
    let mut pace = Pace::default();
    (pace.hot_wait, pace.recover_every) = (Duration::from_millis(50), Duration::from_millis(10));
    pace.strand_after = Duration::from_millis(20);
    pace
}

/// Work that lingers until it is let go, and asks first if it is told to.
#[derive(Clone, Debug, Default)]
pub(super) struct Lingering {
    pub(super) entered: Arc<AtomicUsize>,
    pub(super) let_go: Arc<AtomicBool>,
    pub(super) asks: bool,
}

impl Lingering {
    fn work(&self, keeper: Keeper) -> BoxFuture<'static, Outcome> {
        let this = self.clone();
        Box::pin(async move {
            this.entered.fetch_add(1, Ordering::SeqCst);
            if this.asks {
                if keeper.find("ask", OF).unwrap().is_none() {
                    keeper.become_durable(true).await.unwrap();
                    let question = Question::new("q", Json::parse("{}").unwrap());
                    keeper.record(Step::new("ask", OF, StepState::Asked(question))).await.unwrap();
                }
                keeper.learnt("ask").await;
            }
            while !this.let_go.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            done()
        })
    }

    fn engine(&self, store: &Memory) -> Engine {
        self.engine_of(store, "linger", Accepts::default())
    }

    /// An engine that leaves work alone for so long once it has taken a process with it.
    fn engine_that_waits(&self, store: &Memory, retry_work: Duration) -> Engine {
        let mut pace = pace();
        pace.retry_work = retry_work;
        self.paced(store, pace, "linger", Accepts::default())
    }

    pub(super) fn engine_of(&self, store: &Memory, tool: &str, accepts: Accepts) -> Engine {
        self.paced(store, pace(), tool, accepts)
    }

    /// An engine on a store of its own.
    pub(super) fn engine_at(&self, store: Arc<dyn TaskStore>) -> Engine {
        let (worker, mut pace) = (Worker::new("linger").with_entry(Arc::new(self.clone())), pace());
        pace.retry_work = Duration::from_millis(10);
        Engine::new(store, Arc::new(Tokio::new()), pace, [worker])
    }

    fn paced(&self, store: &Memory, pace: Pace, tool: &str, accepts: Accepts) -> Engine {
        let worker = Worker::new(tool).with_entry(Arc::new(self.clone())).with_accepts(accepts);
        Engine::new(Arc::new(store.another_node()), Arc::new(Tokio::new()), pace, [worker])
    }

    pub(super) async fn begin(&self, engine: &Engine) -> TaskId {
        self.begin_as(engine, ToolVersion::default()).await
    }

    pub(super) async fn begin_as(&self, engine: &Engine, version: ToolVersion) -> TaskId {
        let keeper = Keeper::new();
        let work = Work::Future(self.work(keeper.clone()));
        let mut call = Call::new(Owner::Anonymous, "linger", Json::parse("{}").unwrap(), work);
        (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
        call.version = version;
        match engine.call(call).await {
            Answer::Task(record) => record.id.clone(),
            other => panic!("{other:?}"),
        }
    }
}

impl Entry for Lingering {
    fn enter(
        &self,
        _: &Record,
        _: Option<&RawValue>,
        keeper: Keeper,
        _: Reporter,
    ) -> BoxFuture<'static, Outcome> {
        self.work(keeper)
    }
}

/// The record, once it is as it should be.
pub(super) async fn until(store: &Memory, id: &TaskId, is: impl Fn(&Record) -> bool) -> Record {
    for _ in 0..1000 {
        let record = store.get(Scope::Operator, id).await.unwrap().unwrap();
        if is(&record) {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", store.get(Scope::Operator, id).await);
}

#[tokio::test]
async fn k27_a_node_that_stops_in_order_gives_its_tasks_back_and_charges_nothing() {
    let (store, work) = (Memory::new(), Lingering::default());
    let one = work.engine(&store);
    one.start().await.unwrap();
    let id = work.begin(&one).await;
    until(&store, &id, |_| work.entered.load(Ordering::SeqCst) == 1).await;
    one.drain(Duration::from_secs(5)).await;
    let given_back = until(&store, &id, |record| matches!(record.phase, Phase::Queued { .. })).await;
    assert_eq!(given_back.attempt, 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(work.entered.load(Ordering::SeqCst), 1, "who goes does not take it up again");

    let two = work.engine(&store);
    assert_eq!(two.start().await.unwrap(), 1);
    work.let_go.store(true, Ordering::SeqCst);
    let ended = until(&store, &id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), ended.attempt), (Some(&done()), 1));
    assert_eq!(work.entered.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn k27_what_waits_for_a_place_is_given_back_as_well() {
    let (store, work) = (Memory::new(), Lingering::default());
    let worker = Worker::new("linger").with_entry(Arc::new(work.clone())).with_limit(Some(1));
    let one = Engine::new(Arc::new(store.another_node()), Arc::new(Tokio::new()), pace(), [worker]);
    one.start().await.unwrap();
    let ids = [work.begin(&one).await, work.begin(&one).await];
    until(&store, &ids[0], |_| work.entered.load(Ordering::SeqCst) == 1).await;
    one.drain(Duration::from_secs(5)).await;
    one.finish(Duration::from_secs(60)).await;
    for id in &ids {
        let given_back = until(&store, id, |record| matches!(record.phase, Phase::Queued { .. })).await;
        assert_eq!(given_back.attempt, 0);
    }
}

#[tokio::test]
async fn words_that_are_too_long_for_the_store_keep_no_work_in_memory() {
    let (store, work) = (Memory::new(), Lingering { asks: true, ..Lingering::default() });
    let engine = work.engine(&store);
    engine.start().await.unwrap();
    let keeper = Keeper::new();
    let (reporter, reports) = Reporter::new();
    let words = "ä".repeat(3000);
    reporter.status(words.as_str());
    reporter.progress(Progress::new(1.0, None, Some(words.as_str().into())));
    let body = Work::Future(work.work(keeper.clone()));
    let mut call = Call::new(Owner::Anonymous, "linger", Json::parse("{}").unwrap(), body);
    (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
    call.reports = (reporter, reports);
    let Answer::Task(record) = engine.call(call).await else { panic!() };
    let parked = until(&store, &record.id, |record| matches!(record.phase, Phase::Parked { .. })).await;
    let said = [parked.status_message, parked.progress.and_then(|progress| progress.message)];
    assert_eq!(said, [(); 2].map(|()| Some("ä".repeat(2048).into())));
}

#[tokio::test]
async fn work_that_only_waits_is_put_aside_and_goes_on_when_it_is_answered() {
    let (store, work) = (Memory::new(), Lingering { asks: true, ..Lingering::default() });
    work.let_go.store(true, Ordering::SeqCst);
    let engine = work.engine(&store);
    engine.start().await.unwrap();
    let id = work.begin(&engine).await;
    let parked = until(&store, &id, |record| matches!(record.phase, Phase::Parked { .. })).await;
    assert_eq!((parked.questions.len(), parked.attempt), (1, 0));
    let reply = Reply::new("q", Json::parse("true").unwrap());
    engine.answer(Scope::Operator, &id, &[reply]).await.unwrap();
    let ended = until(&store, &id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), ended.attempt), (Some(&done()), 1));
    assert_eq!(work.entered.load(Ordering::SeqCst), 2);
}

/// K25 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn what_was_put_aside_goes_on_at_once_whatever_was_lost_before() {
    let (store, work) = (Memory::new(), Lingering { asks: true, ..Lingering::default() });
    work.let_go.store(true, Ordering::SeqCst);
    let id = orphan(&store).await;
    for _ in 0..2 {
        store.another_node().claim_one(&id).await.unwrap().unwrap();
    }
    let one = work.engine_that_waits(&store, Duration::from_millis(1));
    one.start().await.unwrap();
    until(&store, &id, |record| matches!(record.phase, Phase::Parked { .. })).await;
    drop(one);
    let two = work.engine_that_waits(&store, Duration::from_secs(3600));
    let reply = Reply::new("q", Json::parse("true").unwrap());
    two.answer(Scope::Operator, &id, &[reply]).await.unwrap();
    let ended = until(&store, &id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), ended.attempt), (Some(&done()), 1));
}

/// A task whose node is gone.
async fn orphan(store: &Memory) -> TaskId {
    let id = TaskId::new("orphan").unwrap();
    let mut new = NewTask::new(id.clone(), Owner::Anonymous, "linger", Json::parse("{}").unwrap());
    new.rerun = Rerun::Resumable;
    store.another_node().create(new).await.unwrap();
    id
}

#[tokio::test]
async fn work_whose_process_has_ended_goes_on_at_once_and_after_another_has_with_a_pause() {
    let (store, work) = (Memory::new(), Lingering::default());
    let id = orphan(&store).await;
    let one = work.engine_that_waits(&store, Duration::from_secs(3600));
    one.start().await.unwrap();
    until(&store, &id, |_| work.entered.load(Ordering::SeqCst) == 1).await;

    let (store, work) = (Memory::new(), Lingering::default());
    let id = orphan(&store).await;
    store.another_node().claim_one(&id).await.unwrap().unwrap();
    let one = work.engine_that_waits(&store, Duration::from_secs(3600));
    one.start().await.unwrap();
    until(&store, &id, |record| record.attempt == 3).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(work.entered.load(Ordering::SeqCst), 0);
}

/// K25 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn k26_work_that_ends_one_process_after_another_is_given_up() {
    let (store, work) = (Memory::new(), Lingering::default());
    let id = orphan(&store).await;
    for _ in 0..5 {
        // A node that is gone as soon as it has the task: its work has ended it.
        store.another_node().claim_one(&id).await.unwrap().unwrap();
    }
    let last = work.engine(&store);
    last.start().await.unwrap();
    let ended = until(&store, &id, Record::is_terminal).await;
    let Some(Outcome::Error { code, data, .. }) = ended.outcome() else { panic!("{ended:?}") };
    let data = data.as_ref().map(Json::as_str);
    assert_eq!((*code, data), (-32603, Some(r#"{"reason":"attempts_exhausted","attempts":6}"#)));
}

/// However often its process ends, work that gets further each time is not given up.
#[tokio::test]
async fn work_that_gets_further_is_not_given_up() {
    let (store, work) = (Memory::new(), Lingering::default());
    let id = orphan(&store).await;
    for number in 0..12 {
        let node = store.another_node();
        let held = node.claim_one(&id).await.unwrap().unwrap();
        let state = StepState::Learnt { value: Json::parse("1").unwrap(), is_error: false };
        let learnt = Batch::new().with_step(Step::new(format!("step {number}"), OF, state));
        node.write(&id, held.epoch, learnt).await.unwrap();
    }
    work.let_go.store(true, Ordering::SeqCst);
    let last = work.engine(&store);
    last.start().await.unwrap();
    let ended = until(&store, &id, Record::is_terminal).await;
    assert_eq!(ended.outcome(), Some(&done()));
}

/// Until then nothing holds the engine, nor its store.
#[tokio::test(start_paused = true)]
async fn the_time_of_work_that_is_asked_to_end_is_over_with_the_work() {
    let (memory, keeper) = (Memory::new(), Keeper::new());
    let store = Arc::new(memory.another_node());
    let held = Arc::downgrade(&store);
    let engine = Engine::new(store, Arc::new(Tokio::new()), pace(), [Worker::new("end")]);
    let work = {
        let keeper = keeper.clone();
        Box::pin(async move {
            keeper.asked_to_end().await;
            done()
        })
    };
    let mut call = Call::new(Owner::Anonymous, "end", Json::parse("{}").unwrap(), Work::Future(work));
    (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
    call.cancel_grace = Some(Duration::from_secs(3600));
    let Answer::Task(record) = engine.call(call).await else { panic!("it is a task") };
    engine.ask_to_cancel(Scope::Operator, &record.id, None).await.unwrap();
    let ended = until(&memory, &record.id, Record::is_terminal).await;
    assert_eq!(ended.outcome(), Some(&done()));
    drop(engine);
    for _ in 0..60 {
        if held.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("its time is waited out");
}
