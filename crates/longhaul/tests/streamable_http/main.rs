//! Streamable HTTP as a client meets it: statuses, headers, sessions, streams.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{Progress, ResourceTemplate};
use longhaul::server::{Failure, ReadFuture, Resources, TaskMode, TaskPolicy, not_found};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use rig::{Echo, Host, body, events, header, modern_params, read, text, wait};

mod half_closed;
mod mounted;
mod orphans;
mod page;
mod parts;
mod proxy;
mod questions;
mod rig;

#[tokio::test]
async fn a_quick_call_is_one_json_answer() {
    let host = Host::start(|_| ()).await;
    let response = host.call("echo", json!({"message": "hi"})).await;
    assert_eq!((response.status(), header(&response, "content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(response.headers().get("mcp-session-id"), None);
    let answer = read(response).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    assert_eq!(answer["result"]["resultType"], "complete");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Placed {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

#[tokio::test]
async fn an_argument_that_its_tool_marks_must_stand_in_its_header_too() {
    let placed = Tool::typed("placed", "Say where", |_, Placed { region }| async move { region });
    let host = Host::start_with(Server::new("test", "1.0.0").tool(placed), |_| ()).await;
    let call = async |values: &[&str]| {
        let mut request = host
            .post()
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "placed");
        for value in values {
            request = request.header("mcp-param-REGION", value.as_bytes());
        }
        let params = modern_params(json!({"name": "placed", "arguments": {"region": "Zürich"}}));
        let response = host.send(request.body(body("tools/call", params)).unwrap()).await;
        (response.status().as_u16(), read(response).await)
    };
    let right = "=?base64?WsO8cmljaA==?=";
    let (status, answer) = call(&[right]).await;
    assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("Zürich")));
    for wrong in [&[][..], &["Basel"], &["Zürich"], &["=?base64?WsO8cmljaA=?="], &[right, right]] {
        let (status, answer) = call(wrong).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{wrong:?} {answer}");
    }
}

#[tokio::test]
async fn a_notification_turns_the_answer_into_a_stream() {
    let host = Host::start(|_| ()).await;
    let messages = events(host.call("wait", json!({"millis": 30})).await).await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["params"], json!({"progressToken": "p", "progress": 1.0}));
    assert_eq!(messages[1]["result"]["content"][0]["text"], "waited");
}

#[tokio::test]
async fn silence_turns_the_answer_into_a_stream() {
    let host = Host::start(|options| options.stream_after = Duration::from_millis(20)).await;
    let messages = events(host.call("wait", json!({"millis": 200, "quiet": true})).await).await;
    assert_eq!(messages.len(), 1);
}

#[tokio::test]
async fn a_caller_that_takes_only_json_gets_only_json() {
    let host = Host::start(|options| options.stream_after = Duration::from_millis(20)).await;
    let params = modern_params(json!({"name": "wait", "arguments": {"millis": 100}}));
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json; charset=utf-8")
        .header("accept", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "wait");
    let response = host.send(request.body(body("tools/call", params)).unwrap()).await;
    assert_eq!(read(response).await["result"]["content"][0]["text"], "waited");
}

#[tokio::test]
async fn modern_refusals_have_the_status_the_specification_gives_them() {
    let host = Host::start(|_| ()).await;
    let check = async |response: Response<Incoming>, status: u16, code: i64| {
        assert_eq!(response.status().as_u16(), status);
        let answer = read(response).await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &json!(1)), "{answer}");
        answer
    };
    check(host.modern("unknown/method", None, json!({})).await, 404, -32601).await;
    check(host.modern("ping", None, json!({})).await, 404, -32601).await;
    check(host.modern("initialize", None, json!({})).await, 404, -32601).await;
    check(host.call("nothing", json!({})).await, 200, -32602).await;

    let headers = |version: &str, method: &str| {
        host.post().header("mcp-protocol-version", version).header("mcp-method", method)
    };
    let list = |version: &str| {
        let mut params = modern_params(json!({}));
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = version.into();
        body("tools/list", params)
    };
    let unsupported = headers("v999", "tools/list").body(list("v999")).unwrap();
    let answer = check(host.send(unsupported).await, 400, -32022).await;
    assert_eq!(answer["error"]["data"]["requested"], "v999");
    let mismatch = headers("2026-07-28", "tools/list").body(list("v999")).unwrap();
    check(host.send(mismatch).await, 400, -32020).await;
    let mismatch = headers("2026-07-28", "tools/call").body(list("2026-07-28")).unwrap();
    check(host.send(mismatch).await, 400, -32020).await;
    let headerless = host.post().body(list("2026-07-28")).unwrap();
    check(host.send(headerless).await, 400, -32020).await;
    let bare = headers("2026-07-28", "tools/list").body(body("tools/list", json!({}))).unwrap();
    check(host.send(bare).await, 400, -32602).await;
    let bare = headers("2026-07-28", "tools/list").body(body("tools/list", json!({"_meta": 5}))).unwrap();
    check(host.send(bare).await, 400, -32602).await;
}

