//! Layers around requests: for whom they are, what they refuse, and that nothing else changes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul::client::{CallOptions, Error, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::jsonrpc::Code;
use longhaul::proto::method::Method;
use longhaul::proto::model::{CallToolResult, Progress};
use longhaul::server::{Answered, Dispatcher, Principal};
use longhaul::service::{
    BoxError, Level, Metrics, Next, Outcome, PerCaller, Request, Response, Timeout, Trace,
};
use longhaul::transport::memory;
use longhaul::{Client, Cx, Server, Tool};
use longhaul_test::Log;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tower_layer::{Layer, layer_fn};
use tower_service::Service;

/// How many calls of `wait` have begun, and how many have ended by themselves.
#[derive(Default)]
struct Calls {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    millis: u64,
}

fn server(calls: &Arc<Calls>) -> Server {
    let calls = Arc::clone(calls);
    let wait = move |cx: Cx, Wait { millis }| {
        let calls = Arc::clone(&calls);
        async move {
            calls.begun.fetch_add(1, Ordering::SeqCst);
            cx.progress(Progress::new(1.0)).await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            calls.ended.fetch_add(1, Ordering::SeqCst);
            millis
        }
    };
    let double = Tool::typed("double", "Double", |_, Wait { millis }| async move { 2 * millis });
    Server::new("layered", "1.0.0").tool(Tool::typed("wait", "Wait", wait)).tool(double)
}

async fn client(dispatcher: &Dispatcher, who: &str, revision: Revision) -> Client {
    let target = memory::serve(dispatcher.clone(), Principal::new(who).unwrap());
    Client::connect_with(target, Options::default().revision(revision)).await.unwrap()
}

async fn call(client: &Client, tool: &str, millis: u64) -> Result<String, Error> {
    let answer = client.call(tool, &json!({"millis": millis})).await?;
    Ok(answer.content[0].as_text().unwrap_or_default().to_owned())
}

fn refusal(error: &Error) -> (i64, Option<Duration>) {
    match error {
        Error::Answer(error) => (error.code.0, error.retry_after()),
        other => panic!("{other:?}"),
    }
}

/// A layer of one's own: notes who passes, and begins the call a moment later if it is told to.
#[derive(Clone)]
struct Noting {
    inner: Next,
    name: &'static str,
    notes: Arc<Mutex<Vec<String>>>,
    later: bool,
}

impl Service<Request> for Noting {
    type Response = Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let item = request.item().unwrap_or("-");
        self.notes.lock().unwrap().push(format!("{} {:?} {item}", self.name, request.method()));
        let (mut inner, later) = (self.inner.clone(), self.later);
        Box::pin(async move {
            if later {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            inner.call(request).await
        })
    }
}

fn noting(
    name: &'static str,
    notes: &Arc<Mutex<Vec<String>>>,
    later: bool,
) -> impl Layer<Next, Service = Noting> + Send + Sync + 'static {
    let notes = Arc::clone(notes);
    layer_fn(move |inner| Noting { inner, name, notes: Arc::clone(&notes), later })
}

