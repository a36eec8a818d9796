//! Prompts: messages that a server has ready for its user to begin with.

use serde::Serialize;

use super::annotations::Role;
use super::content::Content;
use super::icon::Icon;
use super::members::{Members, read_by_member};
use super::meta::Meta;
use crate::dialect::ResultWriter;
use crate::jsonrpc::{ErrorObject, Params, Text};

/// A prompt as the list shows it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it can be filled in with.
    pub arguments: Vec<PromptArgument>,
    /// Pictures of it.
    pub icons: Vec<Icon>,
    /// What else there is to say of it.
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    pub others: Meta,
}

/// One value that a prompt can be filled in with: a text, always.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// The prompt cannot do without it.
    pub required: bool,
    /// Members that no revision known here has, as they came.
    pub others: Meta,
}

impl Prompt {
    /// A prompt called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The same with a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same with one more argument.
    #[must_use]
    pub fn with_argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }
}

impl PromptArgument {
    /// An argument that may be left out.
    pub fn optional(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// An argument the prompt cannot do without.
    pub fn required(name: impl Into<String>) -> Self {
        Self { required: true, ..Self::optional(name) }
    }

    /// The same with a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

read_by_member! {
    Prompt {
        name: need "name",
        title: take "title",
        description: take "description",
        arguments: take_or_default "arguments",
        icons: take_or_default "icons",
        meta: take_or_default "_meta",
    }
    PromptArgument {
        name: need "name",
        title: take "title",
        description: take "description",
        required: take_or_default "required",
    }
    PromptMessage {
        role: need "role",
        content: need "content",
    }
    GetPromptResult {
        description: take "description",
        messages: need "messages",
        meta: take_or_default "_meta",
        // The dialect says what kind of result it is.
        ; "resultType"
    }
}

impl PromptMessage {
    /// Something the user says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into(), others: Meta::new() }
    }

    /// Something the model says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into(), others: Meta::new() }
    }
}

/// What getting a prompt gives.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// What the prompt is for, filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its messages.
    pub messages: Vec<PromptMessage>,
    /// What else there is to say.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

impl GetPromptResult {
    /// A prompt of these messages.
    pub fn new(messages: Vec<PromptMessage>) -> Self {
        Self { messages, ..Self::default() }
    }

    /// The same with a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Writes the result.
    pub fn write(&self, out: &mut ResultWriter<'_>) {
        out.optional("description", self.description.as_ref());
        out.messages(&self.messages);
        out.others(&self.others);
        out.meta(&self.meta);
    }
}

/// A request for a prompt, borrowing from its message.
#[derive(Debug)]
#[non_exhaustive]
pub struct GetPromptParams<'a> {
    /// Which prompt.
    pub name: std::borrow::Cow<'a, str>,
    /// What it is filled in with, JSON text not yet read: an object of strings. `{}` when absent.
    pub arguments: &'a str,
}

impl<'a> GetPromptParams<'a> {
    /// Reads the parameters.
    ///
    /// # Errors
    ///
    /// `-32602` when `name` is missing or no string, or `arguments` is no object.
    pub fn read(params: &Params<'a>) -> Result<Self, ErrorObject> {
        let Text(name) = params.require("name")?;
        Ok(Self { name, arguments: params.object_text("arguments")? })
    }
}
