//! The trace that a task belongs to, whichever process works on it.

use longhaul::server::ToolError;
use longhaul::store::Memory;
use serde_json::json;

use crate::rig::{Process, World, hang_once, only_in, text, until_hung};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What it was begun in, and the trace of what it calls.
fn traced(world: &World) -> longhaul::Server {
    only_in(world, move |world, cx| async move {
        hang_once(&world).await;
        tracing::info!("on its way");
        let parent = cx.trace_parent().ok_or_else(|| ToolError::new("in no trace"))?;
        Ok(parent.to_string())
    })
}

#[test]
fn work_that_is_entered_again_is_of_the_trace_that_began_it() {
    let (world, store) = (World::default(), Memory::new());
    let one = Process::of(traced(&world), &store);
    let params = json!({"name": "work", "arguments": {}, "_meta": {"traceparent": PARENT}});
    let created = one.ask("tools/call", params);
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    until_hung(&world);
    one.crash();

    let two = Process::of(traced(&world), &store);
    assert_eq!(text(&two.settled(&id)), PARENT);
    let log = two.said();
    let line = log.lines().find(|line| line.contains("on its way")).unwrap_or_else(|| panic!("{log}"));
    for said in ["attempt=2", "tool=\"work\"", &format!("task={id}"), &format!("traceparent={PARENT}")] {
        assert!(line.contains(said), "{said}: {line}");
    }
    two.crash();
}

#[test]
fn what_is_no_trace_keeps_no_call_from_running() {
    let (world, store) = (World::default(), Memory::new());
    world.hang.store(1, std::sync::atomic::Ordering::SeqCst);
    let one = Process::of(traced(&world), &store);
    for parent in [json!("00-0"), json!(7), json!(null)] {
        let params = json!({"name": "work", "arguments": {}, "_meta": {"traceparent": parent}});
        let created = one.ask("tools/call", params);
        let task = one.settled(created["result"]["taskId"].as_str().unwrap());
        assert_eq!(task["result"]["content"][0]["text"], "in no trace", "{task}");
    }
    one.crash();
}