#[tokio::test]
async fn a_layer_is_for_its_level_and_the_first_is_the_outermost() {
    let notes = Arc::default();
    let dispatcher = server(&Arc::default())
        .layer(Level::Server, noting("server", &notes, false))
        .layer(Level::Method(Method::CallTool), noting("method", &notes, false))
        .layer(Level::item(Method::CallTool, "double"), noting("item", &notes, false))
        .dispatcher()
        .unwrap();
    let client = client(&dispatcher, "ann", Revision::V2026_07_28).await;
    notes.lock().unwrap().clear();
    client.list_tools().await.unwrap();
    assert_eq!(call(&client, "wait", 1).await.unwrap(), "1");
    assert_eq!(call(&client, "double", 4).await.unwrap(), "8");
    let noted = std::mem::take(&mut *notes.lock().unwrap());
    let expected = [
        "server ListTools -",
        "server CallTool wait",
        "method CallTool wait",
        "server CallTool double",
        "method CallTool double",
        "item CallTool double",
    ];
    assert_eq!(noted, expected);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_begins_behind_a_layer_is_heard_and_cancelled_as_any() {
    for later in [false, true] {
        for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
            let notes = Arc::default();
            let calls = Arc::default();
            let server = server(&calls).layer(Level::Server, noting("n", &notes, later));
            let dispatcher = server.dispatcher().unwrap();
            let client = client(&dispatcher, "ann", revision).await;
            let heard = Arc::new(Mutex::new(Vec::new()));
            let hear = Arc::clone(&heard);
            let options =
                CallOptions::default().on_progress(move |progress| hear.lock().unwrap().push(progress.value));
            let answer = client.call_with("wait", &json!({"millis": 30}), options).await.unwrap();
            assert_eq!(answer.content[0].as_text(), Some("30"));
            assert_eq!(*heard.lock().unwrap(), [1.0], "{later} {revision}");

            let abandoned = tokio::time::timeout(Duration::from_millis(100), call(&client, "wait", 250));
            assert!(abandoned.await.is_err());
            assert_eq!(calls.begun.load(Ordering::SeqCst), 2);
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(calls.ended.load(Ordering::SeqCst), 1, "{later} {revision}");
            client.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_ended_and_answered() {
    let slow = Level::item(Method::CallTool, "wait");
    let calls = Arc::default();
    let dispatcher =
        server(&calls).layer(slow, Timeout::new(Duration::from_millis(100))).dispatcher().unwrap();
    let client = client(&dispatcher, "ann", Revision::V2026_07_28).await;
    assert_eq!(call(&client, "wait", 1).await.unwrap(), "1");
    let error = call(&client, "wait", 400).await.unwrap_err();
    assert_eq!(refusal(&error).0, -32603);
    assert!(error.to_string().contains("longer than 0.1 s"), "{error}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(calls.ended.load(Ordering::SeqCst), 1, "its handler was dropped");
}

/// A4 of `conformance/REQUIREMENTS.md`.
#[tokio::test(start_paused = true)]
async fn each_caller_has_its_own_bounds() {
    let level = Level::Method(Method::CallTool);
    let limits = PerCaller::new().running(2).rate(3, Duration::from_millis(600));
    let dispatcher = server(&Arc::default()).layer(level, limits).dispatcher().unwrap();
    let ann = client(&dispatcher, "ann", Revision::V2026_07_28).await;
    let bob = client(&dispatcher, "bob", Revision::V2025_11_25).await;
    let (first, second, third) =
        tokio::join!(call(&ann, "wait", 100), call(&ann, "wait", 100), call(&ann, "double", 1));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(refusal(&third.unwrap_err()), (-31001, Some(Duration::from_secs(1))), "two run");

    call(&ann, "double", 1).await.unwrap();
    let (code, retry_after) = refusal(&call(&ann, "double", 1).await.unwrap_err());
    assert_eq!(code, -31001, "three in that time");
    assert!(retry_after.unwrap() <= Duration::from_millis(200), "{retry_after:?}");
    for _ in 0..3 {
        call(&bob, "double", 1).await.unwrap();
    }
    let (code, retry_after) = refusal(&call(&bob, "double", 1).await.unwrap_err());
    assert_eq!((code, retry_after.is_some()), (-32603, true), "in its revision's words");
    ann.list_tools().await.unwrap();
    tokio::time::sleep(retry_after.unwrap()).await;
    call(&ann, "double", 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_method_and_outcome() {
    let metrics = Metrics::new();
    let dispatcher = server(&Arc::default()).layer(Level::Server, metrics.clone()).dispatcher().unwrap();
    let client = client(&dispatcher, "ann", Revision::V2026_07_28).await;
    for millis in [1, 30] {
        call(&client, "wait", millis).await.unwrap();
    }
    call(&client, "nothing", 1).await.unwrap_err();
    let abandoned = tokio::time::timeout(Duration::from_millis(50), call(&client, "wait", 10_000));
    assert!(abandoned.await.is_err());
    while metrics.running() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let figures = metrics.figures();
    let of = |outcome| figures.iter().find(|f| f.method == Method::CallTool && f.outcome == outcome).unwrap();
    let answered = of(Outcome::Result);
    assert_eq!(answered.count, 2);
    assert!(answered.total >= Duration::from_millis(31), "{answered:?}");
    assert!(answered.within[4] <= 1 && answered.within[11] == 2, "{answered:?}");
    assert_eq!(of(Outcome::Error(Code::INVALID_PARAMS)).count, 1);
    assert_eq!(of(Outcome::Abandoned).count, 1);
    assert!(figures.iter().any(|f| f.method == Method::Discover));
}

#[tokio::test]
async fn an_error_that_is_not_for_callers_tells_them_nothing() {
    #[derive(Clone)]
    struct Failing;
    impl Service<Request> for Failing {
        type Response = Response;
        type Error = std::io::Error;
        type Future = std::future::Ready<Result<Response, std::io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
            Poll::Ready(Err(std::io::Error::other("the password is wrong")))
        }

        fn call(&mut self, _: Request) -> Self::Future {
            unreachable!("it is never ready")
        }
    }
    let failing = layer_fn(|_: Next| Failing);
    let dispatcher =
        server(&Arc::default()).layer(Level::Method(Method::CallTool), failing).dispatcher().unwrap();
    let client = client(&dispatcher, "ann", Revision::V2026_07_28).await;
    let error = call(&client, "double", 1).await.unwrap_err();
    assert_eq!(refusal(&error).0, -32603);
    assert!(!error.to_string().contains("password"), "{error}");
}

/// A layer of one's own that answers by itself.
#[derive(Clone)]
struct Closed;

impl Service<Request> for Closed {
    type Response = Response;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let arguments: Value = request.params().require("arguments").unwrap();
        let words = format!("{} is closed to {arguments}", request.item().unwrap_or_default());
        std::future::ready(Ok(request.answer(|result| CallToolResult::text(words).write(result))))
    }
}

#[tokio::test]
async fn a_layer_answers_by_itself() {
    let calls = Arc::default();
    let closed = layer_fn(|_: Next| Closed);
    let dispatcher =
        server(&calls).layer(Level::item(Method::CallTool, "wait"), closed).dispatcher().unwrap();
    for revision in [Revision::V2024_11_05, Revision::V2026_07_28] {
        let client = client(&dispatcher, "ann", revision).await;
        assert_eq!(call(&client, "wait", 1).await.unwrap(), r#"wait is closed to {"millis":1}"#);
        assert_eq!(call(&client, "double", 1).await.unwrap(), "2");
    }
    assert_eq!(calls.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_layer_is_tried_by_itself() {
    let dispatcher = server(&Arc::default()).dispatcher().unwrap();
    let params = json!({"name": "double", "arguments": {"millis": 2}});
    let request = || Request::new(&dispatcher, Revision::V2026_07_28, Method::CallTool, &params).unwrap();
    let mut bounded = PerCaller::new().rate(1, Duration::from_secs(60)).layer(Next::server());
    let ann = request().with_principal(Principal::new("ann").unwrap());
    assert_eq!((ann.item(), ann.method()), (Some("double"), Method::CallTool));
    let answer = bounded.call(ann).await.unwrap();
    assert_eq!(*answer.answered(), Answered::Result);
    let message: Value = serde_json::from_slice(answer.message()).unwrap();
    assert_eq!(message["result"]["content"][0]["text"], "4");
    let again = request().with_principal(Principal::new("ann").unwrap());
    assert!(bounded.call(again).await.is_err(), "ann has had her one request");

    let unknown = Request::new(&dispatcher, Revision::V2026_07_28, Method::Ping, &json!({}));
    assert_eq!(unknown.unwrap_err().code, Code::METHOD_NOT_FOUND);
    let array = Request::new(&dispatcher, Revision::V2026_07_28, Method::ListTools, &json!([1]));
    assert!(array.is_err(), "MCP has parameters by name only");
}

#[tokio::test]
async fn a_span_says_what_is_asked_and_nothing_of_what_it_carries() {
    let log = Log::of_this_thread();
    let dispatcher = server(&Arc::default()).layer(Level::Server, Trace).dispatcher().unwrap();
    let client = client(&dispatcher, "ann", Revision::V2026_07_28).await;
    call(&client, "double", 424_242).await.unwrap();
    let log = log.text();
    let line = log
        .lines()
        .find(|line| line.contains("CallTool") && line.contains("elapsed="))
        .unwrap_or_else(|| panic!("{log}"));
    for said in ["item=\"double\"", "revision=2026-07-28", "caller=ann", "outcome=Result", "elapsed="] {
        assert!(line.contains(said), "{said}: {line}");
    }
    assert!(!log.contains("424242") && !log.contains("848484"), "{log}");
}

#[tokio::test]
async fn a_layer_sees_the_callers_trace() {
    let dispatcher = server(&Arc::default()).dispatcher().unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let params = json!({"name": "double", "arguments": {"millis": 2}, "_meta": {"traceparent": parent}});
    let request = Request::new(&dispatcher, Revision::V2026_07_28, Method::CallTool, &params).unwrap();
    assert_eq!(request.trace_parent().unwrap().to_string(), parent);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_lasts_whatever_the_bounds_of_requests_are() {
    let dispatcher = server(&Arc::default())
        .dynamic()
        .0
        .layer(Level::Server, PerCaller::new().running(1))
        .layer(Level::Server, Timeout::new(Duration::from_millis(100)))
        .dispatcher()
        .unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let options = longhaul::driver::Options::default();
    let user = Principal::new("ann").unwrap();
    tokio::spawn(longhaul::driver::serve(dispatcher, user, reader, writer, options, std::future::pending()));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": Revision::V2026_07_28.as_str(),
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let mut lines = BufReader::new(ours);
    let mut ask = async |id: u8, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        lines.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        lines.read_line(&mut line).await.unwrap();
        line
    };
    let opened = ask(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    assert!(opened.contains("notifications/subscriptions/acknowledged"), "{opened}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let called = ask(2, "tools/call", json!({"name": "double", "arguments": {"millis": 1}})).await;
    assert!(called.contains(r#""id":2"#) && called.contains(r#""text":"2""#), "{called}");
}
