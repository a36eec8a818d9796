//! Streams of sessions that are dropped, or let go by the server, and resumed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use longhaul::proto::model::Progress;
use longhaul::store::{Memory, Settings, SystemClock};
use longhaul::transport::http::server::{Options, SessionObserver, serve};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

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
        let server = Server::new("test", "1.0.0")
            .tool(Tool::typed("steps", "Go step by step", steps))
            .tool(Tool::typed("later", "Answer later", later));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(server.dispatcher().unwrap(), listener, options, std::future::pending()));
        Self { address, may_go_on }
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

    async fn initialize(&self, revision: &str) -> String {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let response = self.send(Request::post("/mcp"), body.to_string()).await;
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

    async fn resume(&self, session: &str, last: &str) -> Events {
        Events::of(self.get(session, last).await)
    }
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
    let second = host.resume(&session, &last).await;
    assert_eq!(first.next().await, None, "nothing is sent on two connections");
    host.may_go_on.add_permits(2);
    assert_eq!(steps_of(&second.rest().await), [2.0, 3.0]);
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
    assert_eq!(host.resume(&session, &last).await.next().await, None, "nothing was missed");
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
