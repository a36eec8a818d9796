//! What is wrong with the arguments of a call, worded for the model that made it.

use std::{error, fmt};

use serde::{Deserialize, de};
use serde_json::value::RawValue;
use std::borrow::Cow;
use thiserror::Error;

use super::violation::{Violation, shortened};

/// Everything that is wrong with the arguments of one call. Nothing has run.
///
/// `Display` is the whole message: one line for each mistake and the tool's signature, so that the next call can be
/// right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentErrors {
    tool: String,
    signature: String,
    errors: Vec<ArgumentError>,
}

impl ArgumentErrors {
    pub(super) fn new(tool: &str, signature: String, errors: Vec<ArgumentError>) -> Self {
        Self { tool: tool.to_owned(), signature, errors }
    }

    /// The mistakes, one by one.
    #[must_use]
    pub fn errors(&self) -> &[ArgumentError] {
        &self.errors
    }
}

impl fmt::Display for ArgumentErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, signature, errors } = self;
        match errors.as_slice() {
            [only] => write!(f, "tool `{tool}` was not run: {only}")?,
            errors => {
                write!(f, "tool `{tool}` was not run: {} mistakes in its arguments", errors.len())?;
                for error in errors.iter().take(MAX_LISTED) {
                    write!(f, "\n- {error}")?;
                }
                if errors.len() > MAX_LISTED {
                    write!(f, "\n- and {} more", errors.len() - MAX_LISTED)?;
                }
            }
        }
        write!(f, "\nusage: {signature}")
    }
}

impl error::Error for ArgumentErrors {}

/// One mistake in the arguments of a call. No value of a secret input is in any of them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The arguments are no JSON object.
    #[error("the arguments must be an object, not {found}")]
    NotAnObject {
        /// What they are instead.
        found: &'static str,
    },
    /// The tool has no such input.
    #[error("there is no argument `{}`{}", shortened(name), suggested(suggestion.as_deref()))]
    Unknown {
        /// The name that was passed.
        name: String,
        /// The input that was probably meant.
        suggestion: Option<String>,
    },
    /// A name stands twice in the object.
    #[error("`{name}` is passed twice")]
    Repeated {
        /// The name.
        name: String,
    },
    /// A required input is not passed.
    #[error("`{name}` is missing: it is required and must be {expected}")]
    Missing {
        /// The input.
        name: String,
        /// Its type, with its article.
        expected: &'static str,
    },
    /// A value breaks a rule of its input.
    #[error("`{name}{}` {violation}", index(violation))]
    Value {
        /// The input.
        name: String,
        /// The rule it breaks.
        violation: Violation,
    },
    /// A value cannot stand where the configuration puts it.
    #[error("`{name}` cannot stand in {place}: {reason}")]
    Unfit {
        /// The input.
        name: String,
        /// Which part of a request it is.
        place: &'static str,
        /// What it would be there.
        reason: &'static str,
    },
    /// An argument of the command, or a variable, would be longer than the system takes.
    #[error("{} make {place} {bytes} bytes long, and at most {limit} can be passed", quoted_names(names))]
    TooLong {
        /// The inputs that stand in it.
        names: Vec<String>,
        /// Which part of the call it is.
        place: String,
        /// How long it would be.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
}

fn suggested(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn index(violation: &Violation) -> String {
    violation.item().map_or_else(String::new, |index| format!("[{index}]"))
}

fn quoted_names(names: &[String]) -> String {
    match names {
        [] => "the arguments".to_owned(),
        names => super::spelling::listed(names.iter().map(String::as_str)),
    }
}

/// The members of a JSON object in order, undecoded, with names that stand twice kept twice.
pub(super) struct Members<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

/// A name borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// The most mistakes one message lists.
const MAX_LISTED: usize = 20;
