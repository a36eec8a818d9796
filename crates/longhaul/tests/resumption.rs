//! Streams of sessions that are dropped, or let go by the server, and resumed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use longhaul::proto::model::Progress;
use longhaul::server::{PollOptions, TaskPolicy};
use longhaul::store::{
    self, Entry, EntryKey, Holder, Memory, Owner, Registry, Settings, StoreError, StoreFuture, Swap,
    SystemClock, Version,
};
use longhaul::transport::http::server::{Options, SessionObserver, serve};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{RwLock, Semaphore};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArguments {}

/// A server whose tool `steps` reports a step whenever it is let to, three in all, and whose tool `later` closes its
/// stream before it answers.
struct Host {
    address: SocketAddr,
    may_go_on: Arc<Semaphore>,
}

impl Host {
    async fn start(options: Options) -> Self {
        Self::bounded(options, PollOptions::default()).await
    }

    /// The same, within these bounds of what is asked.
    async fn bounded(options: Options, polls: PollOptions) -> Self {
        Self::of(Server::new("test", "1.0.0").polls(polls), options).await
    }

    /// This server, with the tools added.
    async fn of(server: Server, options: Options) -> Self {
        let may_go_on = Arc::new(Semaphore::new(0));
        let step = Arc::clone(&may_go_on);
        let steps = move |cx: Cx, NoArguments {}| {
            let step = Arc::clone(&step);
            async move {
                for done in 1..=3 {
                    step.acquire().await.unwrap().forget();
                    cx.progress(Progress::new(f64::from(done))).await;
                }
                "done"
            }
        };
        let go_on = Arc::clone(&may_go_on);
        let later = move |cx: Cx, NoArguments {}| {
            let go_on = Arc::clone(&go_on);
            async move {
                cx.close_stream().await;
                go_on.acquire().await.unwrap().forget();
                "later"
            }
        };
        let server = server
            .tool(Tool::typed("kept", "Go step by step as a task", steps.clone()).task(TaskPolicy::always()))
            .tool(Tool::typed("steps", "Go step by step", steps))
            .tool(Tool::typed("later", "Answer later", later));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(server.dispatcher().unwrap(), listener, options, std::future::pending()));
        Self { address, may_go_on }
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn send(&self, request: http::request::Builder, body: String) -> Response<Incoming> {
        send_by(&mut self.connect().await, request, body).await
    }

    async fn greet(&self, revision: &str) -> Response<Incoming> {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        self.send(Request::post("/mcp"), body.to_string()).await
    }

    async fn initialize(&self, revision: &str) -> String {
        let response = self.greet(revision).await;
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn call(&self, session: &str, tool: &str) -> Events {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": {}, "_meta": {"progressToken": 7}}});
        Events::of(self.send(Request::post("/mcp").header("mcp-session-id", session), body.to_string()).await)
    }

    async fn get(&self, session: &str, last: &str) -> Response<Incoming> {
        let request = Request::get("/mcp").header("mcp-session-id", session).header("last-event-id", last);
        self.send(request, String::new()).await
    }

    /// The stream behind that event, which its first event names once more.
    async fn resume(&self, session: &str, last: &str) -> Events {
        let mut events = Events::of(self.get(session, last).await);
        assert_eq!(events.next().await, Some((last.to_owned(), String::new())));
        events
    }

    /// Asks something in a session, and gives the status.
    async fn ask(&self, session: &str) -> u16 {
        let list = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}).to_string();
        let request = Request::post("/mcp").header("mcp-session-id", session);
        self.send(request, list).await.status().as_u16()
    }

    /// Ends a session, and gives the status.
    async fn end(&self, session: &str) -> u16 {
        let request = Request::delete("/mcp").header("mcp-session-id", session);
        self.send(request, String::new()).await.status().as_u16()
    }
}

async fn send_by(
    connection: &mut SendRequest<Full<Bytes>>,
    request: http::request::Builder,
    body: String,
) -> Response<Incoming> {
    let request = request
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    connection.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
}

/// The events of a stream, one by one.
struct Events {
    body: Incoming,
    read: String,
}

