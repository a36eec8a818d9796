//! Reading tables of the file key by key: every wrong type and every unknown key becomes a diagnostic, and
//! reading goes on.

use std::{ops::Range, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    diagnostic::{Diagnostic, Edit},
    duration::{DurationError, format_duration, parse_duration},
    outline::{Asked, Form},
    size::{SizeError, format_size, parse_size},
    spelling::{listed, nearest},
};

/// The source and the mistakes found in it so far.
#[derive(Debug)]
pub(super) struct Reader<'s> {
    source: &'s str,
    found: Vec<Diagnostic>,
    /// What is looked for, where that is wanted.
    asked: Option<Asked>,
}

/// A table of the file and what it describes, in words: "tool `test`".
#[derive(Clone, Debug)]
pub(super) struct Section<'s> {
    pub(super) table: &'s DeTable<'s>,
    pub(super) place: String,
    /// The key that names the table.
    pub(super) span: Range<usize>,
}

/// A value with the places of itself and of its key.
#[derive(Clone, Debug)]
pub(super) struct Entry<'s> {
    pub(super) key: &'s str,
    pub(super) key_span: Range<usize>,
    pub(super) value: &'s DeValue<'s>,
    pub(super) span: Range<usize>,
}

/// Something read, with its place in the file.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

impl<'s> Section<'s> {
    pub(super) fn entry(&self, key: &str) -> Option<Entry<'s>> {
        self.entries().into_iter().find(|entry| entry.key == key)
    }

    /// Every entry, in the order of the file.
    pub(super) fn entries(&self) -> Vec<Entry<'s>> {
        let mut entries: Vec<_> = self.table.iter().map(|(key, value)| Entry::new(key, value)).collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        entries
    }
}

