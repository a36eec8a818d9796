//! Streams that break, and the stream for what belongs to no request.

use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::client::{Client, Error, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::ElicitResult;
use serde_json::json;

use super::played::{Heard, discovery, eventually, legacy, play, respond};

/// A stream that ends before the answer.
fn cut_short(request: &Heard) -> String {
    assert_eq!(request.body["method"], "tools/call");
    respond("200 OK", "text/event-stream", "", "id: e-1\nretry: 10\ndata:\n\n")
}

#[tokio::test]
async fn a_call_whose_stream_breaks_is_gone_on_with_from_where_it_was() {
    let (other, resumed) = (legacy("no", "text/plain", "400 Bad Request"), AtomicUsize::new(0));
    let (url, heard) = play(move |request| {
        if request.body["method"] == "tools/call" {
            return cut_short(request);
        }
        if !request.has("last-event-id") {
            return other(request);
        }
        let answer = |last: &str| {
            let result = json!({ "content": [{ "type": "text", "text": "late" }] });
            // The first request was `initialize`, after the one that asked for the revision.
            let answer = json!({ "jsonrpc": "2.0", "id": 3, "result": result });
            respond("200 OK", "text/event-stream", "", &format!("id: {last}\ndata: {answer}\n\n"))
        };
        match resumed.fetch_add(1, Ordering::AcqRel) {
            0 => respond("503 Service Unavailable", "text/plain", "", "restarting"),
            // It is closed again, for its client to come back to.
            1 => respond("200 OK", "text/event-stream", "", "id: e-2\ndata:\n\n"),
            _ => answer("e-3"),
        }
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    let result = client.call("x", &()).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("late"));
    let heard = heard.lock().unwrap();
    let back: Vec<&Heard> = heard.iter().filter(|request| request.head.starts_with("GET")).collect();
    assert_eq!(back.len(), 3);
    assert!(
        back.iter()
            .all(|request| request.has("mcp-session-id: s3cret") && request.has("accept: text/event-stream"))
    );
    assert!(
        back[0].has("last-event-id: e-1") && back[1].has("last-event-id: e-1"),
        "what was not heard is asked for"
    );
    assert!(back[2].has("last-event-id: e-2"));
    let calls = heard.iter().filter(|request| request.body["method"] == "tools/call");
    assert_eq!(calls.count(), 1, "a call is made once");
}

#[tokio::test]
async fn a_stream_whose_server_gives_no_more_of_it_is_lost() {
    // Whether its client comes back again, and whether that the call was sent is all that is known then.
    for (status, comes_again, is_lost) in [
        ("404 Not Found", false, true),
        ("400 Bad Request", false, false),
        ("503 Service Unavailable", true, true),
    ] {
        let times = AtomicUsize::new(0);
        let other = legacy("no", "text/plain", "400 Bad Request");
        let (url, heard) = play(move |request| {
            if request.body["method"] == "tools/call" {
                return cut_short(request);
            }
            if request.has("last-event-id") {
                if comes_again && times.fetch_add(1, Ordering::AcqRel) == 0 {
                    // It waits longer each time.
                    tokio::time::pause();
                }
                respond(status, "text/plain", "", "gone")
            } else {
                other(request)
            }
        })
        .await;
        let client = Client::connect(url.as_str()).await.unwrap();
        let error = client.call("x", &()).await.unwrap_err();
        // Its session may be gone, or all of it be away, but not what the call has done.
        assert_eq!(matches!(error, Error::Lost { .. }), is_lost, "{error:?}");
        let back = heard.lock().unwrap().iter().filter(|request| request.head.starts_with("GET")).count();
        assert!(back == 1 || (comes_again && back > 1), "{back}");
    }
}

#[tokio::test]
async fn a_stream_that_names_no_event_or_stands_alone_is_not_asked_for_again() {
    let other = legacy("no", "text/plain", "400 Bad Request");
    let (unnamed, heard_unnamed) = play(move |request| match request.body["method"].as_str() {
        Some("tools/call") => respond("200 OK", "text/event-stream", "", "data:\n\n"),
        _ => other(request),
    })
    .await;
    let (modern, heard_modern) = play(|request| match request.body["method"].as_str() {
        Some("tools/call") => cut_short(request),
        _ => discovery(request),
    })
    .await;
    for (url, heard) in [(unnamed, heard_unnamed), (modern, heard_modern)] {
        let client = Client::connect(url.as_str()).await.unwrap();
        let error = client.call("x", &()).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        assert!(heard.lock().unwrap().iter().all(|request| !request.head.starts_with("GET")));
    }
}

#[tokio::test]
async fn who_can_be_asked_listens_before_it_calls() {
    let other = legacy("no", "text/plain", "400 Bad Request");
    let (url, heard) = play(move |request| {
        if request.head.starts_with("GET") {
            let schema = json!({ "type": "object", "properties": { "size": { "type": "string", "default": "small" } } });
            let params = json!({ "message": "Which?", "requestedSchema": schema });
            let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params });
            return respond("200 OK", "text/event-stream", "", &format!("data: {question}\n\n"));
        }
        if request.body.get("result").is_some() {
            return respond("202 Accepted", "text/plain", "", "");
        }
        other(request)
    })
    .await;
    let answering = Options::default()
        .revision(Revision::V2025_11_25)
        .on_form(|form| async move { ElicitResult::accepted(form.form.defaults()) });
    let client = Client::connect_with(url.as_str(), answering).await.unwrap();
    assert!(
        heard.lock().unwrap().iter().any(|request| request.head.starts_with("GET")),
        "it listens at once"
    );
    let answered =
        || heard.lock().unwrap().iter().any(|request| request.body["result"]["content"]["size"] == "small");
    eventually("nobody answered", answered).await;
    client.close().await;
}
