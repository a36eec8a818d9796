//! Strangers who make tasks without end.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode};
use longhaul::server::{Caller, Principal, TaskMode, TaskPolicy};
use longhaul::store::{Limits, Memory, Settings, SystemClock};
use longhaul::transport::http::server::{HttpService, Options, Peer};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::rig::{Host, hello, modern, request};

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

/// A store where each stranger may have so many open tasks.
fn store(each: u64) -> Memory {
    limited(|limits| limits.max_open_per_stranger = each)
}

/// A store with these bounds.
fn limited(change: impl FnOnce(&mut Limits)) -> Memory {
    let mut settings = Settings::default();
    change(&mut settings.limits);
    Memory::with(settings, Arc::new(SystemClock::new()))
}

/// With tools whose tasks do not end by themselves.
fn endless(server: Server, store: &Memory) -> Server {
    let long = |_: Cx, _: Nothing| async { pending::<&str>().await };
    let by_hand = |cx: Cx, _: Nothing| async move {
        let task = cx.open_task().await?;
        let answer = task.hand_back();
        task.run(|_| pending::<Result<&str, longhaul::server::ToolError>>());
        Ok::<_, longhaul::server::OpenError>(answer)
    };
    server
        .store(store.another_node())
        .tool(Tool::typed("long", "Take long", long).task(TaskPolicy::new(TaskMode::Required)))
        .tool(Tool::typed("by_hand", "Open a task", by_hand).task(TaskPolicy::by_hand()))
}

/// An application in which a node of this store is mounted.
pub(crate) struct Mounted(HttpService);

type Answer = <HttpService as Service<Request<Full<Bytes>>>>::Response;

impl Mounted {
    async fn on(store: &Memory) -> Self {
        Self::of(endless(Server::new("mounted", "1.0.0"), store)).await
    }

    pub(crate) async fn of(server: Server) -> Self {
        Self(server.into_http_service(Options::default()).await.unwrap())
    }

    /// The answer, of which nothing is read yet.
    pub(crate) async fn send(
        &mut self,
        from: Option<&str>,
        who: Option<&str>,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let mut request = Request::post("/").header("host", "localhost");
        for (name, value) in
            [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
                .iter()
                .chain(headers)
        {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Full::new(Bytes::from(body))).unwrap();
        if let Some(from) = from {
            request.extensions_mut().insert(Peer(from.parse().unwrap()));
        }
        if let Some(who) = who {
            request.extensions_mut().insert(Caller::new(Some(Principal::new(who).unwrap())));
        }
        self.0.call(request).await.unwrap()
    }

    pub(crate) async fn post(
        &mut self,
        from: Option<&str>,
        who: Option<&str>,
        headers: &[(&str, &str)],
        body: String,
    ) -> (StatusCode, Option<String>, Value) {
        let response = self.send(from, who, headers, body).await;
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (status, said) = (response.status(), header("mcp-session-id").or_else(|| header("retry-after")));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let answer = lines.filter_map(|line| serde_json::from_str(line).ok()).next_back();
        (status, said, answer.unwrap_or(Value::Null))
    }

    pub(crate) async fn modern(
        &mut self,
        from: Option<&str>,
        who: Option<&str>,
        method: &str,
        params: Value,
    ) -> (StatusCode, Option<String>, Value) {
        let named = params["name"].as_str().or_else(|| params["taskId"].as_str()).unwrap().to_owned();
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &named)];
        self.post(from, who, &headers, modern(method, params).to_string()).await
    }

    /// The task that a tool makes, if it may.
    async fn make(&mut self, from: Option<&str>, who: Option<&str>, tool: &str) -> Option<String> {
        let params = json!({"name": tool, "arguments": {}});
        let (_, _, answer) = self.modern(from, who, "tools/call", params).await;
        let made = answer["result"]["taskId"].as_str().map(str::to_owned);
        assert!(made.is_some() || answer.to_string().contains("max_open_per_stranger"), "{answer}");
        made
    }
}

