//! Regular expressions of the configuration, with the meaning JSON Schema gives them.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// A regular expression that takes time linear in the text, compiled within a bounded size.
///
/// A pattern is searched for, as JSON Schema says: `^` and `$` anchor it. `\d`, `\w` and their opposites mean
/// ASCII, as they do for the clients that read the schema.
#[derive(Clone)]
pub struct Pattern {
    written: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern as written in the configuration.
    pub(super) fn compile(written: &str) -> Result<Self, regex::Error> {
        // Compiled once as written, so that an error shows the author's own text.
        builder(written).build()?;
        let regex = builder(&ascii_classes(written)).build()?;
        Ok(Self { written: written.into(), regex })
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// The compiled expression.
    #[must_use]
    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Whether the pattern occurs in `text`.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// How many groups the pattern captures, the whole match not counted.
    pub(super) fn groups(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// Whether nothing ties the pattern to the start or the end of the text.
    pub(super) fn floats(&self) -> bool {
        !self.written.starts_with(['^'])
            && !self.written.starts_with("\\A")
            && !self.written.ends_with(['$', 'z'])
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.written).finish()
    }
}

fn builder(pattern: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT);
    builder
}

/// `\d` and `\w` as ECMA-262 means them; every other escape untouched.
fn ascii_classes(pattern: &str) -> String {
    let mut ascii = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            ascii.push(c);
            continue;
        }
        match chars.next() {
            Some('d') => ascii.push_str("[0-9]"),
            Some('D') => ascii.push_str("[^0-9]"),
            Some('w') => ascii.push_str("[0-9A-Za-z_]"),
            Some('W') => ascii.push_str("[^0-9A-Za-z_]"),
            Some(other) => ascii.extend(['\\', other]),
            None => ascii.push('\\'),
        }
    }
    ascii
}

/// The largest compiled form, in bytes. A pattern past it is refused when the file is read.
const SIZE_LIMIT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_mean_ascii_inside_and_outside_brackets() {
        let digits = Pattern::compile(r"^[\d-]+\w$").unwrap();
        assert!(digits.is_match("1-2a"));
        assert!(
            !digits.is_match("\u{0661}a"),
            "an Arabic digit is not `\\d` to the clients that read the schema"
        );
        assert!(Pattern::compile(r"^\\d$").unwrap().is_match(r"\d"));
    }

    #[test]
    fn a_pattern_is_searched_for_unless_it_is_anchored() {
        assert!(Pattern::compile("b").unwrap().is_match("abc"));
        assert!(Pattern::compile("b").unwrap().floats());
        assert!(!Pattern::compile("^b").unwrap().floats());
        assert!(!Pattern::compile("^b$").unwrap().is_match("b\n"));
    }

    #[test]
    fn s42_a_pattern_that_would_take_too_much_memory_is_refused() {
        assert!(Pattern::compile(r"(\pL{1000}){1000}").is_err());
    }
}
