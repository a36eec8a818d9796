//! What a caller could have the server ask elsewhere.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::rig::{Answer, Host, request};

/// As what a caller would name an address to be told, or fetched, something.
const NAMES: [&str; 20] = [
    "callback",
    "callbackUrl",
    "context",
    "endpoint",
    "href",
    "notificationUrl",
    "notify",
    "push",
    "pushNotificationConfig",
    "pushNotifications",
    "redirect_uri",
    "ref",
    "reply_to",
    "resource",
    "src",
    "target",
    "url",
    "webhook",
    "webhookUrl",
    "websiteUrl",
];

const HEADERS: [&str; 8] = [
    "callback-url",
    "destination",
    "forwarded",
    "link",
    "notify-url",
    "referer",
    "webhook",
    "x-callback-url",
];

/// Every method of every revision, as their authors published them.
fn methods() -> BTreeSet<String> {
    fn find(schema: &Value, found: &mut BTreeSet<String>) {
        if let Some(method) = schema.pointer("/properties/method/const").and_then(Value::as_str) {
            found.insert(method.to_owned());
        }
        match schema {
            Value::Object(members) => members.values().for_each(|value| find(value, found)),
            Value::Array(items) => items.iter().for_each(|value| find(value, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    for schema in std::fs::read_dir("../../conformance/schema").unwrap() {
        find(&serde_json::from_slice(&std::fs::read(schema.unwrap().path()).unwrap()).unwrap(), &mut found);
    }
    assert!(found.contains("tasks/update") && found.contains("ping"), "{found:?}");
    found
}

/// Members that name the address wherever one could be looked for.
fn naming(address: &str) -> Map<String, Value> {
    let plain = NAMES.map(|name| (name.to_owned(), json!(address)));
    let mut all: Map<String, Value> = plain.into_iter().collect();
    let config = json!({"url": address, "token": "t", "authentication": {"schemes": ["Bearer"]}});
    all.insert("pushNotificationConfig".to_owned(), config.clone());
    all.insert("webhooks".to_owned(), json!([address, config]));
    all.insert("icons".to_owned(), json!([{"src": address}]));
    all
}

/// The tasks that the answer says have begun.
fn begun(answer: &Answer) -> Vec<String> {
    let named = |message: &Value| {
        let result = &message["result"];
        [&result["taskId"], &result["task"]["taskId"]].into_iter().find_map(Value::as_str).map(str::to_owned)
    };
    answer.messages().iter().filter_map(named).collect()
}

/// No server of ours tells anybody anything at an address that a caller has named, nor fetches it: what is pushed goes by
/// the caller's own connection.
#[tokio::test]
async fn s28_no_address_that_a_caller_names_is_asked() {
    let named = TcpListener::bind("127.0.0.1:0").unwrap();
    named.set_nonblocking(true).unwrap();
    let address = format!("http://{}/told", named.local_addr().unwrap());
    let host = Host::start().await;
    let session = host.initialize().await;
    let mut tasks = BTreeSet::new();
    for method in methods().iter().filter(|method| *method != "subscriptions/listen") {
        let mut params = naming(&address);
        for within in ["arguments", "capabilities", "clientInfo", "task", "inputResponses", "notifications"] {
            params.insert(within.to_owned(), naming(&address).into());
        }
        params.insert("name".to_owned(), json!("long_nap"));
        params["arguments"]["millis"] = json!(50);
        params["clientInfo"]["name"] = json!("t");
        params["clientInfo"]["version"] = json!("1");
        for (member, value) in
            [("uri", json!(address)), ("taskId", json!(address)), ("protocolVersion", json!("2025-11-25"))]
        {
            params.insert(member.to_owned(), value);
        }
        let mut meta = naming(&address);
        let mut headers: Vec<_> = HEADERS.map(|name| (name, address.as_str())).to_vec();
        if method != "initialize" {
            headers.extend([("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")]);
        }
        params.insert("_meta".to_owned(), meta.clone().into());
        let answer = host.post(&headers, &request(method, params.clone().into()).to_string()).await;
        assert!(answer.status < 500, "{method}: {answer:?}");
        tasks.extend(begun(&answer));

        params.remove("task");
        meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!("2026-07-28"));
        let takes = json!({"extensions": {"io.modelcontextprotocol/tasks": naming(&address)}});
        meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), takes);
        params.insert("_meta".to_owned(), meta.into());
        headers.truncate(HEADERS.len());
        headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]);
        let whose = match method.as_str() {
            "resources/read" | "tasks/get" | "tasks/update" | "tasks/cancel" => &address,
            _ => "long_nap",
        };
        headers.push(("mcp-name", whose));
        let answer = host.post(&headers, &request(method, params.into()).to_string()).await;
        assert!(answer.status < 500, "{method}: {answer:?}");
        tasks.extend(begun(&answer));
    }
    assert!(tasks.len() >= 2, "the calls were made in both eras: {tasks:?}");
    for task in tasks {
        while host.modern("tasks/get", json!({"taskId": task})).await.json()["result"]["status"] == "working"
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(host.runs() >= 2, "they have run");
    // Whoever would be told of their ends would be told by now, or soon.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let came = named.accept().map(|(_, from)| from);
    assert_eq!(
        came.map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock),
        "somebody was told, or fetched it"
    );
}
