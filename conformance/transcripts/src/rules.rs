//! A server that shows every rule: little of everything, and something that changes.

use std::time::Duration;

use longhaul::proto::model::{
    Content, CreateMessageParams, LoggingLevel, Progress, ResourceContents, ResourceLink, SamplingMessage,
};
use longhaul::server::{
    AskError, Catalogue, ChangeError, Elicited, Json, Prompt, Resource, ResourceTemplate, ToolError,
};
use longhaul::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nothing;

/// More than a page holds.
const MANY: usize = 25;

pub(crate) fn server() -> Server {
    let (mut server, catalogue) = Server::new("rules", "1.0.0").instructions("Hold me to it.").dynamic();
    for tool in plain().into_iter().chain(asking()).chain(changing(&catalogue)) {
        server = server.tool(tool);
    }
    for n in 0..MANY {
        server =
            server.resource(Resource::text(format!("test://many/{n}"), format!("many {n}"), n.to_string()));
    }
    server
        .page_size(20)
        .resource(Resource::blob("test://blob", "blob", [1, 2, 3]).mime_type("image/png"))
        .resource_template(ResourceTemplate::typed("test://item/{id}", "item", |_, Item { id }| async move {
            format!("item {id}")
        }))
        .prompt(
            Prompt::typed(
                "greet",
                "Greet someone",
                |_, Greet { name }| async move { format!("Greet {name}.") },
            )
            .complete("name", |_, typed| async move {
                let names = ["Ann", "Anton", "Bob"];
                names.into_iter().filter(|name| name.starts_with(&typed.value)).collect::<Vec<_>>()
            }),
        )
        .method("test/double", |_, Number { number }: Number| async move {
            Ok::<_, AskError>(Number { number: 2 * number })
        })
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    id: String,
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Whom.
    name: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Number {
    number: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Placed {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nap {
    millis: u64,
}

/// What asks for nothing and changes nothing.
fn plain() -> Vec<Tool> {
    vec![
        Tool::typed("echo", "Say it again", |_, Text { text }| async move { text }),
        Tool::typed("double", "Double a number", |_, Number { number }| async move {
            Json(Number { number: 2 * number })
        })
        .output::<Number>(),
        Tool::typed("rich", "Answer with every kind of content", |_, Nothing {}| async { rich() }),
        Tool::typed("fail", "Fail", |_, Nothing {}| async { Err::<(), _>(ToolError::new("on purpose")) }),
        Tool::typed("panic", "Panic", |_, Nothing {}| async { panic() }),
        Tool::typed("place", "Say where", |_, Placed { region }| async move { region }),
        Tool::typed(
            "steps",
            "Report progress, one step of which goes back",
            |cx: Cx, Nothing {}| async move {
                for done in [1.0, 0.5, 2.0] {
                    cx.progress(Progress::new(done).of(2.0)).await;
                }
                "done"
            },
        ),
        Tool::typed("log", "Log at two levels", |cx: Cx, Nothing {}| async move {
            cx.log(LoggingLevel::Debug, "small talk").await;
            cx.log(LoggingLevel::Warning, "look out").await;
            "logged"
        }),
        Tool::typed("nap", "Take a nap", |cx: Cx, Nap { millis }| async move {
            cx.progress(Progress::new(1.0)).await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            "rested"
        }),
        Tool::typed(
            "let_go",
            "Let the client go, and answer when it is back",
            |cx: Cx, Nothing {}| async move {
                cx.close_stream().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                "back"
            },
        ),
    ]
}

fn rich() -> Vec<Content> {
    vec![
        "words".into(),
        Content::image("aGk=", "image/png"),
        Content::audio("aGk=", "audio/wav"),
        ResourceLink::new("test://blob", "blob").into(),
        Content::resource(ResourceContents::text("test://inside", "text/plain", "inside")),
    ]
}

#[expect(clippy::panic, reason = "that a panic is contained is a rule")]
pub(crate) fn panic() -> &'static str {
    panic!("on purpose")
}

/// Whether to go on.
#[derive(Deserialize, JsonSchema)]
struct Approve {
    /// Yes or no.
    go: bool,
}

async fn approve(cx: Cx, Text { text }: Text) -> Result<String, ToolError> {
    Ok(match cx.elicit::<Approve>(format!("Delete {text}?")).key("approve").await? {
        Elicited::Accepted(Approve { go: true }) => format!("deleted {text}"),
        Elicited::Accepted(_) => format!("kept {text}"),
        Elicited::Declined => "declined".to_owned(),
        Elicited::Cancelled => "cancelled".to_owned(),
    })
}

/// What asks its client.
fn asking() -> Vec<Tool> {
    vec![
        Tool::typed("approve", "Ask, then go on where it was", approve),
        Tool::typed("approve_again", "Ask, then go on from the start", approve).reentrant(true),
        Tool::typed("sample", "Ask the model", |cx: Cx, Nothing {}| async move {
            let question = CreateMessageParams::new(vec![SamplingMessage::user("A poem")], 50);
            Ok::<_, ToolError>(cx.sample(question).await?.text())
        })
        .reentrant(true),
        Tool::typed("roots", "Ask where to work", |cx: Cx, Nothing {}| async move {
            let roots = cx.roots().await?;
            Ok::<_, ToolError>(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" "))
        })
        .reentrant(true),
    ]
}

/// What changes what is offered.
fn changing(catalogue: &Catalogue) -> Vec<Tool> {
    let (tools, prompts, resources) = (catalogue.clone(), catalogue.clone(), catalogue.clone());
    vec![
        Tool::typed("grow", "Offer three tools more", move |_: Cx, Nothing {}| {
            let changed = grow(&tools);
            async move { changed.map(|()| "grown").map_err(ToolError::from) }
        }),
        Tool::typed("prompt_more", "Offer a prompt more", move |_: Cx, Nothing {}| {
            let more = Prompt::typed("more", "More", |_, Nothing {}| async { "more" });
            let changed = prompts.put(more);
            async move { changed.map(|()| "offered").map_err(ToolError::from) }
        }),
        Tool::typed("touch", "Change a resource", move |_: Cx, Nothing {}| {
            let changed = resources.resource_updated("test://blob");
            async move { changed.map(|()| "touched").map_err(ToolError::from) }
        }),
    ]
}

fn grow(catalogue: &Catalogue) -> Result<(), ChangeError> {
    ["one", "two", "three"]
        .into_iter()
        .try_for_each(|name| catalogue.put(Tool::typed(name, "One more", |_, Nothing {}| async { "here" })))
}