impl<'s> Entry<'s> {
    fn new(key: &'s Spanned<std::borrow::Cow<'s, str>>, value: &'s Spanned<DeValue<'s>>) -> Self {
        Self { key: key.get_ref(), key_span: key.span(), value: value.get_ref(), span: value.span() }
    }
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, found: Vec::new(), asked: None }
    }

    /// One that notes what is looked for.
    pub(super) fn noting(source: &'s str) -> Self {
        Self { source, found: Vec::new(), asked: Some(Asked::default()) }
    }

    pub(super) fn into_asked(self) -> Asked {
        self.asked.unwrap_or_default()
    }

    /// A key of `section` is looked for in this form. The ways of reading below say so themselves.
    pub(super) fn asks(&mut self, section: &Section<'_>, key: &str, form: impl FnOnce() -> Form) {
        if let Some(asked) = &mut self.asked {
            asked.form(section.span.start, key, form());
        }
    }

    /// These are all the keys that `section` may have.
    pub(super) fn knows(&mut self, section: &Section<'_>, known: &[&str]) {
        if let Some(asked) = &mut self.asked {
            asked.known(section.span.start, known);
        }
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    pub(super) fn source(&self) -> &'s str {
        self.source
    }

    /// The line, counted from 1, of what must not be shown itself.
    pub(super) fn line_of(&self, span: &Range<usize>) -> usize {
        self.source.get(..span.start).unwrap_or_default().matches('\n').count() + 1
    }

    /// How many mistakes have been found: equal before and after a step when it found none.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.found
    }

    /// Reports every key of `section` that is not in `known`.
    pub(super) fn reject_unknown(&mut self, section: &Section<'_>, known: &[&str]) {
        self.reject_unknown_but(section, known, &[]);
    }

    /// The same, but for those `others` of which more is to be said.
    pub(super) fn reject_unknown_but(&mut self, section: &Section<'_>, known: &[&str], others: &[&str]) {
        self.knows(section, known);
        for entry in section.entries() {
            if known.contains(&entry.key) || others.contains(&entry.key) {
                continue;
            }
            let message = format!("unknown key `{}` in {}", entry.key.escape_debug(), section.place);
            let diagnostic = Diagnostic::error(message).at(entry.key_span.clone(), "unknown key");
            self.push(match nearest(entry.key, known.iter().copied()) {
                Some(near) => diagnostic.fix(
                    format!("a key with a similar name exists: `{near}`"),
                    vec![Edit::new(entry.key_span, near)],
                ),
                None => diagnostic.help(format!("the keys here are {}", listed(known.iter().copied()))),
            });
        }
    }

    pub(super) fn wrong_type(&self, entry: &Entry<'_>, place: &str, expected: &str) -> Diagnostic {
        let found = type_name(entry.value);
        let message = format!("`{}` of {place} must be {expected}, not {found}", entry.key);
        Diagnostic::error(message).at(entry.span.clone(), format!("{found}, not {expected}"))
    }

    /// A string.
    pub(super) fn text<'t>(&mut self, section: &Section<'t>, key: &str) -> Option<At<&'t str>> {
        self.asks(section, key, || Form::Text);
        let entry = section.entry(key)?;
        if let DeValue::String(text) = entry.value {
            return Some(At { value: text, span: entry.span });
        }
        let diagnostic = self.wrong_type(&entry, &section.place, "a string");
        self.push(diagnostic);
        None
    }

    pub(super) fn owned(&mut self, section: &Section<'_>, key: &str) -> Option<String> {
        self.text(section, key).map(|text| text.value.to_owned())
    }

    pub(super) fn boolean(&mut self, section: &Section<'_>, key: &str) -> Option<At<bool>> {
        self.asks(section, key, || Form::Boolean);
        let entry = section.entry(key)?;
        if let DeValue::Boolean(value) = entry.value {
            return Some(At { value: *value, span: entry.span });
        }
        let diagnostic = self.wrong_type(&entry, &section.place, "`true` or `false`");
        self.push(diagnostic);
        None
    }

    /// A whole number that is at least `minimum`.
    pub(super) fn count_of(&mut self, section: &Section<'_>, key: &str, minimum: u32) -> Option<At<u32>> {
        self.asks(section, key, || Form::Count(minimum));
        let entry = section.entry(key)?;
        let DeValue::Integer(number) = entry.value else {
            let diagnostic = self.wrong_type(&entry, &section.place, "a whole number");
            self.push(diagnostic);
            return None;
        };
        match u32::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) if value >= minimum => Some(At { value, span: entry.span }),
            _ => {
                let message = format!("`{key}` of {} must be from {minimum} to {}", section.place, u32::MAX);
                self.push(Diagnostic::error(message).at(entry.span, "out of range"));
                None
            }
        }
    }

    pub(super) fn section<'t>(
        &mut self,
        section: &Section<'t>,
        key: &str,
        place: String,
    ) -> Option<Section<'t>> {
        let entry = section.entry(key)?;
        self.table(&entry, place)
    }

    /// The table that an entry is.
    pub(super) fn table<'t>(&mut self, entry: &Entry<'t>, place: String) -> Option<Section<'t>> {
        if let Some(asked) = &mut self.asked {
            asked.table(entry.key_span.start);
        }
        if let DeValue::Table(table) = entry.value {
            return Some(Section { table, place, span: entry.key_span.clone() });
        }
        let found = type_name(entry.value);
        let message = format!("{place} must be a table, not {found}");
        self.push(Diagnostic::error(message).at(entry.span.clone(), format!("{found}, not a table")));
        None
    }

    /// A list of strings.
    pub(super) fn texts<'t>(&mut self, section: &Section<'t>, key: &str) -> Option<Vec<At<&'t str>>> {
        self.asks(section, key, || Form::Texts);
        let entry = section.entry(key)?;
        let DeValue::Array(items) = entry.value else {
            let diagnostic = self.wrong_type(&entry, &section.place, "an array of strings");
            self.push(diagnostic);
            return None;
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            if let DeValue::String(text) = item.get_ref() {
                texts.push(At { value: text.as_ref(), span: item.span() });
                continue;
            }
            let found = type_name(item.get_ref());
            let message = format!("`{key}` of {} must hold strings only, not {found}", section.place);
            let diagnostic = Diagnostic::error(message).at(item.span(), format!("{found}, not a string"));
            let scalar = !matches!(item.get_ref(), DeValue::Array(_) | DeValue::Table(_));
            self.push(if scalar {
                let quoted = format!("\"{}\"", &self.source[item.span()]);
                diagnostic.fix("write it as a string", vec![Edit::new(item.span(), quoted)])
            } else {
                diagnostic
            });
        }
        (texts.len() == items.len()).then_some(texts)
    }

    /// A duration within `range`, both ends allowed.
    pub(super) fn duration(
        &mut self,
        section: &Section<'_>,
        key: &str,
        range: (Duration, Duration),
    ) -> Option<Duration> {
        self.asks(section, key, || Form::Duration);
        let entry = section.entry(key)?;
        let DeValue::String(text) = entry.value else {
            let diagnostic = self.wrong_type(&entry, &section.place, "a duration such as \"1h30m\"");
            self.push(match entry.value {
                DeValue::Integer(number) => diagnostic.fix(
                    "a duration is a string with a unit",
                    vec![Edit::new(entry.span, format!("\"{number}s\""))],
                ),
                _ => diagnostic,
            });
            return None;
        };
        match parse_duration(text) {
            Ok(duration) if duration < range.0 || duration > range.1 => {
                let (bound, word) = if duration < range.0 { (range.0, "least") } else { (range.1, "most") };
                let bound = format_duration(bound);
                let message = format!("`{key}` of {} must be at {word} {bound}", section.place);
                let too = if word == "least" { "too short" } else { "too long" };
                let edit = Edit::new(entry.span.clone(), format!("\"{bound}\""));
                self.push(
                    Diagnostic::error(message)
                        .at(entry.span, too)
                        .fix(format!("the {word} allowed is {bound}"), vec![edit]),
                );
                None
            }
            Ok(duration) => Some(duration),
            Err(error) => {
                let diagnostic =
                    self.bad_duration(section, key, At { value: text, span: entry.span }, &error);
                self.push(diagnostic);
                None
            }
        }
    }

    fn bad_duration(
        &self,
        section: &Section<'_>,
        key: &str,
        text: At<&str>,
        error: &DurationError,
    ) -> Diagnostic {
        let message = format!("`{key}` of {} is not a duration: it {error}", section.place);
        let diagnostic = Diagnostic::error(message).at(text.span.clone(), "not a duration");
        match error {
            DurationError::NoUnit { number } => {
                let whole = text.value.trim();
                let fixed = format!("\"{}s\"", whole);
                let seconds = if number == "1" { "second" } else { "seconds" };
                let message = format!("write the unit: `{number}s` is {number} {seconds}");
                diagnostic.fix(message, vec![Edit::new(text.span, fixed)])
            }
            _ => diagnostic.help(DURATION_FORM),
        }
    }

    /// A size in bytes within `range`, both ends allowed.
    pub(super) fn size(&mut self, section: &Section<'_>, key: &str, range: (u64, u64)) -> Option<u64> {
        self.asks(section, key, || Form::Size);
        let entry = section.entry(key)?;
        let DeValue::String(text) = entry.value else {
            let diagnostic = self.wrong_type(&entry, &section.place, "a size such as \"16MiB\"");
            self.push(match entry.value {
                DeValue::Integer(number) => {
                    let bytes = number.as_str().parse().map_or_else(|_| format!("{number}B"), format_size);
                    let edit = Edit::new(entry.span, format!("\"{bytes}\""));
                    diagnostic.fix("a size is a string with a unit", vec![edit])
                }
                _ => diagnostic,
            });
            return None;
        };
        match parse_size(text) {
            Ok(size) if size < range.0 || size > range.1 => {
                let (bound, word) = if size < range.0 { (range.0, "least") } else { (range.1, "most") };
                let message =
                    format!("`{key}` of {} must be at {word} {}", section.place, format_size(bound));
                let too = if word == "least" { "too small" } else { "too large" };
                self.push(Diagnostic::error(message).at(entry.span, too));
                None
            }
            Ok(size) => Some(size),
            Err(error) => {
                let message = format!("`{key}` of {} is not a size: it {error}", section.place);
                let diagnostic = Diagnostic::error(message).at(entry.span.clone(), "not a size");
                let fixed = match &error {
                    SizeError::NoUnit { number } => Some(format!("{number}B")),
                    SizeError::UnknownUnit { number, unit } => {
                        binary_unit(unit).map(|unit| format!("{number}{unit}"))
                    }
                    _ => None,
                };
                self.push(match fixed {
                    Some(fixed) => {
                        let edit = Edit::new(entry.span, format!("\"{fixed}\""));
                        diagnostic.fix(format!("write the unit: `{fixed}`"), vec![edit])
                    }
                    None => diagnostic.help(SIZE_FORM),
                });
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let names = || words.iter().map(|(word, _)| *word);
        self.asks(section, key, || Form::Word(names().map(str::to_owned).collect()));
        let entry = section.entry(key)?;
        let DeValue::String(text) = entry.value else {
            let diagnostic = self.wrong_type(&entry, &section.place, &alternatives(names()));
            self.push(diagnostic);
            return None;
        };
        let text = At { value: text.as_ref(), span: entry.span };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(*value);
        }
        let message = format!("`{key}` of {} must be {}", section.place, alternatives(names()));
        let diagnostic = Diagnostic::error(message).at(text.span.clone(), "unknown word");
        self.push(match nearest(text.value, names()) {
            Some(near) => diagnostic.fix(
                format!("a word with a similar spelling exists: `{near}`"),
                vec![Edit::new(text.span, format!("\"{near}\""))],
            ),
            None => diagnostic,
        });
        None
    }
}

/// What a value is, with its article.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// `"a"`, `"b"` or `"c"`.
pub(super) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("\"{word}\"")).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => words.concat(),
    }
}

fn binary_unit(written: &str) -> Option<&'static str> {
    match written.to_ascii_lowercase().as_str() {
        "b" | "byte" | "bytes" => Some("B"),
        "k" | "kb" | "ki" | "kib" => Some("KiB"),
        "m" | "mb" | "mi" | "mib" => Some("MiB"),
        "g" | "gb" | "gi" | "gib" => Some("GiB"),
        "t" | "tb" | "ti" | "tib" => Some("TiB"),
        _ => None,
    }
}

const DURATION_FORM: &str = "write whole numbers with units, the largest first: `500ms`, `2s`, `1h30m`, `7d`";
const SIZE_FORM: &str = "write a whole number with a unit: `64KiB`, `16MiB`, `10GiB`";
