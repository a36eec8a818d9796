//! Sessions that a server forgets, and servers of the transport before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::client::{Change, Client, Error, Options};
use longhaul::proto::dialect::{Era, Revision};
use longhaul::proto::model::{ElicitResult, Form, SubscriptionFilter};
use longhaul::server::Elicited;
use longhaul::transport::http::server;
use longhaul::{Cx, Server, Tool};
use serde_json::json;
use tokio::net::TcpListener;

use super::Nothing;
use super::played::{discovery, ok, play, respond};

/// A legacy server that forgets its first session at once.
async fn forgetful() -> (String, Arc<std::sync::Mutex<Vec<super::played::Heard>>>) {
    let sessions = AtomicUsize::new(0);
    play(move |request| match request.body["method"].as_str() {
        Some("initialize") => {
            let number = sessions.fetch_add(1, Ordering::AcqRel) + 1;
            let info = json!({ "name": "old", "version": "1" });
            let result = json!({ "protocolVersion": "2025-11-25", "serverInfo": info, "capabilities": { "tools": {} } });
            let answer = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result });
            let session = format!("Mcp-Session-Id: s-{number}\r\n");
            respond("200 OK", "application/json", &session, &answer.to_string())
        }
        Some("notifications/initialized") => respond("202 Accepted", "text/plain", "", ""),
        Some("tools/list") if request.has("mcp-session-id: s-2") => ok(request, json!({ "tools": [] })),
        Some("tools/call") if request.has("mcp-session-id: s-2") => ok(request, json!({ "content": [] })),
        Some(_) => respond("404 Not Found", "text/plain", "", "no such session"),
        None => respond("405 Method Not Allowed", "text/plain", "", ""),
    })
    .await
}

#[tokio::test]
async fn a_session_that_its_server_has_forgotten_is_opened_again_once() {
    let (url, heard) = forgetful().await;
    let options = Options::default().revision(Revision::V2025_11_25);
    let client = Client::connect_with(url.as_str(), options).await.unwrap();
    let nothing = json!({});
    let (listed, called, pinged) =
        tokio::join!(client.list_tools(), client.call("x", &nothing), client.call("y", &nothing));
    assert!(listed.unwrap().is_empty());
    assert!(called.unwrap().content.is_empty() && pinged.unwrap().content.is_empty());
    let opened = heard.lock().unwrap().iter().filter(|heard| heard.body["method"] == "initialize").count();
    assert_eq!(opened, 2, "whoever missed it waits for the one who opens another");
}

#[tokio::test]
async fn whatever_is_heard_of_may_have_changed_while_a_session_was_forgotten() {
    let (url, _) = forgetful().await;
    let options = Options::default().revision(Revision::V2025_11_25);
    let client = Client::connect_with(url.as_str(), options).await.unwrap();
    let mut lists = SubscriptionFilter::default();
    (lists.tools_list_changed, lists.resources_list_changed) = (true, true);
    let mut changes = client.subscribe(lists).await.unwrap();
    client.list_tools().await.unwrap();
    let mut heard = Vec::new();
    for _ in 0..2 {
        let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
        heard.push(change.expect("it is told").unwrap());
    }
    assert!(matches!(heard[..], [Some(Change::Tools), Some(Change::Resources)]), "{heard:?}");
}

#[tokio::test]
async fn what_only_asks_is_asked_again_after_a_connection_broke_and_a_call_is_not() {
    let seen = AtomicUsize::new(0);
    let (url, heard) = play(move |request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        Some("prompts/list") if seen.fetch_add(1, Ordering::AcqRel) > 0 => {
            ok(request, json!({ "resultType": "complete", "prompts": [] }))
        }
        _ => "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{\"jso"
            .to_owned(),
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    assert!(client.prompts().collect().await.unwrap().is_empty());
    let error = client.call("x", &()).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    let calls = heard.lock().unwrap().iter().filter(|heard| heard.body["method"] == "tools/call").count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_server_of_the_transport_before_is_found_and_used() {
    let asks = Tool::typed("asks", "Ask", |cx: Cx, Nothing {}| async move {
        let answer = cx.elicit_form("Go on?", Form::new()).await;
        if matches!(answer, Ok(Elicited::Accepted(_))) { "went on" } else { "stopped" }
    });
    let dispatcher = Server::new("ours", "1").tool(asks).dispatcher().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = server::Options::default().legacy_sse(true);
    tokio::spawn(server::serve(dispatcher, listener, options, std::future::pending()));
    let answering =
        Options::default().on_form(|form| async move { ElicitResult::accepted(form.form.defaults()) });
    let client = Client::connect_with(format!("http://{address}/sse").as_str(), answering).await.unwrap();
    assert_eq!(client.dialect().era(), Era::Legacy);
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    assert_eq!(client.call("asks", &()).await.unwrap().content[0].as_text(), Some("went on"));
    client.close().await;
    assert!(matches!(client.ping().await, Err(Error::Lost { .. })));
    // Nothing like it is looked for where only the modern era will do.
    let modern = Options::default().revision(Revision::V2026_07_28);
    let error = Client::connect_with(format!("http://{address}/sse").as_str(), modern).await.unwrap_err();
    assert!(matches!(error, Error::Http { .. } | Error::Answer(_)), "{error:?}");
}

#[tokio::test]
async fn messages_go_to_no_other_origin_than_the_stream_that_names_it() {
    let (url, heard) = play(|request| {
        if request.head.starts_with("GET") {
            let events = "event: endpoint\ndata: http://127.0.0.1:9/elsewhere\n\n";
            return respond("200 OK", "text/event-stream", "", events);
        }
        respond("405 Method Not Allowed", "text/plain", "", "no")
    })
    .await;
    let error = Client::connect(url.as_str()).await.unwrap_err();
    assert!(matches!(error, Error::Http { status: 405, .. }), "{error:?}");
    assert_eq!(heard.lock().unwrap().len(), 3, "a modern request, a handshake, a stream, and no more");
}

#[tokio::test]
async fn who_listens_and_says_nothing_is_given_up_long_before_a_request_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let options = Options::default().greeting_timeout(Duration::from_millis(100));
    let connecting =
        tokio::time::timeout(Duration::from_secs(30), Client::connect_with(url.as_str(), options));
    assert!(connecting.await.expect("it is given up").unwrap_err().is_timeout());
}
