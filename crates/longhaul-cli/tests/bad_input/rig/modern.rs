//! A client of the modern era, over HTTP, that can take tasks.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::http::{Answer, request, send};
use super::{HANG, eventually};

pub(crate) const REVISION: &str = "2026-07-28";

/// The `_meta` of a request that declares the tasks extension.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    })
}

/// A whole request.
pub(crate) fn body(method: &str, mut params: Value) -> Value {
    if params.get("_meta").is_none() {
        params["_meta"] = meta();
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The headers that go with a request.
pub(crate) fn headers<'a>(method: &'a str, name: &'a str) -> Vec<(&'static str, &'a str)> {
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", REVISION),
        ("Mcp-Method", method),
    ];
    if !name.is_empty() {
        headers.push(("Mcp-Name", name));
    }
    headers
}

/// Sends a request and reads its answer.
#[track_caller]
pub(crate) fn ask(address: SocketAddr, method: &str, name: &str, params: Value) -> Answer {
    let body = body(method, params).to_string();
    send(address, &request("POST", "/mcp", &headers(method, name), body.as_bytes()))
}

/// Calls a tool; the whole JSON-RPC answer.
#[track_caller]
pub(crate) fn call(address: SocketAddr, tool: &str, arguments: Value) -> Value {
    ask(address, "tools/call", tool, json!({"name": tool, "arguments": arguments})).message()
}

/// Calls a tool as a client that cannot take tasks.
#[track_caller]
pub(crate) fn call_held(address: SocketAddr, tool: &str, arguments: Value) -> Value {
    let mut meta = meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    ask(address, "tools/call", tool, json!({"name": tool, "arguments": arguments, "_meta": meta})).message()
}

/// Calls a tool that becomes a task; the task's id.
#[track_caller]
pub(crate) fn begin(address: SocketAddr, tool: &str, arguments: Value) -> String {
    let answer = call(address, tool, arguments);
    let id = answer["result"]["taskId"].as_str();
    id.unwrap_or_else(|| panic!("no task: {answer}")).to_owned()
}

/// What `tasks/get` says of a task.
#[track_caller]
pub(crate) fn task(address: SocketAddr, id: &str) -> Value {
    let answer = ask(address, "tasks/get", id, json!({"taskId": id})).message();
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"].clone()
}

/// The task once it has ended.
#[track_caller]
pub(crate) fn ended(address: SocketAddr, id: &str) -> Value {
    eventually("the end of the task", || Some(task(address, id)).filter(|task| task["status"] != "working"))
}

/// Cancels a task and waits until it is.
#[track_caller]
pub(crate) fn cancel(address: SocketAddr, id: &str) -> Value {
    let answer = ask(address, "tasks/cancel", id, json!({"taskId": id})).message();
    assert!(answer["error"].is_null(), "{answer}");
    ended(address, id)
}

/// The text of a result.
#[track_caller]
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// All of a stream of a task's output, read by the cursor, and whether each read was within the bound.
#[track_caller]
pub(crate) fn output(address: SocketAddr, id: &str, stream: &str) -> Vec<Value> {
    let (mut read, mut after) = (Vec::new(), 0);
    let until = std::time::Instant::now() + HANG;
    loop {
        assert!(std::time::Instant::now() < until, "the output does not end");
        let uri = format!("longhaul://tasks/{id}/{stream}?after={after}");
        let answer = ask(address, "resources/read", &uri, json!({"uri": uri})).message();
        let contents = answer["result"]["contents"][0].clone();
        assert!(contents.is_object(), "{answer}");
        if contents["text"].as_str().or_else(|| contents["blob"].as_str()).is_none_or(str::is_empty) {
            read.push(contents);
            return read;
        }
        after =
            contents["_meta"]["dev.longhaul/output"]["next"].as_u64().unwrap_or_else(|| panic!("{contents}"));
        read.push(contents);
    }
}
