//! Calls of `wait` by a caller that takes tasks: each answer must be a task that nobody has seen before.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::http::{Exchange, post};
use super::numbered::{FIRST, Numbered};

/// A call in the modern era, with the tasks extension declared.
pub(crate) fn over_http(host: &str, path: &str) -> Result<Exchange> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"tools/call","params":{{"name":"wait","arguments":{{"message":"the message of call {FIRST}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1.0.0"}},"io.modelcontextprotocol/clientCapabilities":{{"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}}}}}}}}"#,
    );
    let seen = RefCell::new(HashSet::new());
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: wait\r\n";
    Ok(Exchange {
        request: Numbered::learn(post(host, path, headers, &body), FIRST),
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

fn read(number: u32, body: &[u8]) -> Result<String> {
    let Answer { id, result } = serde_json::from_slice(body)?;
    ensure!(id == number, "call {number} got the answer to call {id}");
    ensure!(result.result_type == "task" && result.status == "working", "not a task that works");
    Ok(result.task_id)
}
