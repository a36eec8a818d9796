//! Rows as an earlier build wrote them, which every later one reads.
//!
//! Whoever gives a record, a step or a part a new member says what it was before there was one (`#[serde(default)]`), adds
//! rows that have it here, and leaves the others as they are.

use std::{sync::Arc, time::Duration};

use crate::{
    Batch, CallKey, Dialect, Digest, Fingerprint, HostId, Json, Memory, NewChild, NewTask, OnOrphan, Once,
    OrphanRule, Outcome, Owner, Park, Part, PartContent, Progress, Question, Rerun, Retention, RowKey, Scope,
    Settings, Share, Start, Step, StepClock, StepState, TaskId, TaskStore, Time, ToolVersion,
};

const ROWS: [(RowKey, &str); 35] = [
    (
        (1, 0),
        r#"{"record":{"id":"full","owner":{"Principal":"ann"},"tool":"build","version":"1.2.3","arguments":{"n": 1.0},"rerun":"Resumable","dialect":"D2","caller":{"c":[]},"phase":{"Running":{"lease":{"node":"node-1","until":1800000030000}}},"started":true,"attempt":1,"epoch":1,"retention":{"AfterTerminal":{"secs":60,"nanos":500000000}},"expires_at":null,"created_at":1800000000000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"status_message":"begun","progress":{"value":4591870180066957722,"total":4599075939470750515,"message":"a third"},"poll_interval_ms":500,"join":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"once":{"key":"key:1","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]},"questions":[{"key":"q","step":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"request":{"method":"x"},"asked_at":1800000001000,"deadline":1800000009000}],"steps":7,"step_bytes":1190,"parts":2,"part_bytes":14,"owed":1,"undo":null,"parent":null,"children":{"open":1,"ended":0,"below":1},"seq":3},"nth":1,"removable_at":null}"#,
    ),
    ((1, 1), r#"{"key":"text","content":{"Text":"one"}}"#),
    ((1, 2), r#"{"key":"begun","of":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"state":"Begun"}"#),
    ((1, 3), r#"{"key":"json","content":{"Json":{ }}}"#),
    (
        (1, 4),
        r#"{"key":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"state":{"Asked":{"key":"q","step":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"request":{"method":"x"},"asked_at":1800000001000,"deadline":1800000009000}}}"#,
    ),
    ((1, 6), r#"{"key":"due","of":[3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3],"state":{"Due":1800000000000}}"#),
    (
        (1, 8),
        r#"{"key":"learnt","of":[4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4],"state":{"Learnt":{"value":[1],"is_error":false}}}"#,
    ),
    (
        (1, 10),
        r#"{"key":"error","of":[4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4],"state":{"Learnt":{"value":[1],"is_error":true}}}"#,
    ),
    ((1, 12), r#"{"key":"undo","of":[6,6,6,6,6,6,6,6,6,6,6,6,6,6,6,6],"state":"Owed"}"#),
    ((1, 14), r#"{"key":"child","of":[5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5],"state":{"Child":"child"}}"#),
    (
        (2, 0),
        r#"{"record":{"id":"child","owner":{"Principal":"ann"},"tool":"tool","version":"0.0.0","arguments":{},"rerun":"Restart","dialect":"D2","caller":null,"phase":{"Queued":{"not_before":1800000000000}},"started":false,"attempt":0,"epoch":0,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":{"task":"full","step":"child","depth":1,"outlives":true,"essential":true},"children":{"open":0,"ended":0,"below":0},"seq":2},"nth":2,"removable_at":null}"#,
    ),
    (
        (4, 0),
        r#"{"record":{"id":"timed","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Parked":{"until":1800000000000}},"started":true,"attempt":0,"epoch":2,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[{"key":"q-timed","step":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"request":1,"asked_at":1800000001000,"deadline":null}],"steps":1,"step_bytes":29,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":5},"nth":1,"removable_at":null}"#,
    ),
    (
        (4, 2),
        r#"{"key":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"state":{"Asked":{"key":"q-timed","step":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"request":1,"asked_at":1800000001000,"deadline":null}}}"#,
    ),
    (
        (6, 0),
        r#"{"record":{"id":"parked","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Parked":{"until":null}},"started":true,"attempt":0,"epoch":2,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[{"key":"q-parked","step":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"request":1,"asked_at":1800000001000,"deadline":null}],"steps":1,"step_bytes":30,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":7},"nth":2,"removable_at":null}"#,
    ),
    (
        (6, 2),
        r#"{"key":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"state":{"Asked":{"key":"q-parked","step":"asked","of":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"request":1,"asked_at":1800000001000,"deadline":null}}}"#,
    ),
    (
        (8, 0),
        r#"{"record":{"id":"result","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Reattach","dialect":"D3","caller":null,"phase":{"Done":{"Result":{"value":{"content":[]},"is_error":true}}},"started":true,"attempt":1,"epoch":1,"retention":{"FromCreation":{"secs":90,"nanos":0}},"expires_at":1800000301000,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":9},"nth":3,"removable_at":null}"#,
    ),
    (
        (10, 0),
        r#"{"record":{"id":"error","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Reattach","dialect":"D3","caller":null,"phase":{"Done":{"Error":{"code":-32602,"message":"no","data":{}}}},"started":true,"attempt":1,"epoch":1,"retention":{"FromCreation":{"secs":90,"nanos":0}},"expires_at":1800000301000,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":11},"nth":4,"removable_at":null}"#,
    ),
    (
        (12, 0),
        r#"{"record":{"id":"lost","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Reattach","dialect":"D3","caller":null,"phase":{"Done":{"Lost":{"reason":"gone"}}},"started":true,"attempt":1,"epoch":1,"retention":{"FromCreation":{"secs":90,"nanos":0}},"expires_at":1800000301000,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":13},"nth":5,"removable_at":null}"#,
    ),
    (
        (14, 0),
        r#"{"record":{"id":"cancelled","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"D1","caller":null,"phase":{"Done":{"Cancelled":{"reason":"enough"}}},"started":true,"attempt":1,"epoch":2,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":15},"nth":6,"removable_at":null}"#,
    ),
    (
        (16, 0),
        r#"{"record":{"id":"to-undo","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Done":{"Lost":{"reason":"gone"}}},"started":true,"attempt":1,"epoch":1,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":1,"step_bytes":532,"parts":0,"part_bytes":0,"owed":1,"undo":{"phase":{"Queued":{"not_before":1800000001000}},"until":1800604801000,"attempt":0,"failed":0},"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":17},"nth":7,"removable_at":null}"#,
    ),
    ((16, 2), r#"{"key":"undo","of":[6,6,6,6,6,6,6,6,6,6,6,6,6,6,6,6],"state":"Owed"}"#),
    (
        (18, 0),
        r#"{"record":{"id":"undoing","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Done":{"Cancelled":{"reason":null}}},"started":true,"attempt":1,"epoch":2,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":1,"step_bytes":532,"parts":0,"part_bytes":0,"owed":1,"undo":{"phase":{"Running":{"lease":{"node":"node-1","until":1800000031000}}},"until":1800604801000,"attempt":0,"failed":0},"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":19},"nth":8,"removable_at":null}"#,
    ),
    ((18, 2), r#"{"key":"undo","of":[6,6,6,6,6,6,6,6,6,6,6,6,6,6,6,6],"state":"Owed"}"#),
    (
        (20, 0),
        r#"{"record":{"id":"undone","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Done":{"Lost":{"reason":"gone"}}},"started":true,"attempt":1,"epoch":2,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":1,"step_bytes":23,"parts":0,"part_bytes":0,"owed":0,"undo":{"phase":"Done","until":null,"attempt":1,"failed":1},"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":21},"nth":9,"removable_at":null}"#,
    ),
    (
        (20, 2),
        r#"{"key":"undo","of":[6,6,6,6,6,6,6,6,6,6,6,6,6,6,6,6],"state":{"Learnt":{"value":[1],"is_error":true}}}"#,
    ),
    (
        (22, 0),
        r#"{"record":{"id":"erased","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":null,"rerun":"Never","dialect":"Held","caller":null,"phase":{"Done":{"Cancelled":{"reason":null}}},"started":false,"attempt":0,"epoch":0,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":23},"nth":10,"removable_at":1800000001000}"#,
    ),
    (
        (24, 0),
        r#"{"record":{"id":"cancelling","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Running":{"lease":{"node":"node-1","until":1800000031000}}},"started":true,"attempt":1,"epoch":1,"retention":"Unlimited","expires_at":1800000011000,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"cancel_grace":{"secs":10,"nanos":0},"cancelling":"enough","status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":25},"nth":11,"removable_at":null}"#,
    ),
    (
        (26, 0),
        r#"{"record":{"id":"awaited","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Running":{"lease":{"node":"node-1","until":1800000031000}}},"started":true,"attempt":1,"epoch":1,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"orphan_at":1800000061000,"on_orphan":"cancel","came_back_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":26},"nth":12,"removable_at":null}"#,
    ),
    (
        (27, 0),
        r#"{"record":{"id":"met","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Running":{"lease":{"node":"node-1","until":1800000031000}}},"started":true,"attempt":1,"epoch":1,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"orphan_at":null,"on_orphan":"cancel","came_back_at":1800000001000,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":27},"nth":13,"removable_at":null}"#,
    ),
    (
        (28, 0),
        r#"{"record":{"id":"worked","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Parked":{"until":1800000001000}},"started":true,"attempt":0,"spells":[{"nth":1,"node":"node-1","from":1800000001000,"over":{"Aside":1800000001000}}],"epoch":2,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"cancel_grace":null,"cancelling":null,"orphan_at":null,"on_orphan":"keep","came_back_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":30},"nth":14,"removable_at":null}"#,
    ),
    (
        (31, 0),
        r#"{"record":{"id":"shared","owner":"Anonymous","share":18446744073709551615,"tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Running":{"lease":{"node":"node-1","until":1800000031000}}},"started":true,"attempt":1,"epoch":1,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"cancel_grace":null,"cancelling":null,"orphan_at":null,"on_orphan":"keep","came_back_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":31},"nth":15,"removable_at":null}"#,
    ),
    (
        (32, 0),
        r#"{"record":{"id":"timed-steps","owner":"Anonymous","tool":"tool","version":"0.0.0","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Running":{"lease":{"node":"node-1","until":1800000031000}}},"started":true,"attempt":1,"epoch":1,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"cancel_grace":null,"cancelling":null,"orphan_at":null,"on_orphan":"keep","came_back_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":2,"step_bytes":44,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":32},"nth":16,"removable_at":null}"#,
    ),
    (
        (32, 2),
        r#"{"key":"begun","of":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"state":"Begun","began_at":1800000001000}"#,
    ),
    (
        (32, 4),
        r#"{"key":"done","of":[4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4],"state":{"Learnt":{"value":[1],"is_error":false}},"began_at":1800000000500,"learnt_at":1800000000700}"#,
    ),
    (
        (33, 0),
        r#"{"record":{"id":"bound","owner":"Anonymous","tool":"tool","version":"0.0.0","host":"host-1","arguments":{},"rerun":"Never","dialect":"Held","caller":null,"phase":{"Running":{"lease":{"node":"node-1","until":1800000031000}}},"started":true,"attempt":1,"epoch":1,"retention":"Unlimited","expires_at":null,"created_at":1800000001000,"status_changed_at":1800000001000,"updated_at":1800000001000,"terminal_at":null,"cancel_grace":null,"cancelling":null,"orphan_at":null,"on_orphan":"keep","came_back_at":null,"status_message":null,"progress":null,"poll_interval_ms":null,"join":null,"once":null,"questions":[],"steps":0,"step_bytes":0,"parts":0,"part_bytes":0,"owed":0,"undo":null,"parent":null,"children":{"open":0,"ended":0,"below":0},"seq":33},"nth":17,"removable_at":null}"#,
    ),
];

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn of(number: u8) -> Fingerprint {
    Fingerprint::new([number; Fingerprint::LEN])
}

fn owed() -> Step {
    Step::new("undo", of(6), StepState::Owed)
}

fn task(name: &str) -> NewTask {
    NewTask::new(id(name), Owner::Anonymous, "tool", json("{}"))
}

fn store<'r>(rows: impl IntoIterator<Item = (RowKey, &'r str)>) -> (Memory, StepClock) {
    let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
    (Memory::restored(Settings::default(), Arc::new(clock.clone()), rows).unwrap(), clock)
}

/// A store in which there is some of everything.
async fn lived() -> Memory {
    let (store, clock) = store([]);
    let now = store.now();
    let new = |task: NewTask| async { store.create(task).await.unwrap().into_record() };
    let mut full = NewTask::new(id("full"), Owner::principal("ann").unwrap(), "build", json(r#"{"n": 1.0}"#));
    full.version = ToolVersion::new("1.2.3").unwrap();
    (full.caller, full.rerun, full.dialect) = (json(r#"{"c":[]}"#), Rerun::Resumable, Dialect::D2);
    full.retention = Retention::AfterTerminal(Duration::from_millis(60_500));
    full.join = Some(Digest::new([1; 32]));
    full.once = Some(Once::new(CallKey::new("key:1").unwrap(), Digest::new([2; 32])));
    (full.status_message, full.poll_interval_ms) = (Some("begun".into()), Some(500));
    full.steps = vec![Step::new("begun", of(1), StepState::Begun)];
    let held = new(full).await.epoch;
    clock.advance(Duration::from_secs(1));
    let question =
        Question::new("q", json(r#"{"method":"x"}"#)).until(Some(now.after(Duration::from_secs(9))));
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
        .with_step(owed())
        .with_part(Part::new("text", PartContent::Text("one".into())))
        .with_part(Part::new("json", PartContent::Json(json("{ }"))))
        .with_child(child);
    store.write(&id("full"), held, batch).await.unwrap();
    for (name, park) in [("timed", Some(now)), ("parked", None)] {
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
        let mut new_one = task(name);
        (new_one.dialect, new_one.rerun) = (Dialect::D3, Rerun::Reattach);
        new_one.retention = Retention::FromCreation(Duration::from_secs(90));
        let held = new(new_one).await.epoch;
        store.finish(&id(name), held, outcome, Batch::new()).await.unwrap();
    }
    let mut drafted = task("cancelled");
    drafted.dialect = Dialect::D1;
    new(drafted).await;
    store.request_cancel(Scope::Operator, &id("cancelled"), Some("enough")).await.unwrap();
    for name in ["to-undo", "undoing", "undone"] {
        let mut new_one = task(name);
        new_one.steps = vec![owed()];
        let held = new(new_one).await.epoch;
        if name == "undoing" {
            store.request_cancel(Scope::Operator, &id(name), None).await.unwrap();
        } else {
            store.finish(&id(name), held, Outcome::lost("gone"), Batch::new()).await.unwrap();
        }
    }
    let held = store.claim_one(&id("undone")).await.unwrap().unwrap().epoch;
    let undone = Batch::new().with_step(Step::new("undo", of(6), learnt(true)));
    store.write(&id("undone"), held, undone).await.unwrap();
    new(task("erased")).await;
    store.request_cancel(Scope::Operator, &id("erased"), None).await.unwrap();
    store.erase(Scope::Operator, &id("erased")).await.unwrap();
    let mut cooperative = task("cancelling");
    cooperative.cancel_grace = Some(Duration::from_secs(10));
    new(cooperative).await;
    store.ask_to_cancel(Scope::Operator, &id("cancelling"), Some("enough")).await.unwrap();
    for name in ["awaited", "met"] {
        let mut awaited = task(name);
        awaited.orphan = Some(OrphanRule::new(Duration::from_secs(60), OnOrphan::Cancel));
        new(awaited).await;
    }
    store.came_back(Scope::Operator, &id("met")).await.unwrap();
    let mut worked = task("worked");
    worked.start = Start::Queued { not_before: store.now() };
    new(worked).await;
    let held = store.claim_one(&id("worked")).await.unwrap().unwrap().epoch;
    let park = Park::new(Vec::new(), Some(store.now()));
    store.write(&id("worked"), held, Batch::new().with_park(park)).await.unwrap();
    let mut shared = task("shared");
    shared.share = Some(Share::new(u64::MAX));
    new(shared).await;
    let mut timed = task("timed-steps");
    let at = |ms: i64| Some(Time::from_unix_ms(1_800_000_000_000 + ms));
    timed.steps = vec![
        Step::new("begun", of(1), StepState::Begun),
        Step::new("done", of(4), learnt(false)).between(at(500), at(700)),
    ];
    new(timed).await;
    store.create(bound()).await.unwrap();
    store
}

/// One whose work is on one host.
fn bound() -> NewTask {
    let mut bound = task("bound");
    bound.host = HostId::new("host-1").ok();
    bound
}

#[tokio::test]
async fn rows_of_an_earlier_build_are_read_as_what_they_were() {
    let lived = lived().await;
    let (again, _) = store(ROWS);
    let (mut was, is) = (lived.shared.lock(), again.shared.lock());
    // It wrote down who had worked on none of the others, nor when their steps began.
    was.forget_spells(|task| task.as_str() != "worked");
    was.forget_times_of_steps(|task| task.as_str() != "timed-steps");
    was.share_dates();
    assert!(is.holds_what(&was), "read: {is:#?}\n\nwas: {was:#?}");
}
