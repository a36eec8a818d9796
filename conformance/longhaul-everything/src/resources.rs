//! What can be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longhaul::Server;
use longhaul::server::{Failure, Resource, ResourceTemplate};
use schemars::JsonSchema;
use serde::Deserialize;

/// A note: text.
pub(crate) const NOTE: &str = "everything://note";

/// What stands in the note.
pub(crate) const NOTE_TEXT: &str = "Buy milk.";

/// A picture: bytes.
pub(crate) const DOT: &str = "everything://dot";

/// A number that changes.
pub(crate) const COUNTER: &str = "everything://counter";

/// How often the counter was changed.
pub(crate) type Count = Arc<AtomicU64>;

/// Offers each of them.
pub(crate) fn offer(server: Server, count: &Count) -> Server {
    let note =
        Resource::text(NOTE, "note", NOTE_TEXT).title("A note").description("Text that stays as it is");
    let dot = Resource::blob(DOT, "dot", [0x89, b'P', b'N', b'G']).mime_type("image/png");
    let count = Arc::clone(count);
    let counter = Resource::new(COUNTER, "counter", move |_| {
        let text = count.load(Ordering::Relaxed).to_string();
        async move { text }
    })
    .description("How often it was changed")
    .mime_type("text/plain");
    server.resource(note).resource(dot).resource(counter).resource_template(bird())
}

#[derive(Deserialize, JsonSchema)]
struct Bird {
    /// Its name.
    name: String,
}

const BIRDS: [&str; 4] = ["robin", "rook", "swift", "wren"];

fn bird() -> ResourceTemplate {
    ResourceTemplate::typed("everything://birds/{name}", "bird", |_, Bird { name }| async move {
        if BIRDS.contains(&name.as_str()) {
            return Ok(format!("The {name} is a bird."));
        }
        Err(Failure::invalid(format!("there is no bird {name:?}")))
    })
    .description("What is known of a bird")
    .mime_type("text/plain")
    .complete("name", |_, typed| async move {
        BIRDS.into_iter().filter(|name| name.starts_with(&typed.value)).collect::<Vec<_>>()
    })
}
