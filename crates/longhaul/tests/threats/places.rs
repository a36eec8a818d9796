//! Strangers who take every place there is: to wait for an answer, to follow tasks, to watch resources.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt as _;
use longhaul::proto::model::InputKind;
use longhaul::server::{
    Elicited, ResourceTemplate, RoundOptions, SubscriptionOptions, TaskMode, TaskPolicy, ToolError,
};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use crate::rig::{hello, modern, request};
use crate::strangers::{HERE, Mounted, Nothing};

/// Whether to go on.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    /// Yes or no.
    go: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Row {
    id: String,
}

const THERE: Option<&str> = Some("192.0.2.2");
const YONDER: Option<&str> = Some("2001:db8::1");

/// Who takes a place, in this order, and whether there is one where all have six, each two, and strangers three.
const TURNS: [(Option<&str>, Option<&str>, bool); 9] = [
    (HERE, None, true),
    (HERE, None, true),
    (HERE, None, false),
    (THERE, None, true),
    // What is left is for those who are known, whoever comes first.
    (YONDER, None, false),
    (HERE, Some("ann"), true),
    (HERE, Some("ann"), true),
    (HERE, Some("ann"), false),
    (HERE, Some("bob"), true),
];

/// Whether the request was taken, which is refused for now otherwise.
fn is_taken(status: u16, answer: &Value) -> bool {
    let refused = status == 429 && answer["error"]["code"] == -31001;
    assert_eq!(refused, answer["error"]["data"]["retryAfterMs"].is_u64(), "{status} {answer}");
    assert!(refused || status == 200 && answer["error"].is_null(), "{status} {answer}");
    !refused
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_a_stranger_who_never_answers_keeps_nobody_else_from_being_asked() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let ask = move |cx: Cx, _: Nothing| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let went_on = matches!(cx.elicit::<Approve>("Go on?").await?, Elicited::Accepted(a) if a.go);
            Ok::<_, ToolError>(if went_on { "gone on" } else { "stopped" })
        }
    };
    let tool = Tool::typed("ask", "Ask first", ask).asks(InputKind::Form);
    let rounds = RoundOptions::default().max_waiting(6, 2).max_waiting_anonymous(3);
    let mut mounted = Mounted::of(Server::new("mounted", "1.0.0").rounds(rounds).tool(tool)).await;
    let mut call = modern("tools/call", json!({"name": "ask", "arguments": {}}));
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"] = json!({});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "ask")];
    let mut waiting = 0;
    for (turn, (from, who, has_place)) in TURNS.into_iter().enumerate() {
        let (status, _, answer) = mounted.post(from, who, &headers, call.to_string()).await;
        assert_eq!(is_taken(status.as_u16(), &answer), has_place, "{turn}: {answer}");
        assert_eq!(answer["result"]["requestState"].is_string(), has_place, "{turn}: {answer}");
        waiting += usize::from(has_place);
        assert_eq!(runs.load(Ordering::SeqCst), waiting, "{turn}: what is refused does not run");
    }
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_a_stranger_who_follows_all_it_may_keeps_nobody_else_from_following() {
    let subscriptions = SubscriptionOptions::default().max_open(6, 2).max_open_anonymous(3);
    let work = |_: Cx, _: Nothing| async { "done" };
    let tool = Tool::typed("work", "Work", work).task(TaskPolicy::new(TaskMode::Required));
    let server = Server::new("mounted", "1.0.0").subscriptions(subscriptions);
    let mut mounted = Mounted::of(server.tool(tool)).await;
    let listen = modern("subscriptions/listen", json!({"notifications": {"taskIds": ["any"]}})).to_string();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let mut open = Vec::new();
    for (turn, (from, who, has_place)) in TURNS.into_iter().enumerate() {
        let mut response = mounted.send(from, who, &headers, listen.clone()).await;
        let status = response.status().as_u16();
        let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        let answer = serde_json::from_slice(&first).unwrap_or(Value::Null);
        assert_eq!(is_taken(status, &answer), has_place, "{turn}: {answer}");
        open.extend(has_place.then_some(response));
    }
    // Who lets go of one has it for another, once that is known.
    open.remove(0);
    let mut status = 429;
    while status == 429 {
        tokio::task::yield_now().await;
        status = mounted.send(HERE, None, &headers, listen.clone()).await.status().as_u16();
    }
    assert_eq!(status, 200);
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_a_stranger_who_watches_all_it_may_keeps_nobody_else_from_watching() {
    let rows = ResourceTemplate::typed("db://{id}", "rows", |_, Row { id }| async move { id });
    let subscriptions = SubscriptionOptions::default().max_watched(6, 2).max_watched_anonymous(3);
    let (server, _catalogue) = Server::new("mounted", "1.0.0").resource_template(rows).dynamic();
    let mut mounted = Mounted::of(server.subscriptions(subscriptions)).await;
    for (turn, (from, who, has_place)) in TURNS.into_iter().enumerate() {
        let (_, session, _) = mounted.post(from, who, &[], hello()).await;
        let session = session.unwrap();
        let headers = [("mcp-session-id", &*session), ("mcp-protocol-version", "2025-11-25")];
        let watch = request("resources/subscribe", json!({"uri": format!("db://{turn}")})).to_string();
        let (_, _, answer) = mounted.post(from, who, &headers, watch).await;
        assert_eq!(answer["error"].is_null(), has_place, "{turn}: {answer}");
        assert_eq!(answer["error"]["data"]["retryAfterMs"].is_u64(), !has_place, "{turn}: {answer}");
    }
}
