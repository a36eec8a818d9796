//! One field of a form: what it takes, in words, and what a person has typed for it.

use longhaul::proto::model::{Field, FieldKind, FieldOption, FieldValue, TextFormat};
use longhaul_gateway::shell;
use serde_json::{Number, Value};

use crate::near::nearest;
use crate::term::clean;

/// Reads what was typed as a value of the field.
///
/// # Errors
///
/// What it should be instead, to be read after "it takes".
pub(crate) fn read(field: &Field, text: &str) -> Result<Value, String> {
    let value = match field.kind() {
        FieldKind::Text { format, .. } => {
            format.map_or(Ok(()), |format| check_format(format, text))?;
            Value::from(text)
        }
        FieldKind::Number { .. } => number(text).unwrap_or(Value::Null),
        FieldKind::Flag => match text.to_lowercase().as_str() {
            "y" | "yes" | "true" | "on" => Value::Bool(true),
            "n" | "no" | "false" | "off" => Value::Bool(false),
            _ => return Err("yes or no".to_owned()),
        },
        FieldKind::Choice { options } => Value::from(pick(&options, text)?),
        FieldKind::Choices { options, .. } => match pick(&options, text) {
            Ok(one) => Value::from(vec![one]),
            Err(_) => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                let mut chosen: Vec<&str> = Vec::new();
                for word in words {
                    let one = pick(&options, word)?;
                    if !chosen.contains(&one) {
                        chosen.push(one);
                    }
                }
                Value::from(chosen)
            }
        },
    };
    field.check(&value).map(|()| value).map_err(|expected| clean::line(&expected, 200))
}

fn number(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    Number::from_f64(text.parse().ok()?).map(Value::Number)
}

/// Whether its options can be chosen by number: not if they are numbers themselves.
pub(super) fn is_numbered(options: &[FieldOption<'_>]) -> bool {
    let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
    !options.iter().any(|option| is_number(option.value) || option.title.is_some_and(is_number))
}

fn pick<'f>(options: &[FieldOption<'f>], text: &str) -> Result<&'f str, String> {
    let is = |option: &&FieldOption<'f>| option.value == text || option.title == Some(text);
    if let Some(option) = options.iter().find(is) {
        return Ok(option.value);
    }
    if is_numbered(options)
        && let Ok(number) = text.parse::<usize>()
    {
        let chosen = number.checked_sub(1).and_then(|at| options.get(at));
        return chosen.map(|option| option.value).ok_or_else(|| format!("1 to {}", options.len()));
    }
    let folded = text.to_lowercase();
    let is_almost = |option: &&FieldOption<'f>| {
        let same = |word: &str| word.to_lowercase() == folded;
        same(option.value) || option.title.is_some_and(same)
    };
    let mut almost = options.iter().filter(is_almost);
    if let (Some(option), None) = (almost.next(), almost.next()) {
        return Ok(option.value);
    }
    let names = || options.iter().map(|option| option.title.unwrap_or(option.value));
    Err(match nearest(text, names()).filter(|_| text.chars().count() > 2) {
        Some(near) => format!("one of those; did you mean {}?", clean::line(near, 80)),
        None => {
            let shown: Vec<String> = names().take(SHOWN).map(|name| clean::line(name, 80)).collect();
            let more = if options.len() > SHOWN { " and others" } else { "" };
            format!("one of {}{more}", shown.join(", "))
        }
    })
}

/// How many options are named in a sentence.
const SHOWN: usize = 12;

fn check_format(format: TextFormat, text: &str) -> Result<(), String> {
    let (fits, expected) = match format {
        TextFormat::Email => (is_email(text), "an address of e-mail, such as ann@example.com"),
        TextFormat::Uri => (is_uri(text), "a URI, such as https://example.com/page"),
        TextFormat::Date => (text.parse::<jiff::civil::Date>().is_ok(), "a day, such as 2026-07-28"),
        TextFormat::DateTime => {
            (text.parse::<jiff::Timestamp>().is_ok(), "a moment, such as 2026-07-28T12:30:00Z")
        }
    };
    if fits { Ok(()) } else { Err(expected.to_owned()) }
}

/// What is surely none is refused; the server decides on the rest.
fn is_email(text: &str) -> bool {
    let (who, at) = text.rsplit_once('@').unwrap_or_default();
    !who.is_empty() && !at.is_empty() && !text.contains(' ')
}

fn is_uri(text: &str) -> bool {
    let (scheme, rest) = text.split_once(':').unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(plain)
        && !rest.is_empty()
        && !text.contains(' ')
}

/// What it is filled in with to begin with, as one would type it.
pub(super) fn default(field: &Field) -> Option<String> {
    Some(match field.default()? {
        FieldValue::Text(text) => text,
        FieldValue::Number(number) => number.to_string(),
        FieldValue::Flag(flag) => (if flag { "yes" } else { "no" }).to_owned(),
        FieldValue::Many(values) => values.join(", "),
    })
}

/// What it takes, in few words: what is behind its name when it is asked for.
pub(super) fn takes(field: &Field) -> String {
    match field.kind() {
        FieldKind::Text { format: Some(TextFormat::Email), .. } => "an address of e-mail".to_owned(),
        FieldKind::Text { format: Some(TextFormat::Uri), .. } => "a URI".to_owned(),
        FieldKind::Text { format: Some(TextFormat::Date), .. } => "a day".to_owned(),
        FieldKind::Text { format: Some(TextFormat::DateTime), .. } => "a moment".to_owned(),
        FieldKind::Text { length, .. } => between(length, " characters"),
        FieldKind::Number { range, .. } => between(range, ""),
        FieldKind::Flag => "y/n".to_owned(),
        FieldKind::Choice { options } if is_numbered(&options) => format!("1 to {}", options.len()),
        FieldKind::Choice { .. } => "one of them".to_owned(),
        FieldKind::Choices { count, .. } => match between(count, " of them") {
            any if any.is_empty() => "any of them, with commas".to_owned(),
            some => format!("{some}, with commas"),
        },
    }
}

