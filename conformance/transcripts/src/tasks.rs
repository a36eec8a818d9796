//! A server whose tools become tasks in every way there is, and end in every way.

use std::time::Duration;

use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::proto::model::{CreateMessageParams, LoggingLevel, Progress, SamplingMessage};
use longhaul::server::{CancelPolicy, Elicited, TaskMode, TaskPolicy, ToolError};
use longhaul::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Build, Nothing};

pub(crate) fn server() -> Server {
    let (always, required) = (TaskPolicy::always(), TaskPolicy::new(TaskMode::Required));
    let soon = TaskPolicy::new(TaskMode::After(Duration::from_millis(100)));
    let mut cooperative = always.clone();
    cooperative.cancel = CancelPolicy::cooperative();
    let as_task = |tool: Tool| tool.task(always.clone());
    let broken = |_, Nothing {}| async { Err::<(), _>(ToolError::new("it broke on purpose")) };
    let refused = |_, Nothing {}| async { Err::<(), _>(ToolError::protocol(refusal())) };
    Server::new("tasks", "1.0.0")
        .tool(as_task(Tool::typed("build", "Build", build)))
        .tool(as_task(Tool::typed("chatty", "Build, and say so all the time", chatty)))
        .tool(as_task(Tool::typed("broken", "Break", broken)))
        .tool(as_task(Tool::typed("refused", "End with an error of the protocol's", refused)))
        .tool(as_task(Tool::typed("panics", "Panic", |_, Nothing {}| async { crate::rules::panic() })))
        .tool(as_task(Tool::typed("confirm", "Ask once", confirm)))
        .tool(as_task(Tool::typed("both", "Ask two things at once", both)))
        .tool(as_task(Tool::typed("twice", "Ask the same thing twice", twice)))
        .tool(as_task(Tool::typed("poem", "Ask the model", poem)))
        .tool(as_task(Tool::typed("confirmed", "Ask, then build", confirmed)))
        .tool(Tool::typed("greet", "Ask, then take a while", greet).reentrant(true).task(soon))
        .tool(Tool::typed("heeds", "Wait, and end as it sees fit", heeds).task(cooperative))
        .tool(Tool::typed("only", "Be a task or nothing", build).task(required))
        .tool(Tool::typed("never", "Be no task", |_, Nothing {}| async { "done" }))
}

async fn build(_: Cx, Build { seconds }: Build) -> &'static str {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    "built"
}

/// Reports and logs twice a second.
async fn chatty(cx: Cx, Build { seconds }: Build) -> &'static str {
    for half in 1..=2 * seconds {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cx.progress(Progress::new(u32::try_from(half).map_or(f64::MAX, f64::from))).await;
        cx.log(LoggingLevel::Error, "still at it").await;
    }
    "built"
}

/// Is done with a half once it is told to end.
async fn heeds(cx: Cx, Nothing {}: Nothing) -> &'static str {
    cx.cancelled().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    "half of it"
}

fn refusal() -> ErrorObject {
    ErrorObject::new(Code(-100), "not for you").with_data(&serde_json::json!({"why": "on purpose"}))
}

/// Whether to go on.
#[derive(Deserialize, JsonSchema)]
struct Approve {
    /// Yes or no.
    go: bool,
}

async fn asked(cx: &Cx, what: &str) -> Result<&'static str, ToolError> {
    Ok(match cx.elicit::<Approve>(what).await? {
        Elicited::Accepted(Approve { go: true }) => "yes",
        Elicited::Accepted(_) => "no",
        Elicited::Declined => "declined",
        Elicited::Cancelled => "cancelled",
    })
}

async fn confirm(cx: Cx, Nothing {}: Nothing) -> Result<&'static str, ToolError> {
    asked(&cx, "Go on?").await
}

async fn confirmed(cx: Cx, order: Build) -> Result<String, ToolError> {
    let said = asked(&cx, "Go on?").await?;
    Ok(format!("{said}, {}", build(cx, order).await))
}

async fn both(cx: Cx, Nothing {}: Nothing) -> Result<String, ToolError> {
    let (one, two) = tokio::join!(asked(&cx, "One?"), asked(&cx, "Two?"));
    Ok(format!("{} {}", one?, two?))
}

async fn twice(cx: Cx, Nothing {}: Nothing) -> Result<String, ToolError> {
    let first = asked(&cx, "Again?").await?;
    Ok(format!("{first} {}", asked(&cx, "Again?").await?))
}

async fn poem(cx: Cx, Nothing {}: Nothing) -> Result<String, ToolError> {
    let question = CreateMessageParams::new(vec![SamplingMessage::user("A poem")], 50);
    Ok(cx.sample(question).await?.text())
}

async fn greet(cx: Cx, Nothing {}: Nothing) -> Result<String, ToolError> {
    let said = asked(&cx, "Shall I?").await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(format!("you said {said}"))
}
