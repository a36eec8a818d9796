//! The type of an input, and the keys that narrow it.

use std::ops;

use toml::de::DeValue;

use super::{Kind, Range, Text, read::KEYS};
use crate::config::{
    diagnostic::{Diagnostic, Edit},
    outline::Form,
    pattern::Pattern,
    reader::{At, Entry, Reader, Section, quoted, type_name},
    spelling::listed,
    value::{Number, Value},
};

pub(super) fn kind(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<Kind> {
    let word = match section.entry("type") {
        None => "string",
        Some(_) => reader.word(section, "type", &TYPES.map(|(name, _)| (name, name)))?,
    };
    let (_, applicable) = TYPES.into_iter().find(|(name, _)| *name == word)?;
    for entry in section.entries() {
        if !KEYS.contains(&entry.key) || EVERY_TYPE.contains(&entry.key) || applicable.contains(&entry.key) {
            continue;
        }
        let article = if matches!(word, "integer" | "array") { "an" } else { "a" };
        let message = format!("`{}` does not apply to {article} {word}: {}", entry.key, section.place);
        let keys = listed(applicable.iter().chain(&EVERY_TYPE).copied());
        let help = format!("the keys of {article} {word} are {keys}");
        reader.push(
            Diagnostic::error(message).at(entry.key_span, format!("not for {article} {word}")).help(help),
        );
    }
    match word {
        "string" => Some(Kind::String(text(reader, section)?)),
        "array" => Some(Kind::Array(text(reader, section)?)),
        "integer" => Some(Kind::Integer(range(reader, section, "an integer", integer))),
        "number" => Some(Kind::Number(range(reader, section, "a number", number))),
        _ => Some(Kind::Boolean),
    }
}

fn text(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<Text> {
    let before = reader.count();
    reader.asks(section, "enum", || Form::Texts);
    let choices = choices(reader, section, "a string", string).unwrap_or_default();
    let pattern = reader.text(section, "pattern").and_then(|text| compile(reader, section, "pattern", &text));
    let rules = Text { choices: Vec::new(), pattern };
    for choice in &choices {
        let kind = Kind::String(rules.clone());
        reject_useless(reader, section, &kind, &Value::String(choice.value.clone()), choice.span.clone());
    }
    if reader.count() == before && choices.is_empty() {
        warn_of_floating(reader, section, rules.pattern.as_ref());
    } else if reader.count() != before {
        return None;
    }
    Some(Text { choices: choices.into_iter().map(|choice| choice.value).collect(), ..rules })
}

/// Compiles a pattern, or reports why it is none.
pub(in crate::config) fn compile(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    key: &str,
    text: &At<&str>,
) -> Option<Pattern> {
    match Pattern::compile(text.value) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            let message = format!("`{key}` of {} is not a regular expression", section.place);
            // The last line says what is wrong; the ones before it show the pattern, which we show ourselves.
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
            let diagnostic = Diagnostic::error(message).at(text.span.clone(), reason.clone());
            reader.push(if reason.contains("look-around") || reason.contains("backreferences") {
                diagnostic
                    .help("patterns take time linear in the text, so look-around and backreferences are out")
            } else {
                diagnostic
            });
            None
        }
    }
}

fn warn_of_floating(reader: &mut Reader<'_>, section: &Section<'_>, pattern: Option<&Pattern>) {
    let Some(pattern) = pattern.filter(|pattern| pattern.floats()) else { return };
    let Some(text) = reader.text(section, "pattern") else { return };
    let message = format!("`pattern` of {} may occur anywhere in the value", section.place);
    let written = pattern.as_str();
    let anchored = if written.contains('|') { format!("^(?:{written})$") } else { format!("^{written}$") };
    reader.push(
        Diagnostic::warning(message)
            .at(text.span.clone(), "not anchored")
            .fix("to match the whole value, anchor it", vec![Edit::new(text.span, quoted(&anchored))]),
    );
}

