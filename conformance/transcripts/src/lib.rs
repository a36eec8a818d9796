//! The servers that the transcripts are held against, and the client.

pub mod client;
mod cut;
mod deadly;
mod queued;
mod rules;
mod tasks;
pub mod v2099_01_01;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longhaul::proto::model::{self, CallToolResult, Icon, Progress, ToolAnnotations};
use longhaul::server::{Elicited, TaskMode, TaskPolicy, ToolError, ToolFuture, ToolHandler};
use longhaul::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The server of that name; `None` if there is none.
pub fn server(name: &str) -> Option<Server> {
    match name {
        "rules" => Some(rules::server()),
        "tasks" => Some(tasks::server()),
        "paged" => Some(tasks::server().page_size(2)),
        "hosts" => Some(hosts()),
        "listed" => Some(listed()),
        "once" => Some(once()),
        "pushed" => Some(pushed()),
        "drafted" => Some(drafted()),
        "cut" => Some(cut::server()),
        "queued" => Some(queued::server()),
        "deadly" => Some(deadly::server()),
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

/// One tool, of which everything is said that can be said of a tool.
fn listed() -> Server {
    let mut definition = model::Tool::new("all", schema());
    definition.title = Some("All".to_owned());
    definition.description = Some("Everything there is to say".to_owned());
    definition.output_schema = Some(schema());
    definition.icons = vec![Icon::new("https://example.com/all.png")];
    definition.annotations = Some(ToolAnnotations::new().with_read_only(true));
    Server::new("listed", "1.0.0").tool(Tool::raw(definition, Told))
}

fn schema() -> Box<RawValue> {
    RawValue::from_string(r#"{"type":"object"}"#.to_owned()).unwrap_or_default()
}

struct Told;

impl ToolHandler for Told {
    fn call(&self, _: Cx, _: &str) -> Result<ToolFuture, CallToolResult> {
        Ok(Box::pin(async { Ok(CallToolResult::text("told").with_structured(schema())) }))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    by: u64,
}

/// A number that goes up, and a tool that may become a task.
fn once() -> Server {
    let number = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&number);
    Server::new("once", "1.0.0")
        .tool(Tool::inline("count", "Count on", move |_, Count { by }| {
            (counted.fetch_add(by, Ordering::Relaxed) + by).to_string()
        }))
        .tool(
            Tool::inline("look", "Look at the number", move |_, Nothing {}| {
                number.load(Ordering::Relaxed).to_string()
            })
            .annotations(ToolAnnotations::new().with_read_only(true)),
        )
        .tool(
            Tool::typed("build", "Build without a word", quietly)
                .task(TaskPolicy::new(TaskMode::After(Duration::from_secs(2)))),
        )
}

async fn quietly(_: Cx, Build { seconds }: Build) -> &'static str {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    "built"
}

#[derive(Deserialize, JsonSchema)]
struct Soon {
    millis: u64,
}

/// Whether to go on.
#[derive(Deserialize, JsonSchema)]
struct Approve {
    /// Yes or no.
    go: bool,
}

/// What is a task at once: one that ends soon, and one that asks.
fn pushed() -> Server {
    Server::new("pushed", "1.0.0")
        .tool(
            Tool::typed("soon", "End soon", |_, Soon { millis }| async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                "done"
            })
            .task(TaskPolicy::always()),
        )
        .tool(Tool::typed("approve", "Ask, then end", approve).task(TaskPolicy::always()))
}

async fn approve(cx: Cx, Nothing {}: Nothing) -> Result<&'static str, ToolError> {
    Ok(match cx.elicit::<Approve>("Go on?").await? {
        Elicited::Accepted(Approve { go: true }) => "gone on",
        _ => "stayed",
    })
}

/// What may be a task as SEP-1686 drafted it, one that asks among them.
fn drafted() -> Server {
    let approve = Tool::typed("approve", "Ask, then end", approve).task(TaskPolicy::always());
    hosts().tool(approve).drafted_tasks(true)
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
