//! The servers that the transcripts are held against.

mod rules;
pub mod v2099_01_01;

use std::time::Duration;

use longhaul::proto::model::Progress;
use longhaul::server::{TaskMode, TaskPolicy, ToolError};
use longhaul::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// The server of that name; `None` if there is none.
pub fn server(name: &str) -> Option<Server> {
    match name {
        "rules" => Some(rules::server()),
        "hosts" => Some(hosts()),
        _ => None,
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Build {
    seconds: u64,
}

async fn build(cx: Cx, Build { seconds }: Build) -> &'static str {
    cx.progress(Progress::new(1.0)).await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    "built"
}

/// What the transcripts of hosts call: three tools, two of which may become tasks.
fn hosts() -> Server {
    let after = TaskPolicy::new(TaskMode::After(Duration::from_secs(2)));
    let broken = |_, Nothing {}| async { Err::<(), _>(ToolError::new("it broke on purpose")) };
    Server::new("transcripts", "1.0.0")
        .tool(Tool::typed("build", "Build", build).task(after.clone()))
        .tool(Tool::typed("quick", "Be quick", |_, Nothing {}| async { "done" }))
        .tool(Tool::typed("broken", "Break", broken).task(after))
}
