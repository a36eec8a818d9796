//! An input of a tool: what a caller may pass, and the check every value goes through.

use serde_json::value::RawValue;

use super::{
    pattern::Pattern,
    value::{IntegerError, Number, Value, integer_from_json, number_from_json, quoted},
    violation::{Rule, Violation},
};

pub(super) mod read;
pub(super) mod rules;

/// One declared input of a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Input {
    /// The name a caller passes it by, and its placeholder.
    pub name: String,
    /// What it is for, in words for whoever calls.
    pub description: Option<String>,
    /// Which values it takes.
    pub kind: Kind,
    /// Whether a caller may leave it out, and what stands for it then.
    pub presence: Presence,
    /// Whether a value may begin with `-` where it would be read as an option.
    pub allow_dash: bool,
    /// Whether its values are kept out of messages, logs and pages. Its schema says so (`writeOnly`).
    pub secret: bool,
}

impl Input {
    /// Decodes and checks one argument, given as JSON.
    pub(super) fn decode(&self, json: &RawValue) -> Result<Value, Vec<Violation>> {
        let mut violation = match self.kind.decode(json.get()) {
            Ok(value) => match self.kind.violations(&value) {
                none if none.is_empty() => return Ok(value),
                some => some,
            },
            Err(violation) => vec![violation],
        };
        for violation in &mut violation {
            if self.presence != Presence::Required && violation.found_null() {
                violation.advise_leaving_out();
            }
            if self.secret {
                violation.redact();
            }
        }
        Err(violation)
    }

    /// The input as one reads it in a signature: `crate: string`, `release?: boolean = false`.
    #[must_use]
    pub fn signature(&self) -> String {
        let Self { name, kind, .. } = self;
        match &self.presence {
            Presence::Required => format!("{name}: {}", kind.name()),
            Presence::Optional => format!("{name}?: {}", kind.name()),
            Presence::Default(value) => format!("{name}?: {} = {}", kind.name(), value.to_json()),
        }
    }
}

/// Whether a caller may leave an input out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Presence {
    /// It must be passed.
    Required,
    /// It may be left out; arguments of the command that name it are left out with it.
    Optional,
    /// It may be left out; this value stands for it then.
    Default(Value),
}

/// The type of an input with the rules that narrow it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Any text.
    String(Text),
    /// A whole number of 64 bits.
    Integer(Range<i64>),
    /// A finite number.
    Number(Range<Number>),
    /// `true` or `false`.
    Boolean,
    /// A list of texts; the rules hold for each item.
    Array(Text),
}

/// The rules for a text.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Text {
    /// The only texts allowed; empty when any is.
    pub choices: Vec<String>,
    /// A pattern that must occur in it.
    pub pattern: Option<Pattern>,
}

/// The rules for a number.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Range<T> {
    /// The only numbers allowed; empty when any is.
    pub choices: Vec<T>,
    /// The least number allowed.
    pub minimum: Option<T>,
    /// The greatest number allowed.
    pub maximum: Option<T>,
}

impl<T> Default for Range<T> {
    fn default() -> Self {
        Self { choices: Vec::new(), minimum: None, maximum: None }
    }
}

