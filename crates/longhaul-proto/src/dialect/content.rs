//! Content: what a revision has no word for becomes a block of text, so that nothing is lost unseen.

use serde_json::value::RawValue;

use super::listing::others;
use super::{Dialect, ResultWriter};
use crate::jsonrpc::{ObjectWriter, write_json};
use crate::model::{Annotations, Content, Media, Meta, PromptMessage, ResourceContents, ResourceLink};

impl ResultWriter<'_> {
    /// Writes `content` and `structuredContent`.
    ///
    /// Where results have no structure, content without any text gets it as a block of text.
    pub fn content(&mut self, content: &[Content], structured: Option<&RawValue>) {
        let dialect = self.dialect();
        let in_words = structured
            .filter(|_| !dialect.structures_results())
            .filter(|_| content.iter().all(|block| block.as_text().is_none()))
            .map(|structured| Content::text(structured.get()));
        let blocks = content.iter().chain(&in_words);
        self.members(|object| {
            object.array("content", blocks, |out, block| dialect.write_content(block, out));
        });
        if let Some(structured) = structured.filter(|_| dialect.structures_results()) {
            self.structured(structured);
        }
    }

    /// Writes the `contents` of a resource.
    pub(crate) fn contents(&mut self, contents: &[ResourceContents]) {
        self.members(|object| {
            object.array("contents", contents, write_contents);
        });
    }

    /// Writes the messages of a prompt.
    pub fn messages(&mut self, messages: &[PromptMessage]) {
        let dialect = self.dialect();
        self.members(|object| {
            object.array("messages", messages, |out, message| {
                let mut object = ObjectWriter::new(out);
                object.field("role", &message.role);
                object.with("content", |out| dialect.write_content(&message.content, out));
                others(&mut object, &message.others);
                object.end();
            });
        });
    }
}

impl Dialect {
    /// Appends one block.
    pub fn write_content(&self, content: &Content, out: &mut Vec<u8>) {
        let words = match content {
            Content::Audio(sound) if !self.has_audio() => in_place_of_sound(sound),
            Content::ResourceLink(link) if !self.links_resources() => in_place_of_link(link),
            _ => return write_block(out, content),
        };
        let mut text = Content::text(words);
        if let Some(annotations) = content.annotations() {
            text = text.with_annotations(annotations.clone());
        }
        write_block(out, &text);
    }
}

/// Appends a block as it is: as it serializes, but that strings which may be long are written in less time.
fn write_block(out: &mut Vec<u8>, content: &Content) {
    match content {
        Content::Text(block) => {
            let mut object = ObjectWriter::new(out);
            object.raw("type", "\"text\"").string("text", &block.text);
            finish(object, block.annotations.as_ref(), &block.meta, &block.others);
        }
        Content::Image(block) => write_media(out, "\"image\"", block),
        Content::Audio(block) => write_media(out, "\"audio\"", block),
        Content::Resource(block) => {
            let mut object = ObjectWriter::new(out);
            object.raw("type", "\"resource\"").with("resource", |out| write_contents(out, &block.resource));
            finish(object, block.annotations.as_ref(), &block.meta, &block.others);
        }
        Content::ResourceLink(_) | Content::Other(_) => write_json(out, content),
    }
}

/// The same of a picture or a sound.
fn write_media(out: &mut Vec<u8>, kind: &str, media: &Media) {
    let mut object = ObjectWriter::new(out);
    object.raw("type", kind).string("data", &media.data).string("mimeType", &media.mime_type);
    finish(object, media.annotations.as_ref(), &media.meta, &media.others);
}

/// The same of the contents of a resource.
fn write_contents(out: &mut Vec<u8>, contents: &ResourceContents) {
    let mut object = ObjectWriter::new(out);
    object.string("uri", &contents.uri).optional("mimeType", contents.mime_type.as_ref());
    if let Some(text) = &contents.text {
        object.string("text", text);
    }
    if let Some(blob) = &contents.blob {
        object.string("blob", blob);
    }
    finish(object, None, &contents.meta, &contents.others);
}

/// For whom it is, and what else there is to say of it.
fn finish(mut object: ObjectWriter<'_>, annotations: Option<&Annotations>, meta: &Meta, rest: &Meta) {
    object.optional("annotations", annotations);
    object.optional("_meta", Some(meta).filter(|meta| !meta.is_empty()));
    others(&mut object, rest);
    object.end();
}

fn in_place_of_sound(sound: &Media) -> String {
    let bytes = sound.data.trim_end_matches('=').len() * 3 / 4;
    format!("[sound: {}, {bytes} bytes]", sound.mime_type)
}

fn in_place_of_link(link: &ResourceLink) -> String {
    let name = link.title.as_ref().unwrap_or(&link.name);
    match &link.description {
        Some(description) => format!("[resource: {name}, {}]\n{description}", link.uri),
        None => format!("[resource: {name}, {}]", link.uri),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Revision;

    #[test]
    fn a_block_is_written_as_it_serializes() {
        let blocks = r#"[
            {"type":"text","text":"a \"b\"\n"},
            {"type":"text","text":"","annotations":{"audience":["user"]},"_meta":{"a":"b"},"tone":"calm"},
            {"type":"image","data":"AAAA","mimeType":"image/png","_meta":{"a":[1, 2]},"wide":true},
            {"type":"audio","data":"AAAA","mimeType":"audio/wav","annotations":{"priority":0.5}},
            {"type":"resource_link","uri":"a:b","name":"c","size":3},
            {"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"c\\d","etag":"x"},"pinned":true},
            {"type":"resource","resource":{"uri":"a:b","blob":"AAAA","_meta":{"a":1}},"annotations":{"priority":1.0}},
            {"type":"smell","of":{"roses":1.50},"_meta":{"a":"b"}}
        ]"#;
        for block in serde_json::from_str::<Vec<Content>>(blocks).unwrap() {
            let mut out = Vec::new();
            Dialect::of(Revision::V2026_07_28).write_content(&block, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&block).unwrap());
        }
    }
}