impl Events {
    fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), read: String::new() }
    }

    /// The next event that is no comment: its id and its data; `None` at the end.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.read = rest;
                let field = |name: &str| {
                    let field = event.lines().find_map(|line| line.strip_prefix(name));
                    field.map(|value| value.trim_start().to_owned())
                };
                match field("data:") {
                    Some(data) => return Some((field("id:").unwrap_or_default(), data)),
                    None => continue,
                }
            }
            let frame = tokio::time::timeout(Duration::from_secs(30), self.body.frame()).await.unwrap()?;
            let Ok(frame) = frame else { return None };
            self.read.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }

    /// What is left of it: ids and messages.
    async fn rest(mut self) -> Vec<(String, Value)> {
        let mut rest = Vec::new();
        while let Some((id, data)) = self.next().await {
            rest.push((id, data.parse().unwrap()));
        }
        rest
    }
}

fn steps_of(events: &[(String, Value)]) -> Vec<f64> {
    events.iter().filter_map(|(_, message)| message["params"]["progress"].as_f64()).collect()
}

#[tokio::test]
async fn a_dropped_stream_is_resumed_where_it_broke_and_goes_on() {
    let host = Host::start(Options::default()).await;
    let session = host.initialize("2025-11-25").await;
    host.may_go_on.add_permits(1);
    let mut stream = host.call(&session, "steps").await;
    let (_, primes) = stream.next().await.unwrap();
    assert_eq!(primes, "", "the first event only has an id");
    let (last, _) = stream.next().await.unwrap();
    drop(stream);
    host.may_go_on.add_permits(1);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let resumed = host.resume(&session, &last).await;
    host.may_go_on.add_permits(1);
    let rest = resumed.rest().await;
    assert_eq!(steps_of(&rest), [2.0, 3.0], "what was missed, and what came since: {rest:?}");
    let (_, answer) = rest.last().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(1), &json!("done")));
    let again = host.resume(&session, &last).await.rest().await;
    assert_eq!(again, rest, "a stream that has ended is told to its end");
}

#[tokio::test]
async fn a_client_that_comes_back_early_takes_its_stream_over() {
    let host = Host::start(Options::default()).await;
    let session = host.initialize("2025-06-18").await;
    host.may_go_on.add_permits(1);
    let mut first = host.call(&session, "steps").await;
    let (last, data) = first.next().await.unwrap();
    assert!(data.contains("progress"), "this revision has no event without data: {data}");
    let second = Events::of(host.get(&session, &last).await);
    assert_eq!(first.next().await, None, "nothing is sent on two connections");
    host.may_go_on.add_permits(2);
    // Nor does it begin with one when it is resumed.
    assert_eq!(steps_of(&second.rest().await), [2.0, 3.0]);
}

#[tokio::test]
async fn a_client_that_is_let_go_before_anything_new_came_still_knows_what_it_had() {
    let host = Host::start(Options::default()).await;
    let session = host.initialize("2025-11-25").await;
    let (mut last, _) = host.call(&session, "steps").await.next().await.unwrap();
    // It knows of each connection only what came by that.
    for _ in 0..2 {
        let mut resumed = Events::of(host.get(&session, &last).await);
        last = resumed.next().await.unwrap().0;
    }
    host.may_go_on.add_permits(3);
    assert_eq!(steps_of(&host.resume(&session, &last).await.rest().await), [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn a_tool_lets_its_client_go_and_the_answer_is_there_when_it_comes_back() {
    let host = Host::start(Options::default().retry(Duration::from_millis(50))).await;
    let session = host.initialize("2025-11-25").await;
    let mut stream = host.call(&session, "later").await;
    let (last, data) = stream.next().await.unwrap();
    assert_eq!((data.as_str(), last.is_empty()), ("", false));
    assert_eq!(stream.next().await, None, "closed before the answer");
    host.may_go_on.add_permits(1);
    let rest = host.resume(&session, &last).await.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0].1["result"]["content"][0]["text"], "later");

    let older = host.initialize("2025-06-18").await;
    host.may_go_on.add_permits(1);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "later", "arguments": {}}});
    let response = host.send(Request::post("/mcp").header("mcp-session-id", older), body.to_string()).await;
    assert_eq!(response.headers()["content-type"], "application/json", "it would not know to come back");
}

