//! The resources: named and behaving as the suite asks.

use longhaul::server::{Resource, ResourceTemplate};
use schemars::JsonSchema;
use serde::Deserialize;

/// Every resource with a URI of its own. The first can be read.
pub(crate) fn all() -> Vec<Resource> {
    vec![
        Resource::text("test://static-text", "static-text", "The text of a resource that stays as it is.")
            .description("Text that stays as it is"),
        Resource::blob("test://static-binary", "static-binary", DOT)
            .mime_type("image/png")
            .description("A picture that stays as it is"),
        Resource::text("test://watched-resource", "watched-resource", "A resource to hear the changes of.")
            .description("A resource to subscribe to"),
    ]
}

/// A PNG of one pixel.
const DOT: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00,
    0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0xfc, 0xcf, 0xc0, 0xf0, 0x1f, 0x00, 0x05,
    0x05, 0x02, 0x00, 0x5f, 0xc8, 0xf1, 0xd2, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42,
    0x60, 0x82,
];

#[derive(Deserialize, JsonSchema)]
struct Row {
    /// Which one.
    id: String,
}

/// The family of resources.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::typed("test://template/{id}/data", "template", |_, Row { id }| async move {
        format!(r#"{{"id":"{id}","data":"the data of {id}"}}"#)
    })
    .mime_type("application/json")
    .description("A resource for each id")
}
