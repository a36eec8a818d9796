//! A client over HTTP: with our own server, and with servers that answer as others do.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{CallOptions, Client, Error, Options, Started};
use longhaul::proto::dialect::{Era, Revision};
use longhaul::proto::model::{LoggingLevel, Progress};
use longhaul::transport::http::server;
use longhaul::{Cx, Server, Tool};
use serde_json::json;
use tokio::net::TcpListener;

mod changes;
mod drafted;
mod faults;
mod kept;
#[cfg(all(unix, feature = "sqlite"))]
mod killed;
mod offered;
#[expect(dead_code, reason = "not all that it can play is played here")]
#[path = "../peer/mod.rs"]
mod peer;
mod played;
mod sessions;
mod streams;

use played::{discovery, eventually, legacy, ok, play, respond};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(Default)]
struct Endless {
    started: AtomicBool,
    dropped: AtomicBool,
}

struct SetOnDrop(Arc<Endless>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.dropped.store(true, Ordering::Release);
    }
}

/// Our own server, and what becomes of its endless tool.
async fn ours() -> (String, Arc<Endless>) {
    let state = Arc::new(Endless::default());
    let flags = Arc::clone(&state);
    let hello = Tool::typed("hello", "Greet", |_, Nothing {}| async { "hi" });
    let steps = Tool::typed("Schritte-", "Report", |cx: Cx, Nothing {}| async move {
        for step in 1..=3 {
            cx.progress(Progress::new(f64::from(step))).await;
            cx.log(LoggingLevel::Warning, "careful").await;
            tokio::task::yield_now().await;
        }
        "done"
    });
    let endless = Tool::typed("endless", "Never end", move |_, Nothing {}| {
        flags.started.store(true, Ordering::Release);
        let guard = SetOnDrop(Arc::clone(&flags));
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        }
    });
    let dispatcher = Server::new("ours", "1").tool(hello).tool(steps).tool(endless).dispatcher().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = server::Options::default();
    options.stream_after = Duration::from_millis(5);
    tokio::spawn(server::serve(dispatcher, listener, options, std::future::pending()));
    (format!("http://{address}/mcp"), state)
}

#[tokio::test]
async fn both_eras_are_spoken_to_our_own_server() {
    let (url, _) = ours().await;
    for revision in Revision::ALL {
        let logged = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&logged);
        let options = Options::default().revision(revision).on_log(LoggingLevel::Warning, move |_| {
            count.fetch_add(1, Ordering::AcqRel);
        });
        let client = Client::connect_with(url.as_str(), options).await.unwrap();
        assert_eq!(client.dialect().revision(), revision);
        assert_eq!(client.server_info().unwrap().name, "ours");
        assert_eq!(client.list_tools().await.unwrap().len(), 3);
        assert_eq!(client.call("hello", &()).await.unwrap().content[0].as_text(), Some("hi"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let progress = Arc::clone(&seen);
        let options =
            CallOptions::default().on_progress(move |point| progress.lock().unwrap().push(point.value));
        let result = client.call_with("Schritte-", &(), options).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("done"));
        assert_eq!(*seen.lock().unwrap(), [1.0, 2.0, 3.0], "{revision}");
        assert_eq!(logged.load(Ordering::Acquire), 3, "{revision}");
        let unknown = client.call("nothing", &()).await.unwrap_err();
        assert!(matches!(&unknown, Error::Answer(error) if error.code.0 == -32602), "{unknown:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn our_own_server_is_found_to_be_modern() {
    let (url, _) = ours().await;
    assert_eq!(Client::connect(url.as_str()).await.unwrap().dialect().era(), Era::Modern);
}

#[tokio::test]
async fn dropping_a_call_cancels_it_in_either_era() {
    for revision in Revision::ALL {
        let (url, endless) = ours().await;
        let options = Options::default().revision(revision);
        let client = Client::connect_with(url.as_str(), options).await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call("endless", &()).await }
        });
        eventually("the call did not start", || endless.started.load(Ordering::Acquire)).await;
        calling.abort();
        eventually("the call was not cancelled", || endless.dropped.load(Ordering::Acquire)).await;
        client.ping().await.unwrap();
    }
}