#[tokio::test]
async fn s7_nobody_resumes_the_stream_of_another_session() {
    let host = Host::start(Options::default()).await;
    let (session, other) = (host.initialize("2025-11-25").await, host.initialize("2025-11-25").await);
    host.may_go_on.add_permits(3);
    let mut stream = host.call(&session, "steps").await;
    let (last, _) = stream.next().await.unwrap();
    for (session, last) in [(&other, last.as_str()), (&session, "nothing"), (&session, "a-1"), (&session, "")]
    {
        let refused = host.get(session, last).await;
        assert_eq!(refused.status().as_u16(), 400, "{last:?}");
    }
    let name = last.split_once('-').unwrap().0;
    assert_eq!(host.get(&session, &format!("{name}-999")).await.status().as_u16(), 400, "never sent");
    assert_eq!(host.get("nobody's", &last).await.status().as_u16(), 404);
}

#[tokio::test]
async fn the_oldest_stream_of_many_ends_and_can_be_resumed() {
    let host = Host::start(Options::default()).await;
    let session = host.initialize("2025-11-25").await;
    let mut streams = Vec::new();
    for _ in 0..9 {
        let request = Request::get("/mcp").header("mcp-session-id", &session);
        streams.push(Events::of(host.send(request, String::new()).await));
    }
    let (last, _) = streams[0].next().await.unwrap();
    assert_eq!(streams[0].next().await, None, "it has made room for the ninth");
    assert_eq!(host.get(&session, &last).await.status().as_u16(), 400, "nor does anything follow");
    for stream in &mut streams[1..] {
        stream.next().await.unwrap();
        let more = tokio::time::timeout(Duration::from_millis(20), stream.next()).await;
        assert!(more.is_err(), "it goes on: {more:?}");
    }
}

#[tokio::test]
async fn what_is_no_longer_kept_cannot_be_resumed() {
    let mut settings = Settings::default();
    settings.limits.max_stream_events = 2;
    let events = Memory::with(settings, Arc::new(SystemClock::new()));
    let host = Host::start(Options::default().events(events)).await;
    let session = host.initialize("2025-11-25").await;
    host.may_go_on.add_permits(3);
    let mut stream = host.call(&session, "steps").await;
    let (first, _) = stream.next().await.unwrap();
    while stream.next().await.is_some() {}
    assert_eq!(host.get(&session, &first).await.status().as_u16(), 400, "not with a gap");
}

#[tokio::test]
async fn without_sessions_every_answer_is_one_object_and_nothing_is_resumed() {
    let host = Host::start(Options::default().sessions(false)).await;
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let response = host.send(Request::post("/mcp"), body.to_string()).await;
    assert_eq!((response.status().as_u16(), response.headers().get("mcp-session-id")), (200, None));
    host.may_go_on.add_permits(3);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "steps", "arguments": {}, "_meta": {"progressToken": 7}}});
    let request = Request::post("/mcp").header("mcp-protocol-version", "2025-11-25");
    let response = host.send(request, body.to_string()).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(host.send(Request::post("/mcp"), notice).await.status().as_u16(), 202);
    assert_eq!(host.get("any", "a-1").await.status().as_u16(), 405);
}