#[tokio::test]
async fn what_is_no_message_is_refused_before_it_is_read() {
    let host = Host::start(|options| options.limits.max_bytes = 1000).await;
    let status = async |request: Request<Full<Bytes>>| host.send(request).await.status().as_u16();
    let ok = || body("ping", json!({}));
    assert_eq!(status(host.post().body("{".into()).unwrap()).await, 400);
    assert_eq!(status(host.post().body("x".repeat(1001).into()).unwrap()).await, 413);
    let typed = |content_type: &str, accept: &str| {
        let request = Request::post("/mcp").header("host", "localhost");
        request.header("content-type", content_type).header("accept", accept).body(ok()).unwrap()
    };
    assert_eq!(status(typed("text/plain", "*/*")).await, 415);
    assert_eq!(status(typed("application/json", "text/html")).await, 406);
    assert_eq!(status(typed("application/json", "*/*")).await, 200);
    let from = |host: &str, origin: &str| {
        let request = Request::post("/mcp").header("host", host).header("origin", origin);
        request.header("content-type", "application/json").body(ok()).unwrap()
    };
    assert_eq!(status(from("localhost", "http://localhost:3000")).await, 200);
    assert_eq!(status(from("evil.example", "http://localhost")).await, 403);
    assert_eq!(status(from("localhost", "http://evil.example")).await, 403);
    assert_eq!(status(from("localhost", "null")).await, 403);
    let elsewhere = Request::post("/other").header("host", "localhost").body(ok()).unwrap();
    assert_eq!(status(elsewhere).await, 404);
    let put = Request::put("/mcp").header("host", "localhost").body(ok()).unwrap();
    assert_eq!(status(put).await, 405);
}

