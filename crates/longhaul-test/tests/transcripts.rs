//! Replays what hosts are known to send against a server, line by line, over a byte stream and over HTTP.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use longhaul::proto::model::Progress;
use longhaul::server::{Principal, TaskMode, TaskPolicy, ToolError};
use longhaul::transport::http::server as http;
use longhaul::{Cx, Server, Tool, driver};
use longhaul_test::transcript::{Line, Names, parse};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Build {
    seconds: u64,
}

async fn build(cx: Cx, Build { seconds }: Build) -> &'static str {
    cx.progress(Progress::new(1.0)).await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    "built"
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn server() -> Server {
    let after = TaskPolicy::new(TaskMode::After(Duration::from_secs(2)));
    let broken = |_, Nothing {}| async { Err::<(), _>(ToolError::new("it broke on purpose")) };
    Server::new("transcripts", "1.0.0")
        .tool(Tool::typed("build", "Build", build).task(after.clone()))
        .tool(Tool::typed("quick", "Be quick", |_, Nothing {}| async { "done" }))
        .tool(Tool::typed("broken", "Break", broken).task(after))
}

fn transcript(name: &str) -> Vec<Line> {
    let path = format!("{}/../../conformance/transcripts/{name}", env!("CARGO_MANIFEST_DIR"));
    parse(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

async fn replay(name: &str) {
    let lines = transcript(name);
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let dispatcher = server().dispatcher().unwrap();
    let principal = Principal::new("host").unwrap();
    let served = tokio::spawn(driver::serve(
        dispatcher,
        principal,
        reader,
        writer,
        driver::Options::default(),
        std::future::pending(),
    ));
    let (reader, mut writer) = tokio::io::split(ours);
    let mut received = BufReader::new(reader).lines();
    let mut names = Names::default();
    for line in lines {
        match line {
            Line::Client(message) => {
                let message = names.fill(&message).unwrap();
                writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
            Line::Server(expected) => {
                let next = tokio::time::timeout(Duration::from_secs(3600), received.next_line()).await;
                let text = next.unwrap_or_else(|_| panic!("{name}: nothing came; expected {expected}"));
                let text = text.unwrap().unwrap_or_else(|| panic!("{name}: the connection ended"));
                let message: Value = serde_json::from_str(&text).unwrap();
                if let Err(difference) = names.check(&expected, &message) {
                    panic!("{name}: {difference}\n  received {message}");
                }
            }
        }
    }
    writer.shutdown().await.unwrap();
    served.await.unwrap().unwrap();
}

/// The same over Streamable HTTP of the modern era: each message a POST, with the headers that repeat what it says.
async fn replay_over_http(name: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let dispatcher = server().dispatcher().unwrap();
    let served =
        tokio::spawn(http::serve(dispatcher, listener, http::Options::default(), std::future::pending()));
    let mut names = Names::default();
    let mut received = VecDeque::new();
    for line in transcript(name) {
        match line {
            Line::Client(message) => {
                assert!(received.is_empty(), "{name}: not expected: {received:?}");
                received = post(address, &names.fill(&message).unwrap()).await;
            }
            Line::Server(expected) => {
                let message = received.pop_front();
                let message = message.unwrap_or_else(|| panic!("{name}: nothing came; expected {expected}"));
                if let Err(difference) = names.check(&expected, &message) {
                    panic!("{name}: {difference}\n  received {message}");
                }
            }
        }
    }
    served.abort();
}

/// Sends one message as a modern client does, and reads all that is answered.
async fn post(address: SocketAddr, message: &Value) -> VecDeque<Value> {
    let params = &message["params"];
    let revision = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
    let named = ["name", "taskId", "uri"].into_iter().find_map(|member| params[member].as_str());
    let mut head = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    head += &format!("MCP-Protocol-Version: {}\r\n", revision.as_str().unwrap());
    head += &format!("Mcp-Method: {}\r\n", message["method"].as_str().unwrap());
    head += &named.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let body = message.to_string();
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    // One JSON body, or events in chunks: either way each message is a line of its own.
    let lines = answer.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    lines.filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn claude_code_is_served_over_http() {
    replay_over_http("claude_code_d3.txt").await;
}

#[tokio::test(start_paused = true)]
async fn claude_code_is_served_by_the_tasks_extension() {
    replay("claude_code_d3.txt").await;
}

#[tokio::test(start_paused = true)]
async fn vs_code_is_served_by_the_tasks_of_its_revision() {
    replay("vs_code_d2.txt").await;
}