#[tokio::test]
async fn every_answer_is_a_stream_where_that_is_asked_for() {
    let host = Host::start(Options::default().always_stream(true)).await;
    let session = host.initialize("2025-11-25").await;
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}).to_string();
    let response = host.send(Request::post("/mcp").header("mcp-session-id", &session), body).await;
    let mut stream = Events::of(response);
    let (first, _) = stream.next().await.unwrap();
    let (_, answer) = stream.next().await.unwrap();
    assert!(answer.contains(r#""id":5"#), "{answer}");
    assert_eq!(stream.next().await, None);
    assert_eq!(host.resume(&session, &first).await.rest().await.len(), 1);
}

/// Two nodes that share what they keep of sessions, as the processes of a fleet do.
async fn two_nodes(idle: Duration) -> (Host, Host) {
    let store = Memory::new();
    let options = || {
        let options = Options::default().session_idle(idle);
        options.events(store.another_node()).shared_sessions(store.another_node())
    };
    (Host::start(options()).await, Host::start(options()).await)
}

#[tokio::test]
async fn a_session_goes_on_at_another_node_and_so_does_its_stream() {
    let (one, other) = two_nodes(Duration::from_secs(60)).await;
    let session = one.initialize("2025-11-25").await;
    one.may_go_on.add_permits(1);
    let mut stream = one.call(&session, "steps").await;
    stream.next().await.unwrap();
    let (last, _) = stream.next().await.unwrap();
    drop(stream);
    let resumed = other.resume(&session, &last).await;
    one.may_go_on.add_permits(2);
    let rest = resumed.rest().await;
    assert_eq!(steps_of(&rest), [2.0, 3.0], "what the node sends that has the call: {rest:?}");
    assert_eq!(rest.last().unwrap().1["result"]["content"][0]["text"], "done");
    let end = &rest.last().unwrap().0;
    assert_eq!(other.get(&session, end).await.status().as_u16(), 400, "an answer is the end");
    // What belongs to no request comes by whichever node its client is at.
    let request = Request::get("/mcp").header("mcp-session-id", &session);
    let mut pushes = Events::of(one.send(request, String::new()).await);
    let (last, _) = pushes.next().await.unwrap();
    let mut resumed = other.resume(&session, &last).await;
    let (first, message) = resumed.next().await.unwrap();
    assert!(
        first.starts_with('p') && first != last && message.is_empty(),
        "it is come back to by this one: {first}"
    );
    let more = tokio::time::timeout(Duration::from_millis(50), resumed.next()).await;
    assert!(more.is_err(), "it goes on: {more:?}");
    // A call of its own, with what the handshake has settled.
    other.may_go_on.add_permits(3);
    let mut call = other.call(&session, "steps").await;
    call.next().await.unwrap();
    assert_eq!(steps_of(&call.rest().await), [1.0, 2.0, 3.0]);
    assert_eq!(other.get(&"0".repeat(32), &last).await.status().as_u16(), 404, "what nobody opened");
}

#[tokio::test]
async fn a_session_that_is_ended_at_one_node_ends_at_every_node() {
    let (one, other) = two_nodes(Duration::from_millis(300)).await;
    let session = one.initialize("2025-11-25").await;
    let list = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}).to_string();
    let ask = async |host: &Host| {
        let request = Request::post("/mcp").header("mcp-session-id", &session);
        host.send(request, list.clone()).await.status().as_u16()
    };
    assert_eq!((ask(&other).await, ask(&one).await), (200, 200));
    // Longer than either would leave it idle alone: it is still there.
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!((ask(&other).await, ask(&one).await), (200, 200));
    let gone = other.send(Request::delete("/mcp").header("mcp-session-id", &session), String::new()).await;
    assert_eq!(gone.status().as_u16(), 204);
    assert_eq!(ask(&other).await, 404);
    let mut looks = 0;
    while ask(&one).await != 404 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        looks += 1;
        assert!(looks < 1000, "it does not hear of it");
    }
}

/// By what a node shares its sessions: it counts, can be cut, and can be held up before it writes.
#[derive(Debug)]
struct Link {
    store: Memory,
    looks: AtomicUsize,
    writes: AtomicUsize,
    is_cut: AtomicBool,
    /// Whoever has it for itself lets nothing be written.
    gate: RwLock<()>,
}

impl Link {
    fn over<'a, T: Send + 'a>(&'a self, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if !self.is_cut.load(Ordering::SeqCst) {
            return doing;
        }
        let source = Arc::new(std::io::Error::other("the line is cut"));
        let place = "another machine".to_owned();
        Box::pin(std::future::ready(Err(StoreError::Unreachable { place, source })))
    }

    fn write<'a, T: Send + 'a>(&'a self, doing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let doing = self.over(doing);
        Box::pin(async move {
            self.writes.fetch_add(1, Ordering::SeqCst);
            let _open = self.gate.read().await;
            doing.await
        })
    }
}

impl Registry for Link {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.over(self.store.entry(key))
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: store::Value<'a>) -> StoreFuture<'a, Entry> {
        self.write(Registry::put(&self.store, key, value))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<store::Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        self.write(self.store.compare_and_set(key, expected, value))
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        self.over(self.store.names(holder, kind, after, limit))
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.over(self.store.sweep_entries(limit))
    }
}

/// Two nodes that share their sessions and their tasks, and by what the sessions.
async fn linked_nodes(options: impl Fn() -> Options) -> [(Host, Arc<Link>); 2] {
    let store = Memory::new();
    let node = async || {
        let link = Arc::new(Link {
            store: store.another_node(),
            looks: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
            gate: RwLock::new(()),
        });
        let options = options().events(store.another_node()).shared_sessions(Arc::clone(&link));
        let server = Server::new("test", "1.0.0").store(store.another_node());
        (Host::of(server, options).await, link)
    };
    [node().await, node().await]
}

