//! The engine on a store that fails: what passes is waited for, and what does not ends the run as it is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test steps the runtime's paused clock")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_store::{
    Accepts, Batch, CallKey, Clock, Cursor, Digest, Epoch, Filter, Fingerprint, Json, Limits, Memory,
    NewTask, Once, Operation, Outcome, Overlay, Owner, Page, Park, Question, Record, Reply, Rerun, Scope,
    Settings, Start, Step, StepClock, StepState, StoreError, StoreFuture, SystemClock, TaskId, TaskStore,
    Time,
};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::job::{Attached, ExternalJob, FoundJobs, JobError, JobRun, NotStarted};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Answer, Call, Engine, Entry, Keeper, Pace, StepError, Work, Worker};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

/// A store in memory whose next operations of a kind fail as told; `true`: after they were done.
#[derive(Debug)]
struct Failing {
    store: Memory,
    faults: Mutex<VecDeque<(Operation, StoreError, bool)>>,
    tried: Mutex<Vec<Operation>>,
    /// Whether whoever puts a task aside waits.
    stalled: watch::Sender<bool>,
    /// How many tasks were read for lists.
    listed: AtomicUsize,
}

impl Failing {
    fn new(limits: Limits) -> Arc<Self> {
        Self::on(limits, Arc::new(SystemClock::new()))
    }

    fn on(limits: Limits, clock: Arc<dyn Clock>) -> Arc<Self> {
        let mut settings = Settings::default();
        settings.limits = limits;
        let store = Memory::with(settings, clock);
        let stalled = watch::channel(false).0;
        let (faults, tried, listed) = Default::default();
        Arc::new(Self { store, faults, tried, stalled, listed })
    }

    fn fail(&self, operation: Operation, error: StoreError, done: bool) {
        self.faults.lock().unwrap().push_back((operation, error, done));
    }

    fn tries(&self, operation: Operation) -> usize {
        self.tried.lock().unwrap().iter().filter(|tried| **tried == operation).count()
    }
}

impl Overlay for Failing {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        self.tried.lock().unwrap().push(operation);
        let mut faults = self.faults.lock().unwrap();
        let Some(at) = faults.iter().position(|(fails, ..)| *fails == operation) else { return doing };
        let Some((_, error, after)) = faults.remove(at) else { return doing };
        Box::pin(async move {
            if after {
                doing.await?;
            }
            Err(error)
        })
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            let page = self.store.list(scope, filter, after, limit).await?;
            self.listed.fetch_add(page.tasks.len(), Ordering::SeqCst);
            Ok(page)
        })
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        let mut stalled = self.stalled.subscribe();
        let parks = batch.park.is_some();
        let written = self.around(Operation::Write, self.store.write(id, epoch, batch));
        Box::pin(async move {
            if parks {
                stalled.wait_for(|stalled| !stalled).await.unwrap();
            }
            written.await
        })
    }
}

fn full() -> StoreError {
    StoreError::Full { place: "tasks.db".into(), source: Arc::new(std::io::Error::other("no space")) }
}

fn corrupt() -> StoreError {
    StoreError::Corrupt { what: "a row".to_owned(), source: None }
}

fn backend() -> StoreError {
    StoreError::Backend { doing: "writing", source: Arc::new(std::io::Error::other("it broke")) }
}