fn between<N: std::fmt::Display>(bounds: (Option<N>, Option<N>), of: &str) -> String {
    match bounds {
        (None, None) => String::new(),
        (Some(least), None) => format!("at least {least}{of}"),
        (None, Some(most)) => format!("at most {most}{of}"),
        (Some(least), Some(most)) => format!("{least} to {most}{of}"),
    }
}

/// It in a line: its name, what it takes and is filled in with, and what is said of it.
pub(super) fn line(name: &str, field: &Field, is_required: bool) -> String {
    let takes = match field.kind() {
        FieldKind::Choice { options } => format!("one of {}", titled(&options)),
        FieldKind::Choices { options, .. } => format!("{}: {}", takes(field), titled(&options)),
        _ => takes(field),
    };
    let mut line = name.to_owned();
    if !takes.is_empty() {
        line.push_str(&format!(", {takes}"));
    }
    match default(field) {
        Some(default) => line.push_str(&format!(" [{default}]")),
        None if !is_required => line.push_str(" (or nothing)"),
        None => {}
    }
    let title = field.title().filter(|title| *title != name);
    let said: Vec<&str> = title.into_iter().chain(field.description()).collect();
    if !said.is_empty() {
        line.push_str(&format!(": {}", said.join(". ")));
    }
    clean::line(&line, 1000)
}

/// Options with their titles: `stage (Staging), prod (Production)`.
fn titled(options: &[FieldOption<'_>]) -> String {
    let option = |option: &FieldOption<'_>| match option.title.filter(|title| *title != option.value) {
        Some(title) => format!("{} ({title})", option.value),
        None => option.value.to_owned(),
    };
    let more = if options.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", options.iter().take(SHOWN).map(option).collect::<Vec<_>>().join(", "))
}

/// It as one gives it on a command line: `shards=1..64`.
pub(super) fn usage(name: &str, field: &Field, is_required: bool) -> String {
    let value = match field.kind() {
        FieldKind::Text { .. } => "TEXT".to_owned(),
        FieldKind::Number { .. } => "NUMBER".to_owned(),
        FieldKind::Flag => "yes|no".to_owned(),
        FieldKind::Choice { options } => values(&options),
        FieldKind::Choices { options, .. } => format!("{},…", values(&options)),
    };
    // Who asks has chosen these words, and somebody pastes them.
    let usage = format!("{}={value}", pasted(name));
    if is_required && field.default().is_none() { usage } else { format!("[{usage}]") }
}

fn values(options: &[FieldOption<'_>]) -> String {
    let values: Vec<String> = options.iter().take(SHOWN).map(|option| pasted(option.value)).collect();
    let more = if options.len() > SHOWN { "|…" } else { "" };
    format!("{}{more}", values.join("|"))
}

fn pasted(word: &str) -> String {
    shell::word(&clean::line(word, 200)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_typed_is_read_as_the_field_wants_it() {
        let named = Field::named_choice([("stage", "Staging"), ("prod", "Production")]);
        let numbers = Field::choice(["3", "1"]);
        let many = Field::choices(["a", "b", "c, d"]).within(None, 2.0);
        for (field, typed, value) in [
            (&Field::text(), "007", json!("007")),
            (&Field::text().formatted(TextFormat::Date), "2026-07-28", json!("2026-07-28")),
            (&Field::integer().within(1.0, 64.0), "8", json!(8)),
            (&Field::number(), "-0.5", json!(-0.5)),
            (&Field::flag(), "Y", json!(true)),
            (&Field::flag(), "no", json!(false)),
            (&named, "2", json!("prod")),
            (&named, "staging", json!("stage")),
            (&named, "prod", json!("prod")),
            (&numbers, "1", json!("1")),
            (&many, "2, a", json!(["b", "a"])),
            (&many, "c, d", json!(["c, d"])),
            (&many, "a,a", json!(["a"])),
        ] {
            assert_eq!(read(field, typed), Ok(value), "{typed}");
        }
        for (field, typed, expected) in [
            (&Field::integer().within(1.0, 64.0), "65", "a whole number, 1 to 64"),
            (&Field::integer(), "many", "a whole number"),
            (&Field::number(), "NaN", "a number"),
            (&Field::flag(), "perhaps", "yes or no"),
            (&Field::text().within(2.0, None), "x", "at least 2 characters"),
            (&Field::text().formatted(TextFormat::Email), "ann", "ann@example.com"),
            (&Field::text().formatted(TextFormat::Uri), "page", "https://"),
            (&Field::text().formatted(TextFormat::DateTime), "noon", "T12:30:00Z"),
            (&named, "3", "1 to 2"),
            (&named, "Prodution", "did you mean Production?"),
            (&named, "moon", "one of Staging, Production"),
            (&numbers, "2", "one of 3, 1"),
            (&many, "a, b, 3", "at most 2"),
        ] {
            let refused = read(field, typed).unwrap_err();
            assert!(refused.contains(expected), "{typed}: {refused}");
        }
    }
}
