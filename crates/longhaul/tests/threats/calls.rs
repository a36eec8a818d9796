//! Who calls tools without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::StatusCode;
use longhaul::server::{CallOptions, TaskMode, TaskPolicy};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use crate::rig::{hello, request};
use crate::strangers::{HERE, Mounted, Nothing};

/// A server that counts how often its tools have run, of which one always makes a task.
async fn mounted(options: CallOptions) -> (Mounted, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let work = |runs: &Arc<AtomicUsize>| {
        let runs = Arc::clone(runs);
        move |_: Cx, _: Nothing| {
            runs.fetch_add(1, Ordering::SeqCst);
            async { "done" }
        }
    };
    let server = Server::new("mounted", "1.0.0")
        .calls(options)
        .tool(Tool::typed("work", "Work", work(&runs)))
        .tool(Tool::typed("task", "Work as a task", work(&runs)).task(TaskPolicy::new(TaskMode::Required)));
    (Mounted::of(server).await, runs)
}

/// A call of a tool, answered.
async fn call(
    mounted: &mut Mounted,
    (from, who): (Option<&str>, Option<&str>),
    tool: &str,
    arguments: Value,
) -> (StatusCode, Option<String>, Value) {
    mounted.modern(from, who, "tools/call", json!({"name": tool, "arguments": arguments})).await
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_who_calls_too_often_is_refused_before_anything_runs_and_nobody_else_is() {
    let (mut mounted, runs) = mounted(CallOptions::default().each(2).in_all(5)).await;
    let here = (HERE, None);
    for tool in ["work", "task"] {
        let (status, _, answer) = call(&mut mounted, here, tool, json!({})).await;
        assert_eq!((status, answer["error"].is_null()), (StatusCode::OK, true), "{answer}");
    }
    while runs.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    for tool in ["work", "task"] {
        let (status, retry_after, answer) = call(&mut mounted, here, tool, json!({})).await;
        let error = &answer["error"];
        assert_eq!((status, &error["code"]), (StatusCode::TOO_MANY_REQUESTS, &json!(-31001)), "{answer}");
        // Two a minute come back one in half a minute.
        let wait = error["data"]["retryAfterMs"].as_u64().unwrap();
        assert!((1..=30_000).contains(&wait), "{answer}");
        let seconds: u64 = retry_after.unwrap().parse().unwrap();
        assert!((1..=30).contains(&seconds), "{seconds}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2, "what is refused has not run");
    // What is asked about tasks is no call.
    let (status, _, answer) = call(&mut mounted, here, "task_wait", json!({"id": "none"})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    // Strangers of other networks and those whom nobody tells apart, until all of them have called as often as they may.
    for (from, is_let_in) in [(Some("192.0.2.2"), true), (None, true), (None, true), (None, false)] {
        let (status, _, answer) = call(&mut mounted, (from, None), "work", json!({})).await;
        assert_eq!(status == StatusCode::OK, is_let_in, "{from:?} {answer}");
    }
    for (who, is_let_in) in [("ann", true), ("ann", true), ("ann", false), ("bob", true)] {
        let (status, _, answer) = call(&mut mounted, (HERE, Some(who)), "work", json!({})).await;
        assert_eq!(status == StatusCode::OK, is_let_in, "{who} {answer}");
    }
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_calls_in_a_session_are_counted_as_well() {
    let (mut mounted, _) = mounted(CallOptions::default().each(1)).await;
    let (_, session, _) = mounted.post(HERE, None, &[], hello()).await;
    let session = session.unwrap();
    let headers = [("mcp-session-id", &*session), ("mcp-protocol-version", "2025-11-25")];
    let asks = request("tools/call", json!({"name": "work", "arguments": {}})).to_string();
    let (_, _, answer) = mounted.post(HERE, None, &headers, asks.clone()).await;
    assert!(answer["error"].is_null(), "{answer}");
    let (_, _, refusal) = mounted.post(HERE, None, &headers, asks).await;
    assert_eq!(refusal["error"]["code"], -32603, "an older revision has no code for it: {refusal}");
    assert!(refusal["error"]["data"]["retryAfterMs"].is_u64(), "{refusal}");
    let (status, ..) = call(&mut mounted, (HERE, None), "work", json!({})).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "in any era");
}
