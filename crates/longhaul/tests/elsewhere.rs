//! Two servers that share sessions: what comes to one of them and is for the other.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use longhaul::server::{Catalogue, Elicited, Resource, TaskPolicy, ToolError};
use longhaul::store::Memory;
use longhaul::transport::http::server::{Options, serve};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Approve {
    go: bool,
}

const WATCHED: &str = "app://watched";
const UPDATED: &str = "notifications/resources/updated";

/// A server with a tool `ask` that asks its caller, `task` that does so as a task, `roots` that asks what even old clients are asked,
/// and `wait` that never ends.
struct Host {
    address: std::net::SocketAddr,
    catalogue: Catalogue,
    /// How often `wait` was dropped.
    dropped: Arc<AtomicUsize>,
    serving: tokio::task::AbortHandle,
}

/// Counts a handler that is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn ask(cx: Cx, Nothing {}: Nothing) -> Result<String, ToolError> {
    Ok(match cx.elicit::<Approve>("Go on?").await? {
        Elicited::Accepted(Approve { go }) => format!("go: {go}"),
        Elicited::Declined | Elicited::Cancelled => "no".to_owned(),
    })
}

async fn roots(cx: Cx, Nothing {}: Nothing) -> Result<String, ToolError> {
    Ok(format!("roots: {}", cx.roots().await?.len()))
}

impl Host {
    async fn on(store: &Memory) -> Self {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        let wait = move |_: Cx, Nothing {}| {
            let dropped = Dropped(Arc::clone(&counted));
            async move {
                std::future::pending::<()>().await;
                drop(dropped);
                "never"
            }
        };
        let (server, catalogue) = Server::new("test", "1.0.0").store(store.another_node()).dynamic();
        let server = server
            .tool(Tool::typed("ask", "Ask", ask))
            .tool(Tool::typed("task", "Ask as a task", ask).task(TaskPolicy::always()))
            .tool(Tool::typed("roots", "Ask for roots", roots))
            .tool(Tool::typed("wait", "Wait", wait))
            .resource(Resource::text(WATCHED, "watched", "w"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = Options::default().events(store.another_node()).shared_sessions(store.another_node());
        let dispatcher = server.dispatcher().unwrap();
        dispatcher.start().await.unwrap();
        let serving = tokio::spawn(serve(dispatcher, listener, options, std::future::pending()));
        Self { address, catalogue, dropped, serving: serving.abort_handle() }
    }

    async fn send(&self, request: http::request::Builder, body: String) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = request
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    async fn session(&self) -> String {
        self.session_in("2025-11-25").await
    }

    async fn session_in(&self, revision: &str) -> String {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {"elicitation": {"form": {}}, "roots": {}},
            "clientInfo": {"name": "t", "version": "1"}}});
        let response = self.send(Request::post("/mcp"), body.to_string()).await;
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn post(&self, session: &str, message: Value) -> Response<Incoming> {
        self.send(Request::post("/mcp").header("mcp-session-id", session), message.to_string()).await
    }

    /// What a request is answered.
    async fn ask(&self, session: &str, id: u32, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let body = self.post(session, message).await.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{body:?}"))
    }

    /// The stream of a call.
    async fn call(&self, session: &str, id: u32, tool: &str) -> Events {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": {}}});
        Events::of(self.post(session, message).await)
    }

    /// A subscription of the modern era to all that changes, once it is acknowledged.
    async fn subscription(&self) -> Events {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}});
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [WATCHED]});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
            "params": {"notifications": filter, "_meta": meta}});
        let request = Request::post("/mcp")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "subscriptions/listen");
        let mut events = Events::of(self.send(request, message.to_string()).await);
        events.told("notifications/subscriptions/acknowledged").await;
        events
    }

    /// The stream for what belongs to no request.
    async fn pushes(&self, session: &str) -> Events {
        Events::of(self.send(Request::get("/mcp").header("mcp-session-id", session), String::new()).await)
    }
}

async fn nodes() -> [Host; 2] {
    let store = Memory::new();
    [Host::on(&store).await, Host::on(&store).await]
}

struct Events {
    body: Incoming,
    read: String,
}