impl Kind {
    /// The name of the type in JSON Schema.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Integer(_) => "integer",
            Self::Number(_) => "number",
            Self::Boolean => "boolean",
            Self::Array(_) => "array",
        }
    }

    /// The name of the type with its article, for a sentence.
    pub(super) fn described(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a number",
            Self::Boolean => "a boolean",
            Self::Array(_) => "an array of strings",
        }
    }

    /// Whether the configuration's author has named every value there can be.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::String(text) | Self::Array(text) => !text.choices.is_empty(),
            Self::Integer(range) => !range.choices.is_empty(),
            Self::Number(range) => !range.choices.is_empty(),
            Self::Boolean => true,
        }
    }

    fn decode(&self, json: &str) -> Result<Value, Violation> {
        let mistyped = |found| Violation::new(Rule::Type { expected: self.described(), found }, None);
        let wrong = || mistyped(json_type(json));
        let number = json.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match self {
            Self::String(_) => {
                serde_json::from_str(json).map(Value::String).map_err(|_| mistyped(not_text(json)))
            }
            Self::Boolean => serde_json::from_str(json).map(Value::Boolean).map_err(|_| wrong()),
            Self::Integer(_) if number => integer_from_json(json).map(Value::Integer).map_err(|error| {
                let rule = match error {
                    IntegerError::Fraction => Rule::Whole,
                    IntegerError::Range => Rule::Representable,
                };
                Violation::new(rule, Some(json.to_owned()))
            }),
            Self::Number(_) if number => number_from_json(json)
                .map(Value::Number)
                .ok_or_else(|| Violation::new(Rule::Representable, Some(json.to_owned()))),
            Self::Integer(_) | Self::Number(_) => Err(wrong()),
            Self::Array(_) => {
                let items: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| wrong())?;
                let text = |(index, item): (usize, &&RawValue)| {
                    serde_json::from_str::<String>(item.get()).map_err(|_| {
                        let rule = Rule::Type { expected: "a string", found: not_text(item.get()) };
                        Violation::new(rule, None).of_item(index)
                    })
                };
                items.iter().enumerate().map(text).collect::<Result<_, _>>().map(Value::Array)
            }
        }
    }

    /// The rules that `value`, which is of this type, breaks.
    pub(super) fn violations(&self, value: &Value) -> Vec<Violation> {
        match (self, value) {
            (Self::String(rules), Value::String(text)) => rules.violation(text).into_iter().collect(),
            (Self::Array(rules), Value::Array(items)) => items
                .iter()
                .enumerate()
                .filter_map(|(index, text)| Some(rules.violation(text)?.of_item(index)))
                .take(MAX_ITEM_VIOLATIONS)
                .collect(),
            (Self::Integer(range), Value::Integer(number)) => range.violation(number).into_iter().collect(),
            (Self::Number(range), Value::Number(number)) => range.violation(number).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

impl Text {
    fn violation(&self, text: &str) -> Option<Violation> {
        let rule = if text.contains('\0') {
            Rule::NoNul
        } else if text.len() > MAX_VALUE {
            Rule::Length { bytes: text.len() }
        } else if !self.choices.is_empty() && !self.choices.iter().any(|choice| choice == text) {
            Rule::Choice { choices: self.choices.iter().map(|choice| quoted(choice)).collect() }
        } else if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            Rule::Pattern { pattern: pattern.as_str().to_owned() }
        } else {
            return None;
        };
        let shown = !matches!(rule, Rule::NoNul | Rule::Length { .. });
        Some(Violation::new(rule, shown.then(|| quoted(text))))
    }
}

impl<T: PartialOrd + ToString> Range<T> {
    fn violation(&self, number: &T) -> Option<Violation> {
        let rule = if !self.choices.is_empty() && !self.choices.iter().any(|choice| choice == number) {
            Rule::Choice { choices: self.choices.iter().map(T::to_string).collect() }
        } else if let Some(minimum) = self.minimum.as_ref().filter(|minimum| number < minimum) {
            Rule::Minimum { minimum: minimum.to_string() }
        } else if let Some(maximum) = self.maximum.as_ref().filter(|maximum| number > maximum) {
            Rule::Maximum { maximum: maximum.to_string() }
        } else {
            return None;
        };
        Some(Violation::new(rule, Some(number.to_string())))
    }
}

/// What a JSON text is, with its article.
pub(super) fn json_type(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// What a JSON text is that could not be read as a string.
fn not_text(json: &str) -> &'static str {
    // Half of a surrogate pair is the one thing that JSON's grammar allows in a string and Unicode does not.
    if json.starts_with('"') { "a string with half a surrogate pair" } else { json_type(json) }
}

/// The most bytes one value may have. Linux takes no longer argument.
pub const MAX_VALUE: usize = 128 * 1024;

/// The most items of one list that an error names.
const MAX_ITEM_VIOLATIONS: usize = 8;
