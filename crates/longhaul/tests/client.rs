//! A client and our own server in one process, and a peer that behaves in ways ours does not.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod peer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{AsTask, CallOptions, Client, Error, Options, Target};
use longhaul::proto::dialect::{Dialect, Era, Revision};
use longhaul::proto::model::{CreateMessageResult, ElicitAction, ElicitResult, LoggingLevel, Progress, Root};
use longhaul::server::local_user;
use longhaul::{Cx, Server, Tool, driver};
use peer::Peer;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

fn both_eras() -> [Revision; 2] {
    [Dialect::newest_modern(), Dialect::newest_legacy()].map(Dialect::revision)
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// What the endless tool has come to.
#[derive(Default)]
struct Endless {
    started: AtomicBool,
    dropped: AtomicBool,
}

impl Endless {
    async fn has_started(&self) {
        eventually("the call did not start", || self.started.load(Ordering::Acquire)).await;
    }

    async fn is_dropped(&self) {
        eventually("the call was not cancelled", || self.dropped.load(Ordering::Acquire)).await;
    }
}

/// A server over a pipe, and what becomes of its endless tool.
fn serve() -> (Target, Arc<Endless>) {
    let endless_state = Arc::new(Endless::default());
    let state = Arc::clone(&endless_state);
    let echo = Tool::typed("echo", "Say it back", |_, Echo { message }| async move { message });
    let steps = Tool::typed("steps", "Report progress", |cx: Cx, Nothing {}| async move {
        for step in 1..=3 {
            tokio::time::sleep(Duration::from_secs(40)).await;
            cx.progress(Progress::new(f64::from(step)).of(3.0).saying(format!("step {step}"))).await;
            cx.log(LoggingLevel::Info, "stepped").await;
        }
        "done"
    });
    let endless = Tool::typed("endless", "Never end", move |_, Nothing {}| {
        state.started.store(true, Ordering::Release);
        let guard = SetOnDrop(Arc::clone(&state));
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        }
    });
    let server = Server::new("ours", "1.2.3").instructions("Be brief.").tool(echo).tool(steps).tool(endless);
    let dispatcher = server.dispatcher().unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    tokio::spawn(driver::serve(
        dispatcher,
        local_user(),
        reader,
        writer,
        driver::Options::default(),
        std::future::pending(),
    ));
    let (reader, writer) = tokio::io::split(theirs);
    (Target::stream(reader, writer), endless_state)
}

struct SetOnDrop(Arc<Endless>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.dropped.store(true, Ordering::Release);
    }
}

#[tokio::test]
async fn a_call_is_small_to_hold() {
    let client = connect(Dialect::newest_modern().revision()).await;
    let arguments = json!({});
    let (call, start) =
        (client.call("echo", &arguments), client.start("echo", &arguments, CallOptions::default()));
    let sizes = [size_of_val(&call), size_of_val(&start)];
    assert!(sizes.iter().all(|size| *size <= 1024), "{sizes:?}");
}

async fn connect(revision: Revision) -> Client {
    Client::connect_with(serve().0, Options::default().revision(revision)).await.unwrap()
}

/// Waits, within a bound, for what another task is about to do.
async fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}");
}

#[tokio::test]
async fn our_own_server_is_found_to_be_modern() {
    let client = Client::connect(serve().0).await.unwrap();
    assert_eq!(client.dialect().era(), Era::Modern);
    assert_eq!(client.server_info().unwrap().version, "1.2.3");
    assert_eq!(client.instructions(), Some("Be brief."));
}

#[tokio::test]
async fn tools_are_listed_and_called_in_both_eras() {
    for revision in both_eras() {
        let client = connect(revision).await;
        assert_eq!(client.dialect().revision(), revision);
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["echo", "steps", "endless"]);
        let result = client.call("echo", &json!({ "message": "hé\u{1F600}" })).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("hé\u{1F600}"));
        client.ping().await.unwrap();
    }
}