pub(crate) const HERE: Option<&str> = Some("192.0.2.1");

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_a_stranger_who_has_all_tasks_it_may_keeps_nobody_else_from_theirs() {
    let store = store(2);
    let mut one = Mounted::on(&store).await;
    let first = one.make(HERE, None, "long").await.unwrap();
    assert!(one.make(HERE, None, "by_hand").await.is_some());
    let params = json!({"name": "long", "arguments": {}});
    let (status, retry_after, refusal) = one.modern(HERE, None, "tools/call", params).await;
    assert_eq!(
        (status, &refusal["error"]["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!(-31001)),
        "{refusal}"
    );
    assert!(retry_after.is_some() && refusal["error"]["data"]["retryAfterMs"].is_u64(), "{refusal}");
    assert_eq!(one.make(HERE, None, "by_hand").await, None);
    // Strangers of other networks, those whom nobody tells apart, and who has a name.
    for (from, who) in
        [(Some("192.0.2.2"), None), (Some("2001:db8::1"), None), (None, None), (HERE, Some("ann"))]
    {
        for _ in 0..2 {
            assert!(one.make(from, who, "long").await.is_some(), "{from:?} {who:?}");
        }
    }
    assert_eq!(one.make(Some("2001:db8::2"), None, "long").await, None, "a network is one stranger");
    for _ in 0..5 {
        assert!(one.make(None, None, "long").await.is_some(), "they have no share for one of them to take");
    }
    let mut other = Mounted::on(&store).await;
    assert_eq!(other.make(HERE, None, "long").await, None, "another node counts the same");
    other.modern(HERE, None, "tasks/cancel", json!({"taskId": first})).await;
    assert!(other.make(HERE, None, "long").await.is_some(), "what has ended takes no place");
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_tasks_that_are_asked_for_in_a_session_are_counted_as_well() {
    let mut one = Mounted::on(&store(1)).await;
    let (_, session, _) = one.post(HERE, None, &[], hello()).await;
    let session = session.unwrap();
    let headers = [("mcp-session-id", &*session), ("mcp-protocol-version", "2025-11-25")];
    let asks = request("tools/call", json!({"name": "long", "arguments": {}, "task": {}})).to_string();
    let (_, _, made) = one.post(HERE, None, &headers, asks.clone()).await;
    assert!(made["result"]["task"]["taskId"].is_string(), "{made}");
    let (_, _, refusal) = one.post(HERE, None, &headers, asks.clone()).await;
    assert_eq!(refusal["error"]["code"], -32603, "{refusal}");
    assert!(refusal["error"]["data"]["retryAfterMs"].is_u64(), "{refusal}");
    assert_eq!(one.make(HERE, None, "long").await, None, "in any era");
    // Who asks decides, not who opened the session.
    let (_, _, made) = one.post(Some("192.0.2.2"), None, &headers, asks).await;
    assert!(made["result"]["task"]["taskId"].is_string(), "{made}");
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn a4_a_stranger_whose_tasks_end_at_once_leaves_room_for_what_others_make() {
    let day = Duration::from_secs(24 * 60 * 60);
    // What one may make is a part of what is kept of all, and no less than it may have open.
    let store = limited(|limits| (limits.max_open_per_stranger, limits.max_made_per_stranger) = (1, 3));
    let quick = |_: Cx, _: Nothing| async { "done" };
    let quick = Tool::typed("quick", "Be done", quick).task(TaskPolicy::new(TaskMode::Required));
    let mut one = Mounted::of(endless(Server::new("mounted", "1.0.0"), &store).tool(quick)).await;
    let (long, none) = (one.make(HERE, None, "long").await.unwrap(), one.make(HERE, None, "long").await);
    assert_eq!(none, None, "what is refused is not made");
    one.modern(HERE, None, "tasks/cancel", json!({"taskId": long})).await;
    let quick = json!({"name": "quick", "arguments": {}});
    let mut make = async |from: Option<&str>, who: Option<&str>| {
        let (status, retry_after, answer) = one.modern(from, who, "tools/call", quick.clone()).await;
        let Some(id) = answer["result"]["taskId"].as_str().map(str::to_owned) else {
            let error = &answer["error"];
            assert_eq!((status, &error["code"]), (StatusCode::TOO_MANY_REQUESTS, &json!(-31001)), "{answer}");
            assert!(retry_after.is_some() && error["data"]["retryAfterMs"].is_u64(), "{answer}");
            assert!(error["message"].as_str().unwrap().contains("max_made_per_stranger"), "{answer}");
            return false;
        };
        // It has ended before the next is made.
        loop {
            let (_, _, task) = one.modern(from, who, "tasks/get", json!({"taskId": id})).await;
            assert!(task["error"].is_null(), "{task}");
            if task["result"]["status"] == "completed" {
                return true;
            }
            tokio::task::yield_now().await;
        }
    };
    for is_made in [true, true, false] {
        assert_eq!(make(HERE, None).await, is_made);
    }
    // Strangers of other networks, those whom nobody tells apart, and who has a name.
    for (from, who) in [(Some("192.0.2.2"), None), (None, None), (HERE, Some("ann"))] {
        for _ in 0..3 {
            assert!(make(from, who).await, "{from:?} {who:?}");
        }
    }
    tokio::time::advance(day / 3).await;
    assert!(make(HERE, None).await, "a third of what it may comes back in a third of the time");
    assert!(!make(HERE, None).await);
}

/// Calls `long` on a connection that goes on; the answer.
async fn call_on(stream: &mut TcpStream) -> Value {
    let body = modern("tools/call", json!({"name": "long", "arguments": {}})).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Method: tools/call\r\n\
         Accept: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Name: long\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let read =
            tokio::time::timeout(Duration::from_secs(60), stream.read(&mut bytes)).await.unwrap().unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&bytes[..read]);
        let text = String::from_utf8_lossy(&heard);
        if let Some(answer) = text.find('{').and_then(|at| serde_json::from_str(&text[at..]).ok()) {
            return answer;
        }
    }
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a4_strangers_of_this_machine_are_told_apart_by_connection() {
    let store = store(1);
    let host = Host::of(|server| endless(server, &store), Options::default()).await;
    let (mut one, mut other) = (host.connect().await, host.connect().await);
    assert!(call_on(&mut one).await["result"]["taskId"].is_string());
    assert_eq!(call_on(&mut one).await["error"]["code"], -31001);
    assert!(call_on(&mut other).await["result"]["taskId"].is_string());
    assert_eq!(call_on(&mut other).await["error"]["code"], -31001);
}
