//! Ids of drafted tasks, which callers give: what they can be made of, over HTTP.

use longhaul::transport::http::server::Options;
use serde_json::{Value, json};

use crate::rig::{Host, request};

/// What no id is: of a megabyte, with characters that end a line or a header, and with those that no terminal should see.
fn odd_ids() -> Vec<Value> {
    let megabyte = 1 << 20;
    let texts = [
        "x".repeat(megabyte),
        "\u{1}".repeat(megabyte / 8),
        "786512e2-9e0d-44bd-8f29\r\nSet-Cookie: evil=1\r\n\r\nevil".to_owned(),
        "786512e2-9e0d-44bd-8f29\nMcp-Session-Id: evil".to_owned(),
        "786512e2-9e0d-44bd-8f29\0evil".to_owned(),
        "786512e2-9e0d-44bd-8f29\u{7f}evil".to_owned(),
        "\u{1b}]0;evil\u{7}786512e2-9e0d-44bd-8f29".to_owned(),
        "786512e2-9e0d-44bd-8f29\u{2028}evil".to_owned(),
        "786512e2-9e0d-44bd-8f29 evil".to_owned(),
        String::new(),
    ];
    texts.into_iter().map(Value::String).chain([json!(1e300), json!({"evil": 1}), json!(["evil"])]).collect()
}

/// A5 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a5_an_odd_id_of_a_drafted_task_runs_nothing_and_reaches_no_header() {
    let host = Host::of(|server| server.drafted_tasks(true), Options::default()).await;
    let session = host.initialize().await;
    let call = |id: &Value| {
        let meta = json!({"modelcontextprotocol.io/task": {"taskId": id}});
        request("tools/call", json!({"name": "long_nap", "arguments": {"millis": 1}, "_meta": meta}))
    };
    for id in odd_ids() {
        let asked = ["tasks/get", "tasks/result", "tasks/delete"]
            .map(|method| request(method, json!({"taskId": id})));
        for message in [call(&id)].iter().chain(&asked) {
            let answer = host.in_session(&session, message).await;
            let method = &message["method"];
            let short = answer.body.len() < 4096 && answer.head.len() < 4096;
            assert!(
                short,
                "{method}: an id is not said again: {} and {} bytes",
                answer.head.len(),
                answer.body.len()
            );
            assert_eq!(answer.status, 200, "{method}: {answer:?}");
            assert_eq!(answer.code(), -32602, "{method}: {answer:?}");
            assert!(!answer.head.contains("evil"), "{method}: {answer:?}");
            assert!(!answer.body.contains("evil"), "{method}: {answer:?}");
        }
    }
    assert_eq!(host.runs(), 0);
    let answer = host.in_session(&session, &call(&json!("786512e2-9e0d-44bd-8f29-789f320fe840"))).await;
    assert_eq!(
        answer.json()["result"]["content"][0]["text"],
        "rested",
        "any other is as good as before: {answer:?}"
    );
}