impl Events {
    fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), read: String::new() }
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.read = rest;
                let data = event.lines().find_map(|line| line.strip_prefix("data:")).map(str::trim);
                match data {
                    Some(data) if !data.is_empty() => return Some(data.parse().unwrap()),
                    _ => continue,
                }
            }
            let frame = tokio::time::timeout(Duration::from_secs(20), self.body.frame()).await;
            let Ok(frame) = frame.expect("something is sent in time")? else { return None };
            self.read.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }

    /// The next message by this method.
    async fn told(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("it goes on");
            if message["method"] == method {
                return message;
            }
        }
    }
}

fn accepted(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"go": true}}})
}

#[tokio::test]
async fn an_answer_that_comes_to_another_node_gets_to_the_call_that_asked() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    let mut call = one.call(&session, 1, "ask").await;
    let asked = call.told("elicitation/create").await;
    let answered = other.post(&session, accepted(&asked["id"])).await;
    assert_eq!(answered.status().as_u16(), 202);
    let answer = call.next().await.expect("it is answered");
    assert_eq!(answer["result"]["content"][0]["text"], "go: true", "{answer}");
}

#[tokio::test]
async fn an_answer_to_a_task_is_kept_wherever_it_comes() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    let asked = json!({"name": "task", "arguments": {}, "task": {}});
    let created = one.ask(&session, 1, "tools/call", asked).await;
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let result = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": task}});
    let mut waiting = Events::of(one.post(&session, result).await);
    let asked = waiting.told("elicitation/create").await;
    // It is kept before it is said to be, and may come twice.
    for _ in 0..2 {
        let answered = other.post(&session, accepted(&asked["id"])).await;
        assert_eq!(answered.status().as_u16(), 202);
    }
    let answer = loop {
        let message = waiting.next().await.expect("it is answered");
        if message["id"] == 2 {
            break message;
        }
    };
    assert_eq!(answer["result"]["content"][0]["text"], "go: true", "{answer}");
    // Whoever makes ids up does not get to a task.
    let forged = asked["id"].as_str().unwrap().split_once('/').unwrap().0.to_owned() + "/none/none";
    assert_eq!(other.post(&session, accepted(&json!(forged))).await.status().as_u16(), 202);
}

#[tokio::test]
async fn a_cancel_that_comes_to_another_node_ends_the_call() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    let _call = one.call(&session, 1, "wait").await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(other.post(&session, cancelled).await.status().as_u16(), 202);
    let mut looks = 0;
    while one.dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        looks += 1;
        assert!(looks < 500, "the call goes on");
    }
}

#[tokio::test]
async fn what_comes_in_a_batch_gets_to_the_calls_of_another_node() {
    let [one, other] = nodes().await;
    let session = one.session_in("2025-03-26").await;
    let mut asks = one.call(&session, 1, "roots").await;
    let asked = asks.told("roots/list").await;
    let _waits = one.call(&session, 2, "wait").await;
    let batch = json!([
        {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}},
    ]);
    assert_eq!(other.post(&session, batch).await.status().as_u16(), 202);
    let answer =
        tokio::time::timeout(Duration::from_secs(10), asks.next()).await.expect("it is answered in time");
    let answer = answer.expect("it is answered");
    assert_eq!(answer["result"]["content"][0]["text"], "roots: 0", "{answer}");
    let mut looks = 0;
    while one.dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        looks += 1;
        assert!(looks < 500, "the call goes on");
    }
}

#[tokio::test]
async fn a_change_is_told_once_however_many_nodes_have_the_session() {
    let store = Memory::new();
    let nodes = [Host::on(&store).await, Host::on(&store).await, Host::on(&store).await];
    let session = nodes[0].session().await;
    for node in &nodes {
        let subscribed = node.ask(&session, 1, "resources/subscribe", json!({"uri": WATCHED})).await;
        assert!(subscribed["result"].is_object(), "{subscribed}");
    }
    let mut pushes = nodes[2].pushes(&session).await;
    // Each hears within a moment that the others have it, too.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (number, changed) in nodes.iter().enumerate() {
        changed.catalogue.resource_updated(WATCHED).unwrap();
        let name = format!("new{number}");
        changed.catalogue.add(Tool::typed(name, "New", |_: Cx, Nothing {}| async { "new" })).unwrap();
        let told = methods(&mut pushes).await;
        assert_eq!(told, [UPDATED, "notifications/tools/list_changed"], "by node {number}");
    }
}

