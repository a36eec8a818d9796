//! What the example promises.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../host.rs"]
mod host;

use std::process::Command;

use host::{Host, REVISIONS, nothing};
use serde_json::{Value, json};

#[test]
fn a_phrase_is_a_tool_once_it_is_learnt() {
    for revision in REVISIONS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic"));
        let mut host = Host::start(&mut command, revision, json!({}), nothing);
        if host.is_modern() {
            let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["phrases://all"]});
            host.request("subscriptions/listen", json!({"notifications": wanted}));
        } else {
            host.ask("resources/subscribe", json!({"uri": "phrases://all"}));
        }
        assert_eq!(tools(&mut host), ["learn", "forget"]);

        host.call("learn", json!({"name": "hello", "text": "Good day!"}));
        hear(&mut host, "notifications/tools/list_changed");
        assert_eq!(tools(&mut host), ["learn", "forget", "say_hello"]);
        assert_eq!(host.call("say_hello", json!({})).0, "Good day!");

        host.call("learn", json!({"name": "hello", "text": "Moin!"}));
        hear(&mut host, "notifications/resources/updated");
        assert_eq!(host.call("say_hello", json!({})).0, "Moin!");
        let book = host.ask("resources/read", json!({"uri": "phrases://all"}));
        assert_eq!(book["contents"][0]["text"], "hello: Moin!\n");

        host.call("forget", json!({"name": "hello"}));
        hear(&mut host, "notifications/tools/list_changed");
        assert_eq!(tools(&mut host), ["learn", "forget"]);
        let gone = host.try_ask("tools/call", json!({"name": "say_hello"}));
        assert_eq!(gone["error"]["code"], -32602, "{gone}");
        assert!(host.call("forget", json!({"name": "hello"})).1, "it was forgotten twice");
    }
}

fn tools(host: &mut Host) -> Vec<String> {
    let listed = host.ask("tools/list", json!({}));
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    listed["tools"].as_array().unwrap().iter().map(name).collect()
}

/// Reads until the server has told this, if it has not yet; forgets everything it has told.
fn hear(host: &mut Host, method: &str) {
    while !host.heard.iter().any(|heard| heard == method) {
        let message = host.receive();
        host.take(&message);
    }
    host.heard.clear();
}