#[tokio::test]
async fn a_session_is_opened_used_and_closed() {
    let host = Host::start(|_| ()).await;
    let session = host.initialize().await;
    assert!(session.bytes().all(|b| b.is_ascii_graphic()));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(host.in_session(&session, initialized.into()).await.status(), StatusCode::ACCEPTED);
    let answer = read(host.in_session(&session, body("ping", json!({}))).await).await;
    assert_eq!(answer["result"], json!({}));
    let call = json!({"name": "echo", "arguments": {"message": "hi"}});
    let answer = read(host.in_session(&session, body("tools/call", call)).await).await;
    assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "hi"}]}));

    let delete = |session: &str| {
        let request = Request::delete("/mcp").header("host", "localhost").header("mcp-session-id", session);
        request.body(Full::default()).unwrap()
    };
    assert_eq!(host.send(delete(&session)).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(host.send(delete(&session)).await.status(), StatusCode::NOT_FOUND);
    let response = host.in_session(&session, body("tools/list", json!({}))).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let response = host.send(host.post().body(body("tools/list", json!({}))).unwrap()).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_session_outlives_its_connections_and_its_calls_do_too() {
    let host = Host::start(|_| ()).await;
    let session = host.initialize().await;
    let params = json!({"name": "wait", "arguments": {"millis": 300}, "_meta": {"progressToken": 7}});
    let response = host.in_session(&session, body("tools/call", params.clone())).await;
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    drop(response);
    let again = host.in_session(&session, body("tools/call", params.clone())).await;
    assert_eq!(read(again).await["error"]["code"], -32600, "the first call is still open under its id");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let messages = events(host.in_session(&session, body("tools/call", params)).await).await;
    assert_eq!(messages.len(), 2, "its id is free once it has ended");
}

#[tokio::test]
async fn a_call_of_a_session_can_be_cancelled() {
    let host = Host::start(|_| ()).await;
    let session = host.initialize().await;
    let params = json!({"name": "wait", "arguments": {"millis": 60_000}, "_meta": {"progressToken": 7}});
    let response = host.in_session(&session, body("tools/call", params)).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    host.in_session(&session, cancel.to_string().into()).await;
    assert_eq!(events(response).await.len(), 1, "the progress, and no answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_comes_while_a_call_begins_ends_it() {
    let (sender, mut dropped) = tokio::sync::mpsc::unbounded_channel::<()>();
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel::<()>();
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let tool = Tool::typed("slow_to_begin", "Begin", move |_: Cx, _: serde_json::Map<String, Value>| {
        let (on_drop, began, gate) = (OnDrop(sender.clone()), began.clone(), gate.clone());
        async move {
            let _on_drop = on_drop;
            began.send(()).unwrap();
            // Its first poll, within which the cancel comes.
            tokio::task::block_in_place(|| gate.lock().unwrap().recv().unwrap());
            std::future::pending::<&'static str>().await
        }
    });
    let host = Host::start_with(Server::new("test", "1.0.0").tool(tool), |_| ()).await;
    let session = host.initialize().await;
    let call = body("tools/call", json!({"name": "slow_to_begin", "arguments": {}}));
    let response = host.in_session(&session, call);
    let cancelling = async {
        begun.recv().await.unwrap();
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        let cancelled = host.in_session(&session, cancel.to_string().into()).await;
        assert_eq!(cancelled.status(), StatusCode::ACCEPTED);
        go_on.send(()).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(10), dropped.recv()).await;
        assert_eq!(ended, Ok(Some(())));
    };
    let (_, ()) = tokio::join!(response, cancelling);
}

struct OnDrop(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn closing_a_modern_stream_cancels_its_call() {
    let (sender, mut dropped) = tokio::sync::mpsc::unbounded_channel::<()>();
    let tool = Tool::typed("hang", "Hang", move |cx: Cx, _: serde_json::Map<String, Value>| {
        let on_drop = OnDrop(sender.clone());
        async move {
            let _on_drop = on_drop;
            cx.progress(Progress::new(1.0)).await;
            std::future::pending::<&'static str>().await
        }
    });
    let host = Host::start_with(Server::new("test", "1.0.0").tool(tool), |_| ()).await;
    let response = host.call("hang", json!({})).await;
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    assert!(dropped.try_recv().is_err(), "it runs while somebody listens");
    drop(response);
    let ended = tokio::time::timeout(Duration::from_secs(10), dropped.recv()).await;
    assert_eq!(ended, Ok(Some(())));
}

#[tokio::test]
async fn sessions_are_bounded() {
    let host = Host::start(|options| options.max_sessions = 1).await;
    let first = host.initialize().await;
    let second = host.initialize().await;
    assert_eq!(
        host.in_session(&first, body("ping", json!({}))).await.status(),
        404,
        "it was not followed up"
    );
    assert_eq!(host.in_session(&second, body("ping", json!({}))).await.status(), 200);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}});
    let response = host.send(host.post().body(body("initialize", params)).unwrap()).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&response, "retry-after"), "5");
    let error = &read(response).await["error"];
    assert_eq!((&error["code"], &error["data"]["retryAfterMs"]), (&json!(-32603), &json!(5000)), "{error}");
}

#[tokio::test]
async fn what_runs_is_bounded_across_connections_and_sessions() {
    let host = Host::start(|options| options.max_running = 1).await;
    let session = host.initialize().await;
    let wait = json!({"name": "wait", "arguments": {"millis": 400}, "_meta": {"progressToken": 7}});
    let lost = host.in_session(&session, body("tools/call", wait)).await;
    drop(lost);
    let other = host.initialize().await;
    let echo = json!({"name": "echo", "arguments": {"message": "hi"}});
    let refused = host.in_session(&other, body("tools/call", echo.clone())).await;
    assert_eq!(refused.status(), StatusCode::OK, "the legacy era has one status for all answers");
    let error = &read(refused).await["error"];
    assert_eq!((&error["code"], &error["data"]["retryAfterMs"]), (&json!(-32603), &json!(5000)), "{error}");
    let refused = host.call("echo", json!({"message": "hi"})).await;
    assert_eq!((refused.status(), header(&refused, "retry-after")), (StatusCode::TOO_MANY_REQUESTS, "5"));
    let error = &read(refused).await["error"];
    assert_eq!((&error["code"], &error["data"]["retryAfterMs"]), (&json!(-31001), &json!(5000)), "{error}");
    tokio::time::sleep(Duration::from_millis(600)).await;
    let answer = read(host.in_session(&other, body("tools/call", echo)).await).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "the call without a connection has ended");
}

