//! A tool that asks its caller's model, and does without where there is none. See README.md.

use longhaul::proto::model::{CreateMessageParams, InputKind, SamplingMessage};
use longhaul::server::ToolError;
use longhaul::{Cx, Server, tool};

/// Say in a sentence what a text is about.
#[tool(read_only)]
async fn summarize(cx: Cx, text: String) -> Result<String, ToolError> {
    if !cx.can_ask(InputKind::Sampling) {
        return Ok(first_sentence(&text).to_owned());
    }
    let question = vec![SamplingMessage::user(format!("What is this about?\n\n{text}"))];
    let params = CreateMessageParams::new(question, 200).with_system_prompt("Answer in one sentence.");
    Ok(cx.sample(params).await?.text())
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Ok(Server::new("summaries", "1.0.0").tool(summarize).serve_stdio().await?)
}
