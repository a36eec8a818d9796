//! A node that answers and works on nothing, beside nodes that work.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul::proto::dialect::Revision;
use longhaul::server::{TaskMode, TaskPolicy, ToolError};
use longhaul::store::{Filter, Memory, Rerun, Scope, TaskStore as _};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use crate::rig::{Nothing, Process, World, order, policy, question, text, yes};

/// Counts that it was begun.
async fn once(world: World, _: Cx) -> Result<String, ToolError> {
    Ok(format!("begun {}", world.begun.fetch_add(1, Ordering::SeqCst) + 1))
}

/// One tool of each way to be called.
fn tools(world: &World, version: &str) -> Server {
    let (asks, never, later, soon) = (world.clone(), world.clone(), world.clone(), world.clone());
    let policy_of = |mode, rerun| {
        let mut policy = TaskPolicy::new(mode);
        policy.rerun = rerun;
        policy
    };
    let order = Tool::typed("order", "Order", move |cx, _: Nothing| order(asks.clone(), cx));
    let never = Tool::typed("never", "Once", move |cx, _: Nothing| once(never.clone(), cx));
    let later = Tool::typed("later", "Once", move |cx, _: Nothing| once(later.clone(), cx));
    let soon = Tool::typed("soon", "Once", move |cx, _: Nothing| once(soon.clone(), cx));
    let gives = Tool::typed("gives", "Give a part", |cx: Cx, _: Nothing| async move {
        cx.emit("a part").await?;
        Ok::<_, ToolError>("given")
    });
    Server::new("fleet", "1")
        .tool(order.version(version).task(policy()))
        .tool(gives.task(policy_of(TaskMode::After(Duration::from_secs(60)), Rerun::Never)))
        .tool(never.task(policy_of(TaskMode::Never, Rerun::Never)))
        .tool(later.task(policy_of(TaskMode::After(Duration::from_secs(60)), Rerun::Never)))
        .tool(soon.version(version).task(policy_of(TaskMode::After(Duration::ZERO), Rerun::Never)))
}

/// What a call came to for a caller that knows no tasks.
fn result_of(front: &Process, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {},
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {}}});
    front.ask_in(Some(Revision::from_date("2025-06-18").unwrap()), "tools/call", &params)
}

#[test]
fn what_is_called_at_a_front_is_done_once_by_a_worker_whatever_its_policy() {
    let (world, elsewhere, store) = (World::default(), World::default(), Memory::new());
    let front = Process::of(tools(&elsewhere, "1").front(true), &store);
    let worker = Process::of(tools(&world, "1"), &store);
    for (tool, count) in [("never", 1), ("later", 2)] {
        let said = result_of(&front, tool);
        assert_eq!(said["result"]["content"][0]["text"], format!("begun {count}"), "{said}");
    }
    // Who takes tasks has none of what ends soon.
    let said = front.ask("tools/call", json!({"name": "later", "arguments": {}}));
    assert_eq!(said["result"]["content"][0]["text"], "begun 3", "{said}");
    let id = front.call("order");
    let asked = question(&front.settled(&id));
    front.answer(&id, &asked, &yes());
    assert_eq!(text(&front.settled(&id)), "receipt 1, shipped");
    assert_eq!((elsewhere.begun(), elsewhere.charged()), (0, 0), "a front does nothing itself");
    worker.crash();
    front.crash();
}

#[test]
fn a_front_keeps_no_task_that_nobody_can_ask_after() {
    let (world, store) = (World::default(), Memory::new());
    let front = Process::of(tools(&world, "1").front(true), &store);
    let worker = Process::of(tools(&world, "1"), &store);
    // What is called again under its key, what its caller has the id of, and what its result points to.
    let keyed = json!({"name": "later", "arguments": {}, "key": "k1",
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {}}});
    let call = || front.ask_in(Revision::from_date("2025-06-18"), "tools/call", &keyed);
    let first = call();
    let id = front.call("order");
    question(&front.settled(&id));
    let given = result_of(&front, "gives");
    assert_eq!(given["result"]["content"][1]["type"], "resource_link", "{given}");
    // And what its caller waited for, and nobody else.
    for tool in ["never", "later"] {
        let said = result_of(&front, tool);
        assert!(said["result"]["content"].is_array(), "{said}");
    }
    let said = front.ask("tools/call", json!({"name": "later", "arguments": {}}));
    assert!(said["result"]["content"].is_array(), "{said}");
    let kept = || {
        let page = front.within(store.list(Scope::Operator, &Filter::all(), None, 100)).unwrap();
        page.tasks.iter().map(|task| task.tool.to_string()).collect::<Vec<_>>()
    };
    let mut looks = 0;
    while kept() != ["gives", "order", "later"] {
        std::thread::sleep(Duration::from_millis(10));
        looks += 1;
        assert!(looks < 1000, "{:?}", kept());
    }
    assert_eq!(call(), first);
    question(&front.get(&id));
    worker.crash();
    front.crash();
}

#[test]
fn a_worker_leaves_what_is_of_a_version_that_it_does_not_accept() {
    let (old, new, store) = (World::default(), World::default(), Memory::new());
    let front = Process::of(tools(&new, "2").front(true), &store);
    let behind = Process::of(tools(&old, "1"), &store);
    let id = front.call("order");
    let waiting =
        front.until(&id, |task| task["statusMessage"] == "queued: no node runs version 2.0.0 of order");
    assert_eq!((&waiting["status"], old.begun()), (&json!("working"), 0));
    let ahead = Process::of(tools(&new, "2"), &store);
    question(&front.settled(&id));
    assert_eq!((old.begun(), new.begun()), (0, 1));
    for process in [ahead, behind, front] {
        process.crash();
    }
}

#[test]
fn what_never_runs_twice_and_has_not_begun_waits_for_a_worker_of_its_version() {
    let (old, new, store) = (World::default(), World::default(), Memory::new());
    let front = Process::of(tools(&new, "2").front(true), &store);
    let behind = Process::of(tools(&old, "1"), &store);
    let id = front.call("soon");
    let said = "queued: no node runs version 2.0.0 of soon";
    let waiting = front.until(&id, |task| task["statusMessage"] == said);
    assert_eq!((&waiting["status"], old.begun(), new.begun()), (&json!("working"), 0, 0), "{waiting}");
    let ahead = Process::of(tools(&new, "2"), &store);
    assert_eq!(text(&front.settled(&id)), "begun 1");
    assert_eq!((old.begun(), new.begun()), (0, 1));
    for process in [ahead, behind, front] {
        process.crash();
    }
}

#[test]
fn a_call_at_a_front_that_is_cancelled_ends_wherever_it_is() {
    let (world, store) = (World::default(), Memory::new());
    let front = Process::of(tools(&world, "1").front(true), &store);
    // Nobody works on it yet.
    let open = async |count| store.counts().await.unwrap().open == count;
    front.give_up("later", async || open(1).await);
    front.within(async {
        while !open(0).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let worker = Process::of(tools(&world, "1"), &store);
    assert_eq!(result_of(&front, "later")["result"]["content"][0]["text"], "begun 1", "the first never was");
    worker.crash();
    front.crash();
}