#[tokio::test]
async fn a_session_that_goes_on_and_ends_elsewhere_does_not_come_back_where_it_began() {
    let (one, other) = two_nodes(Duration::from_secs(60)).await;
    let session = one.initialize("2025-11-25").await;
    assert_eq!((other.ask(&session).await, other.end(&session).await), (200, 204));
    assert_eq!((one.ask(&session).await, other.ask(&session).await), (404, 404));
}

#[tokio::test]
async fn who_writes_of_a_session_after_it_was_ended_does_not_bring_it_back() {
    let nodes = linked_nodes(Options::default).await;
    // First where it began, then where it is gone on with.
    for late in [0, 1] {
        let ((late, link), (prompt, _)) = (&nodes[late], &nodes[1 - late]);
        let session = nodes[0].0.initialize("2025-11-25").await;
        let (held_up, written) = (link.gate.write().await, link.writes.load(Ordering::SeqCst));
        let meanwhile = async {
            while link.writes.load(Ordering::SeqCst) == written {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let done = (prompt.ask(&session).await, prompt.end(&session).await);
            drop(held_up);
            done
        };
        assert_eq!(tokio::join!(late.ask(&session), meanwhile), (404, (200, 204)));
        assert_eq!((late.ask(&session).await, prompt.ask(&session).await), (404, 404));
    }
}

#[tokio::test]
async fn a_session_that_may_go_on_elsewhere_is_not_said_to_have_ended() {
    let [(one, link), (other, _)] = linked_nodes(Options::default).await;
    let session = one.initialize("2025-11-25").await;
    assert_eq!((one.ask(&session).await, other.ask(&session).await), (200, 200));
    link.is_cut.store(true, Ordering::SeqCst);
    assert_eq!(one.end(&session).await, 503);
    link.is_cut.store(false, Ordering::SeqCst);
    assert_eq!((one.end(&session).await, one.ask(&session).await), (204, 404));
}

#[tokio::test]
async fn no_session_is_opened_that_other_nodes_cannot_be_told_of() {
    let [(one, link), (other, _)] = linked_nodes(|| Options::default().max_sessions(1)).await;
    link.is_cut.store(true, Ordering::SeqCst);
    let refused = one.greet("2025-11-25").await;
    assert_eq!(refused.status().as_u16(), 503);
    assert!(refused.headers().contains_key("retry-after"), "{refused:?}");
    assert!(!refused.headers().contains_key("mcp-session-id"), "{refused:?}");
    link.is_cut.store(false, Ordering::SeqCst);
    let session = one.initialize("2025-11-25").await;
    assert_eq!((one.ask(&session).await, other.ask(&session).await), (200, 200), "and its place is free");
}

#[tokio::test]
async fn a_session_that_cannot_be_gone_on_with_now_is_not_said_to_be_unknown() {
    let [(one, _), (other, link)] = linked_nodes(|| Options::default().max_sessions(1)).await;
    let session = one.initialize("2025-11-25").await;
    assert_eq!(one.ask(&session).await, 200);
    link.is_cut.store(true, Ordering::SeqCst);
    assert_eq!(other.ask(&session).await, 503, "nobody knows");
    link.is_cut.store(false, Ordering::SeqCst);
    let its_own = other.initialize("2025-11-25").await;
    assert_eq!((other.ask(&its_own).await, other.ask(&session).await), (200, 429), "no room");
    assert_eq!((other.end(&its_own).await, other.ask(&session).await), (204, 200));
}

#[tokio::test]
async fn that_sessions_are_one_nodes_alone_for_want_of_room_is_said_once_with_what_to_do() {
    let log = longhaul_test::Log::of_this_thread();
    let mut settings = Settings::default();
    settings.limits.max_entries_per_owner = 1;
    let store = Memory::with(settings, Arc::new(SystemClock::new()));
    let node = async || Host::start(Options::default().shared_sessions(store.another_node())).await;
    let (one, other) = (node().await, node().await);
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(one.initialize("2025-11-25").await);
    }
    for (session, elsewhere) in sessions.iter().zip([200, 404, 404]) {
        assert_eq!((one.ask(session).await, other.ask(session).await), (200, elsewhere));
    }
    let said = log.text();
    let warned: Vec<_> = said.lines().filter(|line| line.contains("WARN")).collect();
    let [warned] = &warned[..] else { panic!("{warned:?}") };
    assert!(warned.contains("entries of this caller") && warned.contains("DELETE"), "{warned}");
}

