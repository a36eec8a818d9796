//! A node that is told of no change.

use std::sync::Arc;
use std::time::Duration;

use longhaul_store::{
    Fingerprint, Json, Memory, Overlay, Owner, Question, Reply, Scope, Step, StepState, TaskId, TaskStore,
    TaskWatch, WatchHub,
};
use longhaul_tasks::environment::Tokio;
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::runner::{Answer, Call, Engine, Keeper, Pace, Work, Worker};

use crate::resuming::{done, until};

const OF: Fingerprint = Fingerprint::new([7; Fingerprint::LEN]);

/// A store whose changes nobody is told of.
#[derive(Debug)]
struct Deaf(Memory, Arc<WatchHub>);

impl Overlay for Deaf {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.0
    }

    fn watch(&self, id: &TaskId) -> TaskWatch {
        self.1.watch(id)
    }
}

#[tokio::test]
async fn n4_what_nobody_is_told_of_is_found_all_the_same() {
    let memory = Memory::new();
    let deaf = Arc::new(Deaf(memory.another_node(), WatchHub::new()));
    let mut pace = Pace::default();
    pace.look_every = Duration::from_millis(20);
    let engine = Engine::new(deaf, Arc::new(Tokio::new()), pace, [Worker::new("ask")]);
    engine.start().await.unwrap();
    // Work that is never entered again, and so is never put aside to be found by whoever looks for what is due.
    let keeper = Keeper::new();
    let asking = keeper.clone();
    let work = Box::pin(async move {
        asking.become_durable(true).await.unwrap();
        let question = Question::new("q", Json::parse("{}").unwrap());
        asking.record(Step::new("ask", OF, StepState::Asked(question))).await.unwrap();
        asking.learnt("ask").await;
        done()
    });
    let mut call = Call::new(Owner::Anonymous, "ask", Json::parse("{}").unwrap(), Work::Future(work));
    (call.plan, call.keeper) = (Plan::new(Caller::TakesTask, true), keeper);
    let Answer::Task(record) = engine.call(call).await else { panic!("it is a task") };
    let (waiting, id) = (engine.clone(), record.id.clone());
    let ended = tokio::spawn(async move { waiting.ended(Scope::Operator, &id).await });
    until(&memory, &record.id, |record| !record.questions.is_empty()).await;
    let reply = Reply::new("q", Json::parse("{}").unwrap());
    memory.another_node().answer(Scope::Operator, &record.id, &[reply]).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it is found");
    assert!(ended.unwrap().unwrap().is_some_and(|record| record.is_terminal()));
}
