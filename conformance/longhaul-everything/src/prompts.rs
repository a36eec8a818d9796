//! The prompts.

use longhaul::proto::model::{Content, PromptMessage, ResourceContents};
use longhaul::server::Prompt;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::resources::{NOTE, NOTE_TEXT};
use crate::samples::PNG;

/// Each of them.
pub(crate) fn all() -> [Prompt; 2] {
    [greet(), describe()]
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// In which language.
    language: String,
    /// Whom.
    name: Option<String>,
}

/// Who is known, by language.
const KNOWN: [(&str, &[&str]); 3] =
    [("english", &["Ada", "Alan"]), ("french", &["Albert", "Alice"]), ("german", &["Anna"])];

fn greet() -> Prompt {
    Prompt::typed("greet", "Greet somebody", |_, Greet { language, name }| async move {
        format!("Greet {} in {language}.", name.as_deref().unwrap_or("everybody"))
    })
    .title("A greeting")
    .complete("language", |_, typed| async move {
        let languages = KNOWN.iter().map(|(language, _)| *language);
        languages.filter(|language| language.starts_with(&typed.value)).collect::<Vec<_>>()
    })
    .complete("name", |_, typed| async move {
        let speaks = |language: &str| typed.others.get("language").is_none_or(|chosen| chosen == language);
        let names = KNOWN.iter().filter(|(language, _)| speaks(language)).flat_map(|(_, names)| *names);
        names.filter(|name| name.starts_with(&typed.value)).copied().collect::<Vec<_>>()
    })
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn describe() -> Prompt {
    Prompt::typed("describe", "Describe a picture and a note", |_, Nothing {}| async {
        vec![
            PromptMessage::user(Content::image(PNG, "image/png")),
            PromptMessage::user(Content::resource(ResourceContents::text(NOTE, "text/plain", NOTE_TEXT))),
            PromptMessage::assistant(Content::text("Gladly.")),
        ]
    })
}