#[tokio::test]
async fn a_session_that_is_used_is_looked_for_often_and_written_rarely() {
    let idle = Duration::from_secs(3);
    let [(one, link), _] = linked_nodes(|| Options::default().session_idle(idle)).await;
    let session = one.initialize("2025-11-25").await;
    let counts = || (link.looks.load(Ordering::SeqCst), link.writes.load(Ordering::SeqCst));
    assert_eq!((one.ask(&session).await, counts()), (200, (1, 2)), "its handshake, and that it is used");
    tokio::time::sleep(idle / 3).await;
    assert_eq!((one.ask(&session).await, counts()), (200, (2, 2)));
    let level =
        json!({"jsonrpc": "2.0", "id": 6, "method": "logging/setLevel", "params": {"level": "error"}});
    let chosen = one.send(Request::post("/mcp").header("mcp-session-id", &session), level.to_string()).await;
    assert_eq!(chosen.status().as_u16(), 200);
    tokio::time::sleep(idle / 3).await;
    assert_eq!((one.ask(&session).await, counts().1), (200, 3), "what has changed is told");
}

#[tokio::test]
async fn sessions_that_were_made_up_are_not_looked_for_without_end() {
    let [(one, link), _] = linked_nodes(Options::default).await;
    let there = one.initialize("2025-11-25").await;
    let options = Options::default().shared_sessions(Arc::clone(&link));
    let other = Host::bounded(options, PollOptions::default().each(1)).await;
    let before = link.looks.load(Ordering::SeqCst);
    // On this machine strangers are told apart by their connections.
    let mut connection = other.connect().await;
    let mut made_up = 0;
    let refused = loop {
        let request = Request::post("/mcp").header("mcp-session-id", format!("{made_up:032x}"));
        let response = send_by(&mut connection, request, "{}".to_owned()).await;
        let (parts, body) = response.into_parts();
        body.collect().await.unwrap();
        match parts.status.as_u16() {
            404 | 400 if made_up < 1000 => made_up += 1,
            429 => break parts,
            status => panic!("{status} after {made_up}"),
        }
    };
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert_eq!(link.looks.load(Ordering::SeqCst) - before, made_up, "who is refused has nothing read");
    assert_eq!(other.ask(&there).await, 200, "nobody else is refused");
}

#[tokio::test]
async fn a_request_of_a_revision_without_sessions_looks_for_none() {
    let [(one, link), _] = linked_nodes(Options::default).await;
    for (revision, looks) in [("2026-07-28", 0), ("2025-11-25", 1)] {
        let request = Request::post("/mcp").header("mcp-protocol-version", revision);
        one.send(request.header("mcp-session-id", "0".repeat(32)), "{}".to_owned()).await;
        assert_eq!(link.looks.load(Ordering::SeqCst), looks, "{revision}");
    }
}

#[tokio::test]
async fn a_session_of_a_revision_that_only_a_later_release_knows_is_not_gone_on_with() {
    let [(one, link), _] = linked_nodes(Options::default).await;
    let opened = one.initialize("2025-11-25").await;
    let owner = Owner::Anonymous;
    let entry = link.store.entry(EntryKey::of(&owner, "session", &opened)).await.unwrap().unwrap();
    let known = std::str::from_utf8(&entry.value).unwrap();
    let later = known.replace("2025-11-25", "2099-01-01");
    for (said, id, status) in [(known, "a".repeat(32), 200), (later.as_str(), "b".repeat(32), 404)] {
        let key = EntryKey::of(&owner, "session", &id);
        Registry::put(&link.store, key, store::Value::for_ever(said.as_bytes())).await.unwrap();
        assert_eq!(one.ask(&id).await, status, "{said}");
    }
}

/// Notes what it is told.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl SessionObserver for Notes {
    fn started(&self, session: &str) {
        self.0.lock().unwrap().push(format!("started {session}"));
    }

    fn ended(&self, session: &str) {
        self.0.lock().unwrap().push(format!("ended {session}"));
    }
}

