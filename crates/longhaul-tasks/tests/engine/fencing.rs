//! Work whose lease may have run out while it was allowed to have an effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_store::wrap::{Fault, Faults, Moment, Operation, Wrap, Wrapped};
use longhaul_store::{
    Fingerprint, Json, Memory, Outcome, Overlay, Owner, Record, Rerun, Settings, Step, StepClock, StepState,
    StoreFuture, TaskId, TaskStore as _, Time,
};
use longhaul_tasks::environment::{BoxFuture, Tokio};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::runner::{Answer, Call, Engine, Keeper, Pace, Work, Worker};
use tokio::sync::{Notify, watch};

use crate::resuming::{done, until};

const OF: Fingerprint = Fingerprint::new([7; Fingerprint::LEN]);

/// A node whose store answers late when an effect is to begin.
struct Late {
    memory: Memory,
    faults: Faults,
    blind: watch::Sender<bool>,
    answer: Arc<Notify>,
    effects: Arc<AtomicUsize>,
    gone: Arc<AtomicBool>,
    _engine: Engine,
    id: TaskId,
}

/// While it is blind, the node cannot see by its records what has become of them.
#[derive(Debug)]
struct Blind(watch::Receiver<bool>);

impl Wrap for Blind {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        let mut blind = self.0.clone();
        Box::pin(async move {
            if operation == Operation::Get {
                let _ = blind.wait_for(|blind| !blind).await;
            }
            doing.await
        })
    }
}

struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Late {
    /// The effect is allowed, and nobody has heard of it.
    async fn begin() -> Self {
        let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
        let memory = Memory::with(Settings::default(), Arc::new(clock.clone()));
        let (faults, answer) = (Faults::new(), Arc::new(Notify::new()));
        let late = Arc::clone(&answer);
        // The row comes first, then the step that begins.
        faults.plan(2, Moment::After, Fault::wait(async move { late.notified().await }));
        let (blind, sees) = watch::channel(false);
        let store = Wrapped::new(Wrapped::new(memory.another_node(), faults.clone()), Blind(sees));
        let engine =
            Engine::new(Arc::new(store), Arc::new(Tokio::new()), Pace::default(), [Worker::new("charge")]);
        let (effects, gone) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let keeper = Keeper::new();
        let work = work(keeper.clone(), Arc::clone(&effects), Gone(Arc::clone(&gone)));
        let mut call = Call::new(Owner::Anonymous, "charge", Json::parse("{}").unwrap(), Work::Future(work));
        (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
        let id = match engine.call(call).await {
            Answer::Task(record) => record.id.clone(),
            other => panic!("{other:?}"),
        };
        until(&memory, &id, |record| record.steps == 1).await;
        assert_eq!(faults.operations()[..2], [Operation::Create, Operation::Write]);
        clock.advance(Duration::from_secs(31));
        Self { memory, faults, blind, answer, effects, gone, _engine: engine, id }
    }
}

fn work(keeper: Keeper, effects: Arc<AtomicUsize>, gone: Gone) -> BoxFuture<'static, Outcome> {
    Box::pin(async move {
        let _gone = gone;
        keeper.become_durable(false).await.unwrap();
        keeper.record(Step::new("charge", OF, StepState::Begun)).await.unwrap();
        effects.fetch_add(1, Ordering::SeqCst);
        keeper.record(Step::new("charge", OF, StepState::learnt(Json::null()))).await.unwrap();
        done()
    })
}