fn range<T: Clone + PartialOrd + ToString>(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    expected: &'static str,
    decode: fn(&DeValue<'_>) -> Option<T>,
) -> Range<T>
where
    Range<T>: IntoKind<T>,
{
    let mut minimum = bound(reader, section, "minimum", expected, decode);
    let mut maximum = bound(reader, section, "maximum", expected, decode);
    if let (Some(least), Some(most)) = (&minimum, &maximum)
        && least.value > most.value
    {
        let message = format!("`minimum` of {} is greater than `maximum`: no value fits", section.place);
        reader.push(
            Diagnostic::error(message)
                .at(least.span.clone(), "greater than `maximum`")
                .at(most.span.clone(), "`maximum`"),
        );
        // What else is wrong is said all the same.
        (minimum, maximum) = (None, None);
    }
    let before = reader.count();
    reader.asks(section, "enum", || Form::Numbers);
    let mut choices = choices(reader, section, expected, decode).unwrap_or_default();
    if reader.count() > before {
        // Of one that is wrong nothing is wrong by it.
        choices.clear();
    }
    let rules = Range {
        choices: Vec::new(),
        minimum: minimum.map(|at| at.value),
        maximum: maximum.map(|at| at.value),
    };
    for choice in &choices {
        let kind = rules.clone().into_kind();
        let value = Range::<T>::value(choice.value.clone());
        reject_useless(reader, section, &kind, &value, choice.span.clone());
    }
    Range { choices: choices.into_iter().map(|choice| choice.value).collect(), ..rules }
}

/// What the two types of numbers have in common.
trait IntoKind<T> {
    fn into_kind(self) -> Kind;
    fn value(number: T) -> Value;
}

impl IntoKind<i64> for Range<i64> {
    fn into_kind(self) -> Kind {
        Kind::Integer(self)
    }

    fn value(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl IntoKind<Number> for Range<Number> {
    fn into_kind(self) -> Kind {
        Kind::Number(self)
    }

    fn value(number: Number) -> Value {
        Value::Number(number)
    }
}

fn bound<T>(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    key: &str,
    expected: &str,
    decode: fn(&DeValue<'_>) -> Option<T>,
) -> Option<At<T>> {
    reader.asks(section, key, || Form::Number);
    let entry = section.entry(key)?;
    match decode(entry.value) {
        Some(value) => Some(At { value, span: entry.span }),
        None => {
            let diagnostic = not_of_type(reader, section, &entry, expected);
            reader.push(diagnostic);
            None
        }
    }
}

fn choices<T: PartialEq>(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    expected: &str,
    decode: fn(&DeValue<'_>) -> Option<T>,
) -> Option<Vec<At<T>>> {
    let entry = section.entry("enum")?;
    let DeValue::Array(items) = entry.value else {
        let diagnostic = reader.wrong_type(&entry, &section.place, "an array");
        reader.push(diagnostic);
        return None;
    };
    if items.is_empty() {
        let message = format!("`enum` of {} is empty: no value fits", section.place);
        reader.push(
            Diagnostic::error(message).at(entry.span, "empty").help("list the values, or remove the key"),
        );
        return None;
    }
    let mut choices: Vec<At<T>> = Vec::with_capacity(items.len());
    for item in items {
        let Some(value) = decode(item.get_ref()) else {
            let found = described(item.get_ref());
            let message = format!("`enum` of {} must hold only {expected} each, not {found}", section.place);
            reader.push(Diagnostic::error(message).at(item.span(), format!("{found}, not {expected}")));
            continue;
        };
        if let Some(first) = choices.iter().find(|choice| choice.value == value) {
            let message = format!("a value stands twice in `enum` of {}", section.place);
            reader.push(
                Diagnostic::error(message).at(item.span(), "again").at(first.span.clone(), "first here"),
            );
            continue;
        }
        choices.push(At { value, span: item.span() });
    }
    Some(choices)
}

/// Reports a value of `enum` that the other rules would refuse.
fn reject_useless(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    kind: &Kind,
    value: &Value,
    span: ops::Range<usize>,
) {
    for violation in kind.violations(value) {
        let message = format!("a value in `enum` of {} can never be passed: it {violation}", section.place);
        reader.push(Diagnostic::error(message).at(span.clone(), "refused by another rule"));
    }
}

pub(super) fn not_of_type(
    reader: &Reader<'_>,
    section: &Section<'_>,
    entry: &Entry<'_>,
    expected: &str,
) -> Diagnostic {
    let found = described(entry.value);
    let message = format!("`{}` of {} must be {expected}, not {found}", entry.key, section.place);
    let diagnostic = Diagnostic::error(message).at(entry.span.clone(), format!("{found}, not {expected}"));
    match entry.value {
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) if expected == "a string" => {
            let fixed = format!("\"{}\"", &reader.source()[entry.span.clone()]);
            diagnostic.fix("write it as a string", vec![Edit::new(entry.span.clone(), fixed)])
        }
        DeValue::String(text) if decode_text(text, expected) => diagnostic
            .fix("write it without quotes", vec![Edit::new(entry.span.clone(), text.clone().into_owned())]),
        _ => diagnostic,
    }
}

/// Whether a quoted value is one of the expected type once its quotes are gone.
fn decode_text(text: &str, expected: &str) -> bool {
    match expected {
        "an integer" => text.parse::<i64>().is_ok(),
        "a number" => text.parse::<f64>().is_ok_and(f64::is_finite),
        "a boolean" => matches!(text, "true" | "false"),
        _ => false,
    }
}

fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Integer(_) if integer(value).is_none() => "an integer of more than 64 bits",
        DeValue::Float(_) if number(value).is_none() => "a number that is not finite",
        _ => type_name(value),
    }
}

pub(super) fn string(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        _ => None,
    }
}

pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

pub(super) fn number(value: &DeValue<'_>) -> Option<Number> {
    match value {
        DeValue::Float(number) => Number::from_f64(number.as_str().parse().ok()?),
        _ => integer(value).map(Number::from_i64),
    }
}

/// The keys that every type has.
const EVERY_TYPE: [&str; 5] = ["type", "description", "default", "required", "secret"];

/// Each type with the keys that only some have.
const TYPES: [(&str, &[&str]); 5] = [
    ("string", &["enum", "pattern", "allow_dash"]),
    ("integer", &["enum", "minimum", "maximum", "allow_dash"]),
    ("number", &["enum", "minimum", "maximum", "allow_dash"]),
    ("boolean", &[]),
    ("array", &["enum", "pattern", "allow_dash"]),
];
