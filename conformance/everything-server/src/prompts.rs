//! The prompts: named and behaving as the suite asks.

use longhaul::proto::model::{Content, PromptMessage, ResourceContents};
use longhaul::server::Prompt;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::samples::PNG;

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
struct Two {
    /// The first argument.
    arg1: String,
    /// The second argument.
    arg2: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embedding {
    /// The resource to embed.
    resource_uri: String,
}

/// Every prompt.
pub(crate) fn all() -> Vec<Prompt> {
    vec![
        Prompt::typed("test_simple_prompt", "A prompt without arguments", |_, NoArguments {}| async {
            "This is a simple prompt."
        }),
        Prompt::typed("test_prompt_with_arguments", "A prompt with two arguments", |_, Two { arg1, arg2 }| async move {
            format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
        })
        .complete("arg1", |_, typed| async move {
            let known = ["testing", "tested", "paris"].into_iter();
            known.filter(|value| value.starts_with(&typed.value)).collect::<Vec<_>>()
        }),
        Prompt::typed("test_prompt_with_embedded_resource", "A prompt with a resource in it", embedding),
        Prompt::typed("test_prompt_with_image", "A prompt with a picture in it", |_, NoArguments {}| async {
            vec![
                PromptMessage::user(Content::image(PNG, "image/png")),
                PromptMessage::user(Content::text("Describe the picture above.")),
            ]
        }),
    ]
}

async fn embedding(_: longhaul::Cx, Embedding { resource_uri }: Embedding) -> Vec<PromptMessage> {
    let resource = ResourceContents::text(resource_uri, "text/plain", "The text of an embedded resource.");
    vec![
        PromptMessage::user(Content::resource(resource)),
        PromptMessage::user(Content::text("Work on the resource above.")),
    ]
}
