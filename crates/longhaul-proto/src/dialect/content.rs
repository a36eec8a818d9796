//! Content: what a revision has no word for becomes a block of text, so that nothing is lost unseen.

use serde_json::value::RawValue;

use super::{Dialect, ResultWriter};
use crate::jsonrpc::{ObjectWriter, write_json};
use crate::model::{Content, Media, PromptMessage, ResourceLink};

impl ResultWriter<'_> {
    /// Writes `content` and `structuredContent`.
    ///
    /// Where results have no structure, content without any text gets it as a block of text.
    pub fn content(&mut self, content: &[Content], structured: Option<&RawValue>) {
        let dialect = self.dialect();
        if dialect.has_audio() && dialect.links_resources() {
            self.field("content", content);
        } else {
            let in_words = structured
                .filter(|_| !dialect.structures_results())
                .filter(|_| content.iter().all(|block| block.as_text().is_none()))
                .map(|structured| Content::text(structured.get()));
            let blocks = content.iter().chain(&in_words);
            self.members(|object| {
                object.array("content", blocks, |out, block| dialect.write_content(block, out));
            });
        }
        if let Some(structured) = structured.filter(|_| dialect.structures_results()) {
            self.structured(structured);
        }
    }

    /// Writes the messages of a prompt.
    pub fn messages(&mut self, messages: &[PromptMessage]) {
        let dialect = self.dialect();
        self.members(|object| {
            object.array("messages", messages, |out, message| {
                let mut object = ObjectWriter::new(out);
                object.field("role", &message.role);
                object.with("content", |out| dialect.write_content(&message.content, out));
                for (name, value) in message.others.iter() {
                    object.raw(name, value.get());
                }
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
            _ => return write_json(out, content),
        };
        let mut text = Content::text(words);
        if let Some(annotations) = content.annotations() {
            text = text.with_annotations(annotations.clone());
        }
        write_json(out, &text);
    }
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