#[tokio::test]
async fn what_was_for_a_client_before_it_came_is_not_told_by_a_node_that_only_then_begins_to_hear() {
    let store = Memory::new();
    let [one, other, third] = [Host::on(&store).await, Host::on(&store).await, Host::on(&store).await];
    let session = one.session().await;
    assert!(other.ask(&session, 1, "ping", json!({})).await["result"].is_object());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = json!({"name": "task", "arguments": {}, "task": {}});
    let created = one.ask(&session, 2, "tools/call", asked).await;
    assert!(created["result"]["task"].is_object(), "{created}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut pushes = third.pushes(&session).await;
    let told = tokio::time::timeout(Duration::from_secs(2), pushes.next()).await;
    assert!(told.is_err(), "{told:?}");
    one.catalogue.add(Tool::typed("new", "New", |_: Cx, Nothing {}| async { "new" })).unwrap();
    pushes.told("notifications/tools/list_changed").await;
}

#[tokio::test]
async fn what_a_session_watches_it_watches_at_every_node_and_is_told_of_once() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    let subscribed = one.ask(&session, 1, "resources/subscribe", json!({"uri": WATCHED})).await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let mut pushes = other.pushes(&session).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for changed in [&one, &other] {
        changed.catalogue.resource_updated(WATCHED).unwrap();
        let told = pushes.next().await.expect("it goes on");
        assert_eq!((&told["method"], &told["params"]["uri"]), (&json!(UPDATED), &json!(WATCHED)), "{told}");
        let again = tokio::time::timeout(Duration::from_secs(2), pushes.next()).await;
        assert!(again.is_err(), "{again:?}");
    }
    // Where it was subscribed, nobody is left who could tell of it.
    one.serving.abort();
    other.catalogue.resource_updated(WATCHED).unwrap();
    assert_eq!(pushes.told(UPDATED).await["params"]["uri"], WATCHED);
}

#[tokio::test]
async fn what_a_session_comes_to_watch_at_one_of_its_nodes_it_watches_at_all() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    // Both have it before it watches anything.
    for node in [&one, &other] {
        assert!(node.ask(&session, 1, "ping", json!({})).await["result"].is_object());
    }
    let watched = json!({"uri": WATCHED});
    assert!(one.ask(&session, 2, "resources/subscribe", watched.clone()).await["result"].is_object());
    let added = json!({"uri": "app://added"});
    for node in [&one, &other] {
        node.catalogue.add(Resource::text("app://added", "added", "a")).unwrap();
    }
    assert!(other.ask(&session, 3, "resources/subscribe", added).await["result"].is_object());
    one.serving.abort();
    let mut pushes = other.pushes(&session).await;
    for uri in [WATCHED, "app://added"] {
        other.catalogue.resource_updated(uri).unwrap();
        assert_eq!(pushes.told(UPDATED).await["params"]["uri"], uri);
    }
    assert!(other.ask(&session, 4, "resources/unsubscribe", watched).await["result"].is_object());
    for uri in [WATCHED, "app://added"] {
        other.catalogue.resource_updated(uri).unwrap();
    }
    assert_eq!(pushes.told(UPDATED).await["params"]["uri"], "app://added");
}

#[tokio::test]
async fn what_was_subscribed_elsewhere_before_the_first_request_here_stays() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    other.catalogue.add(Resource::text("app://added", "added", "a")).unwrap();
    let [watched, added] = [WATCHED, "app://added"].map(|uri| json!({"uri": uri}));
    assert!(other.ask(&session, 1, "resources/subscribe", watched).await["result"].is_object());
    assert!(one.ask(&session, 2, "ping", json!({})).await["result"].is_object());
    assert!(other.ask(&session, 3, "resources/subscribe", added).await["result"].is_object());
    one.serving.abort();
    let mut pushes = other.pushes(&session).await;
    for uri in [WATCHED, "app://added"] {
        other.catalogue.resource_updated(uri).unwrap();
        assert_eq!(pushes.told(UPDATED).await["params"]["uri"], uri);
    }
}