/// A server whose tool `slow` is always a task, and room for one exchange.
async fn crowded() -> Host {
    let mut policy = TaskPolicy::new(TaskMode::After(Duration::from_millis(10)));
    policy.hold = Some(Duration::from_millis(50));
    let slow = Tool::typed("slow", "Slow", wait).task(policy);
    let echo = Tool::typed("echo", "Echo", |_, Echo { message }| async move { message });
    let server = Server::new("test", "1.0.0").tool(slow).tool(echo);
    Host::start_with(server, |options| options.max_running = 1).await
}

/// A task that runs for a minute, and its session.
async fn slow_task(host: &Host) -> (String, String) {
    let session = host.initialize().await;
    let slow = json!({"name": "slow", "arguments": {"millis": 60_000, "quiet": true}});
    let answer = read(host.in_session(&session, body("tools/call", slow)).await).await;
    (session, answer["result"]["structuredContent"]["taskId"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_mere_wait_that_nobody_can_come_back_to_makes_room() {
    let host = crowded().await;
    let (session, task) = slow_task(&host).await;
    let waits = [
        ("tasks/result", json!({"taskId": task})),
        ("tools/call", json!({"name": "task_wait", "arguments": {"id": task, "up_to": 3600}})),
    ];
    for (method, params) in waits {
        let request = Request::post("/mcp")
            .header("host", host.address.to_string())
            .header("content-type", "application/json")
            // No stream: what is lost with its connection cannot be come back to.
            .header("accept", "application/json")
            .header("mcp-session-id", &session)
            .header("mcp-protocol-version", "2025-11-25");
        let waiting = host.send(request.body(body(method, params)).unwrap());
        tokio::time::timeout(Duration::from_millis(300), waiting).await.expect_err("it waits");
        let echo = json!({"name": "echo", "arguments": {"message": "hi"}});
        let heard = async {
            while read(host.call("echo", echo["arguments"].clone()).await).await["error"].is_object() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), heard).await.expect("there is room again");
    }
}

#[tokio::test]
async fn tasks_are_asked_after_and_cancelled_whatever_runs() {
    let host = crowded().await;
    let (session, task) = slow_task(&host).await;
    let waiting = host.in_session(&session, body("tasks/result", json!({"taskId": task})));
    let asking = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let refused = host.call("echo", json!({"message": "hi"})).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let other = host.initialize().await;
        for (method, params) in [
            ("ping", json!({})),
            ("tools/list", json!({})),
            ("tasks/get", json!({"taskId": task})),
            ("tasks/cancel", json!({"taskId": task})),
        ] {
            let answer = read(host.in_session(&other, body(method, params)).await).await;
            assert!(answer["result"].is_object(), "{method}: {answer}");
        }
        assert_eq!(host.modern("server/discover", None, json!({})).await.status(), StatusCode::OK);
    };
    let (waited, ()) = tokio::join!(waiting, asking);
    drop(waited);
}

#[tokio::test]
async fn r2_24_who_asks_after_a_task_gets_one_object_where_all_else_is_a_stream() {
    let build = Tool::typed("build", "Build", wait).task(TaskPolicy::always());
    let server = Server::new("test", "1.0.0").tool(build);
    let host = Host::start_with(server, |options| options.always_stream = true).await;
    let session = host.initialize().await;
    let call = json!({"name": "build", "arguments": {"millis": 60_000, "quiet": true}, "task": {}});
    let created = text(host.in_session(&session, body("tools/call", call)).await).await;
    let mut data = created.lines().filter_map(|line| line.strip_prefix("data: "));
    let created: Value = data.next_back().unwrap_or_else(|| panic!("no stream: {created}")).parse().unwrap();
    let task = json!({"taskId": created["result"]["task"]["taskId"]});
    let answer = host.in_session(&session, body("tasks/get", task)).await;
    assert_eq!(header(&answer, "content-type"), "application/json");
    assert_eq!(read(answer).await["result"]["status"], "working");
}

#[tokio::test]
async fn silent_connections_make_room_and_busy_ones_do_not() {
    let host = Host::start(|options| {
        options.max_connections = 4;
        options.header_timeout = Duration::from_secs(600);
    })
    .await;
    let busy = host.call("wait", json!({"millis": 500})).await;
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(TcpStream::connect(host.address).await.unwrap());
    }
    let echo = host.call("echo", json!({"message": "hi"}));
    let answer = tokio::time::timeout(Duration::from_secs(60), echo).await.expect("there is room");
    assert_eq!(read(answer).await["result"]["content"][0]["text"], "hi");
    assert_eq!(events(busy).await.len(), 2);
}

