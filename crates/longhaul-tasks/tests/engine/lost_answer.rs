//! A row that was written, and whose writer has not heard of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul_proto::model::TaskStatus;
use longhaul_store::wrap::{Fault, Faults, Moment, Operation, Wrapped};
use longhaul_store::{
    Batch, CallKey, Dialect, Digest, Epoch, Filter, Fingerprint, Memory, Once, Outcome, Overlay, Park,
    Question, Rerun, Scope, Settings, Step, StepClock, StepState, StoreError, StoreFuture, TaskId, TaskStore,
    Time,
};
use longhaul_tasks::environment::Tokio;
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::project::{self, View};
use longhaul_tasks::runner::{Answer, Call, Engine, Pace, Ticket, Work, Worker};

use crate::rig::{ann, json, success};

/// A call whose row is there, while its node believes that it is not and is about to write it again.
struct Unheard {
    memory: Memory,
    faults: Faults,
    /// The node that made the call.
    node: Arc<Wrapped<Memory, Faults>>,
    clock: StepClock,
    ticket: Ticket,
    /// Its work has been dropped.
    dropped: Arc<AtomicBool>,
    id: TaskId,
    _engine: Engine,
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Unheard {
    async fn begin(once: Option<Once>) -> Self {
        let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
        let memory = Memory::with(Settings::default(), Arc::new(clock.clone()));
        let (faults, dropped) = (Faults::new(), Arc::<AtomicBool>::default());
        let lost =
            StoreError::Backend { doing: "answering", source: Arc::new(std::io::Error::other("it broke")) };
        faults.plan(1, Moment::After, Fault::Fail(lost));
        let node = Arc::new(Wrapped::new(memory.another_node(), faults.clone()));
        let store = Arc::clone(&node) as Arc<dyn TaskStore>;
        let engine = Engine::new(store, Arc::new(Tokio::new()), Pace::default(), [Worker::new("work")]);
        let guard = Dropped(Arc::clone(&dropped));
        let work = Box::pin(async move {
            let _guard = guard;
            tokio::time::sleep(Duration::from_secs(30)).await;
            success()
        });
        let mut call = Call::new(ann(), "work", json("{}"), Work::Future(work));
        (call.plan, call.rerun) = (Plan::new(Caller::Waits, false), Rerun::Restart);
        (call.keeper, call.once, call.after) =
            (engine.keeper("work".into(), false), once, Some(Duration::from_secs(2)));
        let id = call.keeper.id().unwrap();
        let ticket = engine.call(call);
        let this = Self { memory, faults, node, clock, ticket, dropped, id, _engine: engine };
        this.creates(1).await;
        this
    }

    /// Waits until the row has been written so often.
    async fn creates(&self, times: usize) {
        let creates = || self.faults.operations().iter().filter(|what| **what == Operation::Create).count();
        while creates() < times {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What the caller is told.
    async fn ends(self) -> Outcome {
        match self.ticket.await {
            Answer::Outcome(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }
}

/// What another makes of the task.
fn anothers() -> Outcome {
    Outcome::result(json(r#"{"content":["another"]}"#), false)
}

fn keys() -> [Option<Once>; 2] {
    [None, Some(Once::new(CallKey::new("key:1").unwrap(), Digest::new([1; 32])))]
}

#[tokio::test(start_paused = true)]
async fn a_row_that_another_node_has_taken_meanwhile_is_left_to_it() {
    for once in keys() {
        let unheard = Unheard::begin(once).await;
        unheard.clock.advance(Duration::from_secs(31));
        let other = unheard.memory.another_node();
        let taken = other.claim_one(&unheard.id).await.unwrap().expect("its lease has run out");
        assert_eq!(taken.epoch, Epoch::FIRST.next());
        unheard.creates(2).await;
        // The caller is told what the other makes of it, and not before.
        other.finish(&unheard.id, taken.epoch, anothers(), Batch::new()).await.unwrap();
        let (memory, id) = (unheard.memory.another_node(), unheard.id.clone());
        assert_eq!(unheard.ends().await, anothers());
        let record = memory.get(Scope::Operator, &id).await.unwrap().unwrap();
        assert_eq!((record.outcome(), record.epoch), (Some(&anothers()), taken.epoch));
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_came_back_from_another_node_is_not_gone_on_with_as_if_nothing_had_happened() {
    for once in keys() {
        let unheard = Unheard::begin(once).await;
        unheard.clock.advance(Duration::from_secs(31));
        let other = unheard.memory.another_node();
        let taken = other.claim_one(&unheard.id).await.unwrap().expect("its lease has run out");
        other.release(&unheard.id, taken.epoch).await.unwrap();
        let back = TaskStore::claim_one(&*unheard.node, &unheard.id).await.unwrap().expect("it is free");
        unheard.creates(2).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(unheard.dropped.load(Ordering::SeqCst), "what the other has done is not done twice");
        TaskStore::finish(&*unheard.node, &unheard.id, back.epoch, anothers(), Batch::new()).await.unwrap();
        assert_eq!(unheard.ends().await, anothers());
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_its_node_has_claimed_back_itself_is_its_call_s() {
    let unheard = Unheard::begin(None).await;
    unheard.clock.advance(Duration::from_secs(31));
    let back = TaskStore::claim_one(&*unheard.node, &unheard.id).await.unwrap().expect("its lease is out");
    assert_eq!(back.epoch, Epoch::FIRST.next());
    let (memory, id) = (unheard.memory.another_node(), unheard.id.clone());
    assert_eq!(unheard.ends().await, success());
    let record = memory.get(Scope::Operator, &id).await.unwrap().unwrap();
    assert_eq!((record.outcome(), record.epoch), (Some(&success()), back.epoch));
}

/// A store that writes a row and is asked to again, as where the answer of the first time is lost on its way: meanwhile somebody asks
/// something in the task, or ends it.
#[derive(Debug)]
struct Twice {
    store: Memory,
    ends: bool,
}

impl Twice {
    async fn change(&self) -> Result<TaskId, StoreError> {
        let mut task = self.store.list(Scope::Operator, &Filter::open(), None, 1).await?.tasks.remove(0);
        // What a front has made is begun by whoever claims it.
        if let Some(claimed) = self.store.claim_one(&task.id).await? {
            task = claimed;
        }
        if self.ends {
            self.store.finish(&task.id, task.epoch, anothers(), Batch::new()).await?;
        } else {
            let question = Question::new("q", json(r#"{"method":"elicitation/create"}"#));
            let asked = Step::new("ask", Fingerprint::new([1; Fingerprint::LEN]), StepState::Asked(question));
            let park = Park::new(vec!["q".into()], None);
            self.store.write(&task.id, task.epoch, Batch::new().with_step(asked).with_park(park)).await?;
        }
        Ok(task.id)
    }
}

impl Overlay for Twice {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn around<'a, T: Send + 'a>(&'a self, of: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if of != Operation::Create {
            return doing;
        }
        Box::pin(async move {
            doing.await?;
            Err(StoreError::AlreadyExists { id: self.change().await? })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn r2_19_a_task_begins_with_working_whatever_comes_of_it_before_its_caller_is_told() {
    for (ends, is_front) in [(false, false), (true, false), (false, true), (true, true)] {
        let memory = Memory::new();
        let node = Arc::new(Twice { store: memory.another_node(), ends });
        let (environment, pace, workers) = (Arc::new(Tokio::new()), Pace::default(), [Worker::new("work")]);
        let engine = if is_front {
            Engine::front(node, environment, pace, workers)
        } else {
            Engine::new(node, environment, pace, workers)
        };
        let mut call = Call::new(ann(), "work", json("{}"), Work::Future(Box::pin(std::future::pending())));
        (call.plan, call.dialect) = (Plan::new(Caller::AsksForTask, true), Dialect::D2);
        call.keeper = engine.keeper("work".into(), false);
        let Answer::Task(made) = engine.call(call).await else { panic!("it asked for a task") };
        let told = project::task(&made, View::D2);
        assert_eq!(
            (told.status, told.created_at),
            (TaskStatus::Working, told.last_updated_at),
            "ends: {ends}, front: {is_front}"
        );
        let now = memory.get(Scope::Operator, &made.id).await.unwrap().unwrap();
        let is = project::task(&now, View::D2).status;
        assert_eq!(is, if ends { TaskStatus::Completed } else { TaskStatus::InputRequired });
    }
}
