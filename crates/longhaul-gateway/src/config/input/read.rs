//! `[tools.<name>.input.<param>]`: one declared input.

use std::ops;

use toml::{Spanned, de::DeValue};

use super::{
    Input, Kind, Presence,
    rules::{integer, kind, not_of_type, number, string},
};
use crate::config::{
    diagnostic::Diagnostic,
    outline::Form,
    reader::{At, Entry, Reader, Section},
    template::{MAX_NAME, is_input_name},
    value::Value,
};

/// An input as the file declares it. It keeps its name even when the rest is wrong, so that its placeholders are not
/// called unknown as well.
#[derive(Debug)]
pub(in crate::config) struct Declared {
    pub(in crate::config) name: String,
    pub(in crate::config) span: ops::Range<usize>,
    /// The checked input; `None` when something about it is wrong.
    pub(in crate::config) input: Option<Input>,
    /// Values the author named that begin with `-`.
    pub(in crate::config) dashes: Vec<At<String>>,
    /// Where its `minimum` and `maximum` stand.
    pub(in crate::config) bounds: [Option<ops::Range<usize>>; 2],
    pub(in crate::config) used: bool,
}

impl Declared {
    pub(in crate::config) fn read(reader: &mut Reader<'_>, entry: &Entry<'_>, tool: &str) -> Self {
        let mut declared = Self {
            name: entry.key.to_owned(),
            span: entry.key_span.clone(),
            input: None,
            dashes: Vec::new(),
            bounds: [None, None],
            used: false,
        };
        if !is_input_name(entry.key) {
            let message = format!("`{}` cannot be the name of an input of {tool}", entry.key.escape_debug());
            let help = format!(
                "a name is a letter or `_`, then letters, digits, `_` and `-`, at most {MAX_NAME} in all"
            );
            reader.push(Diagnostic::error(message).at(entry.key_span.clone(), "not a name").help(help));
            declared.used = true;
        }
        let place = format!("input `{}` of {tool}", entry.key.escape_debug());
        let Some(section) = reader.table(entry, place) else { return declared };
        reader.reject_unknown(&section, &KEYS);
        let Some(kind) = kind(reader, &section) else { return declared };
        let presence = presence(reader, &section, &kind);
        let secret = secret(reader, &section);
        let allow_dash = reader.boolean(&section, "allow_dash").is_some_and(|at| at.value);
        let description = reader.owned(&section, "description");
        declared.dashes = dashes(&section);
        declared.bounds = ["minimum", "maximum"].map(|key| section.entry(key).map(|entry| entry.span));
        declared.input = presence.map(|presence| Input {
            name: entry.key.to_owned(),
            description,
            kind,
            presence,
            allow_dash,
            secret,
        });
        declared
    }
}

/// Whether the input may be left out; `None` when its default is wrong.
fn presence(reader: &mut Reader<'_>, section: &Section<'_>, kind: &Kind) -> Option<Presence> {
    let required = reader.boolean(section, "required");
    reader.asks(section, "default", || match kind {
        Kind::String(_) => Form::Text,
        Kind::Integer(_) | Kind::Number(_) => Form::Number,
        Kind::Boolean => Form::Boolean,
        Kind::Array(_) => Form::Texts,
    });
    let Some(entry) = section.entry("default") else {
        return Some(match required {
            Some(At { value: false, .. }) => Presence::Optional,
            _ => Presence::Required,
        });
    };
    if let Some(At { value: true, span }) = &required {
        let message = format!("{} has a default, so it is never required", section.place);
        reader.push(
            Diagnostic::error(message)
                .at(span.clone(), "says it must be passed")
                .at(entry.span.clone(), "says it may be left out")
                .help("remove one of the two keys"),
        );
    }
    let Some(value) = decode(kind, entry.value) else {
        let diagnostic = not_of_type(reader, section, &entry, kind.described());
        reader.push(diagnostic);
        return None;
    };
    let violations = kind.violations(&value);
    for violation in &violations {
        let item = violation.item().map_or_else(String::new, |index| format!("[{index}]"));
        let message = format!("`default{item}` of {} {violation}", section.place);
        reader.push(Diagnostic::error(message).at(entry.span.clone(), "not an allowed value"));
    }
    violations.is_empty().then_some(Presence::Default(value))
}

fn secret(reader: &mut Reader<'_>, section: &Section<'_>) -> bool {
    let Some(At { value: true, span }) = reader.boolean(section, "secret") else { return false };
    for key in ["default", "enum"] {
        if let Some(entry) = section.entry(key) {
            let message =
                format!("{} is secret, and its `{key}` would be listed to every caller", section.place);
            reader.push(
                Diagnostic::error(message)
                    .at(entry.key_span, "listed to every caller")
                    .at(span.clone(), "secret")
                    .help(format!("remove `{key}`, or `secret`")),
            );
        }
    }
    true
}

/// The values of `default` and `enum` that begin with `-`.
fn dashes(section: &Section<'_>) -> Vec<At<String>> {
    fn collect(value: &DeValue<'_>, span: ops::Range<usize>, found: &mut Vec<At<String>>) {
        let text = match value {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Array(items) => {
                items.iter().for_each(|item| collect(item.get_ref(), item.span(), found));
                return;
            }
            _ => return,
        };
        if text.starts_with('-') {
            found.push(At { value: text, span });
        }
    }
    let mut found = Vec::new();
    for key in ["default", "enum"] {
        if let Some(entry) = section.entry(key) {
            collect(entry.value, entry.span, &mut found);
        }
    }
    found
}

fn decode(kind: &Kind, value: &DeValue<'_>) -> Option<Value> {
    match kind {
        Kind::String(_) => string(value).map(Value::String),
        Kind::Integer(_) => integer(value).map(Value::Integer),
        Kind::Number(_) => number(value).map(Value::Number),
        Kind::Boolean => match value {
            DeValue::Boolean(value) => Some(Value::Boolean(*value)),
            _ => None,
        },
        Kind::Array(_) => match value {
            DeValue::Array(items) => {
                items.iter().map(Spanned::get_ref).map(string).collect::<Option<_>>().map(Value::Array)
            }
            _ => None,
        },
    }
}

pub(super) const KEYS: [&str; 10] = [
    "type",
    "description",
    "default",
    "enum",
    "minimum",
    "maximum",
    "pattern",
    "required",
    "allow_dash",
    "secret",
];
