//! What is counted.

use std::future::pending;

use anyhow::{Context, Result};
use longhaul::server::{Catalogue, Dispatcher, local_user};
use longhaul::transport::{http, memory};
use longhaul::{Tool, driver};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::split;

use crate::served::{Nothing, server};
use crate::wire::{Client, Way, door};

/// How often an operation is done.
const OFTEN: u32 = 200;

/// How often one is that is put off for a moment each time.
const SELDOM: u32 = 20;

/// One operation, ready to be done.
pub(crate) struct Operation {
    /// What it is.
    pub(crate) name: &'static str,
    /// How often it is done while it is counted.
    pub(crate) times: u32,
    client: Client,
    does: Does,
}

enum Does {
    /// A request over HTTP and its answer.
    Post(Vec<u8>),
    /// A line and the line that answers it.
    Say(Vec<u8>),
    /// A change of a list, until who listens has heard of it.
    Change(Catalogue),
}

impl Operation {
    /// Does it.
    pub(crate) async fn once(&mut self) -> Result<()> {
        match &self.does {
            Does::Post(request) => self.client.post(request).await.map(drop),
            Does::Say(line) => self.client.say(line).await.map(drop),
            Does::Change(catalogue) => {
                catalogue.put(Tool::inline("passing", "Here for a moment", |_, Nothing {}| "here"))?;
                self.client.hear("notifications/tools/list_changed").await
            }
        }
    }
}

/// All of them, of one server.
pub(crate) async fn all() -> Result<Vec<Operation>> {
    let (server, catalogue) = server();
    let dispatcher = server.dispatcher()?;
    dispatcher.start().await?;
    let (way, door) = door();
    let options = http::server::Options::default();
    tokio::spawn(http::server::serve(dispatcher.clone(), door, options, pending()));

    let message = json!({"message": "the message of call 1000000"});
    let task = created(&way).await?;
    let mut operations = Vec::new();
    for (name, method, of, params) in [
        ("call", "tools/call", "echo", json!({"name": "echo", "arguments": message})),
        ("call of a tool with tasks", "tools/call", "late", json!({"name": "late", "arguments": message})),
        ("list of 100 tools", "tools/list", "", json!({})),
        ("read", "resources/read", "bench://text", json!({"uri": "bench://text"})),
        ("prompt", "prompts/get", "greet", json!({"name": "greet", "arguments": message})),
        ("discover", "server/discover", "", json!({})),
        ("create", "tools/call", "wait", json!({"name": "wait", "arguments": {}})),
        ("get", "tasks/get", &*task, json!({"taskId": task})),
    ] {
        let (client, does) = (way.connect().await?, Does::Post(post(method, of, params)));
        operations.push(Operation { name, times: OFTEN, client, does });
    }
    for (name, params) in [
        ("call over stdio", json!({"name": "echo", "arguments": message})),
        ("call of ten steps over stdio", json!({"name": "step", "arguments": {}})),
    ] {
        let (client, does) = (session(&dispatcher).await?, Does::Say(line("tools/call", &params)));
        operations.push(Operation { name, times: OFTEN, client, does });
    }
    let (client, does) = (listening(&way).await?, Does::Change(catalogue));
    operations.push(Operation { name: "change told", times: SELDOM, client, does });
    Ok(operations)
}

/// A request of the modern era by a client that takes tasks.
fn post(method: &str, of: &str, mut params: Value) -> Vec<u8> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let body = line(method, &params);
    let of = if of.is_empty() { String::new() } else { format!("Mcp-Name: {of}\r\n") };
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: {method}\r\n{of}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

fn line(method: &str, params: &Value) -> Vec<u8> {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": 1_000_000, "method": method, "params": params}))
        .into_bytes()
}

/// The id of a task that stays open.
async fn created(way: &Way) -> Result<String> {
    #[derive(Deserialize)]
    struct Answer {
        result: Created,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created {
        task_id: String,
    }
    let request = post("tools/call", "wait", json!({"name": "wait", "arguments": {}}));
    let mut client = way.connect().await?;
    let answer: Answer = serde_json::from_slice(client.post(&request).await?).context("no task")?;
    Ok(answer.result.task_id)
}

/// Who has opened a session over a byte stream, as over stdio.
async fn session(dispatcher: &Dispatcher) -> Result<Client> {
    let (ours, theirs) = memory::pair();
    let (reader, writer) = split(theirs);
    let options = driver::Options::default();
    tokio::spawn(driver::serve(dispatcher.clone(), local_user(), reader, writer, options, pending()));
    let mut client = Client::new(ours);
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1.0.0"},
    });
    client.say(&line("initialize", &hello)).await?;
    client.tell(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await?;
    Ok(client)
}

/// Who hears of changes of the list of tools.
async fn listening(way: &Way) -> Result<Client> {
    let mut client = way.connect().await?;
    let params = json!({"notifications": {"toolsListChanged": true}});
    client.tell(&post("subscriptions/listen", "", params)).await?;
    client.hear("notifications/subscriptions/acknowledged").await?;
    Ok(client)
}
