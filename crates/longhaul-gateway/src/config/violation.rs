//! The rule that a value breaks, worded for whoever passed it.

use std::fmt;

/// One rule broken by one value, or by one item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    rule: Rule,
    item: Option<usize>,
    /// The value as a message may show it.
    shown: Option<String>,
    leave_out: bool,
}

impl Violation {
    pub(super) fn new(rule: Rule, shown: Option<String>) -> Self {
        Self { rule, item: None, shown: shown.map(|value| shortened(&value)), leave_out: false }
    }

    pub(super) fn of_item(mut self, index: usize) -> Self {
        self.item = Some(index);
        self
    }

    /// Keeps the value out of every message.
    pub(super) fn redact(&mut self) {
        self.shown = None;
    }

    pub(super) fn found_null(&self) -> bool {
        self.item.is_none() && matches!(self.rule, Rule::Type { found: "null", .. })
    }

    pub(super) fn advise_leaving_out(&mut self) {
        self.leave_out = true;
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Which item of a list breaks it, counted from 0.
    #[must_use]
    pub fn item(&self) -> Option<usize> {
        self.item
    }
}

/// The rest of a sentence that begins with the name of the input: `must be at least 1, not 0`.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = self.shown.as_ref().map_or_else(String::new, |value| format!(", not {value}"));
        match &self.rule {
            Rule::Type { expected, found } => write!(f, "must be {expected}, not {found}")?,
            Rule::Whole => write!(f, "must be a whole number{not}")?,
            Rule::Representable => write!(f, "must be a number that 64 bits can hold{not}")?,
            Rule::Choice { choices } => match choices.as_slice() {
                [only] => write!(f, "must be {only}{not}")?,
                choices => {
                    let shown = choices[..choices.len().min(MAX_CHOICES)].join(", ");
                    let more = choices.len().saturating_sub(MAX_CHOICES);
                    let more = if more > 0 { format!(" or {more} more") } else { String::new() };
                    write!(f, "must be one of {shown}{more}{not}")?;
                }
            },
            Rule::Minimum { minimum } => write!(f, "must be at least {minimum}{not}")?,
            Rule::Maximum { maximum } => write!(f, "must be at most {maximum}{not}")?,
            Rule::Pattern { pattern } => write!(f, "must match the pattern `{pattern}`{not}")?,
            Rule::NoNul => f.write_str("must not contain a NUL character")?,
            Rule::Length { bytes } => {
                write!(f, "must be at most {} bytes long, not {bytes}", super::input::MAX_VALUE)?;
            }
            Rule::NoDash => {
                let value = self.shown.as_ref().map_or_else(String::new, |value| format!(": {value}"));
                write!(f, "must not begin with `-`, for it would be read as an option{value}")?;
                f.write_str("; the author of the configuration can let it pass: `allow_dash = true`")?;
            }
        }
        if self.leave_out { f.write_str("; leave it out instead") } else { Ok(()) }
    }
}

/// What is asked of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// It has the declared type.
    Type {
        /// The declared type, with its article.
        expected: &'static str,
        /// The type found, with its article.
        found: &'static str,
    },
    /// It is a whole number.
    Whole,
    /// It fits the number types we have.
    Representable,
    /// It is one of the values listed.
    Choice {
        /// The values, as they are written in JSON.
        choices: Vec<String>,
    },
    /// It is not below this.
    Minimum {
        /// The least value allowed.
        minimum: String,
    },
    /// It is not above this.
    Maximum {
        /// The greatest value allowed.
        maximum: String,
    },
    /// This pattern occurs in it.
    Pattern {
        /// The pattern as configured.
        pattern: String,
    },
    /// It has no NUL character, which no argument of a program can hold.
    NoNul,
    /// It is not longer than an argument of a program may be.
    Length {
        /// Its length.
        bytes: usize,
    },
    /// It cannot be mistaken for an option.
    NoDash,
}

/// A value as a message shows it: whole when short, else its start.
pub(super) fn shortened(value: &str) -> String {
    match value.char_indices().nth(MAX_SHOWN) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

/// The most characters of a value that a message repeats.
const MAX_SHOWN: usize = 100;

/// The most allowed values that a message lists.
const MAX_CHOICES: usize = 20;