#[tokio::test]
async fn a_tool_that_fails_is_a_result_and_an_unknown_one_an_error() {
    for revision in both_eras() {
        let client = connect(revision).await;
        let refused = client.call("echo", &json!({ "massage": 1 })).await.unwrap();
        assert!(refused.is_error);
        let unknown = client.call("ecko", &json!({})).await.unwrap_err();
        assert_eq!(peer::code(&unknown), -32602);
        let list = client.call("echo", &json!([1])).await.unwrap_err();
        assert!(matches!(list, Error::Arguments { .. }), "{list:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_and_log_reach_the_caller_and_restart_its_clock() {
    for revision in both_eras() {
        let logged = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&logged);
        let options = Options::default()
            .revision(revision)
            .on_log(LoggingLevel::Info, move |message| log.lock().unwrap().push(message.data.to_string()));
        let client = Client::connect_with(serve().0, options).await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let progress = Arc::clone(&seen);
        let options = CallOptions::default()
            .idle(Duration::from_secs(50))
            .on_progress(move |point| progress.lock().unwrap().push((point.value, point.total)));
        let result = client.call_with("steps", &json!({}), options).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("done"));
        let total = Some(3.0);
        assert_eq!(*seen.lock().unwrap(), [(1.0, total), (2.0, total), (3.0, total)]);
        assert_eq!(*logged.lock().unwrap(), ["\"stepped\""; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_call_that_set_a_limit_and_the_server_is_told() {
    for revision in both_eras() {
        let (target, endless) = serve();
        let client = Client::connect_with(target, Options::default().revision(revision)).await.unwrap();
        let idle = CallOptions::default().idle(Duration::from_secs(50));
        let silent = client.call_with("endless", &json!({}), idle).await.unwrap_err();
        assert!(matches!(silent, Error::TimedOut { after, .. } if after.as_secs() == 50), "{silent:?}");
        endless.is_dropped().await;
        let in_all = CallOptions::default().timeout(Duration::from_secs(100));
        let late = client.call_with("steps", &json!({}), in_all).await.unwrap_err();
        assert!(late.is_timeout(), "{late:?}");
    }
}

#[tokio::test]
async fn dropping_a_call_cancels_it() {
    for revision in both_eras() {
        let (target, endless) = serve();
        let client = Client::connect_with(target, Options::default().revision(revision)).await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call("endless", &json!({})).await }
        });
        endless.has_started().await;
        calling.abort();
        endless.is_dropped().await;
        client.ping().await.unwrap();
    }
}

#[tokio::test]
async fn a_closed_client_says_so_and_gives_up_what_waits() {
    let (target, endless) = serve();
    let client = Client::connect(target).await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call("endless", &json!({})).await }
    });
    endless.has_started().await;
    client.close().await;
    assert!(matches!(waiting.await.unwrap(), Err(Error::Lost { .. })));
    assert!(matches!(client.ping().await, Err(Error::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_what_it_does_not_know_is_taken_for_legacy() {
    let (mut peer, target) = Peer::new();
    let connect = tokio::spawn(Client::connect(target));
    peer.expect("server/discover").await;
    peer.initialize(json!({ "tools": {} })).await;
    assert_eq!(connect.await.unwrap().unwrap().dialect().revision(), Dialect::newest_legacy().revision());
}

#[tokio::test]
async fn an_error_only_the_modern_era_has_is_not_hidden_by_a_handshake() {
    let (mut peer, target) = Peer::new();
    let connect = tokio::spawn(Client::connect(target));
    let discover = peer.expect("server/discover").await;
    peer.refuse(&discover, -32021, "you must declare sampling").await;
    assert_eq!(peer::code(&connect.await.unwrap().unwrap_err()), -32021);
}

#[tokio::test]
async fn a_server_without_a_common_revision_is_named_with_what_it_speaks() {
    let (mut peer, target) = Peer::new();
    let connect = tokio::spawn(Client::connect(target));
    let discover = peer.expect("server/discover").await;
    let data = json!({ "supported": ["2031-01-01"], "requested": "2026-07-28" });
    let error = json!({ "code": -32022, "message": "unsupported", "data": data });
    peer.send(json!({ "jsonrpc": "2.0", "id": discover["id"], "error": error })).await;
    let error = connect.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("2031-01-01"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_is_slow_to_start_is_found_to_be_modern() {
    let (mut peer, target) = Peer::new();
    let connect = tokio::spawn(Client::connect(target));
    let discover = peer.expect("server/discover").await;
    // It has read neither before it has started.
    let initialize = peer.expect("initialize").await;
    peer.answer(&discover, peer::discovered()).await;
    peer.refuse(&initialize, -32022, "this connection speaks 2026-07-28").await;
    assert_eq!(connect.await.unwrap().unwrap().dialect().era(), Era::Modern);
}

#[tokio::test]
async fn a_modern_server_that_wants_a_legacy_revision_gets_a_session() {
    let (mut peer, target) = Peer::new();
    let connect = tokio::spawn(Client::connect(target));
    let discover = peer.expect("server/discover").await;
    let data = json!({ "supported": ["2025-11-25"], "requested": "2026-07-28" });
    let error = json!({ "code": -32022, "message": "unsupported", "data": data });
    peer.send(json!({ "jsonrpc": "2.0", "id": discover["id"], "error": error })).await;
    peer.initialize(json!({})).await;
    assert_eq!(connect.await.unwrap().unwrap().dialect().era(), Era::Legacy);
}

#[tokio::test]
async fn noise_and_questions_between_the_lines_do_no_harm() {
    let words = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&words);
    let options = Options::default().on_stderr(move |line| heard.lock().unwrap().push(line));
    let (client, mut peer) = peer::legacy(options, json!({ "tools": {} })).await;
    let calling = tokio::spawn(async move { client.call("x", &()).await });
    let call = peer.expect("tools/call").await;
    assert_eq!(call["params"]["arguments"], json!({}));
    peer.raw("Server started!").await;
    peer.send(json!({ "jsonrpc": "2.0", "id": "q1", "method": "ping" })).await;
    assert_eq!(peer.message().await.unwrap(), json!({ "jsonrpc": "2.0", "id": "q1", "result": {} }));
    peer.send(json!({ "jsonrpc": "2.0", "id": "q2", "method": "roots/list" })).await;
    assert_eq!(peer.message().await.unwrap()["error"]["code"], -32601);
    peer.answer(&json!({ "id": 9999 }), json!({})).await;
    peer.answer(&call, json!({ "content": [] })).await;
    assert!(calling.await.unwrap().unwrap().content.is_empty());
    assert_eq!(*words.lock().unwrap(), ["Server started!"]);
}

#[tokio::test]
async fn a_message_past_the_bound_ends_the_connection() {
    let mut options = Options::default();
    options.limits.max_bytes = 4096;
    let (client, mut peer) = peer::modern(options).await;
    let calling = tokio::spawn(async move { client.call("x", &()).await });
    let call = peer.expect("tools/call").await;
    peer.answer(&call, json!({ "content": [{ "type": "text", "text": "x".repeat(5000) }] })).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
}

#[tokio::test]
async fn a_peer_that_goes_away_ends_every_wait() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let calling = tokio::spawn(async move { client.call("x", &()).await });
    peer.expect("tools/call").await;
    drop(peer);
    assert!(matches!(calling.await.unwrap(), Err(Error::Lost { .. })));
}

#[tokio::test]
async fn lists_are_followed_to_their_end_and_no_further() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let listing = tokio::spawn({
        let client = client.clone();
        async move { client.list_tools().await }
    });
    let page = |name: &str, next: Option<&str>| {
        let tool = json!({ "name": name, "inputSchema": { "type": "object" } });
        let mut page: Value =
            json!({ "resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private" });
        if let Some(next) = next {
            page["nextCursor"] = next.into();
        }
        page
    };
    let first = peer.expect("tools/list").await;
    assert_eq!(first["params"].get("cursor"), None);
    peer.answer(&first, page("a", Some("c1"))).await;
    let second = peer.expect("tools/list").await;
    assert_eq!(second["params"]["cursor"], "c1");
    peer.answer(&second, page("b", None)).await;
    assert_eq!(listing.await.unwrap().unwrap().len(), 2);

    let listing = tokio::spawn(async move { client.list_tools().await });
    for _ in 0..2 {
        let request = peer.expect("tools/list").await;
        peer.answer(&request, page("a", Some("again"))).await;
    }
    assert!(matches!(listing.await.unwrap(), Err(Error::Protocol { .. })));
}

#[tokio::test]
async fn a_question_that_nobody_here_can_answer_is_an_error_of_its_own() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let calling = tokio::spawn(async move { client.call("x", &()).await });
    let call = peer.expect("tools/call").await;
    let question = json!({ "method": "roots/list" });
    let asked = json!({ "resultType": "input_required", "inputRequests": { "q": question } });
    peer.answer(&call, asked).await;
    assert!(matches!(calling.await.unwrap(), Err(Error::InputRequired { task: None, .. })));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_only_to_come_back_is_made_again_later_and_later_with_what_it_was_given() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let calling = tokio::spawn(async move { client.call("x", &()).await });
    let mut again = peer.expect("tools/call").await;
    for least in [250, 500, 1000] {
        let (call, asked) = (again, tokio::time::Instant::now());
        peer.answer(&call, json!({ "resultType": "input_required", "requestState": "s" })).await;
        again = peer.expect("tools/call").await;
        assert!(asked.elapsed() >= Duration::from_millis(least), "{:?}", asked.elapsed());
        assert_eq!(again["params"]["requestState"], "s");
        assert!(again["params"].get("inputResponses").is_none() && again["id"] != call["id"]);
    }
    peer.answer(&again, json!({ "content": [], "resultType": "complete" })).await;
    calling.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_result_is_read_as_what_its_caller_wants() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Size {
        size: u8,
    }
    let (client, mut peer) = peer::modern(Options::default().validate(false)).await;
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let results = [
        json!({ "content": [], "structuredContent": { "size": 1 } }),
        json!({ "content": text("{\"size\":2}") }),
        json!({ "content": text("no"), "isError": true }),
        json!({ "content": [] }),
        json!({ "content": text("much") }),
    ];
    let answering = async {
        for mut result in results {
            result["resultType"] = "complete".into();
            let call = peer.expect("tools/call").await;
            peer.answer(&call, result).await;
        }
    };
    let calling = async {
        assert_eq!(client.call_for::<Size>("x", &()).await.unwrap(), Size { size: 1 });
        assert_eq!(client.call_for::<Size>("x", &()).await.unwrap(), Size { size: 2 });
        let failed = client.call_for::<Size>("x", &()).await.unwrap_err();
        assert_eq!(failed.to_string(), "x failed: no");
        for _ in 0..2 {
            let error = client.call_for::<Size>("x", &()).await.unwrap_err();
            assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
        }
    };
    tokio::join!(answering, calling);
}

#[tokio::test]
async fn what_can_be_asked_is_declared_and_pages_are_only_those_of_the_web() {
    let options = Options::default()
        .on_page(|page| async move {
            assert_eq!(page.url, "https://a.example/x");
            ElicitAction::Accept
        })
        .on_sample_with_tools(|params| async move {
            assert!(params.needs_tools());
            Ok(CreateMessageResult::new("a-model", "no tool is needed"))
        });
    let (client, mut peer) = peer::modern(options).await;
    let calling = tokio::spawn(async move { client.call("x", &()).await });
    let call = peer.expect("tools/call").await;
    let declared = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["elicitation"], json!({ "url": {} }));
    assert_eq!(declared["sampling"], json!({ "tools": {} }));
    let page = |url: &str| json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "Go", "url": url } });
    let tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
    let sample = json!({
        "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1, "tools": [tool] }
    });
    let questions = json!({ "page": page("https://a.example/x"), "sample": sample });
    peer.answer(&call, json!({ "resultType": "input_required", "inputRequests": questions })).await;
    let again = peer.expect("tools/call").await;
    let answers = &again["params"]["inputResponses"];
    assert_eq!(answers["page"], json!({ "action": "accept" }));
    assert_eq!(answers["sample"]["content"]["text"], "no tool is needed");
    let questions = json!({ "page": page("file:///etc/passwd") });
    peer.answer(&again, json!({ "resultType": "input_required", "inputRequests": questions })).await;
    assert!(matches!(calling.await.unwrap(), Err(Error::InputRequired { .. })), "nobody is sent there");
}

