//! Prompts: messages that a server has ready for its user to begin with.

use serde::{Deserialize, Serialize};

use super::annotations::Role;
use super::content::Content;
use super::icon::Icon;
use super::meta::Meta;
use crate::dialect::ResultWriter;
use crate::jsonrpc::{ErrorObject, Params, Text};

/// A prompt as the list shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[non_exhaustive]
pub struct Prompt {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// What it can be filled in with.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// Pictures of it.
    #[serde(default)]
    pub icons: Vec<Icon>,
    /// What else there is to say of it.
    #[serde(rename = "_meta", default)]
    pub meta: Meta,
}

/// One value that a prompt can be filled in with: a text, always.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What it is.
    #[serde(default)]
    pub description: Option<String>,
    /// The prompt cannot do without it.
    #[serde(default)]
    pub required: bool,
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
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

impl PromptMessage {
    /// Something the user says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Something the model says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// What getting a prompt gives.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// What the prompt is for, filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its messages.
    pub messages: Vec<PromptMessage>,
    /// What else there is to say.
    #[serde(rename = "_meta", default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
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
