//! Calls of `wait` by a caller that takes tasks: each answer must be a task that nobody has seen before.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::http::{Exchange, post};
use super::numbered::{FIRST, Numbered};

/// What every request of the modern era says of itself, by a client that takes tasks.
pub(crate) const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

/// A call that becomes a task; each header more ends its line.
pub(crate) fn request(host: &str, path: &str, headers: &str, number: u32) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"wait","arguments":{{"message":"the message of call {number}"}},"_meta":{META}}}}}"#,
    );
    let headers =
        format!("{headers}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: wait\r\n");
    post(host, path, &headers, &body)
}

/// A call in the modern era, with the tasks extension declared.
pub(crate) fn over_http(host: &str, path: &str) -> Result<Exchange> {
    let seen = RefCell::new(HashSet::new());
    Ok(Exchange {
        requests: vec![Numbered::learn(request(host, path, "", FIRST), FIRST)],
        check: Rc::new(move |number, body| {
            let task = read(number, body).with_context(|| format!("in {}", String::from_utf8_lossy(body)))?;
            ensure!(seen.borrow_mut().insert(task), "call {number} was answered with the task of another");
            Ok(())
        }),
        pattern: Rc::new(|| None),
    })
}

#[derive(Deserialize)]
struct Answer {
    id: u32,
    result: Created,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    result_type: String,
    task_id: String,
    status: String,
}

/// The task that is the answer to that call.
pub(crate) fn read(number: u32, body: &[u8]) -> Result<String> {
    let Answer { id, result } = serde_json::from_slice(body)?;
    ensure!(id == number, "call {number} got the answer to call {id}");
    ensure!(result.result_type == "task" && result.status == "working", "not a task that works");
    Ok(result.task_id)
}
