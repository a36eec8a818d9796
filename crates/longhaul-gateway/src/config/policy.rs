//! The words of `join` and `output`.

use serde::{Deserialize, Serialize};

/// What a call does when the same caller has the same call open already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Join {
    /// `same-arguments`: it joins the open one.
    #[default]
    SameArguments,
    /// `never`: it starts another.
    Never,
}

/// What the standard output of a command is.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Output {
    /// `text`: text for the model.
    #[default]
    Text,
    /// `json`: one JSON value, which becomes the structured result.
    Json,
}
