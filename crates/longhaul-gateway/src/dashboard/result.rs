//! What a task came to, by the kind of its contents. All of it is somebody else's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use longhaul::proto::model::{CallToolResult, Content, ResourceContents};
use longhaul::store::Record;
use longhaul::tasks::project::{self, OutputAddress};
use maud::{Markup, html};
use serde_json::Value;

use super::form::encoded;
use super::respond::{self, Answer};
use super::route::Look;
use crate::admin::AdminError;
use crate::clean;

/// The pictures that are shown as such.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What it came to, or nothing if it has not ended.
pub(super) fn section(record: &Record) -> Markup {
    let body = match project::outcome(record) {
        None => html! {},
        Some(Ok(result)) => html! {
            h2 id="result-title" { (if result.is_error { "It failed" } else { "Result" }) }
            (contents(&result, Some(record.id.as_str())))
        },
        Some(Err(error)) => html! {
            h2 id="result-title" { "It ended without a result" }
            p.problem { (clean::text(&error.message)) }
            @if let Some(data) = &error.data { pre tabindex="0" aria-labelledby="result-title" { (pretty(data.get())) } }
        },
    };
    html! { section id="result" aria-label="Result" hidden[!record.is_terminal()] { (body) } }
}

/// The blocks of a result; `task` is whose they are, if it is a task's.
pub(super) fn contents(result: &CallToolResult, task: Option<&str>) -> Markup {
    html! {
        @for (number, block) in result.content.iter().enumerate() {
            @match block {
                Content::Text(text) => pre tabindex="0" role="region" aria-label={ "Text " (number + 1) } { "\n" (clean::text(&text.text)) },
                Content::Image(media) => @match task {
                    Some(task) if PICTURES.contains(&&*media.mime_type) => {
                        img src={ "/tasks/" (encoded(task)) "/content/" (number) } alt="A picture that the tool made";
                    }
                    _ => p { "A picture (" (clean::line(&media.mime_type, 60)) ")" },
                },
                Content::Audio(media) => p { "A sound (" (clean::line(&media.mime_type, 60)) ")" },
                Content::ResourceLink(link) => p { (linked(&link.uri, &link.name)) },
                Content::Resource(resource) => (embedded(&resource.resource, number)),
                _ => p { "Contents of a later release" },
            }
        }
        @if let Some(structure) = &result.structured_content {
            details open[result.content.is_empty()] {
                summary { "Structured" }
                pre tabindex="0" role="region" aria-label="Structured result" { "\n" (pretty(structure.get())) }
            }
        }
    }
}

fn embedded(resource: &ResourceContents, number: usize) -> Markup {
    html! {
        p { (clean::line(&resource.uri, 200)) }
        @if let Some(text) = &resource.text {
            pre tabindex="0" role="region" aria-label={ "Resource " (number + 1) } { "\n" (clean::text(text)) }
        }
    }
}

/// A link, if it leads to the web or to the output of a task; else its words.
fn linked(uri: &str, name: &str) -> Markup {
    let (name, shown) = (clean::line(name, 120), clean::line(uri, 200));
    if let Some(OutputAddress { task, stream, .. }) = OutputAddress::parse(uri) {
        return html! { a href={ "/tasks/" (encoded(task.as_str())) "/output/" (encoded(stream)) } { (name) } };
    }
    if uri.starts_with("https://") || uri.starts_with("http://") {
        return html! { a href=(uri) rel="noopener noreferrer" target="_blank" { (name) } " " (shown) };
    }
    html! { (name) " " code { (shown) } }
}

/// JSON as people read it.
pub(super) fn pretty(json: &str) -> String {
    let value: Result<Value, _> = serde_json::from_str(json);
    let text = value.and_then(|value| serde_json::to_string_pretty(&value));
    clean::text(text.as_deref().unwrap_or(json))
}

/// A picture of a result.
pub(super) async fn picture(look: Look<'_>, id: &str, number: &str) -> Result<Answer, AdminError> {
    let record = look.inner.admin.task(look.viewer, id).await?;
    let result = project::outcome(&record).and_then(Result::ok);
    let block = number.parse().ok().and_then(|number: usize| result?.content.into_iter().nth(number));
    let Some(Content::Image(media)) = block else {
        return Ok(respond::sentence(StatusCode::NOT_FOUND, "there is no such picture"));
    };
    let kind = PICTURES.into_iter().find(|kind| *kind == media.mime_type);
    match (kind, STANDARD.decode(media.data)) {
        (Some(kind), Ok(bytes)) => Ok(respond::picture(kind, bytes)),
        _ => Ok(respond::sentence(StatusCode::NOT_FOUND, "it is no picture that is shown here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_anybody_is_only_read() {
        let mut result = CallToolResult::text("<script>alert(1)</script>\u{1b}]52;c;aGk=\u{7}\u{202e}");
        result.content.push(Content::image("aGk=", "image/svg+xml"));
        result.content.push(Content::ResourceLink(longhaul::proto::model::ResourceLink::new(
            "javascript:alert(1)",
            "<b>click</b>",
        )));
        let html = contents(&result, Some("t")).into_string();
        for bad in ["<script", "<img", "<b>", "href", "\u{1b}", "\u{202e}"] {
            assert!(!html.contains(bad), "{bad:?}: {html}");
        }
    }
}
