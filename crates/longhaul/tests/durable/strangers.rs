//! What a caller learns of tasks that are not its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::proto::dialect::Revision;
use longhaul::store::{Memory, Operation, Overlay, StoreFuture};
use longhaul::{Server, Tool};
use serde_json::{Value, json};

use crate::rig::{Nothing, Process, World, order, policy, question, text, yes};

/// A store that tells what it was asked for on behalf of callers.
#[derive(Clone, Debug)]
struct Heard {
    store: Arc<Memory>,
    asked: Arc<Mutex<Vec<Operation>>>,
}

impl Overlay for Heard {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn around<'a, T: Send + 'a>(&'a self, it: Operation, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        // What a node does for itself goes on beside it.
        let is_its_own = matches!(
            it,
            Operation::Claim
                | Operation::List
                | Operation::Renew
                | Operation::Release
                | Operation::Sweep
                | Operation::Counts
                | Operation::Size
        );
        if !is_its_own {
            self.asked.lock().unwrap().push(it);
        }
        doing
    }
}

/// Everything that can be asked of a task by its id, or by the name that its caller gave it: in which revision, by which method, and with what beside its id.
fn requests(key: &str) -> Vec<(Option<Revision>, &'static str, Value)> {
    let companion = |name: &str, more: Value| {
        let mut arguments = more;
        arguments["id"] = json!("ID");
        json!({"name": name, "arguments": arguments})
    };
    let of_task = |more: Value| {
        let mut params = more;
        params["taskId"] = json!("ID");
        params
    };
    let legacy = Some(Revision::V2025_11_25);
    vec![
        (None, "tasks/get", of_task(json!({}))),
        (None, "tasks/update", of_task(json!({"inputResponses": {key: yes()}}))),
        (
            None,
            "tasks/update",
            of_task(json!({"inputResponses": {key: {"action": "accept", "content": {"go": 7}}}})),
        ),
        (None, "tasks/update", of_task(json!({"inputResponses": {}}))),
        (None, "tasks/cancel", of_task(json!({}))),
        (legacy, "tasks/get", of_task(json!({}))),
        (legacy, "tasks/result", of_task(json!({}))),
        (legacy, "tasks/cancel", of_task(json!({}))),
        (legacy, "tools/call", companion("task_wait", json!({}))),
        (legacy, "tools/call", companion("task_output", json!({}))),
        (legacy, "tools/call", companion("task_answer", json!({"content": {"go": true}}))),
        (legacy, "tools/call", companion("task_answer", json!({"question": key, "content": {"go": 7}}))),
        (legacy, "tools/call", companion("task_cancel", json!({}))),
        (None, "subscriptions/listen", json!({"notifications": {"taskIds": ["ID"]}})),
        (None, "resources/read", json!({"uri": "longhaul://tasks/ID/parts"})),
        (legacy, "resources/read", json!({"uri": "longhaul://tasks/ID/parts?after=1"})),
        // Of drafted tasks alone.
        (legacy, "tasks/delete", of_task(json!({}))),
    ]
}

/// A1 of `conformance/REQUIREMENTS.md`: not even the store has more to do, so that no time tells. What is asked of the store is asked in
/// the owner's name, and so is the same for what is another's as for what is not there.
#[test]
fn a1_a_task_of_somebody_else_is_answered_and_costs_as_one_that_is_not_there() {
    let (world, asked) = (World::default(), Arc::new(Mutex::new(Vec::new())));
    let store = Heard { store: Arc::new(Memory::new()), asked: Arc::clone(&asked) };
    let tool = Tool::typed("order", "Order", move |cx, _: Nothing| order(world.clone(), cx));
    let quick = Tool::typed("quick", "Ends at once", |_, _: Nothing| async { "done" }).task(policy());
    let server = Server::new("one", "1").tool(tool.task(policy()).answer_by_model(true)).tool(quick);
    let server = server.drafted_tasks(true);
    // Nothing but what is asked for: no node looks after another's work.
    let one = Process::on(server, store, |pace| pace.recover_every = Duration::from_secs(3600));
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let list = || one.exchange("bob", Some(Revision::V2025_11_25), "tasks/list", &json!({"_meta": meta}));
    let nothing_listed = list();
    assert_eq!(nothing_listed["result"]["tasks"], json!([]), "{nothing_listed}");
    let id = one.call("order");
    let older = one.exchange(
        "ann",
        Some(Revision::V2025_11_25),
        "tools/call",
        &json!({"name": "order", "arguments": {}, "task": {}, "_meta": meta}),
    );
    let older = older["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{older}")).to_owned();
    let drafted = "hers-86512e2-9e0d-44bd-8f29-789f320fe840".to_owned();
    let named = json!({"io.modelcontextprotocol/clientCapabilities": {}, "modelcontextprotocol.io/task": {"taskId": drafted}});
    let quick = json!({"name": "quick", "arguments": {}, "_meta": named});
    let quick = one.exchange("ann", Some(Revision::V2025_11_25), "tools/call", &quick);
    assert_eq!(quick["result"]["content"][0]["text"], "done", "{quick}");
    let key = question(&one.settled(&id));
    // Its work is put aside, and has nothing more to write.
    std::thread::sleep(Duration::from_millis(500));

    let modern = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let absent = format!("order-{}", "x".repeat(id.len() - "order-".len()));
    let ask = |id: &str, (revision, method, params): &(Option<Revision>, &str, Value)| {
        let mut params: Value = serde_json::from_str(&params.to_string().replace("ID", id)).unwrap();
        asked.lock().unwrap().clear();
        let answer = match revision {
            None if *method == "subscriptions/listen" => {
                params["_meta"] = modern.clone();
                one.begin_as("bob", None, method, &params)
            }
            None => one.ask_as("bob", method, params),
            Some(_) => {
                params["_meta"] = meta.clone();
                one.exchange("bob", *revision, method, &params)
            }
        };
        let said = answer.to_string().replace(id, "ID");
        (said, std::mem::take(&mut *asked.lock().unwrap()))
    };
    let before = [&id, &older].map(|id| one.record(id));
    for state in ["open", "ended"] {
        for request in requests(&key) {
            let nothing = ask(&absent, &request);
            let says_so = request.1 == "subscriptions/listen" || nothing.0.contains("not found");
            assert!(says_so, "{request:?}: {}", nothing.0);
            assert!(!nothing.1.is_empty(), "{request:?} asked the store");
            for foreign in [&id, &older, &drafted] {
                assert_eq!(ask(foreign, &request), nothing, "{state} {request:?}");
            }
        }
        if state == "open" {
            assert_eq!([&id, &older].map(|id| one.record(id)), before, "nothing of them has changed");
            let still = json!({"taskId": drafted, "_meta": meta});
            let still = one.exchange("ann", Some(Revision::V2025_11_25), "tasks/get", &still);
            assert_eq!(still["result"]["status"], "completed", "nor is it deleted: {still}");
            assert_eq!(list(), nothing_listed, "and none is listed");
            one.answer(&id, &key, &yes());
            assert_eq!(text(&one.until(&id, |task| task["status"] == "completed")), "receipt 1, shipped");
        }
    }
}
