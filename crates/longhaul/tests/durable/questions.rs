//! What a task asks outlives its process.

use std::sync::Arc;
use std::time::Duration;

use longhaul::proto::dialect::Revision;
use longhaul::proto::model::InputKind;
use longhaul::server::TaskPolicy;
use longhaul::store::Memory;
use longhaul::{Cx, Server, Tool};
use longhaul_store::sealed::{Sealed, SealingKeys};
use serde_json::{Value, json};

use crate::rig::{
    GRANTED, Nothing, Process, WHILE, World, hang_once, order, policy, question, server, text, until_hung,
    yes,
};

/// K11 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_question_outlives_its_process_and_what_was_done_is_not_done_again() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    one.crash();

    let two = Process::start(&world, &store);
    assert_eq!(question(&two.settled(&id)), asked, "the same question");
    assert_eq!(two.answer(&id, &asked, &yes())["result"]["resultType"], "complete");
    assert_eq!(text(&two.settled(&id)), "receipt 1, shipped");
    assert_eq!(world.charged(), 1);
    let keys = world.keys.lock().unwrap().clone();
    assert!(keys.len() == 1 && keys[0].starts_with(&id), "{keys:?}");
    two.crash();
}

#[test]
fn a_task_whose_store_is_sealed_goes_on_in_the_next_process() {
    let (world, store) = (World::default(), Memory::new());
    let process = || {
        let keys = SealingKeys::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        Process::on(server(&world), Sealed::new(store.another_node(), keys), |_| {})
    };
    let one = process();
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    one.crash();
    let two = process();
    assert_eq!(question(&two.settled(&id)), asked, "the same question");
    two.answer(&id, &asked, &yes());
    assert_eq!((text(&two.settled(&id)), world.charged()), ("receipt 1, shipped", 1));
    two.crash();
    let three = Process::on(server(&world), store.another_node(), |_| {});
    let kept = three.record(&id);
    assert!(kept.arguments.as_str().starts_with("\"sealed1."), "{}", kept.arguments.as_str());
    three.crash();
}

/// N9 of `conformance/REQUIREMENTS.md`.
#[test]
fn a_task_that_waits_long_takes_no_memory_and_any_node_answers_it() {
    let (world, store) = (World::default(), Memory::new());
    let (one, two) = (Process::start(&world, &store), Process::start(&world, &store));
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(world.begun(), 1, "it was put aside, not begun again");
    one.crash();

    two.answer(&id, &asked, &yes());
    assert_eq!(text(&two.settled(&id)), "receipt 1, shipped");
    assert_eq!((world.charged(), world.begun()), (1, 2));
    two.crash();
}

#[test]
fn what_nobody_answers_in_time_is_answered_by_default_and_once() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("granted");
    let first = question(&one.settled(&id));
    // Nobody is there when its time is over.
    one.crash();
    std::thread::sleep(2 * GRANTED);
    let two = Process::start(&world, &store);
    let asks_again =
        |task: &Value| task["status"] == "input_required" && task["inputRequests"].get(&first).is_none();
    let second = question(&two.until(&id, asks_again));
    let late = two.answer(&id, &first, &json!({"action": "decline"}));
    assert_eq!(late["result"]["resultType"], "complete", "what comes too late is passed over: {late}");
    two.crash();
    let three = Process::start(&world, &store);
    three.answer(&id, &second, &yes());
    assert_eq!(text(&three.settled(&id)), "Some(true), then Some(true)");
    three.crash();
}

#[test]
fn the_first_answer_stays_and_one_that_does_not_fit_changes_nothing() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("order");
    let asked = question(&one.settled(&id));
    let wrong = one.answer(&id, &asked, &json!({"action": "accept", "content": {"go": "maybe"}}));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    assert_eq!(question(&one.get(&id)), asked);
    for (key, answer) in [("unknown", yes()), (&asked, json!({"action": "decline"})), (&asked, yes())] {
        assert!(one.answer(&id, key, &answer)["result"].is_object());
    }
    assert_eq!(text(&one.settled(&id)), "receipt 1, kept");
    one.crash();
}

#[test]
fn what_nobody_could_answer_is_refused_at_once() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    // Its caller waits to the end, and never hears of the task.
    let answer = one.ask("tools/call", json!({"name": "here", "arguments": {}, "key": "once"}));
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("nobody who can be asked"), "{message}");
    let again = one.ask("tools/call", json!({"name": "here", "arguments": {}, "key": "once"}));
    assert_eq!((&again["error"], world.begun()), (&answer["error"], 1), "the call is made once");
    // No line leads to its client, and would not after it was handed over either.
    let able = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let call = json!({"name": "later", "arguments": {}, "_meta": able});
    let answer = one.ask_in(Some(Revision::V2025_11_25), "tools/call", &call);
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(message.contains("nobody who can be asked"), "{message}");
    one.crash();
}

/// A call of who takes no tasks, and can be asked.
fn held(tool: &str) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    json!({"name": tool, "arguments": {}, "_meta": meta})
}