/// Resources of which none is there, and the one called `busy` cannot be read just now.
#[derive(Debug)]
struct Nothing;

impl Resources for Nothing {
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    fn has(&self, _: &str) -> bool {
        true
    }

    fn read<'a>(&'a self, _: Cx, uri: &'a str) -> ReadFuture<'a> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Err(if uri == "x:busy" {
                ErrorObject::overloaded("busy", Duration::from_millis(1200))
            } else {
                not_found(uri)
            })
        })
    }
}

#[tokio::test]
async fn a_resource_that_is_not_there_has_each_revisions_code() {
    let host = Host::start_with(Server::new("test", "1").resources(Arc::new(Nothing)), |_| ()).await;
    let modern = host.modern("resources/read", Some("x:y"), json!({"uri": "x:y"})).await;
    assert_eq!(modern.status(), StatusCode::OK);
    let error = &read(modern).await["error"];
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!("x:y")), "{error}");
    let session = host.initialize().await;
    let legacy = host.in_session(&session, body("resources/read", json!({"uri": "x:y"}))).await;
    let error = &read(legacy).await["error"];
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32002), &json!("x:y")), "{error}");
}

#[tokio::test]
async fn an_overload_found_late_has_its_status_too() {
    let host = Host::start_with(Server::new("test", "1").resources(Arc::new(Nothing)), |_| ()).await;
    let busy = host.modern("resources/read", Some("x:busy"), json!({"uri": "x:busy"})).await;
    assert_eq!((busy.status(), header(&busy, "retry-after")), (StatusCode::TOO_MANY_REQUESTS, "2"));
    assert_eq!(read(busy).await["error"]["data"]["retryAfterMs"], 1200);
}

