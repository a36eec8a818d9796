//! What a tool has answered, on standard output.

use longhaul::proto::model::{CallToolResult, Content, EmbeddedResource};
use longhaul_gateway::config::format_size;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::{Manner, clean, note, print};

/// Prints a result and says how the program ends. A tool that failed has answered too.
pub(crate) fn show(result: &CallToolResult, manner: Manner) -> Outcome {
    match manner {
        Manner::Words => {
            for content in &result.content {
                match content {
                    // Where to find more is no part of the answer.
                    Content::ResourceLink(_) => note(&words(content)),
                    _ => print(&words(content))?,
                }
            }
            if result.content.is_empty()
                && let Some(structured) = &result.structured_content
                // A command that has written nothing: what is known of its run is no part of its answer.
                && result.meta.find("dev.longhaul/run").is_none()
            {
                print(&clean::json(structured.get()))?;
            }
        }
        Manner::Quiet => print(&json(result)?)?,
        Manner::Events => print(&format!("{{\"event\":\"result\",\"result\":{}}}", json(result)?))?,
    }
    if !result.is_error {
        return Ok(Exit::Done);
    }
    Err(match manner {
        // The words above have said it all.
        Manner::Words => Failure::silent(Exit::Failed),
        _ => Failure::new(Exit::Failed, "tool_failed", first_words(result)),
    })
}

fn json(result: &CallToolResult) -> Outcome<String> {
    let text = serde_json::to_string(result);
    text.map(|text| clean::json(&text)).map_err(|error| anyhow::Error::new(error).into())
}

/// The beginning of what a tool says of its failure.
fn first_words(result: &CallToolResult) -> String {
    let text = result.content.iter().find_map(Content::as_text).unwrap_or("the tool failed");
    clean::line(text, 200)
}

fn words(content: &Content) -> String {
    match content {
        Content::Text(block) => clean::text(&block.text),
        Content::Image(image) => binary("image", &image.mime_type, &image.data),
        Content::Audio(sound) => binary("sound", &sound.mime_type, &sound.data),
        Content::ResourceLink(link) => clean::line(&format!("[{}] {}", link.name, link.uri), 400),
        Content::Resource(EmbeddedResource { resource, .. }) => match (&resource.text, &resource.blob) {
            (Some(text), _) => clean::text(text),
            (None, Some(blob)) => {
                binary(&resource.uri, resource.mime_type.as_deref().unwrap_or("bytes"), blob)
            }
            (None, None) => clean::line(&resource.uri, 400),
        },
        _ => "[content that this release cannot show; see --json]".to_owned(),
    }
}

/// What is no text, by its kind and its size before base64.
fn binary(what: &str, mime_type: &str, base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() as u64 * 3 / 4;
    clean::line(&format!("[{what}: {mime_type}, {}; --json has it]", format_size(bytes)), 400)
}