#[tokio::test]
async fn what_a_node_lacks_is_watched_at_the_others_until_the_client_lets_go_of_it() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    one.catalogue.add(Resource::text("app://own", "own", "o")).unwrap();
    let [watched, own] = [WATCHED, "app://own"].map(|uri| json!({"uri": uri}));
    assert!(one.ask(&session, 1, "resources/subscribe", own.clone()).await["result"].is_object());
    // It is taken over where that resource is not.
    assert!(other.ask(&session, 2, "ping", json!({})).await["result"].is_object());
    assert!(one.ask(&session, 3, "resources/subscribe", watched.clone()).await["result"].is_object());
    let mut pushes = one.pushes(&session).await;
    for uri in ["app://own", WATCHED] {
        one.catalogue.resource_updated(uri).unwrap();
        assert_eq!(pushes.told(UPDATED).await["params"]["uri"], uri);
    }
    assert!(other.ask(&session, 4, "resources/unsubscribe", own).await["result"].is_object());
    assert!(one.ask(&session, 5, "resources/subscribe", watched).await["result"].is_object());
    for uri in ["app://own", WATCHED] {
        one.catalogue.resource_updated(uri).unwrap();
    }
    assert_eq!(pushes.told(UPDATED).await["params"]["uri"], WATCHED);
}

#[tokio::test]
async fn what_changes_at_one_node_is_told_at_every_node() {
    let [one, other] = nodes().await;
    let session = other.session().await;
    let subscribed = other.ask(&session, 1, "resources/subscribe", json!({"uri": WATCHED})).await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let mut pushes = other.pushes(&session).await;
    one.catalogue.resource_updated(WATCHED).unwrap();
    assert_eq!(pushes.told(UPDATED).await["params"]["uri"], WATCHED);
    one.catalogue.add(Tool::typed("new", "New", |_: Cx, Nothing {}| async { "new" })).unwrap();
    pushes.told("notifications/tools/list_changed").await;
}

#[tokio::test]
async fn what_every_node_sees_for_itself_is_told_once() {
    let store = Memory::new();
    let nodes = [Host::on(&store).await, Host::on(&store).await, Host::on(&store).await];
    let session = nodes[0].session().await;
    let subscribed = nodes[0].ask(&session, 1, "resources/subscribe", json!({"uri": WATCHED})).await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let mut told = [nodes[0].pushes(&session).await, nodes[1].subscription().await];
    for number in 0..2 {
        for node in &nodes {
            let seen = node.catalogue.seen_by_each();
            seen.resource_updated(WATCHED).unwrap();
            let name = format!("new{number}");
            seen.add(Tool::typed(name, "New", |_: Cx, Nothing {}| async { "new" })).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let [pushes, subscription] = &mut told;
        let methods = tokio::join!(methods(pushes), methods(subscription));
        let once = [UPDATED, "notifications/tools/list_changed"];
        assert_eq!(methods, (once.map(str::to_owned).to_vec(), once.map(str::to_owned).to_vec()));
    }
    // One that none of the others has seen is told as well.
    nodes[2].catalogue.seen_by_each().resource_updated(WATCHED).unwrap();
    for stream in &mut told {
        stream.told(UPDATED).await;
    }
}

/// What is told until nothing was for some seconds: the methods, sorted.
async fn methods(stream: &mut Events) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(3), stream.next()).await {
        told.push(message["method"].as_str().unwrap_or_default().to_owned());
    }
    told.sort_unstable();
    told
}

#[tokio::test]
async fn news_of_a_task_reach_its_session_at_whichever_node_that_listens() {
    let [one, other] = nodes().await;
    let session = one.session().await;
    let mut pushes = other.pushes(&session).await;
    // It is told within a moment that the session is at the other, too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = json!({"name": "task", "arguments": {}, "task": {}});
    let created = one.ask(&session, 1, "tools/call", asked).await;
    let task = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let told = pushes.told("notifications/tasks/status").await;
    assert_eq!(told["params"]["taskId"], task, "{told}");
}
