//! What results are made of.

use serde::{Deserialize, Serialize};

/// One block of a result.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text for the model.
    #[non_exhaustive]
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    #[non_exhaustive]
    #[serde(rename_all = "camelCase")]
    Image {
        /// Its bytes, in base64.
        data: String,
        /// What kind of picture.
        mime_type: String,
    },
    /// A sound.
    #[non_exhaustive]
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Its bytes, in base64.
        data: String,
        /// What kind of sound.
        mime_type: String,
    },
    /// A resource the reader may fetch.
    ResourceLink(ResourceLink),
    /// A resource, here and now.
    #[non_exhaustive]
    Resource {
        /// Its contents.
        resource: ResourceContents,
    },
}

impl Content {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A picture: base64 `data` of kind `mime_type`.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image { data: data.into(), mime_type: mime_type.into() }
    }

    /// The text, if this is a block of text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// A pointer to a resource.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceLink {
    /// Where it is.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What kind of thing it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl ResourceLink {
    /// A link to `uri`, called `name`.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

/// The contents of a resource, as text or as base64 bytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// Where it came from.
    pub uri: String,
    /// What kind of thing it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<serde_json::Map<String, serde_json::Value>>,
}

impl ResourceContents {
    /// Text from `uri`.
    pub fn text(uri: impl Into<String>, mime_type: &str, text: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: Some(mime_type.to_owned()),
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// Base64 bytes from `uri`.
    pub fn blob(uri: impl Into<String>, mime_type: &str, base64: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: Some(mime_type.to_owned()),
            blob: Some(base64.into()),
            ..Self::default()
        }
    }
}
