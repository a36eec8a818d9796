//! The tools and the prompt that ask the client: named and behaving as the suite asks.

use longhaul::proto::model::{
    CreateMessageParams, Field, Form, InputKind, Root, SamplingMessage, TextFormat,
};
use longhaul::server::{AskError, Elicited, Prompt, ToolError};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

/// Every tool that asks.
pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = in_a_session();
    tools.extend(in_rounds());
    tools
}

#[derive(Deserialize, JsonSchema)]
struct Sampling {
    /// What to ask the model.
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Eliciting {
    /// What to ask the user.
    message: String,
}

fn in_a_session() -> Vec<Tool> {
    vec![
        Tool::typed("test_sampling", "Ask the client's model", |cx: Cx, Sampling { prompt }| async move {
            Ok::<_, ToolError>(format!("LLM response: {}", sample(&cx, prompt).await?))
        }),
        Tool::typed(
            "test_elicitation",
            "Ask the client's user",
            |cx: Cx, Eliciting { message }| async move {
                let form = Form::new().with("username", Field::text().described("The user's name")).with(
                    "email",
                    Field::text().formatted(TextFormat::Email).described("The user's address"),
                );
                said(&cx, &message, form).await
            },
        ),
        Tool::typed(
            "test_elicitation_sep1034_defaults",
            "Ask with defaults",
            |cx: Cx, NoArguments {}| async move {
                let status = Field::choice(["active", "inactive", "pending"]).defaulting_to("active");
                let form = Form::new()
                    .with_optional("name", Field::text().defaulting_to("John Doe"))
                    .with_optional("age", Field::integer().defaulting_to(30))
                    .with_optional("score", Field::number().defaulting_to(95.5))
                    .with_optional("status", status)
                    .with_optional("verified", Field::flag().defaulting_to(true));
                said(&cx, "Look through the form", form).await
            },
        ),
        Tool::typed(
            "test_elicitation_sep1330_enums",
            "Ask with choices",
            |cx: Cx, NoArguments {}| async move {
                let (options, named) =
                    (["option1", "option2", "option3"], [("value1", "First"), ("value2", "Second")]);
                let form = Form::new()
                    .with_optional("untitledSingle", Field::choice(options))
                    .with_optional("titledSingle", Field::named_choice(named))
                    .with_optional("legacyEnum", Field::legacy_named_choice(named))
                    .with_optional("untitledMulti", Field::choices(options))
                    .with_optional("titledMulti", Field::named_choices(named));
                said(&cx, "Choose", form).await
            },
        ),
    ]
}

async fn sample(cx: &Cx, prompt: String) -> Result<String, AskError> {
    Ok(cx.sample(CreateMessageParams::new(vec![SamplingMessage::user(prompt)], 100)).await?.text())
}

async fn said(cx: &Cx, message: &str, form: Form) -> Result<String, ToolError> {
    Ok(match cx.elicit_form(message, form).await? {
        Elicited::Accepted(content) => format!("User response: accept, {content}"),
        Elicited::Declined => "User response: decline".to_owned(),
        Elicited::Cancelled => "User response: cancel".to_owned(),
    })
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// The user's name.
    name: String,
}

/// The user's name, under the key that the suite answers to.
async fn user_name(cx: &Cx) -> Result<String, AskError> {
    let name = cx.elicit::<Name>("What is your name?").key("user_name").await?;
    Ok(name.accepted().map_or_else(|| "nobody".to_owned(), |Name { name }| name))
}

fn uris(roots: &[Root]) -> String {
    roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" ")
}

fn in_rounds() -> Vec<Tool> {
    let rounds = |name: &str| format!("test_input_required_result_{name}");
    let greeting = |name: String| {
        Tool::typed(name, "Ask for a name", |cx: Cx, NoArguments {}| async move {
            Ok::<_, ToolError>(format!("Hello, {}! (state-ok)", user_name(&cx).await?))
        })
    };
    vec![
        greeting(rounds("elicitation")),
        greeting(rounds("tampered_state")),
        greeting("test_streaming_elicitation".to_owned()),
        Tool::typed(rounds("request_state"), "Ask for a yes", |cx: Cx, NoArguments {}| async move {
            let sure = cx.elicit_form("Go on?", Form::new().with("ok", Field::flag())).await?.accepted();
            Ok::<_, ToolError>(if sure.is_some() { "state-ok" } else { "stopped" })
        }),
        Tool::typed(rounds("sampling"), "Ask the client's model", |cx: Cx, NoArguments {}| async move {
            Ok::<_, ToolError>(sample(&cx, "What is the capital of France?".to_owned()).await?)
        }),
        Tool::typed(rounds("list_roots"), "Ask where to work", |cx: Cx, NoArguments {}| async move {
            Ok::<_, ToolError>(format!("roots: {}", uris(&cx.roots().await?)))
        }),
        Tool::typed(
            rounds("multiple_inputs"),
            "Ask three things at once",
            |cx: Cx, NoArguments {}| async move {
                let greeting = sample(&cx, "Write a greeting".to_owned());
                let (name, greeting, roots) = tokio::join!(user_name(&cx), greeting, cx.roots());
                Ok::<_, ToolError>(format!("{} {} {}", name?, greeting?, uris(&roots?)))
            },
        ),
        Tool::typed(rounds("multi_round"), "Ask twice", |cx: Cx, NoArguments {}| async move {
            let name = user_name(&cx).await?;
            let colour = Form::new().with("color", Field::text());
            let colour = cx.elicit_form(format!("Which colour, {name}?"), colour).key("step2").await?;
            let colour = colour.accepted().map(|content| content.to_string()).unwrap_or_default();
            Ok::<_, ToolError>(format!("{name}: {colour}"))
        }),
        Tool::typed(
            rounds("capabilities"),
            "Ask what the client can answer",
            |cx: Cx, NoArguments {}| async move {
                if cx.can_ask(InputKind::Form) {
                    return Ok::<_, ToolError>(user_name(&cx).await?);
                }
                Ok(sample(&cx, "Who are you?".to_owned()).await?)
            },
        ),
        Tool::typed("test_missing_capability", "Need sampling", |cx: Cx, NoArguments {}| async move {
            Ok::<_, ToolError>(sample(&cx, "Hello".to_owned()).await?)
        })
        .asks(InputKind::Sampling),
    ]
}

/// The prompt that asks.
pub(crate) fn prompt() -> Prompt {
    let name = "test_input_required_result_prompt";
    Prompt::typed(name, "A prompt that asks for a name", |cx: Cx, NoArguments {}| async move {
        let form = Form::new().with("context", Field::text());
        let context = cx.elicit_form("What is it about?", form).await?.accepted();
        Ok::<_, AskError>(format!(
            "Write about {}",
            context.map(|content| content.to_string()).unwrap_or_default()
        ))
    })
}