#[tokio::test]
async fn an_idle_session_ends_and_one_in_use_does_not() {
    let host = Host::start(|options| options.session_idle = Duration::from_millis(150)).await;
    let (idle, used) = (host.initialize().await, host.initialize().await);
    let params = json!({"name": "wait", "arguments": {"millis": 300}});
    let response = host.in_session(&used, body("tools/call", params)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await.matches("waited").count(), 1);
    let ping = body("ping", json!({}));
    assert_eq!(host.in_session(&idle, ping.clone()).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(host.in_session(&used, ping).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn get_opens_a_sessions_stream_and_nothing_else() {
    let host = Host::start(|_| ()).await;
    let get = |session: Option<&str>, accept: &str| {
        let request = Request::get("/mcp").header("host", "localhost").header("accept", accept);
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        request.body(Full::default()).unwrap()
    };
    let events = "text/event-stream";
    assert_eq!(host.send(get(None, events)).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(host.send(get(Some("nobody's"), events)).await.status(), StatusCode::NOT_FOUND);
    let session = host.initialize().await;
    assert_eq!(host.send(get(Some(&session), "application/json")).await.status(), StatusCode::NOT_ACCEPTABLE);
    let first = host.send(get(Some(&session), events)).await;
    assert_eq!(first.status(), StatusCode::OK);
    let second = host.send(get(Some(&session), events)).await;
    assert_eq!(second.status(), StatusCode::OK);
    for stream in [first, second] {
        let mut body = stream.into_body();
        let primed = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let primed = std::str::from_utf8(&primed).unwrap();
        assert!(primed.starts_with("id: ") && primed.ends_with("\nretry: 1000\ndata:\n\n"), "{primed:?}");
        let end = tokio::time::timeout(Duration::from_millis(50), body.frame()).await;
        assert!(end.is_err(), "neither ends the other");
    }
}

#[tokio::test]
async fn stopping_hands_held_calls_over() {
    let policy = TaskPolicy::new(TaskMode::After(Duration::from_secs(20)));
    let hang = |_: Cx, _: serde_json::Map<String, Value>| std::future::pending::<&'static str>();
    let server = Server::new("test", "1.0.0").tool(Tool::typed("hang", "Hang", hang).task(policy));
    let mut host = Host::start_with(server, |_| ()).await;
    let stop = host.stop.take().unwrap();
    let (response, ()) = tokio::join!(host.call("hang", json!({})), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.send(()).unwrap();
    });
    let answer = read(response).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("task_wait"), "{text}");
    host.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn stopping_lets_open_answers_end() {
    let mut host = Host::start(|_| ()).await;
    let response = host.call("wait", json!({"millis": 200})).await;
    host.stop.take().unwrap().send(()).unwrap();
    let messages = events(response).await;
    assert_eq!(messages.len(), 2, "the call under way has its answer");
    host.served.await.unwrap().unwrap();
    assert!(TcpStream::connect(host.address).await.is_err());
}

#[tokio::test]
async fn an_answer_that_does_not_end_in_time_is_an_error_at_the_end_of_its_stream() {
    let mut host = Host::start(|options| options.drain = Duration::from_millis(100)).await;
    let session = host.initialize().await;
    let call = body("tools/call", json!({"name": "wait", "arguments": {"millis": 60_000}}));
    let responses =
        [host.call("wait", json!({"millis": 60_000})).await, host.in_session(&session, call).await];
    host.stop.take().unwrap().send(()).unwrap();
    for response in responses {
        let messages = events(response).await;
        let last = messages.last().unwrap();
        assert_eq!(last["error"]["code"], -32603, "{messages:?}");
        assert_eq!(last["error"]["data"], json!({"reason": "stopping"}), "nobody says to call again");
    }
    host.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_cannot_take_a_task_is_told_what_to_declare() {
    let required = Tool::typed("wait", "Wait", wait).task(TaskPolicy::new(TaskMode::Required));
    let host = Host::start_with(Server::new("test", "1.0.0").tool(required), |_| ()).await;
    let response = host.call("wait", json!({"millis": 0})).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(read(response).await["error"]["code"], -32021);
}

#[tokio::test]
async fn a_strangers_task_is_kept_for_a_day_at_most() {
    let mut policy = TaskPolicy::always();
    policy.ttl = Duration::from_secs(30 * 24 * 3600);
    let tool = Tool::typed("wait", "Wait", wait).task(policy);
    let host = Host::start_with(Server::new("test", "1.0.0").tool(tool), |_| ()).await;
    let ask = async |method: &str, name: &str, params: Value| {
        let mut params = modern_params(params);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let request = host.post().header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        let request = request.header("mcp-name", name).body(body(method, params)).unwrap();
        read(host.send(request).await).await
    };
    let arguments = json!({"millis": 0, "quiet": true});
    let created = ask("tools/call", "wait", json!({"name": "wait", "arguments": arguments})).await;
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    let ttl = loop {
        let task = ask("tasks/get", id, json!({"taskId": id})).await;
        if task["result"]["status"] == "completed" {
            break task["result"]["ttlMs"].as_u64().unwrap();
        }
    };
    let day = 24 * 3_600_000;
    assert!((day..day + 600_000).contains(&ttl), "{ttl}");
}

/// Everything two streams brought of a change of the tools, until the server stopped.
#[tokio::test]
async fn changes_reach_a_sessions_stream_and_a_subscription() {
    let (server, catalogue) = Server::new("test", "1.0.0").dynamic();
    let mut host = Host::start_with(server, |options| options.stream_after = Duration::from_millis(20)).await;
    let session = host.initialize().await;
    let get = Request::get("/mcp").header("host", "localhost").header("accept", "text/event-stream");
    let pushed = host.send(get.header("mcp-session-id", &session).body(Full::default()).unwrap()).await;
    let filter = json!({"notifications": {"toolsListChanged": true, "resourcesListChanged": true}});
    let listening = host.modern("subscriptions/listen", None, filter).await;
    let echo = Tool::typed("echo", "Echo", |_, Echo { message }| async move { message });
    catalogue.add(echo).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    host.stop.take().unwrap().send(()).unwrap();

    let pushed = events(pushed).await;
    assert_eq!(pushed.len(), 1, "{pushed:?}");
    assert_eq!(pushed[0]["method"], "notifications/tools/list_changed");
    let heard = events(listening).await;
    let subscription = |message: &Value| message["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert_eq!(heard[0]["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(heard[1]["method"], "notifications/tools/list_changed");
    assert_eq!(heard[2]["result"]["resultType"], "complete");
    for message in [&heard[0]["params"], &heard[1]["params"], &heard[2]["result"]] {
        assert_eq!(subscription(message), 1, "{message}");
    }
    host.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_subscription_needs_a_stream_and_no_place_among_the_running() {
    let (server, _catalogue) = Server::new("test", "1.0.0").dynamic();
    let host = Host::start_with(server, |options| options.max_running = 0).await;
    let params = modern_params(json!({"notifications": {}}));
    let ask = |accept: &str| {
        let request =
            Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        let request = request.header("accept", accept).header("mcp-protocol-version", "2026-07-28");
        let request = request.header("mcp-method", "subscriptions/listen");
        request.body(body("subscriptions/listen", params.clone())).unwrap()
    };
    assert_eq!(host.send(ask("application/json")).await.status(), StatusCode::NOT_ACCEPTABLE);
    let streams = host.send(ask("application/json, text/event-stream")).await;
    assert_eq!((streams.status(), header(&streams, "content-type")), (StatusCode::OK, "text/event-stream"));
}

#[tokio::test]
async fn a_method_of_ones_own_takes_a_place_among_the_running() {
    let server = Server::new("test", "1.0.0");
    let server = server.method("weather/now", |_, _: Value| async { Ok::<_, Failure>(json!({})) });
    let host = Host::start_with(server, |options| options.max_running = 0).await;
    let refused = host.modern("weather/now", None, json!({})).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let session = host.initialize().await;
    let refused = read(host.in_session(&session, body("weather/now", json!({}))).await).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
}

/// Opens a session of the revision that has batches.
async fn batching(host: &Host, revision: &str) -> String {
    let params = json!({"protocolVersion": revision, "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}});
    let response = host.send(host.post().body(body("initialize", params)).unwrap()).await;
    header(&response, "mcp-session-id").to_owned()
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[tokio::test]
async fn a_batch_is_answered_in_one_array_or_in_one_stream() {
    let host = Host::start(|_| ()).await;
    let session = batching(&host, "2025-03-26").await;
    let send = async |session: &str, batch: Value| {
        let request = host.post().header("mcp-session-id", session);
        host.send(request.body(batch.to_string().into()).unwrap()).await
    };
    let quick = json!([call(1, "echo", json!({"message": "a"})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {}},
        {"jsonrpc": "1.0", "id": 3, "method": "ping"},
        call(4, "echo", json!({"message": "b"}))]);
    let answers = read(send(&session, quick).await).await;
    let answers: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (answer["id"].as_u64().unwrap(), answer["error"]["code"].as_i64()))
        .collect();
    assert_eq!(answers, [(1, None), (2, Some(-32600)), (3, Some(-32600)), (4, None)]);
    let slow = json!([
        call(1, "echo", json!({"message": "a"})),
        call(2, "wait", json!({"millis": 50})),
        call(3, "wait", json!({"millis": 20}))
    ]);
    let ids: Vec<_> =
        events(send(&session, slow).await).await.iter().map(|answer| answer["id"].as_u64()).collect();
    assert_eq!(ids, [Some(1), Some(3), Some(2)], "each as it comes");
    let notice = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    assert_eq!(send(&session, notice).await.status(), StatusCode::ACCEPTED);
    let empty = send(&session, json!([])).await;
    assert_eq!(empty.status(), StatusCode::BAD_REQUEST);
    assert_eq!(read(empty).await["error"]["code"], -32600);
    let ping = json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]);
    for revision in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let session = batching(&host, revision).await;
        assert_eq!(send(&session, ping.clone()).await.status(), StatusCode::BAD_REQUEST, "{revision}");
    }
    assert_eq!(send("nobody's", ping).await.status(), StatusCode::BAD_REQUEST);
}
