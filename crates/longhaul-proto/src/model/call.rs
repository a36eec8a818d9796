//! `tools/call`: what is asked and what comes back.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::content::Content;
use super::members::{Members, read_by_member};
use super::meta::Meta;
use crate::dialect::ResultWriter;
use crate::jsonrpc::{ErrorObject, Params, Text};

/// A call of a tool, borrowing from the request.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallToolParams<'a> {
    /// Which tool.
    pub name: Cow<'a, str>,
    /// Its arguments, JSON text not yet read: the tool's own type reads them once. `{}` when absent.
    pub arguments: &'a str,
    /// The caller asks for a task (2025-11-25). How long it wants it kept is not heeded: the tool says that.
    pub asks_for_task: bool,
}

impl<'a> CallToolParams<'a> {
    /// Reads the parameters of a call.
    ///
    /// # Errors
    ///
    /// `-32602` when `name` is missing or no string, or `arguments` or `task` is no object.
    pub fn read(params: &Params<'a>) -> Result<Self, ErrorObject> {
        let Text(name) = params.require("name")?;
        let asks_for_task = match params.member("task") {
            None | Some("null") => false,
            Some(text) if text.starts_with('{') => true,
            Some(_) => return Err(ErrorObject::invalid_params("invalid params: `task` must be an object")),
        };
        Ok(Self { name, arguments: params.object_text("arguments")?, asks_for_task })
    }
}

/// What a tool answers. A tool's failure is a result too: `is_error`, so that the model can read it.
///
/// Serialized as it stands, it is the neutral form that a store keeps; [`write`](Self::write) writes it
/// for a caller.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// For the model.
    pub content: Vec<Content>,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// The tool failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// What else there is to say.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

read_by_member! {
    CallToolResult {
        content: take_or_default "content",
        structured_content: take "structuredContent",
        is_error: take_or_default "isError",
        meta: take_or_default "_meta",
        // The dialect says what kind of result it is.
        ; "resultType"
    }
}

impl CallToolResult {
    /// A success made of one block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// A failure the model can read.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// A result made of `content`.
    pub fn new(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }

    /// The same with structured content, an object of the tool's output schema.
    #[must_use]
    pub fn with_structured(mut self, content: Box<RawValue>) -> Self {
        self.structured_content = Some(content);
        self
    }

    /// The same with `meta` attached.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The same, as a failure or not.
    #[must_use]
    pub fn failed(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }

    /// Writes the result.
    pub fn write(&self, out: &mut ResultWriter<'_>) {
        out.content(&self.content, self.structured_content.as_deref());
        if self.is_error {
            out.field("isError", &true);
        }
        out.others(&self.others);
        out.meta(&self.meta);
    }
}