#[tokio::test]
async fn silence_ends_a_call_that_set_a_limit() {
    for revision in Revision::ALL {
        let (url, endless) = ours().await;
        let options = Options::default().revision(revision);
        let client = Client::connect_with(url.as_str(), options).await.unwrap();
        let idle = CallOptions::default().idle(Duration::from_millis(100));
        let error = client.call_with("endless", &(), idle).await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        eventually("the call was not cancelled", || endless.dropped.load(Ordering::Acquire)).await;
    }
}

#[tokio::test]
async fn closing_a_client_ends_its_session_and_what_waits_or_runs_in_it() {
    for revision in Revision::ALL {
        let (url, endless) = ours().await;
        let options = Options::default().revision(revision);
        let client = Client::connect_with(url.as_str(), options).await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call("endless", &()).await }
        });
        eventually("the call did not start", || endless.started.load(Ordering::Acquire)).await;
        client.close().await;
        let given_up = tokio::time::timeout(Duration::from_secs(10), calling).await;
        assert!(given_up.expect("who waits is told").unwrap().is_err());
        eventually("the call lives on", || endless.dropped.load(Ordering::Acquire)).await;
        assert!(matches!(client.ping().await, Err(Error::Lost { .. })));
    }
}

#[tokio::test]
async fn a_server_that_asks_without_end_makes_us_send_one_answer_at_a_time() {
    let (url, heard) = play(|request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        Some(_) => {
            let ping =
                |id: usize| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
            let result =
                json!({ "resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private" });
            let answer = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result });
            let events = (0..300).map(ping).collect::<String>() + &format!("data: {answer}\n\n");
            respond("200 OK", "text/event-stream", "", &events)
        }
        // Our answer to a ping is never acknowledged.
        None => String::new(),
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), 0);
    let answers = || heard.lock().unwrap().iter().filter(|heard| heard.body.get("result").is_some()).count();
    eventually("no answer to a ping", || answers() > 0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(answers(), 1);
}

#[tokio::test]
async fn nobody_there_is_unreachable_and_a_bad_url_is_no_target() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Client::connect(format!("http://{address}/mcp").as_str()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.is_retryable());
    for bad in ["ftp://host/mcp", "http://", "://"] {
        let error = Client::connect(bad).await.unwrap_err();
        assert!(matches!(error, Error::Target { .. }), "{bad}: {error:?}");
    }
}