fn success() -> Outcome {
    Outcome::result(Json::parse(r#"{"content":[]}"#).unwrap(), false)
}

fn engine(store: &Arc<Failing>) -> Engine {
    let store: Arc<dyn TaskStore> = Arc::clone(store) as _;
    Engine::new(store, Arc::new(Tokio::new()), Pace::default(), [Worker::new("future")])
}

/// A call that becomes durable after 2 s, is handed over after 50 s and ends after `seconds`.
fn call(seconds: u64) -> Call {
    let work = Work::Future(Box::pin(async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        success()
    }));
    let mut call = Call::new(Owner::principal("ann").unwrap(), "future", Json::parse("{}").unwrap(), work);
    call.plan = Plan::new(Caller::Waits, false);
    (call.after, call.hold) = (Some(Duration::from_secs(2)), Some(Duration::from_secs(50)));
    call
}

fn outcome(answer: Answer) -> Outcome {
    match answer {
        Answer::Outcome(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_waits_for_a_full_disk_and_not_for_a_closed_store() {
    for error in [full(), StoreError::Closed, corrupt()] {
        let passes = error.is_retryable();
        let store = Failing::new(Limits::default());
        let engine = engine(&store);
        for _ in 0..5 {
            store.fail(Operation::Finish, error.clone(), false);
        }
        let began = Instant::now();
        assert_eq!(outcome(engine.call(call(10)).await), success(), "its caller is told how it ended");
        assert_eq!(store.tries(Operation::Finish), if passes { 6 } else { 1 }, "{error}");
        assert_eq!(began.elapsed() > Duration::from_secs(11), passes, "{error}");
        let open = engine.list(Scope::Operator, &Filter::open(), None, 10).await.unwrap().tasks.len();
        assert_eq!(open, usize::from(!passes), "what could not be written is not on disk");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_tried_again_unless_the_store_is_closed() {
    for (error, tries) in [(full(), 2), (StoreError::Closed, 1)] {
        let store = Failing::new(Limits::default());
        store.fail(Operation::RequestCancel, error, false);
        let ticket = engine(&store).call(call(3600));
        tokio::time::sleep(Duration::from_secs(10)).await;
        ticket.cancel();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(store.tries(Operation::RequestCancel), tries);
        drop(ticket);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_too_large_to_be_kept_ends_in_place_and_is_tried_once() {
    let mut limits = Limits::default();
    limits.max_arguments = 1;
    let store = Failing::new(limits);
    assert_eq!(outcome(engine(&store).call(call(100)).await), success(), "and its caller is not handed over");
    assert_eq!(store.tries(Operation::Create), 1);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_written_without_a_word_is_found() {
    let store = Failing::new(Limits::default());
    store.fail(Operation::Create, backend(), true);
    let engine = engine(&store);
    let answer = engine.call(call(100)).await;
    let Answer::HandOver(record) = answer else { panic!("{answer:?}") };
    let ended = engine.ended(Scope::Operator, &record.id).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()));
}

/// Such a row says that whoever claims it begins it.
#[tokio::test(start_paused = true)]
async fn what_stood_in_line_does_not_begin_where_it_will_never_be_known_whether_there_is_a_row() {
    let store = Failing::new(Limits::default());
    let (node, worker) =
        (Arc::clone(&store) as Arc<dyn TaskStore>, Worker::new("future").with_limit(Some(1)));
    let engine = Engine::new(node, Arc::new(Tokio::new()), Pace::default(), [worker]);
    let first = engine.call(call(10));
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The row is there, whoever serves the store now may begin what it says, and this process never hears of it.
    store.fail(Operation::Create, backend(), true);
    store.fail(Operation::Create, StoreError::Closed, false);
    let mut second = call(0);
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    second.work = Work::Future(Box::pin(async move {
        begins.store(true, Ordering::SeqCst);
        success()
    }));
    let second = outcome(engine.call(second).await);
    assert!(matches!(second, Outcome::Lost { .. }), "{second:?}");
    assert!(!begun.load(Ordering::SeqCst));
    assert_eq!(outcome(first.await), success());
}

#[tokio::test(start_paused = true)]
async fn what_stood_in_line_begins_once_it_is_known_whether_there_is_a_row() {
    let store = Failing::new(Limits::default());
    let (node, worker) =
        (Arc::clone(&store) as Arc<dyn TaskStore>, Worker::new("future").with_limit(Some(1)));
    let engine = Engine::new(node, Arc::new(Tokio::new()), Pace::default(), [worker]);
    let first = engine.call(call(10));
    tokio::time::sleep(Duration::from_secs(3)).await;
    store.fail(Operation::Create, backend(), true);
    for _ in 0..3 {
        store.fail(Operation::Create, backend(), false);
    }
    let mut second = call(0);
    let its = Arc::clone(&store);
    second.work = Work::Future(Box::pin(async move {
        let tries = Json::parse(its.tries(Operation::Create).to_string()).unwrap();
        Outcome::result(tries, false)
    }));
    let second = outcome(engine.call(second).await);
    assert_eq!(second, Outcome::result(Json::parse("6").unwrap(), false), "the first of them is the other's");
    assert_eq!(outcome(first.await), success());
}

#[tokio::test(start_paused = true)]
async fn k1_before_the_commit_nothing_is_there_and_the_same_key_creates_one() {
    let store = Failing::new(Limits::default());
    let engine = engine(&store);
    store.fail(Operation::Create, backend(), false);
    let keyed = || {
        let mut call = call(60);
        call.plan = Plan::new(Caller::TakesTask, true);
        call.once = Some(Once::new(CallKey::new("key:1").unwrap(), Digest::new([1; 32])));
        engine.call(call)
    };
    let answer = keyed().await;
    assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
    assert_eq!(engine.counts().await.unwrap().retained, 0);
    let Answer::Task(made) = keyed().await else { panic!("no task") };
    let Answer::Task(again) = keyed().await else { panic!("no task") };
    assert_eq!((again.id.clone(), engine.counts().await.unwrap().retained), (made.id.clone(), 1));
}

#[tokio::test(start_paused = true)]
async fn too_long_a_status_costs_no_result() {
    let mut limits = Limits::default();
    limits.max_text = 50;
    let store = Failing::new(limits);
    let mut call = call(100);
    call.reports = Reporter::new();
    call.reports.0.status("x".repeat(100));
    let engine = engine(&store);
    let answer = engine.call(call).await;
    let Answer::HandOver(record) = answer else { panic!("{answer:?}") };
    let ended = engine.ended(Scope::Operator, &record.id).await.unwrap().unwrap();
    assert_eq!(ended.outcome(), Some(&success()));
}

#[tokio::test(start_paused = true)]
async fn who_joined_a_call_is_handed_over_though_its_task_could_not_be_read_at_first() {
    let store = Failing::new(Limits::default());
    let engine = engine(&store);
    let call = |hold| {
        let mut call = call(3600);
        call.join = Some(Digest::new([7; 32]));
        call.hold = Some(Duration::from_secs(hold));
        call
    };
    let _first = engine.call(call(1000));
    let second = engine.call(call(50));
    tokio::time::sleep(Duration::from_secs(40)).await;
    store.fail(Operation::Get, backend(), false);
    let began = Instant::now();
    assert!(matches!(second.await, Answer::HandOver(_)));
    assert_eq!(began.elapsed().as_secs(), 11);
}

/// Fenced by its own node's next claim, and then unable to see so.
#[tokio::test(start_paused = true)]
async fn an_outcome_waits_until_it_can_be_seen_whose_the_task_is() {
    let store = Failing::new(Limits::default());
    let engine = engine(&store);
    let mut call = call(100);
    call.hold = Some(Duration::from_secs(10));
    let answer = engine.call(call).await;
    let Answer::HandOver(record) = answer else { panic!("{answer:?}") };
    store.fail(Operation::Finish, StoreError::Fenced { id: record.id.clone(), held: record.epoch }, false);
    store.fail(Operation::Get, backend(), false);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let now = engine.find(Scope::Operator, &record.id).await.unwrap().unwrap();
    assert_eq!(now.outcome(), Some(&success()));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_handed_over_in_time_though_the_outcome_cannot_be_written_yet() {
    let store = Failing::new(Limits::default());
    for _ in 0..30 {
        store.fail(Operation::Finish, full(), false);
    }
    let engine = engine(&store);
    let began = Instant::now();
    let answer = engine.call(call(45)).await;
    assert!(matches!(answer, Answer::HandOver(_)), "{answer:?}");
    assert_eq!(began.elapsed().as_secs(), 50);
}

const OF: Fingerprint = Fingerprint::new([7; Fingerprint::LEN]);

/// A task that keeps what `work` learns, for it may be entered again.
fn task_of<F>(work: impl FnOnce(Keeper) -> F) -> Call
where
    F: Future<Output = ()> + Send + 'static,
{
    let keeper = Keeper::new();
    let working = work(keeper.clone());
    let work = Work::Future(Box::pin(async move {
        working.await;
        success()
    }));
    let mut call = Call::new(Owner::principal("ann").unwrap(), "future", Json::parse("{}").unwrap(), work);
    (call.rerun, call.keeper) = (Rerun::Resumable, keeper);
    call
}

/// An engine whose work stays in memory while it waits.
fn engine_that_keeps(store: &Arc<Failing>) -> Engine {
    let store: Arc<dyn TaskStore> = Arc::clone(store) as _;
    let mut pace = Pace::default();
    pace.hot_wait = Duration::from_secs(36_000);
    Engine::new(store, Arc::new(Tokio::new()), pace, [Worker::new("future")])
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_yet_is_looked_for_with_growing_pauses() {
    let store = Failing::new(Limits::default());
    let engine = engine_that_keeps(&store);
    let mut call = task_of(|keeper| async move {
        let question = Question::new("q", Json::parse("{}").unwrap());
        keeper.record(Step::new("ask", OF, StepState::Asked(question))).await.unwrap();
        keeper.learnt("ask").await;
    });
    call.plan = Plan::new(Caller::TakesTask, true);
    let Answer::Task(record) = engine.call(call).await else { panic!("no task") };
    tokio::time::sleep(Duration::from_secs(1)).await;
    for operation in [Operation::Steps, Operation::Get] {
        (0..20).for_each(|_| store.fail(operation, backend(), false));
    }
    let began = Instant::now();
    let reply = Reply::new("q", Json::parse("true").unwrap());
    engine.answer(Scope::Operator, &record.id, &[reply]).await.unwrap();
    // It is asked after past the faults.
    let ended = loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let record = store.store.get(Scope::Operator, &record.id).await.unwrap().unwrap();
        if record.is_terminal() {
            break record;
        }
    };
    assert_eq!(ended.outcome(), Some(&success()));
    assert!(began.elapsed() > Duration::from_secs(100), "{:?}", began.elapsed());
}

/// Work that asks and waits; entered again it has an effect under way meanwhile, and so is not put aside.
#[derive(Clone, Debug, Default)]
struct Waiting {
    entered: Arc<AtomicUsize>,
    alive: Arc<AtomicUsize>,
}

impl Waiting {
    async fn work(self, keeper: Keeper) {
        struct Alive(Arc<AtomicUsize>);
        impl Drop for Alive {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.alive.fetch_add(1, Ordering::SeqCst);
        let _alive = Alive(self.alive);
        let again = self.entered.fetch_add(1, Ordering::SeqCst) > 0;
        let _under_way = again.then(|| keeper.body());
        if keeper.find("ask", OF).unwrap().is_none() {
            let question = Question::new("q", Json::parse("{}").unwrap());
            keeper.record(Step::new("ask", OF, StepState::Asked(question))).await.unwrap();
        }
        keeper.learnt("ask").await;
    }
}

impl Entry for Waiting {
    fn enter(
        &self,
        _: &Record,
        _: Option<&RawValue>,
        keeper: Keeper,
        _: Reporter,
    ) -> BoxFuture<'static, Outcome> {
        let work = self.clone().work(keeper);
        Box::pin(async move {
            work.await;
            success()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_slow_to_put_its_task_aside_ends_if_another_has_begun_meanwhile() {
    let clock = Arc::new(StepClock::at(Time::from_unix_ms(1_800_000_000_000)));
    let store = Failing::on(Limits::default(), Arc::clone(&clock) as Arc<dyn Clock>);
    let work = Waiting::default();
    let worker = Worker::new("future").with_entry(Arc::new(work.clone()));
    let shared: Arc<dyn TaskStore> = Arc::clone(&store) as _;
    let engine = Engine::new(shared, Arc::new(Tokio::new()), Pace::default(), [worker]);
    engine.start().await.unwrap();
    store.stalled.send_replace(true);
    let mut call = task_of(|keeper| work.clone().work(keeper));
    call.plan = Plan::new(Caller::TakesTask, true);
    let Answer::Task(record) = engine.call(call).await else { panic!("no task") };
    // It waits, is to be put aside, and that takes longer than its lease.
    tokio::time::sleep(Duration::from_secs(5)).await;
    clock.advance(Duration::from_secs(600));
    // So much time has passed at once that some looks are left out.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!((work.entered.load(Ordering::SeqCst), work.alive.load(Ordering::SeqCst)), (2, 2));
    store.stalled.send_replace(false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(work.alive.load(Ordering::SeqCst), 1, "one epoch has one run");

    let reply = Reply::new("q", Json::parse("true").unwrap());
    engine.answer(Scope::Operator, &record.id, &[reply]).await.unwrap();
    let ended = engine.ended(Scope::Operator, &record.id).await.unwrap().unwrap();
    assert_eq!((ended.outcome(), work.entered.load(Ordering::SeqCst)), (Some(&success()), 2));
}

#[tokio::test(start_paused = true)]
async fn what_was_learnt_since_a_row_was_written_without_a_word_is_written_when_it_is_found() {
    let store = Failing::new(Limits::default());
    let engine = engine_that_keeps(&store);
    let learnt = |key: &str| Step::new(key, OF, StepState::learnt(Json::parse("1").unwrap()));
    let mut call = task_of(|keeper| async move {
        keeper.record(learnt("before")).await.unwrap();
        // The row is written after 2 s and tried again 5 s later, once in vain.
        tokio::time::sleep(Duration::from_secs(3)).await;
        keeper.record(learnt("since")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(100)).await;
    });
    call.plan = Plan::new(Caller::Waits, false);
    (call.after, call.hold) = (Some(Duration::from_secs(2)), Some(Duration::from_secs(50)));
    store.fail(Operation::Create, backend(), true);
    store.fail(Operation::Write, backend(), false);
    let answer = engine.call(call).await;
    let Answer::HandOver(record) = answer else { panic!("{answer:?}") };
    let steps = store.store.steps(&record.id, record.epoch).await.unwrap();
    let known: Vec<Step> = steps.into_iter().map(|step| step.between(None, None)).collect();
    assert_eq!(known, [learnt("before"), learnt("since")]);
}

/// There are no jobs.
#[derive(Debug)]
struct NoJobs;

impl ExternalJob for NoJobs {
    fn start<'a>(
        &'a self,
        _: &'a TaskId,
        _: &'a Json,
        _: bool,
        _: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        Box::pin(std::future::pending())
    }
    fn attach<'a>(&'a self, _: &'a TaskId, _: bool, _: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(std::future::ready(Attached::NeverStarted))
    }
    fn cancel<'a>(&'a self, _: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn discard<'a>(&'a self, _: &'a TaskId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl FoundJobs for NoJobs {
    fn has_begun<'a>(&'a self, _: &'a TaskId) -> BoxFuture<'a, Result<bool, JobError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

#[tokio::test(start_paused = true)]
async fn who_looks_for_orphans_reads_no_task_that_waits() {
    let store = Failing::new(Limits::default());
    let new = NewTask::new(
        TaskId::new("waits").unwrap(),
        Owner::Anonymous,
        "elsewhere",
        Json::parse("{}").unwrap(),
    );
    let waits = store.store.create(new).await.unwrap().into_record();
    let until = store.store.now().after(Duration::from_secs(36_000));
    let park = Batch::new().with_park(Park::new(vec![], Some(until)));
    store.store.write(&waits.id, waits.epoch, park).await.unwrap();
    let engine = engine(&store);
    engine.reach_others(Arc::new(NoJobs));
    engine.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(store.listed.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn one_task_that_cannot_be_read_keeps_no_other_from_being_told_of() {
    let store = Failing::new(Limits::default());
    for name in ["one", "two"] {
        let id = TaskId::new(name).unwrap();
        let mut new = NewTask::new(id, Owner::Anonymous, "future", Json::parse("{}").unwrap());
        // Whoever claims it may begin it, unless its steps say that it has begun.
        new.caller = Json::parse(r#"{"begun":false,"again":true}"#).unwrap();
        new.start = Start::Queued { not_before: store.store.now() };
        store.store.create(new).await.unwrap();
    }
    store.fail(Operation::Steps, corrupt(), false);
    let worker = Worker::new("future").with_accepts(Accepts::new("=2").unwrap());
    let node = Arc::clone(&store) as Arc<dyn TaskStore>;
    let engine = Engine::new(node, Arc::new(Tokio::new()), Pace::default(), [worker]);
    engine.start().await.unwrap();
    let told = async || {
        let page = store.store.list(Scope::Operator, &Filter::open(), None, 10).await.unwrap();
        page.tasks.iter().filter(|task| task.status_message.is_some()).count()
    };
    // It looks every 10 s, and tells of what was there at the look before.
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(told().await, 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(told().await, 2, "the other is looked at again");
}

#[tokio::test(start_paused = true)]
async fn work_that_has_no_row_learns_no_more_than_the_store_takes() {
    let mut limits = Limits::default();
    (limits.max_steps, limits.max_step, limits.max_step_bytes) = (3, 200, 500);
    let store = Failing::new(limits);
    let engine = engine_that_keeps(&store);
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&refusals);
    let call = task_of(|keeper| async move {
        let long = |bytes| StepState::learnt(Json::parse(format!("\"{}\"", "x".repeat(bytes))).unwrap());
        for (key, bytes) in [("a", 150), ("b", 300), ("b", 150), ("c", 160), ("c", 10), ("d", 1), ("d", 1)] {
            let recorded = keeper.record(Step::new(key, OF, long(bytes))).await;
            noted.lock().unwrap().push((key, recorded.is_err()));
        }
    });
    assert_eq!(outcome(engine.call(call).await), success());
    let expected =
        [("a", false), ("b", true), ("b", false), ("c", true), ("c", false), ("d", true), ("d", true)];
    assert_eq!(*refusals.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_meanwhile_stands_and_what_is_something_else_does_not() {
    let store = Failing::new(Limits::default());
    let engine = engine_that_keeps(&store);
    let told = |text: &str| StepState::learnt(Json::parse(text).unwrap());
    let (sender, settled) = tokio::sync::oneshot::channel();
    let mut call = task_of(|keeper| async move {
        let question = Question::new("q", Json::parse("{}").unwrap());
        keeper.record(Step::new("ask", OF, StepState::Asked(question))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        // The answer is there, and cannot be read at first.
        let stands = keeper.settle(Step::new("ask", OF, told("\"too late\""))).await;
        let diverged = keeper.record(Step::new("ask", OF, told("\"other\""))).await;
        let another = Fingerprint::new([8; Fingerprint::LEN]);
        let another = keeper.settle(Step::new("ask", another, told("1"))).await;
        sender.send((stands, diverged, another)).unwrap();
    });
    call.plan = Plan::new(Caller::TakesTask, true);
    let Answer::Task(record) = engine.call(call).await else { panic!("no task") };
    tokio::time::sleep(Duration::from_secs(9)).await;
    (0..10).for_each(|_| store.fail(Operation::Steps, backend(), false));
    store
        .store
        .answer(Scope::Operator, &record.id, &[Reply::new("q", Json::parse("true").unwrap())])
        .await
        .unwrap();
    let (stands, diverged, another) = settled.await.unwrap();
    assert_eq!(stands.unwrap(), told("true"));
    assert!(matches!(diverged, Err(StepError::Diverged { .. })), "{diverged:?}");
    assert!(matches!(another, Err(StepError::Diverged { .. })), "{another:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_waits_for_any_more_is_known_to_be_in_vain() {
    let store = Failing::new(Limits::default());
    let engine = engine_that_keeps(&store);
    let (sender, let_go) = tokio::sync::oneshot::channel();
    let mut call = task_of(|keeper| async move {
        for key in ["one", "two"] {
            let question = Question::new(format!("q {key}"), Json::parse("{}").unwrap());
            keeper.record(Step::new(key, OF, StepState::Asked(question))).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        ["one", "two"].into_iter().for_each(|key| keeper.let_go(key, OF));
        keeper.record(Step::new("next", OF, StepState::Begun)).await.unwrap();
        sender.send(["one", "two", "next"].map(|key| keeper.has_let_go(key))).unwrap();
        std::future::pending::<()>().await;
    });
    call.plan = Plan::new(Caller::TakesTask, true);
    let Answer::Task(record) = engine.call(call).await else { panic!("no task") };
    tokio::time::sleep(Duration::from_secs(9)).await;
    let answered = [Reply::new("q one", Json::parse("true").unwrap())];
    store.store.answer(Scope::Operator, &record.id, &answered).await.unwrap();
    assert_eq!(let_go.await.unwrap(), [true, true, false]);
    let now = store.store.get(Scope::Operator, &record.id).await.unwrap().unwrap();
    assert!(now.questions.is_empty(), "{now:?}");
    let steps = store.store.steps(&record.id, record.epoch).await.unwrap();
    let keys: Vec<&str> = steps.iter().map(|step| &*step.key).collect();
    assert_eq!(keys, ["one", "two", "one in vain", "next"], "withdrawn before anything else is recorded");
}
