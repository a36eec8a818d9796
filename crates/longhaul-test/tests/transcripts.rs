//! Replays what hosts are known to send against a server, line by line.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use longhaul::proto::model::Progress;
use longhaul::server::{Principal, TaskMode, TaskPolicy, ToolError};
use longhaul::{Cx, Server, Tool, driver};
use longhaul_test::transcript::{Line, Names, parse};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

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

async fn replay(name: &str) {
    let path = format!("{}/../../conformance/transcripts/{name}", env!("CARGO_MANIFEST_DIR"));
    let lines = parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
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

#[tokio::test(start_paused = true)]
async fn claude_code_is_served_by_the_tasks_extension() {
    replay("claude_code_d3.txt").await;
}

#[tokio::test(start_paused = true)]
async fn vs_code_is_served_by_the_tasks_of_its_revision() {
    replay("vs_code_d2.txt").await;
}
