//! `tasks/get` of tasks that work on, each asked after in its turn.

use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::http::{Exchange, post};
use super::numbered::{FIRST, Numbered};
use super::{creates, session};

/// Makes so many tasks, to ask after them.
pub(crate) fn over_http(host: &str, path: &str, tasks: u32) -> Result<Exchange> {
    let create = |nth| {
        let answer = session::ask(host, &creates::request(host, path, session::CLOSE, FIRST + nth))?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        creates::read(FIRST + nth, body.as_bytes()).with_context(|| format!("in {answer}"))
    };
    let tasks = (0..tasks).map(create).collect::<Result<Vec<_>>>()?;
    let requests = tasks.iter().map(|task| Numbered::learn(request(host, path, task), FIRST)).collect();
    Ok(Exchange {
        requests,
        check: Rc::new(move |number, body| {
            let task = &tasks[number as usize % tasks.len()];
            check(number, task, body).with_context(|| format!("in {}", String::from_utf8_lossy(body)))
        }),
        pattern: Rc::new(|| None),
    })
}

fn request(host: &str, path: &str, task: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"tasks/get","params":{{"taskId":"{task}","_meta":{}}}}}"#,
        creates::META
    );
    let headers =
        format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tasks/get\r\nMcp-Name: {task}\r\n");
    post(host, path, &headers, &body)
}

#[derive(Deserialize)]
struct Answer<'a> {
    id: u32,
    #[serde(borrow)]
    result: Task<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task<'a> {
    task_id: &'a str,
    status: &'a str,
}

fn check(number: u32, task: &str, body: &[u8]) -> Result<()> {
    let Answer { id, result } = serde_json::from_slice(body)?;
    ensure!(id == number, "call {number} got the answer to call {id}");
    ensure!(result.task_id == task && result.status == "working", "not task {task}, which works on");
    Ok(())
}