#[tokio::test]
async fn sessions_are_observed_from_start_to_end() {
    let notes = Notes::default();
    let options = Options::default().session_observer(notes.clone());
    let host = Host::start(options.session_idle(Duration::from_millis(100))).await;
    let closed = host.initialize("2025-11-25").await;
    let idle = host.initialize("2025-11-25").await;
    let gone = host.send(Request::delete("/mcp").header("mcp-session-id", &closed), String::new()).await;
    assert_eq!(gone.status().as_u16(), 204);
    let expected = [("started", &closed), ("started", &idle), ("ended", &closed), ("ended", &idle)]
        .map(|(what, session)| format!("{what} {session}"));
    for _ in 0..100 {
        if notes.0.lock().unwrap().len() == expected.len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(*notes.0.lock().unwrap(), expected, "nobody had to ask for the idle one to end");
}

#[tokio::test]
async fn a_call_whose_node_is_gone_is_lost_and_answered_once_though_the_node_comes_back() {
    let [(one, link), (other, _)] = linked_nodes(Options::default).await;
    let session = one.initialize("2025-11-25").await;
    one.may_go_on.add_permits(1);
    let mut stream = one.call(&session, "steps").await;
    let (primed, _) = stream.next().await.unwrap();
    assert_eq!(other.ask(&session).await, 200);
    // As far as the others can see it is gone.
    link.is_cut.store(true, Ordering::SeqCst);
    let resumed = other.resume(&session, &primed).await.rest().await;
    let [(_, step), (_, lost)] = &resumed[..] else { panic!("{resumed:?}") };
    assert_eq!((&step["params"]["progress"], &lost["id"]), (&json!(1.0), &json!(1)));
    assert_eq!(lost["error"]["data"]["reason"], "worker_lost", "{lost}");
    link.is_cut.store(false, Ordering::SeqCst);
    one.may_go_on.add_permits(2);
    let rest = stream.rest().await;
    assert_eq!(steps_of(&rest), [1.0], "nobody is sent anything by two nodes: {rest:?}");
    for node in [&one, &other] {
        assert_eq!(
            node.resume(&session, &primed).await.rest().await,
            resumed,
            "one answer, wherever it is asked for"
        );
    }
}

#[tokio::test]
async fn a_call_whose_node_is_gone_is_not_answered_with_a_want_of_room_that_passes() {
    let [(one, link), (other, _)] = linked_nodes(|| Options::default().max_running(1)).await;
    let session = one.initialize("2025-11-25").await;
    let mut stream = one.call(&session, "kept").await;
    let (primed, _) = stream.next().await.unwrap();
    // The other has as much to do as it may have.
    let busy = other.initialize("2025-11-25").await;
    let mut busy = other.call(&busy, "steps").await;
    busy.next().await.unwrap();
    link.is_cut.store(true, Ordering::SeqCst);
    // The task goes on: whoever called is not to call again.
    let said = other.resume(&session, &primed).await.rest().await;
    assert!(said.iter().all(|(_, message)| message["method"] == "notifications/progress"), "{said:?}");
    other.may_go_on.add_permits(3);
    assert_eq!(steps_of(&busy.rest().await), [1.0, 2.0, 3.0]);
    one.may_go_on.add_permits(3);
    let resumed = other.resume(&session, &primed).await.rest().await;
    let (_, answer) = resumed.last().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{resumed:?}");
    assert_eq!(answer["id"], 1);
}

#[tokio::test]
async fn what_was_noted_of_a_request_is_no_stream() {
    let [(one, _), (other, _)] = linked_nodes(Options::default).await;
    let session = one.initialize("2025-11-25").await;
    let mut stream = one.call(&session, "steps").await;
    let (primed, _) = stream.next().await.unwrap();
    for node in [&one, &other] {
        assert_eq!(node.get(&session, &format!("n{primed}")).await.status().as_u16(), 400);
    }
}

#[tokio::test]
async fn what_was_cancelled_is_not_waited_for_at_another_node() {
    let [(one, _), (other, _)] = linked_nodes(Options::default).await;
    let session = one.initialize("2025-11-25").await;
    let mut stream = one.call(&session, "steps").await;
    let (primed, _) = stream.next().await.unwrap();
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let request = Request::post("/mcp").header("mcp-session-id", &session);
    assert_eq!(one.send(request, cancelled.to_string()).await.status().as_u16(), 202);
    assert_eq!(stream.next().await, None, "what was cancelled has no answer");
    for node in [&one, &other] {
        assert_eq!(node.get(&session, &primed).await.status().as_u16(), 400, "nor is it done again");
    }
}
