//! A node that stood apart from its store, and what it still believes to be doing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_store::wrap::{Operation, Wrap, Wrapped};
use longhaul_store::{
    Epoch, Memory, NodeId, Record, Settings, StepClock, StoreFuture, TaskId, TaskStore as _, Time,
    ToolVersion,
};
use longhaul_tasks::runner::Engine;
use tokio::sync::watch;

use crate::resuming::{Lingering, done, until};

/// Operations of some kinds wait until they may pass.
#[derive(Clone, Debug)]
struct Gate {
    closed_to: watch::Sender<Vec<Operation>>,
    done: Arc<Mutex<Vec<Operation>>>,
}

impl Gate {
    fn new() -> Self {
        Self { closed_to: watch::Sender::new(vec![]), done: Arc::default() }
    }

    fn close_to(&self, operations: &[Operation]) {
        self.closed_to.send_replace(operations.to_vec());
    }

    async fn has_done(&self, operation: Operation) {
        while !self.done.lock().unwrap().contains(&operation) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Wrap for Gate {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        doing: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let mut closed_to = self.closed_to.subscribe();
            closed_to.wait_for(|closed_to| !closed_to.contains(&operation)).await.expect("the gate is here");
            let done = doing.await;
            self.done.lock().unwrap().push(operation);
            done
        })
    }
}

/// A task that a node works on which stands behind a gate, and whose lease has run out.
struct Apart {
    memory: Memory,
    clock: StepClock,
    gate: Gate,
    work: Lingering,
    id: TaskId,
    engine: Engine,
}

impl Apart {
    async fn begin(closed_to: &[Operation]) -> Self {
        let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
        let memory = Memory::with(Settings::default(), Arc::new(clock.clone()));
        let (gate, work) = (Gate::new(), Lingering::default());
        let engine = work.engine_at(Arc::new(Wrapped::new(memory.another_node(), gate.clone())));
        engine.start().await.unwrap();
        let id = work.begin_as(&engine, ToolVersion::default()).await;
        until(&memory, &id, |_| work.entered.load(Ordering::SeqCst) == 1).await;
        gate.close_to(closed_to);
        clock.advance(Duration::from_secs(31));
        Self { memory, clock, gate, work, id, engine }
    }

    async fn is_taken_by_another(&self) -> NodeId {
        let other = self.memory.another_node();
        assert!(other.claim_one(&self.id).await.unwrap().is_some());
        other.node().clone()
    }
}

#[tokio::test]
async fn i6_an_outcome_that_comes_when_the_task_is_anothers_is_not_recorded() {
    let apart = Apart::begin(&[Operation::Get, Operation::Renew, Operation::Claim]).await;
    let other = apart.is_taken_by_another().await;
    // It is being looked at when the work ends: the outcome waits until it is known whose the task is.
    tokio::time::sleep(Duration::from_millis(50)).await;
    apart.work.let_go.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(50)).await;
    apart.gate.close_to(&[Operation::Renew, Operation::Claim]);
    apart.gate.has_done(Operation::Finish).await;
    let record = until(&apart.memory, &apart.id, |_| true).await;
    assert_eq!(record.lease().map(|lease| &lease.node), Some(&other), "{record:?}");
    assert_eq!(record.epoch, Epoch::new(2));
    assert!(apart.engine.figures().fenced_writes > 0, "and the refusal is counted");
}

#[tokio::test]
async fn i7_work_that_another_node_has_done_in_between_is_entered_again_from_what_was_learnt() {
    let all_but_claims = [Operation::Get, Operation::Renew, Operation::Write, Operation::Finish];
    let apart = Apart::begin(&[all_but_claims.as_slice(), &[Operation::Claim]].concat()).await;
    apart.is_taken_by_another().await;
    apart.clock.advance(Duration::from_secs(31));
    apart.gate.close_to(&all_but_claims);
    // This node has it again, and does not go on as if nothing had happened.
    let record = until(&apart.memory, &apart.id, |record| record.epoch == Epoch::new(3)).await;
    assert_eq!(record.attempt, 3);
    // Which is written before it begins.
    apart.gate.close_to(&[Operation::Get, Operation::Renew, Operation::Finish]);
    until(&apart.memory, &apart.id, |_| apart.work.entered.load(Ordering::SeqCst) == 2).await;
    apart.gate.close_to(&[]);
    apart.work.let_go.store(true, Ordering::SeqCst);
    let ended = until(&apart.memory, &apart.id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), ended.epoch), (Some(&done()), Epoch::new(3)));
}

#[tokio::test]
async fn n1_work_whose_lease_is_over_stands_still_and_goes_on_where_it_was_once_the_lease_holds_again() {
    let apart = Apart::begin(&[Operation::Renew, Operation::Claim]).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    apart.work.let_go.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let record = until(&apart.memory, &apart.id, |_| true).await;
    assert!(!record.is_terminal(), "another node may be at it: {record:?}");
    apart.gate.close_to(&[]);
    let ended = until(&apart.memory, &apart.id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), apart.work.entered.load(Ordering::SeqCst)), (Some(&done()), 1));
}

/// T3 of `conformance/REQUIREMENTS.md`: as after a laptop has slept.
#[tokio::test]
async fn t3_when_time_has_passed_for_all_at_once_each_keeps_what_it_works_on() {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    let memory = Memory::with(Settings::default(), Arc::new(clock.clone()));
    let work = Lingering::default();
    let engines = [(); 2].map(|()| work.engine_at(Arc::new(memory.another_node())));
    for engine in &engines {
        engine.start().await.unwrap();
    }
    let id = work.begin_as(&engines[0], ToolVersion::default()).await;
    let begun = until(&memory, &id, |_| work.entered.load(Ordering::SeqCst) == 1).await;
    clock.advance(Duration::from_secs(3600));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let record = until(&memory, &id, |_| true).await;
    assert_eq!(record.epoch, begun.epoch, "{record:?}");
    // One that is not there does not come to renew anything.
    drop(engines);
    work.let_go.store(true, Ordering::SeqCst);
    let ended = until(&memory, &id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), work.entered.load(Ordering::SeqCst)), (Some(&done()), 1));
}

#[tokio::test]
async fn work_that_nobody_else_has_had_goes_on_when_its_node_claims_it_back() {
    let all_but_claims = [Operation::Get, Operation::Renew, Operation::Write, Operation::Finish];
    let apart = Apart::begin(&all_but_claims).await;
    until(&apart.memory, &apart.id, |record| record.epoch == Epoch::new(2)).await;
    apart.gate.close_to(&[]);
    apart.work.let_go.store(true, Ordering::SeqCst);
    let ended = until(&apart.memory, &apart.id, Record::is_terminal).await;
    assert_eq!((ended.outcome(), ended.epoch), (Some(&done()), Epoch::new(2)));
    assert_eq!(apart.work.entered.load(Ordering::SeqCst), 1);
}