#[tokio::test]
async fn servers_that_know_no_modern_request_get_a_session_however_they_refuse() {
    let not_initialized = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;
    for (refusal, kind, status) in [
        (not_initialized, "application/json", "400 Bad Request"),
        ("Missing session ID", "text/plain", "400 Bad Request"),
        ("", "text/plain", "404 Not Found"),
        (r#"{"detail":"Not Found"}"#, "application/json", "404 Not Found"),
        ("no", "text/plain", "405 Method Not Allowed"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#, "application/json", "200 OK"),
    ] {
        let (url, heard) = play(legacy(refusal, kind, status)).await;
        let client = Client::connect(url.as_str()).await.unwrap_or_else(|e| panic!("{status}: {e:?}"));
        assert_eq!(client.dialect().era(), Era::Legacy);
        assert!(client.list_tools().await.unwrap().is_empty());
        client.close().await;
        let heard = heard.lock().unwrap();
        let discover = &heard[0];
        assert!(
            discover.has("mcp-method: server/discover") && discover.has("mcp-protocol-version: 2026-07-28")
        );
        let initialize = &heard[1];
        assert!(!initialize.has("mcp-session-id") && !initialize.has("mcp-protocol-version"));
        assert!(heard[2..].iter().all(|request| request.has("mcp-protocol-version: 2025-11-25")
            && request.has("mcp-session-id: s3cret")
            && !request.has("mcp-method")));
        assert!(heard.last().unwrap().head.starts_with("DELETE"));
    }
}

#[tokio::test]
async fn what_is_no_longer_wanted_is_said_before_the_session_ends() {
    let other = legacy("no", "text/plain", "405 Method Not Allowed");
    let (url, heard) = play(move |request| match request.body["method"].as_str() {
        Some("tools/call") => String::new(),
        Some("notifications/cancelled") => respond("202 Accepted", "text/plain", "", ""),
        _ => other(request),
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    let call = |_| {
        tokio::spawn({
            let client = client.clone();
            async move { client.call("x", &()).await }
        })
    };
    let calls: Vec<_> = (0..3).map(call).collect();
    let of = |method: &str| {
        let heard = heard.lock().unwrap();
        let of = heard.iter().filter(|heard| heard.body["method"] == method && heard.has("mcp-session-id"));
        of.count()
    };
    eventually("the calls did not come", || of("tools/call") == 3).await;
    for call in calls {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    client.close().await;
    assert_eq!(of("notifications/cancelled"), 3);
    assert!(heard.lock().unwrap().last().unwrap().head.starts_with("DELETE"));
}

#[tokio::test]
async fn a_status_that_says_nothing_of_the_era_is_reported_as_it_is() {
    let check = |status: &'static str| async move {
        let (url, heard) = play(move |_| respond(status, "text/plain", "Retry-After: 7\r\n", "sorry")).await;
        let error = Client::connect(url.as_str()).await.unwrap_err();
        assert_eq!(heard.lock().unwrap().len(), 1, "{status}: no second attempt");
        error
    };
    assert!(matches!(check("401 Unauthorized").await, Error::SignIn { .. }));
    assert!(matches!(check("403 Forbidden").await, Error::Http { status: 403, .. }));
    let busy = check("503 Service Unavailable").await;
    assert_eq!(busy.retry_after(), Some(Duration::from_secs(7)));
    assert!(busy.is_retryable() && busy.to_string().contains("503: sorry"), "{busy}");
    assert!(matches!(check("302 Found").await, Error::Http { status: 302, .. }), "not followed");
}

#[tokio::test]
async fn a_redirect_and_a_page_in_the_place_of_an_answer_say_what_helps() {
    let check = |status: &'static str, kind: &'static str, more: &'static str| async move {
        let (url, heard) = play(move |_| respond(status, kind, more, "<html>Welcome</html>")).await;
        let error = Client::connect(url.as_str()).await.unwrap_err().to_string();
        assert_eq!(heard.lock().unwrap().len(), 1, "{status}: no second attempt");
        (error, url)
    };
    let slash = "Location: /mcp/?token=s3cret#token=s3cret\r\n";
    for status in ["307 Temporary Redirect", "308 Permanent Redirect", "301 Moved Permanently"] {
        let (error, url) = check(status, "text/html", slash).await;
        let there = url.replace("/mcp", "/mcp/");
        let redirects = format!(": it redirects to {there}, which is not followed: write that");
        assert!(error.ends_with(&redirects), "{error}");
    }
    let (error, _) = check("307 Temporary Redirect", "text/html", "Location: http://[\r\n").await;
    assert!(error.ends_with("307: <html>Welcome</html>"), "it says nowhere: {error}");
    let (error, _) = check("200 OK", "text/html; charset=utf-8", "").await;
    assert!(error.ends_with("200: it answered text/html, not MCP: is this its path?"), "{error}");
}

#[tokio::test]
async fn a_modern_error_in_a_400_is_not_hidden_by_a_handshake() {
    let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header mismatch"}}"#;
    let (url, heard) = play(move |_| respond("400 Bad Request", "application/json", "", body)).await;
    let error = Client::connect(url.as_str()).await.unwrap_err();
    assert!(matches!(&error, Error::Answer(error) if error.code.0 == -32020), "{error:?}");
    assert_eq!(heard.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_lost_session_is_told_apart() {
    let (url, _) = play(legacy("gone", "text/plain", "404 Not Found")).await;
    let client = Client::connect(url.as_str()).await.unwrap();
    let error = client.call("x", &()).await.unwrap_err();
    assert!(matches!(error, Error::SessionLost { .. }), "{error:?}");
}

#[tokio::test]
async fn names_travel_in_headers_and_events_in_any_shape() {
    let (url, heard) = play(|request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        _ => {
            let token = &request.body["params"]["_meta"]["progressToken"];
            let params = json!({ "progressToken": token, "progress": 1 });
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            let answer = json!({
                "jsonrpc": "2.0", "id": request.body["id"], "result": { "resultType": "complete", "content": [] }
            });
            let events = format!(": hello\r\n\r\nid: 1\ndata:\n\nevent: message\rdata: {progress}\r\rdata: {answer}\n\n");
            respond("200 OK", "text/event-stream; charset=utf-8", "", &events)
        }
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    let options = CallOptions::default().on_progress(move |_| {
        counting.fetch_add(1, Ordering::AcqRel);
    });
    client.call_with("größe", &(), options).await.unwrap();
    assert_eq!(count.load(Ordering::Acquire), 1);
    let heard = heard.lock().unwrap();
    assert!(heard[1].has("mcp-name: =?base64?Z3LDtsOfZQ==?="), "{}", heard[1].head);
}

#[tokio::test]
async fn answers_that_are_none_end_the_request_with_a_reason() {
    for (kind, body) in [
        ("text/event-stream", ": nothing\n\n"),
        ("text/event-stream", "data: {not json\n\n"),
        ("application/json", "{}"),
        ("application/json", r#"{"jsonrpc":"2.0","id":77,"result":{}}"#),
        ("text/html", "<html>"),
    ] {
        let (url, _) = play(move |request| match request.body["method"].as_str() {
            Some("server/discover") => discovery(request),
            _ => respond("200 OK", kind, "", body),
        })
        .await;
        let client = Client::connect(url.as_str()).await.unwrap();
        let error = client.call("x", &()).await.unwrap_err();
        let told = matches!(error, Error::Protocol { .. } | Error::Lost { .. } | Error::Http { .. });
        assert!(told, "{body}: {error:?}");
    }
}

#[tokio::test]
async fn answers_past_the_bound_are_refused() {
    for kind in ["application/json", "text/event-stream"] {
        let (url, _) = play(move |request| match request.body["method"].as_str() {
            Some("server/discover") => discovery(request),
            _ => respond("200 OK", kind, "", &"data: x".repeat(2000)),
        })
        .await;
        let mut options = Options::default();
        options.limits.max_bytes = 4096;
        let client = Client::connect_with(url.as_str(), options).await.unwrap();
        let error = client.call("x", &()).await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_task_is_waited_for_across_failures_of_its_server() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let (url, heard) = play(move |request| {
        let task = |status: &str| {
            json!({
                "taskId": "t-1", "status": status, "createdAt": "2026-11-20T10:00:00Z", "pollIntervalMs": 20,
                "lastUpdatedAt": "2026-11-20T10:00:00Z", "ttlMs": null, "resultType": "complete",
            })
        };
        match request.body["method"].as_str() {
            Some("server/discover") => discovery(request),
            Some("tools/call") => {
                let mut created = task("working");
                created["resultType"] = "task".into();
                ok(request, created)
            }
            _ => match count.fetch_add(1, Ordering::AcqRel) {
                0 => respond("503 Service Unavailable", "text/plain", "Retry-After: 0\r\n", "restarting"),
                1 => "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{\"jso"
                    .to_owned(),
                _ => {
                    let mut done = task("completed");
                    done["result"] = json!({ "content": [], "resultType": "complete" });
                    ok(request, done)
                }
            },
        }
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    let Started::Task(task) = client.start("x", &(), CallOptions::default()).await.unwrap() else { panic!() };
    assert!(task.wait().await.unwrap().content.is_empty());
    assert!(heard.lock().unwrap().last().unwrap().has("mcp-name: t-1"));
}
