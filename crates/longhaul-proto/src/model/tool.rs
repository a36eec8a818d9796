//! Tools as the list shows them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::icon::Icon;
use super::members::{Members, read_by_member};
use super::meta::Meta;

/// A tool a client may call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool {
    /// Its name: 1 to 128 of `A-Z a-z 0-9 _ . -`.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments, an object.
    pub input_schema: Box<RawValue>,
    /// JSON Schema of its `structuredContent`.
    pub output_schema: Option<Box<RawValue>>,
    /// Hints about its behaviour.
    pub annotations: Option<ToolAnnotations>,
    /// Whether a call may or must become a task (2025-11-25 says it per tool).
    pub task_support: TaskSupport,
    /// Pictures of it.
    pub icons: Vec<Icon>,
    /// What else there is to say of it.
    pub meta: Meta,
    /// Members that no revision known here has, as they came.
    pub others: Meta,
}

read_by_member! {
    Tool {
        name: need "name",
        title: take "title",
        description: take "description",
        input_schema: need "inputSchema",
        output_schema: take "outputSchema",
        annotations: take "annotations",
        task_support: take_or_default "execution",
        icons: take_or_default "icons",
        meta: take_or_default "_meta",
    }
    ToolAnnotations {
        title: take "title",
        read_only_hint: take "readOnlyHint",
        destructive_hint: take "destructiveHint",
        idempotent_hint: take "idempotentHint",
        open_world_hint: take "openWorldHint",
    }
}

/// The same in every word: schemas by their text.
impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        // Each is named, so that none is forgotten that comes later.
        let Self {
            name,
            title,
            description,
            input_schema,
            output_schema,
            annotations,
            task_support,
            icons,
            meta,
            others,
        } = self;
        (name, title, description) == (&other.name, &other.title, &other.description)
            && input_schema.get() == other.input_schema.get()
            && output_schema.as_deref().map(RawValue::get)
                == other.output_schema.as_deref().map(RawValue::get)
            && (annotations, task_support) == (&other.annotations, &other.task_support)
            && (icons, meta, others) == (&other.icons, &other.meta, &other.others)
    }
}

/// A name no tool may have.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("invalid tool name {name:?}: use 1 to 128 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`")]
#[non_exhaustive]
pub struct InvalidToolName {
    /// The name.
    pub name: String,
}

impl Tool {
    /// A tool with a name and the schema of its arguments.
    pub fn new(name: impl Into<String>, input_schema: Box<RawValue>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
            task_support: TaskSupport::Forbidden,
            icons: Vec::new(),
            meta: Meta::new(),
            others: Meta::new(),
        }
    }

    /// Whether `name` can name a tool.
    ///
    /// # Errors
    ///
    /// When it is empty, longer than 128 bytes or holds another character than `A-Za-z0-9_.-`.
    pub fn check_name(name: &str) -> Result<(), InvalidToolName> {
        let fits = (1..=128).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        if fits { Ok(()) } else { Err(InvalidToolName { name: name.to_owned() }) }
    }
}

/// Hints about a tool. A client must not trust them unless it trusts the server.
///
/// # Examples
///
/// ```
/// use longhaul_proto::model::ToolAnnotations;
///
/// let hints = ToolAnnotations::new().with_title("Weather").with_read_only(true).with_open_world(true);
/// assert_eq!((hints.read_only_hint, hints.destructive_hint), (Some(true), None));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It deals with the world outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
    /// Members that no revision known here has, as they came.
    #[serde(flatten, skip_serializing_if = "Meta::is_empty")]
    pub others: Meta,
}

impl ToolAnnotations {
    /// Nothing is said of the tool.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same, saying whether the tool only reads.
    #[must_use]
    pub fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only_hint = Some(read_only);
        self
    }

    /// The same, saying whether the tool may destroy something.
    #[must_use]
    pub fn with_destructive(mut self, destructive: bool) -> Self {
        self.destructive_hint = Some(destructive);
        self
    }

    /// The same, saying whether calling the tool again with the same arguments changes nothing more.
    #[must_use]
    pub fn with_idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent_hint = Some(idempotent);
        self
    }

    /// The same, saying whether the tool deals with the world outside.
    #[must_use]
    pub fn with_open_world(mut self, open_world: bool) -> Self {
        self.open_world_hint = Some(open_world);
        self
    }
}

/// Whether a call of a tool may become a task.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the specification's three")]
pub enum TaskSupport {
    /// Never.
    #[default]
    Forbidden,
    /// If the caller wishes.
    Optional,
    /// Always.
    Required,
}

impl<'de> Deserialize<'de> for TaskSupport {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Execution {
            #[serde(rename = "taskSupport", default)]
            task_support: Option<String>,
        }
        let execution = Option::<Execution>::deserialize(deserializer)?;
        Ok(match execution.and_then(|e| e.task_support).as_deref() {
            Some("optional") => Self::Optional,
            Some("required") => Self::Required,
            _ => Self::Forbidden,
        })
    }
}