/// The same, with a yes to what it was answered with.
fn answered(tool: &str, asked: &Value) -> Value {
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (mut call, mut answers) = (held(tool), json!({}));
    for key in result["inputRequests"].as_object().unwrap().keys() {
        answers[key] = yes();
    }
    (call["requestState"], call["inputResponses"]) = (result["requestState"].clone(), answers);
    call
}

#[test]
fn who_takes_no_tasks_comes_back_to_another_process_for_what_its_call_has_become() {
    let (world, store) = (World::default(), Memory::new());
    let start = || {
        let once = Tool::typed("never", "Order", {
            let world = world.clone();
            move |cx, _: Nothing| order(world.clone(), cx)
        });
        let server = server(&world).tool(once.task(TaskPolicy::always()));
        Process::of(server.registry(Arc::new(store.another_node())), &store)
    };
    let one = start();
    let [order, never] = ["order", "never"].map(|tool| one.ask_in(None, "tools/call", &held(tool)));
    let begun = world.begun();
    one.crash();
    let two = start();
    let done = two.ask_in(None, "tools/call", &answered("order", &order));
    assert_eq!(done["result"]["content"][0]["text"], "receipt 1, shipped", "{done}");
    // What is never run twice was lost with its process, and its caller is told so.
    let lost = two.ask_in(None, "tools/call", &answered("never", &never));
    assert_eq!(lost["error"]["data"]["reason"], "worker_lost", "{lost}");
    assert_eq!((world.charged(), world.begun()), (2, begun + 1));
    two.crash();
}

#[test]
fn a_question_has_its_deadline_whoever_is_there_then() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("patient");
    question(&one.settled(&id));
    // It is put aside, and its process goes.
    std::thread::sleep(Duration::from_millis(300));
    one.crash();
    let two = Process::start(&world, &store);
    let over = |task: &Value| task["status"] == "completed" || task["status"] == "failed";
    assert_eq!(text(&two.until(&id, over)), "gave up");
    assert!(world.begun() >= 2);
    two.crash();
}

#[test]
fn a_question_that_is_dropped_is_withdrawn_for_good() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    let id = one.call("either");
    let first = question(&one.settled(&id));
    let second = |task: &Value| {
        let requests = task["inputRequests"].as_object();
        requests.is_some_and(|requests| requests.len() == 1 && !requests.contains_key(&first))
    };
    let asked = question(&one.until(&id, second));
    assert!(one.answer(&id, &first, &yes())["result"].is_object(), "it is passed over");
    assert_eq!(question(&one.get(&id)), asked);
    one.crash();
    let two = Process::start(&world, &store);
    assert_eq!(question(&two.settled(&id)), asked, "the same question, and no other");
    two.answer(&id, &first, &yes());
    two.answer(&id, &asked, &yes());
    let over = |task: &Value| task["status"] == "completed" || task["status"] == "failed";
    assert_eq!(text(&two.until(&id, over)), "first nothing, then Some(true)");
    two.crash();
}

#[test]
fn a_sleep_that_was_dropped_is_over_for_nobody_who_comes_later() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::start(&world, &store);
    // Of two that are ready one is taken at random: one task would hit upon the right one too often.
    let ids: Vec<String> = (0..6).map(|_| one.call("either")).collect();
    let asked: Vec<(String, String)> = ids
        .iter()
        .map(|id| {
            let first = question(&one.settled(id));
            one.answer(id, &first, &yes());
            let second = |task: &Value| {
                let requests = task["inputRequests"].as_object();
                requests.is_some_and(|requests| requests.len() == 1 && !requests.contains_key(&first))
            };
            (id.clone(), question(&one.until(id, second)))
        })
        .collect();
    one.crash();
    std::thread::sleep(WHILE);
    let two = Process::start(&world, &store);
    for (id, second) in asked {
        two.answer(&id, &second, &yes());
        let over = |task: &Value| task["status"] == "completed" || task["status"] == "failed";
        assert_eq!(text(&two.until(&id, over)), "first Some(true), then Some(true)");
    }
    two.crash();
}

#[test]
fn whether_one_can_ask_is_a_fact_of_the_call_whichever_node_goes_on_with_it() {
    let (world, store) = (World::default(), Memory::new());
    let server = |by_model| {
        let world = world.clone();
        let work = move |cx: Cx, _: Nothing| {
            let world = world.clone();
            async move {
                let can = cx.can_ask(InputKind::Form);
                hang_once(&world).await;
                format!("it can ask: {can}")
            }
        };
        let tool = Tool::typed("work", "Work", work).task(policy()).answer_by_model(by_model);
        Server::new("one", "1").tool(tool)
    };
    let one = Process::of(server(true), &store);
    let able = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let created = one.ask_in(None, "tools/call", &json!({"name": "work", "arguments": {}, "_meta": able}));
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    until_hung(&world);
    one.crash();
    // Its tool lets no model answer.
    let two = Process::of(server(false), &store);
    assert_eq!(text(&two.settled(&id)), "it can ask: true");
    two.crash();
}
