//! The tools that answer with something else than text.

use longhaul::Tool;
use longhaul::proto::model::{
    Annotations, Content, Icon, ResourceContents, ResourceLink, Role, ToolAnnotations,
};
use longhaul::server::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resources;
use crate::samples::{PNG, WAV};

/// Each of them.
pub(crate) fn tools() -> [Tool; 2] {
    [show(), weather()]
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Text,
    Image,
    Audio,
    Link,
    Embedded,
    Blob,
    /// One of each.
    All,
}

#[derive(Deserialize, JsonSchema)]
struct Show {
    /// Which kind of content.
    kind: Kind,
}

/// Answers with every kind of content there is.
fn show() -> Tool {
    Tool::typed("show", "Show content of a kind", |_, Show { kind }| async move {
        match kind {
            Kind::All => [Kind::Text, Kind::Image, Kind::Audio, Kind::Link, Kind::Embedded, Kind::Blob]
                .map(content)
                .into(),
            kind => vec![content(kind)],
        }
    })
    .title("Show and tell")
    .icon(Icon::new(format!("data:image/png;base64,{PNG}")).with_mime_type("image/png").with_size("1x1"))
    .annotations(read_only())
    .meta("dev.longhaul/kind", &"content")
}

fn content(kind: Kind) -> Content {
    match kind {
        Kind::Text | Kind::All => Content::text("Some text."),
        Kind::Image => {
            let shown = Annotations::for_audience([Role::User]).with_priority(0.5);
            Content::image(PNG, "image/png").with_annotations(shown)
        }
        Kind::Audio => Content::audio(WAV, "audio/wav"),
        Kind::Link => ResourceLink::new(resources::NOTE, "note")
            .with_description("A note")
            .with_mime_type("text/plain")
            .into(),
        Kind::Embedded => {
            Content::resource(ResourceContents::text(resources::NOTE, "text/plain", resources::NOTE_TEXT))
        }
        Kind::Blob => Content::resource(ResourceContents::blob(resources::DOT, "image/png", PNG)),
    }
}

fn read_only() -> ToolAnnotations {
    let mut hints = ToolAnnotations::default();
    (hints.read_only_hint, hints.open_world_hint) = (Some(true), Some(false));
    hints
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// Which city.
    city: String,
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    /// Where.
    city: String,
    /// In degrees Celsius.
    temperature: f64,
}

/// Answers with structure, and says which.
pub(crate) fn weather() -> Tool {
    Tool::typed("weather", "The weather in a city", |_, Place { city }| async move {
        Json(Weather { temperature: if city == "Oslo" { 3.5 } else { 20.0 }, city })
    })
    .annotations(read_only())
}