#[tokio::test]
async fn a_call_that_may_not_become_a_task_does_not_declare_them() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let options = CallOptions::default().as_task(AsTask::Never);
    let calling = tokio::spawn(async move { client.call_with("x", &(), options).await });
    let call = peer.expect("tools/call").await;
    let declared = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["extensions"], json!({}));
    peer.answer(&call, json!({ "content": [], "resultType": "complete" })).await;
    calling.await.unwrap().unwrap();
}

#[tokio::test]
async fn as_many_requests_wait_as_allowed_and_no_more() {
    let mut options = Options::default();
    options.max_pending = 2;
    let (client, mut peer) = peer::modern(options).await;
    let mut calls = Vec::new();
    for _ in 0..2 {
        let client = client.clone();
        calls.push(tokio::spawn(async move { client.call("x", &()).await }));
        peer.expect("tools/call").await;
    }
    assert!(matches!(client.ping().await, Err(Error::Pending(_))));
    for call in calls {
        call.abort();
        peer.expect("notifications/cancelled").await;
    }
    let ping = tokio::spawn(async move { client.ping().await });
    let discover = peer.expect("server/discover").await;
    peer.answer(&discover, peer::discovered()).await;
    ping.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_that_asks_first_is_made_again_with_the_answers() {
    let options = Options::default().stuck_after(2).on_form(|form| async move {
        assert_eq!(form.message, "Go?");
        ElicitResult::declined()
    });
    let (client, mut peer) = peer::modern(options).await;
    let asks = |state: &str| {
        let form = json!({"message": "Go?", "requestedSchema": {"type": "object", "properties": {}}});
        let question = json!({"method": "elicitation/create", "params": form});
        json!({ "resultType": "input_required", "requestState": state, "inputRequests": {"a": question} })
    };
    for rounds in [1, 3] {
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call("x", &json!({"n": 1})).await }
        });
        let mut call = peer.expect("tools/call").await;
        assert_eq!(call["params"].get("inputResponses"), None);
        for round in 1..=rounds {
            let state = format!("s{round}");
            peer.answer(&call, asks(&state)).await;
            if round > 2 {
                break;
            }
            call = peer.expect("tools/call").await;
            let params = &call["params"];
            assert_eq!((&params["requestState"], &params["arguments"]), (&json!(state), &json!({"n": 1})));
            assert_eq!(params["inputResponses"], json!({"a": {"action": "decline"}}));
        }
        if rounds == 1 {
            let done = json!({ "resultType": "complete", "content": [] });
            peer.answer(&call, done).await;
            assert!(calling.await.unwrap().is_ok());
        } else {
            assert!(matches!(calling.await.unwrap(), Err(Error::Stuck { task: None, times: 2, .. })));
        }
    }
}

