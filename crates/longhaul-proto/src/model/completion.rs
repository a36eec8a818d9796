//! Completion: what could be typed next into an argument of a prompt or of a resource template.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dialect::ResultWriter;
use crate::jsonrpc::{ErrorObject, Params};

/// What is being filled in.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompletionReference {
    /// A prompt, by name.
    #[serde(rename = "ref/prompt")]
    #[non_exhaustive]
    Prompt {
        /// Its name.
        name: String,
    },
    /// A resource, by its URI or its template.
    #[serde(rename = "ref/resource")]
    #[non_exhaustive]
    Resource {
        /// Its URI or template.
        uri: String,
    },
}

impl CompletionReference {
    /// The prompt of that name.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt { name: name.into() }
    }

    /// The resource of that URI, or those of that template.
    pub fn resource(uri: impl Into<String>) -> Self {
        Self::Resource { uri: uri.into() }
    }
}

/// One argument, as far as it has been typed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CompletionArgument {
    /// Which argument.
    pub name: String,
    /// What has been typed.
    pub value: String,
}

/// A request for completions (2025-06-18, Server Utilities, Completion).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CompleteParams {
    /// What is being filled in.
    pub reference: CompletionReference,
    /// What has been typed so far.
    pub argument: CompletionArgument,
    /// The other arguments, as far as they are known.
    pub context: BTreeMap<String, String>,
}

impl CompleteParams {
    /// Reads the parameters.
    ///
    /// # Errors
    ///
    /// `-32602` naming the member that is missing or wrong.
    pub fn read(params: &Params<'_>) -> Result<Self, ErrorObject> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Context {
            arguments: BTreeMap<String, String>,
        }
        Ok(Self {
            reference: params.require("ref")?,
            argument: params.require("argument")?,
            context: params.read::<Context>("context")?.unwrap_or_default().arguments,
        })
    }
}

/// What could be typed, best first.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// At most [`Self::MAX_VALUES`] of them.
    pub values: Vec<String>,
    /// How many there are in all, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// There are more than these.
    #[serde(default)]
    pub has_more: bool,
}

impl Completion {
    /// How many values one answer may hold.
    pub const MAX_VALUES: usize = 100;

    /// These values; of more than [`Self::MAX_VALUES`] the first, saying how many there are.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let total = values.len();
        values.truncate(Self::MAX_VALUES);
        Self { has_more: values.len() < total, values, total: Some(total as u64) }
    }

    /// Writes the result.
    pub fn write(&self, out: &mut ResultWriter<'_>) {
        out.field("completion", self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_fit_are_counted() {
        let many = Completion::new((0..130).map(|n| n.to_string()));
        assert_eq!((many.values.len(), many.total, many.has_more), (100, Some(130), true));
        let few = Completion::new(["a"]);
        assert_eq!((few.total, few.has_more), (Some(1), false));
    }
}
