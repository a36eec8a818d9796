//! What results, prompts and messages are made of.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::annotations::Annotations;
use super::icon::Icon;
use super::members::{Members, read_by_member};
use super::meta::Meta;

/// One block of a result or of a message.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text for the model.
    Text(Text),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A resource the reader may fetch.
    ResourceLink(ResourceLink),
    /// A resource, here and now.
    Resource(EmbeddedResource),
    /// A block of a kind that no revision known here has, as it came.
    #[serde(untagged)]
    Other(OtherContent),
}

/// A block of a kind that no revision known here has.
#[derive(Clone, Debug, Serialize)]
pub struct OtherContent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    members: Meta,
}

impl OtherContent {
    /// Its kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it has besides.
    pub fn members(&self) -> &Meta {
        &self.members
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Members::deserialize(deserializer)?;
        let kind: String = members.need("type")?;
        match kind.as_str() {
            "text" => Text::read(members).map(Self::Text),
            "image" => Media::read(members).map(Self::Image),
            "audio" => Media::read(members).map(Self::Audio),
            "resource_link" => ResourceLink::read(members).map(Self::ResourceLink),
            "resource" => EmbeddedResource::read(members).map(Self::Resource),
            _ => Ok(Self::Other(OtherContent { kind, members: members.rest() })),
        }
    }
}

/// A block whose `type` is read and whose other members are not yet. (What serde does itself for a tagged enum
/// cannot hold raw JSON.)
pub(super) struct Block {
    pub(super) kind: String,
    text: Box<RawValue>,
}

impl Block {
    pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tag {
            #[serde(rename = "type")]
            kind: String,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Tag { kind } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { kind, text })
    }

    /// Its members but its `type`.
    pub(super) fn members<E: serde::de::Error>(self) -> Result<Members, E> {
        let mut members: Members = self.into()?;
        members.put_aside("type");
        Ok(members)
    }

    pub(super) fn into<T: DeserializeOwned, E: serde::de::Error>(self) -> Result<T, E> {
        serde_json::from_str(self.text.get()).map_err(E::custom)
    }
}

/// A block of text.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Text {
    /// The text.
    pub text: String,
    /// For whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

/// A picture or a sound.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Media {
    /// Its bytes, in base64.
    pub data: String,
    /// What kind of picture or sound.
    pub mime_type: String,
    /// For whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

/// The contents of a resource as part of something else.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// Its contents.
    pub resource: ResourceContents,
    /// For whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

read_by_member! {
    Text {
        text: need "text",
        annotations: take "annotations",
        meta: take_or_default "_meta",
    }
    Media {
        data: need "data",
        mime_type: need "mimeType",
        annotations: take "annotations",
        meta: take_or_default "_meta",
    }
    EmbeddedResource {
        resource: need "resource",
        annotations: take "annotations",
        meta: take_or_default "_meta",
    }
    ResourceLink {
        uri: need "uri",
        name: need "name",
        title: take "title",
        description: take "description",
        mime_type: take "mimeType",
        size: take "size",
        icons: take_or_default "icons",
        annotations: take "annotations",
        meta: take_or_default "_meta",
    }
    ResourceContents {
        uri: need "uri",
        mime_type: take "mimeType",
        text: take "text",
        blob: take "blob",
        meta: take_or_default "_meta",
    }
}

impl Content {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), ..Text::default() })
    }

    /// A picture: base64 `data` of kind `mime_type`.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(Media { data: data.into(), mime_type: mime_type.into(), ..Media::default() })
    }

    /// A sound: base64 `data` of kind `mime_type`.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(Media { data: data.into(), mime_type: mime_type.into(), ..Media::default() })
    }

    /// The contents of a resource, here and now.
    pub fn resource(resource: ResourceContents) -> Self {
        Self::Resource(EmbeddedResource { resource, ..EmbeddedResource::default() })
    }

    /// The text, if this is a block of text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(Text { text, .. }) => Some(text),
            _ => None,
        }
    }

    /// For whom it is, if it says so.
    pub fn annotations(&self) -> Option<&Annotations> {
        match self {
            Self::Text(block) => block.annotations.as_ref(),
            Self::Image(block) | Self::Audio(block) => block.annotations.as_ref(),
            Self::ResourceLink(block) => block.annotations.as_ref(),
            Self::Resource(block) => block.annotations.as_ref(),
            Self::Other(_) => None,
        }
    }

    /// The same block, saying for whom it is. One of an unknown kind stays as it came.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        *match &mut self {
            Self::Text(block) => &mut block.annotations,
            Self::Image(block) | Self::Audio(block) => &mut block.annotations,
            Self::ResourceLink(block) => &mut block.annotations,
            Self::Resource(block) => &mut block.annotations,
            Self::Other(_) => return self,
        } = Some(annotations);
        self
    }

    /// The same block, with `meta` attached. One of an unknown kind stays as it came.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        *match &mut self {
            Self::Text(block) => &mut block.meta,
            Self::Image(block) | Self::Audio(block) => &mut block.meta,
            Self::ResourceLink(block) => &mut block.meta,
            Self::Resource(block) => &mut block.meta,
            Self::Other(_) => return self,
        } = meta;
        self
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<ResourceLink> for Content {
    fn from(link: ResourceLink) -> Self {
        Self::ResourceLink(link)
    }
}

/// A pointer to a resource.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceLink {
    /// Where it is.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What kind of thing it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How large it is, in bytes before any encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Pictures of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// For whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

impl ResourceLink {
    /// A link to `uri`, called `name`.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// The same with a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same, saying what kind of thing is there.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// The contents of a resource, as text or as base64 bytes.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// Where it came from.
    pub uri: String,
    /// What kind of thing it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
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

    /// The same with `meta` attached.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CallToolResult, GetPromptResult};
    use super::*;

    /// What it reads of it is what it writes.
    fn is_kept<T: DeserializeOwned + Serialize>(text: &str) {
        let read: T = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn what_no_revision_has_is_kept_as_it_came() {
        is_kept::<Content>(r#"{"type":"smell","of":{"roses":1.50},"_meta":{"a":"b"}}"#);
        is_kept::<Content>(r#"{"type":"text","text":"a","tone":"calm","n":[1, 2]}"#);
        is_kept::<Content>(
            r#"{"type":"resource","resource":{"uri":"a:b","text":"c","etag":"x"},"pinned":true}"#,
        );
        is_kept::<CallToolResult>(r#"{"content":[{"type":"smell"}],"isError":true,"cost":{"cents":3}}"#);
        is_kept::<GetPromptResult>(
            r#"{"messages":[{"role":"user","content":{"type":"smell"},"at":"noon"}],"voice":"deep"}"#,
        );
    }

    #[test]
    fn a_member_stands_once() {
        assert!(serde_json::from_str::<Content>(r#"{"type":"text","text":"a","text":"b"}"#).is_err());
        assert!(serde_json::from_str::<Content>(r#"{"type":"text","x":1,"x":2,"text":"b"}"#).is_err());
        assert!(serde_json::from_str::<Content>(r#"{"text":"b"}"#).is_err());
    }
}
