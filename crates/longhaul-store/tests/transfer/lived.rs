//! A store in which there is some of everything.

use std::time::Duration;

use longhaul_store::{
    Batch, CallKey, Digest, Fingerprint, HostId, Json, NewChild, NewTask, OnOrphan, Once, OrphanRule,
    Outcome, Owner, Park, Part, PartContent, Progress, Question, Rerun, Retention, Scope, Share, Sqlite,
    Start, Step, StepState, TaskId, TaskStore as _, ToolVersion,
};

/// How many of the tasks are open.
pub(crate) const OPEN: u64 = 7;

/// How many steps that one has which has some of each.
pub(crate) const STEPS: usize = 7;

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn of(number: u8) -> Fingerprint {
    Fingerprint::new([number; Fingerprint::LEN])
}

fn ann() -> Owner {
    Owner::principal("ann").unwrap()
}

/// A call that waits for nothing.
pub(crate) fn task(name: &str) -> NewTask {
    let mut task = NewTask::new(id(name), Owner::Anonymous, "tool", json("{}"));
    task.share = Some(Share::new(u64::MAX));
    task
}

/// The call of the task that has some of everything.
pub(crate) fn full() -> NewTask {
    let mut full = NewTask::new(id("full"), ann(), "build", json(r#"{"n": 1.0}"#));
    full.version = ToolVersion::new("1.2.3").unwrap();
    full.host = HostId::new("host-1").ok();
    (full.caller, full.rerun) = (json(r#"{"c":[]}"#), Rerun::Resumable);
    full.retention = Retention::AfterTerminal(Duration::from_millis(60_500));
    full.join = Some(Digest::new([1; 32]));
    full.once = Some(Once::new(CallKey::new("key:1").unwrap(), Digest::new([2; 32])));
    (full.status_message, full.poll_interval_ms) = (Some("begun".into()), Some(500));
    full.steps = vec![Step::new("begun", of(1), StepState::Begun)];
    full
}

/// The call of one that is forgotten, under the same key.
pub(crate) fn erased(name: &str) -> NewTask {
    let mut erased = NewTask::new(id(name), ann(), "tool", json("{}"));
    erased.once = Some(Once::new(CallKey::new("key:2").unwrap(), Digest::new([3; 32])));
    erased
}

/// Makes tasks that stand everywhere; tells how many.
pub(crate) async fn through(store: &Sqlite) -> u64 {
    let now = store.now();
    let new = async |task: NewTask| store.create(task).await.unwrap().into_record();
    let held = new(full()).await.epoch;
    let question =
        Question::new("q", json(r#"{"method":"x"}"#)).until(Some(now.after(Duration::from_secs(900))));
    let learnt = |is_error| StepState::Learnt { value: json("[1]"), is_error };
    let mut child = task("child");
    (child.start, child.rerun) = (Start::Queued { not_before: now }, Rerun::Restart);
    let mut child = NewChild::new("child", of(5), child);
    (child.outlives, child.essential) = (true, true);
    let batch = Batch::new()
        .with_progress(Progress::new(0.1, Some(0.3), Some("a third".into())))
        .with_step(Step::new("asked", of(2), StepState::Asked(question)))
        .with_step(Step::new("due", of(3), StepState::Due(now)))
        .with_step(Step::new("learnt", of(4), learnt(false)))
        .with_step(Step::new("error", of(4), learnt(true)))
        .with_step(Step::new("undo", of(6), StepState::Owed))
        .with_part(Part::new("text", PartContent::Text("one".into())))
        .with_part(Part::new("json", PartContent::Json(json("{ }"))))
        .with_child(child);
    store.write(&id("full"), held, batch).await.unwrap();
    for (name, park) in [("timed", Some(now.after(Duration::from_secs(900)))), ("parked", None)] {
        let held = new(task(name)).await.epoch;
        let question = StepState::Asked(Question::new(format!("q-{name}"), json("1")));
        let batch = Batch::new().with_step(Step::new("asked", of(2), question));
        let park = Park::new(vec![format!("q-{name}").into()], park);
        store.write(&id(name), held, batch.with_park(park)).await.unwrap();
    }
    let outcomes = [
        ("result", Outcome::result(json(r#"{"content":[]}"#), true)),
        ("error", Outcome::error(-32602, "no", Some(json("{}")))),
        ("lost", Outcome::lost("gone")),
    ];
    for (name, outcome) in outcomes {
        let mut ended = task(name);
        // What has ended is joined no more, though another call is the same.
        (ended.owner, ended.join) = (ann(), Some(Digest::new([4; 32])));
        let held = new(ended).await.epoch;
        store.finish(&id(name), held, outcome, Batch::new()).await.unwrap();
    }
    new(task("cancelled")).await;
    store.request_cancel(Scope::Operator, &id("cancelled"), Some("enough")).await.unwrap();
    for name in ["to-undo", "undone"] {
        let mut owing = task(name);
        owing.steps = vec![Step::new("undo", of(6), StepState::Owed)];
        let held = new(owing).await.epoch;
        store.finish(&id(name), held, Outcome::lost("gone"), Batch::new()).await.unwrap();
    }
    let held = store.claim_one(&id("undone")).await.unwrap().unwrap().epoch;
    let undone = Batch::new().with_step(Step::new("undo", of(6), learnt(true)));
    store.write(&id("undone"), held, undone).await.unwrap();
    new(erased("erased")).await;
    store.request_cancel(Scope::Operator, &id("erased"), None).await.unwrap();
    store.erase(Scope::Operator, &id("erased")).await.unwrap();
    let mut cooperative = task("cancelling");
    cooperative.cancel_grace = Some(Duration::from_secs(600));
    new(cooperative).await;
    store.ask_to_cancel(Scope::Operator, &id("cancelling"), Some("enough")).await.unwrap();
    for name in ["awaited", "met"] {
        let mut awaited = task(name);
        awaited.orphan = Some(OrphanRule::new(Duration::from_secs(600), OnOrphan::Cancel));
        new(awaited).await;
    }
    store.came_back(Scope::Operator, &id("met")).await.unwrap();
    store.counts().await.unwrap().retained
}

/// The same, and more tasks than are copied at once.
pub(crate) async fn through_many(store: &Sqlite) -> u64 {
    through(store).await;
    for number in 0..200 {
        store.create(task(&format!("t{number}"))).await.unwrap();
    }
    store.counts().await.unwrap().retained
}
