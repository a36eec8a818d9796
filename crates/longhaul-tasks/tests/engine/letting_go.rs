//! What work lets go of is withdrawn before it does anything else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_store::{
    Fingerprint, Json, Memory, Part, PartContent, Question, Reply, Rerun, Scope, Settings, Step, StepState,
    SystemClock, TaskStore as _,
};
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::runner::{Answer, Call, Engine, Keeper, Pace, StepError, Work, Worker};
use tokio::sync::Notify;

use crate::resuming::{done, until};
use crate::rig::{ann, json};

#[tokio::test]
async fn work_does_not_go_on_past_a_question_that_cannot_be_withdrawn() {
    let mut settings = Settings::default();
    settings.limits.max_steps = 1;
    let memory = Memory::with(settings, Arc::new(SystemClock::new()));
    let environment = Arc::new(longhaul_tasks::environment::Tokio::new());
    let store = Arc::new(memory.another_node());
    let engine = Engine::new(store, environment, Pace::default(), [Worker::new("ask")]);
    let (keeper, go_on) = (Keeper::new(), Arc::new(Notify::new()));
    let given = Arc::<Mutex<Option<Result<bool, StepError>>>>::default();
    let work = {
        let (keeper, go_on, given) = (keeper.clone(), Arc::clone(&go_on), Arc::clone(&given));
        Box::pin(async move {
            let of = Fingerprint::new([7; Fingerprint::LEN]);
            keeper.become_durable(true).await.unwrap();
            keeper.record(Step::new("ask", of, StepState::Asked(question()))).await.unwrap();
            go_on.notified().await;
            keeper.let_go("ask", of);
            let part = Part::new("part", PartContent::Text("gone on".into()));
            let result = keeper.give(&part).await;
            *given.lock().unwrap() = Some(result);
            done()
        })
    };
    let mut call = Call::new(ann(), "ask", json("{}"), Work::Future(work));
    (call.plan, call.rerun, call.keeper) = (Plan::new(Caller::TakesTask, true), Rerun::Resumable, keeper);
    let Answer::Task(record) = engine.call(call).await else { panic!("it is a task") };
    let asked = until(&memory, &record.id, |record| record.steps == 1).await;
    // It was answered before it was let go of: that nobody waited for the answer is a step more, for which is no room.
    let answer = [Reply::new("ask", Json::null())];
    memory.answer(Scope::Operator, &asked.id, &answer).await.unwrap();
    go_on.notify_one();
    tokio::time::timeout(Duration::from_secs(60), until(&memory, &record.id, |record| record.is_terminal()))
        .await
        .unwrap();
    let given = given.lock().unwrap().take();
    assert!(matches!(given, Some(Err(StepError::Refused(_)))), "{given:?}");
}

fn question() -> Question {
    Question::new("ask", json(r#"{"method": "elicitation/create"}"#))
}