#[tokio::test]
async fn n1_s5_an_effect_does_not_begin_when_another_node_has_its_task() {
    let late = Late::begin().await;
    late.blind.send_replace(true);
    assert!(late.memory.another_node().claim_one(&late.id).await.unwrap().is_some());
    late.answer.notify_one();
    let asks = || late.faults.operations().contains(&Operation::Renew);
    while !asks() && late.effects.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    late.blind.send_replace(false);
    while !late.gone.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(late.effects.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn s5_an_effect_that_was_allowed_late_begins_once_its_lease_is_renewed() {
    let late = Late::begin().await;
    late.answer.notify_one();
    until(&late.memory, &late.id, Record::is_terminal).await;
    assert_eq!(late.effects.load(Ordering::SeqCst), 1);
    assert!(late.faults.operations().contains(&Operation::Renew));
}

/// A lease is as long as the store says, however long that takes the node to renew it.
#[tokio::test]
async fn s5_no_effect_begins_on_a_lease_that_was_guessed() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let mut settings = Settings::default();
    settings.lease = Duration::from_secs(6);
    let memory = Memory::with(settings, Arc::new(clock.clone()));
    let (faults, answer, go_on) = (Faults::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let store = Arc::new(Wrapped::new(memory.another_node(), faults.clone()));
    let engine = Engine::new(store, Arc::new(Tokio::new()), Pace::default(), [Worker::new("charge")]);
    let effects = Arc::<AtomicUsize>::default();
    let keeper = Keeper::new();
    let mut call = {
        let (keeper, effects, go_on) = (keeper.clone(), Arc::clone(&effects), Arc::clone(&go_on));
        let work = Box::pin(async move {
            keeper.become_durable(false).await.unwrap();
            for key in ["one", "two"] {
                go_on.notified().await;
                keeper.record(Step::new(key, OF, StepState::Begun)).await.unwrap();
                effects.fetch_add(1, Ordering::SeqCst);
                keeper.record(Step::new(key, OF, StepState::learnt(Json::null()))).await.unwrap();
            }
            done()
        });
        Call::new(Owner::Anonymous, "charge", Json::parse("{}").unwrap(), Work::Future(work))
    };
    (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
    let Answer::Task(record) = engine.call(call).await else { panic!("it is a task") };
    // The lease is renewed before the first effect, for it would not last.
    clock.advance(Duration::from_secs(5));
    go_on.notify_one();
    until(&memory, &record.id, |record| record.steps == 1).await;
    while faults.operations().iter().filter(|&&operation| operation == Operation::Write).count() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(faults.operations().contains(&Operation::Renew));
    // The second one is recorded, and by the time the store says so the lease is over.
    let late = Arc::clone(&answer);
    faults.plan(
        faults.operations().len() + 1,
        Moment::After,
        Fault::wait(async move { late.notified().await }),
    );
    go_on.notify_one();
    until(&memory, &record.id, |record| record.steps == 2).await;
    clock.advance(Duration::from_secs(7));
    let renewals = || faults.operations().iter().filter(|&&operation| operation == Operation::Renew).count();
    let before = renewals();
    answer.notify_one();
    until(&memory, &record.id, Record::is_terminal).await;
    assert_eq!(
        (effects.load(Ordering::SeqCst), renewals()),
        (2, before + 1),
        "it was asked for before the effect"
    );
}

/// Every renewal takes a moment.
#[derive(Debug)]
struct Moments {
    clock: StepClock,
    renewals: AtomicUsize,
}

impl Wrap for Moments {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        if operation == Operation::Renew {
            self.clock.advance(Duration::from_millis(1));
            let before = self.renewals.fetch_add(1, Ordering::SeqCst);
            assert!(before < 100, "it renews its lease for ever");
        }
        doing
    }
}

/// The first that a node hears of leases is one that is over.
#[tokio::test]
async fn s5_a_lease_that_was_heard_of_too_late_is_renewed_once() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let memory = Memory::with(Settings::default(), Arc::new(clock.clone()));
    let (faults, answer) = (Faults::new(), Arc::new(Notify::new()));
    let late = Arc::clone(&answer);
    faults.plan(1, Moment::After, Fault::wait(async move { late.notified().await }));
    let moments = Moments { clock: clock.clone(), renewals: AtomicUsize::new(0) };
    let store = Wrapped::new(Wrapped::new(memory.another_node(), faults.clone()), moments);
    let engine =
        Engine::new(Arc::new(store), Arc::new(Tokio::new()), Pace::default(), [Worker::new("charge")]);
    let (effects, gone) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let keeper = Keeper::new();
    let work = work(keeper.clone(), Arc::clone(&effects), Gone(gone));
    let mut call = Call::new(Owner::Anonymous, "charge", Json::parse("{}").unwrap(), Work::Future(work));
    (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
    let called = tokio::spawn(async move { (engine.call(call).await, engine) });
    while memory.counts().await.unwrap().retained == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    clock.advance(Duration::from_secs(31));
    answer.notify_one();
    let (Answer::Task(record), _engine) = called.await.unwrap() else { panic!("it is a task") };
    until(&memory, &record.id, Record::is_terminal).await;
    let renewals = faults.operations().iter().filter(|&&operation| operation == Operation::Renew).count();
    assert_eq!((effects.load(Ordering::SeqCst), renewals), (1, 1));
}

/// A node whose store says until when nobody can take it for dead.
#[derive(Debug)]
struct Suspected {
    store: Wrapped<Memory, Faults>,
    alive: Arc<AtomicI64>,
}

impl Overlay for Suspected {
    type Below = Wrapped<Memory, Faults>;

    fn below(&self) -> &Self::Below {
        &self.store
    }

    fn alive_until(&self) -> Option<Time> {
        Some(Time::from_unix_ms(self.alive.load(Ordering::SeqCst)))
    }
}

/// A node of it, and what tells the effect that its only task has.
struct Scene {
    memory: Memory,
    clock: StepClock,
    faults: Faults,
    alive: Arc<AtomicI64>,
    engine: Engine,
}

const START: i64 = 1_800_000_000_000;

impl Scene {
    /// Nobody takes it for dead for 700 ms.
    fn new() -> Self {
        let clock = StepClock::at(Time::from_unix_ms(START));
        let memory = Memory::with(Settings::default(), Arc::new(clock.clone()));
        let (faults, alive) = (Faults::new(), Arc::new(AtomicI64::new(START + 700)));
        let store = Wrapped::new(memory.another_node(), faults.clone());
        let store = Suspected { store, alive: Arc::clone(&alive) };
        let engine =
            Engine::new(Arc::new(store), Arc::new(Tokio::new()), Pace::default(), [Worker::new("charge")]);
        Self { memory, clock, faults, alive, engine }
    }

    async fn call(&self) -> (TaskId, Arc<AtomicUsize>) {
        let (effects, keeper) = (Arc::<AtomicUsize>::default(), Keeper::new());
        let work = work(keeper.clone(), Arc::clone(&effects), Gone(Arc::default()));
        let mut call = Call::new(Owner::Anonymous, "charge", Json::parse("{}").unwrap(), Work::Future(work));
        (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
        let Answer::Task(record) = self.engine.call(call).await else { panic!("it is a task") };
        (record.id.clone(), effects)
    }

    fn renewals(&self) -> usize {
        self.faults.operations().iter().filter(|&&operation| operation == Operation::Renew).count()
    }
}

/// That a step begins is answered when the node may have been taken for dead, long before its lease is over.
#[tokio::test]
async fn n1_no_effect_begins_while_its_node_may_be_taken_for_dead() {
    let (scene, answer) = (Scene::new(), Arc::new(Notify::new()));
    let late = Arc::clone(&answer);
    scene.faults.plan(2, Moment::After, Fault::wait(async move { late.notified().await }));
    let (id, effects) = scene.call().await;
    until(&scene.memory, &id, |record| record.steps == 1).await;
    scene.clock.advance(Duration::from_millis(800));
    answer.notify_one();
    while scene.renewals() < 2 {
        assert_eq!(effects.load(Ordering::SeqCst), 0);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // What the store has said before counts for nothing: the task is asked about once more.
    let before = scene.renewals();
    scene.alive.store(START + 5_000, Ordering::SeqCst);
    until(&scene.memory, &id, Record::is_terminal).await;
    assert_eq!(effects.load(Ordering::SeqCst), 1);
    assert!(scene.renewals() > before);
}

#[tokio::test]
async fn an_effect_begins_at_once_where_its_node_is_known_to_live() {
    let scene = Scene::new();
    let (id, effects) = scene.call().await;
    until(&scene.memory, &id, Record::is_terminal).await;
    assert_eq!((effects.load(Ordering::SeqCst), scene.renewals()), (1, 0), "the write is proof enough");
}