#[tokio::test]
async fn a_session_hears_who_answers_and_gets_its_answers() {
    let options = Options::default().on_roots(|| async { vec![Root::new("file:///work")] });
    let (_client, mut peer) = peer::legacy(options, json!({ "tools": {} })).await;
    assert_eq!(peer.declared, json!({"roots": {"listChanged": true}}));
    peer.send(json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" })).await;
    let answer = peer.message().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["roots"][0]["uri"]), (&json!(7), &json!("file:///work")));
    peer.send(json!({ "jsonrpc": "2.0", "id": 8, "method": "elicitation/create", "params": {} })).await;
    let refused = peer.message().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(8), &json!(-32602)), "{refused}");
    let sample = json!({"messages": [], "maxTokens": 1});
    peer.send(json!({ "jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": sample }))
        .await;
    assert_eq!(peer.message().await.unwrap()["error"]["code"], -32601, "nobody answers that");
}

#[tokio::test]
async fn a_question_that_is_withdrawn_is_not_answered_and_its_user_is_let_go() {
    let left = Arc::new(Notify::new());
    let leaves = Arc::clone(&left);
    let options = Options::default().on_form(move |form| {
        let leaves = NotifyOnDrop(Arc::clone(&leaves));
        async move {
            let _leaves = leaves;
            if form.message == "Wait" {
                std::future::pending::<()>().await;
            }
            assert!(form.message != "Panic", "the application is broken");
            ElicitResult::declined()
        }
    });
    let (_client, mut peer) = peer::legacy(options, json!({ "tools": {} })).await;
    let ask = |id: i64, message: &str| {
        let schema = json!({ "type": "object", "properties": {} });
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
    };
    peer.send(ask(1, "Wait")).await;
    // Of another, and of nothing: nobody is let go by that.
    for odd in [json!({ "requestId": "1" }), json!({ "requestId": 9 }), json!({ "reason": "none" })] {
        peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": odd })).await;
    }
    peer.send(ask(2, "Go")).await;
    assert_eq!(peer.message().await.unwrap()["id"], 2);
    left.notified().await;
    let params = json!({ "requestId": 1, "reason": "too late" });
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    left.notified().await;
    // What the application does not survive is answered, for its server waits.
    peer.send(ask(3, "Panic")).await;
    let failed = peer.message().await.unwrap();
    assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!(3), &json!(-32603)), "{failed}");
    peer.send(ask(4, "Go")).await;
    assert_eq!(peer.message().await.unwrap()["result"]["action"], "decline");
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// What a peer answers that refuses a call until a page was visited.
async fn send_to_a_page(peer: &mut Peer, id: &str) {
    let call = peer.expect("tools/call").await;
    let page =
        json!({ "mode": "url", "message": "There", "url": "https://a.example/x", "elicitationId": id });
    let error = json!({ "code": -32042, "message": "first go there", "data": { "elicitations": [page] } });
    peer.send(json!({ "jsonrpc": "2.0", "id": call["id"], "error": error })).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_until_a_page_was_visited_is_made_again() {
    let (asked, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (its, ended) = (Arc::clone(&asked), Arc::clone(&done));
    let options = Options::default()
        .on_page(move |page| {
            its.lock().unwrap().push(page.id);
            async { ElicitAction::Accept }
        })
        .on_page_done(move |id| ended.lock().unwrap().push(id));
    let (client, mut peer) = peer::legacy(options, json!({ "tools": {} })).await;
    let calling = tokio::spawn(async move { client.call("x", &()).await });
    // They go there, and are not done: nobody asks again, but the call is made again now and then.
    for _ in 0..3 {
        send_to_a_page(&mut peer, "7").await;
    }
    let before = tokio::time::Instant::now();
    for id in ["8", "7", "7"] {
        let method = "notifications/elicitation/complete";
        peer.send(json!({ "jsonrpc": "2.0", "method": method, "params": { "elicitationId": id } })).await;
    }
    let call = peer.expect("tools/call").await;
    assert_eq!(before.elapsed(), Duration::ZERO, "it is made again as soon as they are done");
    peer.answer(&call, json!({ "content": [] })).await;
    assert!(calling.await.unwrap().is_ok());
    assert_eq!(
        (&*asked.lock().unwrap(), &*done.lock().unwrap()),
        (&vec!["7".to_owned()], &vec!["7".to_owned()])
    );
}

#[tokio::test]
async fn who_does_not_visit_a_page_is_given_the_error() {
    let options = Options::default().on_page(|_| async { ElicitAction::Decline });
    for options in [options, Options::default()] {
        let (client, mut peer) = peer::legacy(options, json!({ "tools": {} })).await;
        let calling = tokio::spawn(async move { client.call("x", &()).await });
        send_to_a_page(&mut peer, "7").await;
        assert_eq!(peer::code(&calling.await.unwrap().unwrap_err()), -32042);
    }
}

#[tokio::test]
async fn a_session_is_told_that_the_roots_are_others() {
    let options = Options::default().on_roots(|| async { vec![Root::new("file:///a")] });
    let (client, mut peer) = peer::legacy(options.clone(), json!({})).await;
    assert_eq!(peer.declared["roots"], json!({ "listChanged": true }));
    client.roots_changed().await.unwrap();
    peer.expect("notifications/roots/list_changed").await;
    // Without roots, and where servers ask anew each time, there is nothing to tell.
    let (silent, mut hears_nothing) = peer::legacy(Options::default(), json!({})).await;
    let (modern, mut asks_anew) = peer::modern(options).await;
    for (client, peer) in [(silent, &mut hears_nothing), (modern, &mut asks_anew)] {
        client.roots_changed().await.unwrap();
        let asking = tokio::spawn(async move { client.call("x", &()).await });
        let call = peer.expect("tools/call").await;
        peer.answer(&call, json!({ "content": [], "resultType": "complete" })).await;
        asking.await.unwrap().unwrap();
    }
}

/// A tool that says what it gives.
#[cfg(feature = "schema-validation")]
fn adds() -> Value {
    let sum =
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
    let tool = json!({ "name": "add", "inputSchema": { "type": "object" }, "outputSchema": sum });
    let reaching = json!({ "$ref": "https://a.example/schema.json" });
    let other = json!({ "name": "other", "inputSchema": { "type": "object" }, "outputSchema": reaching });
    json!({ "tools": [tool, other], "resultType": "complete", "ttlMs": 0, "cacheScope": "public" })
}

#[cfg(feature = "schema-validation")]
#[tokio::test]
async fn a_result_that_does_not_fit_the_schema_of_its_tool_is_an_error_that_keeps_it() {
    for modern in [true, false] {
        for validate in [true, false] {
            let options = Options::default().validate(validate);
            let (client, mut peer) = if modern {
                peer::modern(options).await
            } else {
                peer::legacy(options, json!({ "tools": {} })).await
            };
            let structured = |sum: Value| json!({ "content": [], "structuredContent": { "sum": sum } });
            let called = async |client: &Client, peer: &mut Peer, tool: &'static str, mut result: Value| {
                let client = client.clone();
                let calling = tokio::spawn(async move { client.call(tool, &()).await });
                let call = peer.expect("tools/call").await;
                result["resultType"] = json!("complete");
                peer.answer(&call, result).await;
                calling.await.unwrap()
            };
            // What has no structure is not worth a look at the tools; the first that has one is.
            assert!(called(&client, &mut peer, "add", json!({ "content": [] })).await.is_ok());
            let calling = tokio::spawn({
                let client = client.clone();
                async move { client.call("add", &()).await }
            });
            let (call, mut result) = (peer.expect("tools/call").await, structured(json!("5")));
            result["resultType"] = json!("complete");
            peer.answer(&call, result).await;
            if validate {
                let list = peer.expect("tools/list").await;
                peer.answer(&list, adds()).await;
            }
            assert_eq!(matches!(calling.await.unwrap(), Err(Error::Unfit { .. })), validate);
            assert!(called(&client, &mut peer, "add", structured(json!(5))).await.is_ok());
            let failed = json!({ "content": [], "isError": true });
            assert!(called(&client, &mut peer, "add", failed).await.unwrap().is_error);
            // A schema that cannot be used says nothing.
            assert!(called(&client, &mut peer, "other", structured(json!(5))).await.is_ok());
            for (result, what) in
                [(structured(json!("5")), "`/sum`: "), (json!({ "content": [] }), "it has no structure")]
            {
                match called(&client, &mut peer, "add", result.clone()).await {
                    Err(Error::Unfit { tool, what: found, result: kept, .. }) if validate => {
                        assert!(tool == "add" && found.starts_with(what), "{found}");
                        let kept = kept.structured_content.map(|kept| kept.get().to_owned());
                        assert_eq!(kept, result.get("structuredContent").map(Value::to_string));
                    }
                    Ok(_) if !validate => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[cfg(feature = "schema-validation")]
#[tokio::test(start_paused = true)]
async fn what_a_task_came_to_is_held_against_the_schema_of_its_tool() {
    let (client, mut peer) = peer::modern(Options::default()).await;
    let listing = tokio::spawn({
        let client = client.clone();
        async move { client.list_tools().await }
    });
    let list = peer.expect("tools/list").await;
    peer.answer(&list, adds()).await;
    listing.await.unwrap().unwrap();
    let calling = tokio::spawn(async move { client.call("add", &()).await });
    let task = |status: &str| {
        let at = "2026-01-01T00:00:00Z";
        json!({ "taskId": "t", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": null,
            "resultType": "task" })
    };
    let call = peer.expect("tools/call").await;
    peer.answer(&call, task("working")).await;
    let get = peer.expect("tasks/get").await;
    let mut ended = task("completed");
    ended["result"] = json!({ "content": [], "structuredContent": { "sum": "5" } });
    ended["resultType"] = json!("complete");
    peer.answer(&get, ended).await;
    let unfit = calling.await.unwrap().unwrap_err();
    assert!(matches!(&unfit, Error::Unfit { tool, .. } if tool == "add"), "{unfit:?}");
}
