//! The tools that ask the client: its model, its user, and where they may work.

use std::time::Duration;

use longhaul::proto::model::{
    Content, CreateMessageParams, ElicitUrl, InputKind, Role, Root, SamplingContent, SamplingMessage,
    ToolAnnotations, ToolChoice, ToolResult, ToolUse,
};
use longhaul::server::{AskError, Elicited, TaskMode, TaskPolicy, ToolError};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content;

/// Each of them.
pub(crate) fn tools() -> [Tool; 7] {
    [
        Tool::typed("ask_model", "Ask the client's model", |cx: Cx, Ask { message }| async move {
            Ok::<_, ToolError>(model(&cx, message).await?)
        })
        .asks(InputKind::Sampling),
        Tool::typed(
            "ask_weather",
            "Ask the client's model, which may use a tool",
            |cx: Cx, Ask { message }| async move { Ok::<_, ToolError>(model_with_tool(&cx, message).await?) },
        )
        .asks(InputKind::SamplingWithTools),
        Tool::typed("ask_user", "Have the user fill in an order", |cx: Cx, Ask { message }| async move {
            Ok::<_, ToolError>(order(&cx, message).await?)
        })
        .asks(InputKind::Form),
        Tool::typed("order", "Take an order, which may take a while", |cx: Cx, Ask { message }| async move {
            Ok::<_, ToolError>(order(&cx, message).await?)
        })
        .task(TaskPolicy::new(TaskMode::After(Duration::from_secs(2))))
        .asks(InputKind::Form),
        Tool::typed("send_user", "Send the user to a page", |cx: Cx, Ask { message }| async move {
            let page = ElicitUrl::new(message, "https://example.com/sign-in", "sign-in");
            let id = page.id.clone();
            let elicited = cx.elicit_url(page).await?;
            // Nobody can sign in there, so they are done at once.
            cx.elicitation_complete(&id).await;
            Ok::<_, ToolError>(said(elicited, |()| "went there".to_owned()))
        })
        .asks(InputKind::Url),
        Tool::typed("ask_roots", "Ask where to work", |cx: Cx, Nothing {}| async move {
            Ok::<_, ToolError>(uris(&cx.roots().await?))
        })
        .asks(InputKind::Roots),
        // It only reads, so that in the modern era its state travels with the client.
        Tool::typed("ask_all", "Ask for everything at once", |cx: Cx, Nothing {}| async move {
            let question = model(&cx, "Who are you?".to_owned());
            let (model, order, roots) =
                tokio::join!(question, order(&cx, "What would you like?".to_owned()), cx.roots());
            Ok::<_, ToolError>(format!("{}; {}; {}", model?, order?, uris(&roots?)))
        })
        .annotations(read_only()),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Ask {
    /// What to ask.
    message: String,
}

fn read_only() -> ToolAnnotations {
    let mut hints = ToolAnnotations::default();
    hints.read_only_hint = Some(true);
    hints
}

async fn model(cx: &Cx, message: String) -> Result<String, AskError> {
    let params = CreateMessageParams::new(vec![SamplingMessage::user(message)], 100)
        .with_system_prompt("Answer in a word.");
    Ok(cx.sample(params).await?.text())
}

/// How often the model may use the tool.
const USES: usize = 3;

/// Lets the model use a tool until it has an answer.
async fn model_with_tool(cx: &Cx, message: String) -> Result<String, AskError> {
    let tool = content::weather().definition().clone();
    let mut said = vec![SamplingMessage::user(message)];
    for _ in 0..USES {
        let params =
            CreateMessageParams::new(said.clone(), 100).with_tools(vec![tool.clone()], ToolChoice::Auto);
        let answer = cx.sample(params).await?;
        let used =
            |tool: &ToolUse| ToolResult::new(&tool.id, vec![Content::text(format!("{}: 3.5", tool.input))]);
        let results: Vec<_> = answer.tool_uses().map(used).map(SamplingContent::ToolResult).collect();
        if results.is_empty() {
            return Ok(answer.text());
        }
        said.push(SamplingMessage::new(Role::Assistant, answer.content));
        said.push(SamplingMessage::new(Role::User, results));
    }
    Ok("the model only ever used its tool".to_owned())
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Extra {
    /// A biscuit
    Biscuit,
    /// Two lumps of sugar
    Sugar,
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Who orders.
    #[schemars(length(min = 1, max = 40))]
    name: String,
    /// How many cups.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9))]
    cups: u8,
    /// Of what size.
    size: Size,
    /// To take away.
    #[serde(default)]
    to_go: bool,
    /// What comes with it.
    #[serde(default)]
    extras: Vec<Extra>,
}

fn one() -> u8 {
    1
}

async fn order(cx: &Cx, message: String) -> Result<String, AskError> {
    Ok(said(cx.elicit::<Order>(message).await?, |Order { name, cups, size, to_go, extras }| {
        let size = match size {
            Size::Small => "small",
            Size::Large => "large",
        };
        let extra = |extra: &Extra| match extra {
            Extra::Biscuit => " with a biscuit",
            Extra::Sugar => " with sugar",
        };
        let extras: String = extras.iter().map(extra).collect();
        format!("{cups} {size} for {name}{}{extras}", if to_go { " to go" } else { "" })
    }))
}

fn said<T>(elicited: Elicited<T>, accepted: impl FnOnce(T) -> String) -> String {
    match elicited {
        Elicited::Accepted(value) => accepted(value),
        Elicited::Declined => "declined".to_owned(),
        Elicited::Cancelled => "went away".to_owned(),
    }
}

fn uris(roots: &[Root]) -> String {
    roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" ")
}
