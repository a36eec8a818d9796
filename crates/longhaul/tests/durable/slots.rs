//! Handlers of a server's own in the places of those that answer about tasks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{CallToolResult, Task, TaskStatus};
use longhaul::server::{Failure, OpenError, TaskPage, TaskPolicy, TaskSlots};
use longhaul::store::Memory;
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use crate::rig::{Nothing, Process, World, order, policy, question, text, yes};

/// Where another system keeps its one task.
#[derive(Clone, Default)]
struct Elsewhere {
    answered: Arc<Mutex<Vec<String>>>,
    cancelled: Arc<Mutex<bool>>,
    asked: Arc<AtomicUsize>,
}

const THEIRS: &str = "workflow/7";

impl Elsewhere {
    fn task(&self) -> Task {
        let at = "2026-01-01T00:00:00.000Z".to_owned();
        let status =
            if *self.cancelled.lock().unwrap() { TaskStatus::Cancelled } else { TaskStatus::Working };
        let mut task = Task::new(THEIRS, status, at.clone(), at);
        task.status_message = Some("somewhere else".to_owned());
        task
    }

    fn find(&self, id: &str) -> Option<Task> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        (id == THEIRS).then(|| self.task())
    }

    fn slots(&self) -> TaskSlots {
        let (get, result, list, update, cancel) =
            (self.clone(), self.clone(), self.clone(), self.clone(), self.clone());
        TaskSlots::new()
            .get(move |cx: Cx, id| {
                let found = get.find(&id).filter(|_| cx.principal().is_some_and(|who| who.as_str() == "ann"));
                std::future::ready(Ok::<_, Failure>(found))
            })
            .result(move |_, id| {
                let found = result.find(&id).map(|_| CallToolResult::text("from elsewhere"));
                std::future::ready(Ok::<_, Failure>(found))
            })
            .list(move |_, cursor| {
                let page = match cursor.as_deref() {
                    None => Ok(Some(TaskPage::new(vec![list.task()], Some("the rest".to_owned())))),
                    Some("the rest") => Ok(Some(TaskPage::default())),
                    Some(_) => Err(Failure::invalid("no such page")),
                };
                std::future::ready(page)
            })
            .update(move |_, id, answers| {
                let ours =
                    update.find(&id).map(|_| update.answered.lock().unwrap().extend(answers.into_keys()));
                std::future::ready(Ok::<_, Failure>(ours))
            })
            .cancel(move |_, id| {
                let found = cancel.find(&id).map(|_| {
                    *cancel.cancelled.lock().unwrap() = true;
                    cancel.task()
                });
                std::future::ready(Ok::<_, Failure>(found))
            })
    }
}

fn server(elsewhere: &Elsewhere, world: &World) -> Server {
    let (theirs, world) = (elsewhere.clone(), world.clone());
    let forward = move |cx: Cx, _: Nothing| {
        let task = theirs.task();
        async move { cx.hand_back(task) }
    };
    Server::new("slots", "1")
        .tool(Tool::typed("forward", "Forward", forward).task(TaskPolicy::by_hand()))
        .tool(Tool::typed("order", "Order", move |cx, _: Nothing| order(world.clone(), cx)).task(policy()))
}

fn legacy(one: &Process, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": {}});
    one.ask_in(Some(Revision::V2025_11_25), method, &params)
}

#[test]
fn tasks_of_another_system_are_answered_for_in_every_slot() {
    let (elsewhere, store) = (Elsewhere::default(), Memory::new());
    let one = Process::of(server(&elsewhere, &World::default()).task_slots(elsewhere.slots()), &store);
    let created = one.ask("tools/call", json!({"name": "forward", "arguments": {}}));
    assert_eq!(
        (&created["result"]["resultType"], &created["result"]["taskId"]),
        (&json!("task"), &json!(THEIRS))
    );
    assert_eq!(one.get(THEIRS)["statusMessage"], "somewhere else");
    let stranger = one.ask_as("bob", "tasks/get", json!({"taskId": THEIRS}));
    let unknown = one.ask_as("bob", "tasks/get", json!({"taskId": "no-such-task"}));
    assert_eq!(stranger["error"], unknown["error"], "{stranger}");

    let result = legacy(&one, "tasks/result", json!({"taskId": THEIRS}));
    assert_eq!(result["result"]["content"][0]["text"], "from elsewhere", "{result}");
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], THEIRS);
    let listed = legacy(&one, "tasks/list", json!({}));
    assert_eq!(listed["result"]["tasks"][0]["taskId"], THEIRS, "{listed}");
    assert_eq!(listed["result"]["nextCursor"], "the rest");
    let rest = legacy(&one, "tasks/list", json!({"cursor": "the rest"}));
    assert_eq!((&rest["result"]["tasks"], &rest["result"]["nextCursor"]), (&json!([]), &Value::Null));
    assert_eq!(legacy(&one, "tasks/list", json!({"cursor": "none"}))["error"]["code"], -32602);

    let updated =
        one.ask("tasks/update", json!({"taskId": THEIRS, "inputResponses": {"k": {"action": "accept"}}}));
    assert_eq!(updated["result"]["resultType"], "complete", "{updated}");
    assert_eq!(*elsewhere.answered.lock().unwrap(), ["k"]);
    let cancelled = legacy(&one, "tasks/cancel", json!({"taskId": THEIRS}));
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    one.crash();
}

#[test]
fn what_a_slot_leaves_is_the_stores_to_answer() {
    let (elsewhere, world, store) = (Elsewhere::default(), World::default(), Memory::new());
    let one = Process::of(server(&elsewhere, &world).task_slots(elsewhere.slots()), &store);
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    one.answer(&id, &asked, &yes());
    assert_eq!(text(&one.settled(&id)), "receipt 1, shipped");
    assert!(elsewhere.answered.lock().unwrap().is_empty());
    one.crash();
}

#[test]
fn nobody_is_asked_on_behalf_of_a_caller_who_may_not_ask() {
    let (elsewhere, store) = (Elsewhere::default(), Memory::new());
    let one = Process::of(server(&elsewhere, &World::default()).task_slots(elsewhere.slots()), &store);
    let params = json!({"taskId": THEIRS, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = one.ask_in(None, method, &params);
        assert_eq!(refused["error"]["code"], -32021, "{refused}");
    }
    assert_eq!(elsewhere.asked.load(Ordering::SeqCst), 0);
    assert!(!*elsewhere.cancelled.lock().unwrap());
    one.crash();
}

#[test]
fn a_task_that_no_slot_tells_of_is_not_handed_back() {
    let (elsewhere, store) = (Elsewhere::default(), Memory::new());
    let half = TaskSlots::new().get(|_, _| std::future::ready(Ok::<_, Failure>(None)));
    let one = Process::of(server(&elsewhere, &World::default()).task_slots(half), &store);
    let answer = one.ask("tools/call", json!({"name": "forward", "arguments": {}}));
    assert_eq!(answer["result"]["content"][0]["text"], OpenError::Untold.to_string(), "{answer}");
    assert_eq!(answer["result"]["isError"], true);
    one.crash();
}
