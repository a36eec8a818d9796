//! Text with placeholders: `{crate}` stands for the value of the input `crate`.
//!
//! Only braces around an identifier mean anything, so `awk '{ print }'`, `{{.Names}}`, `{3,5}` and JSON stay as
//! they are. Around an identifier, two braces on each side stand for one: `{{crate}}` is the text `{crate}`, and
//! `{{{crate}}}` is the value between braces.

use std::ops::Range;

/// A text whose placeholders are known inputs, by their index in the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// Binds every placeholder of `text` to an index; `None` when one is not known to `index_of`.
    pub(super) fn resolve(text: &str, mut index_of: impl FnMut(&str) -> Option<usize>) -> Option<Self> {
        let pieces = tokens(text)
            .into_iter()
            .map(|token| match token {
                Token::Literal(text) => Some(Piece::Literal(text)),
                Token::Input { name, .. } => index_of(name).map(Piece::Input),
            })
            .collect::<Option<_>>()?;
        Some(Self { pieces })
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The inputs that stand in this text, in order, repeated as often as they stand.
    pub(super) fn inputs(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Input(index) => Some(*index),
        })
    }

    /// The input that is the whole text, when one is.
    pub(super) fn sole_input(&self) -> Option<usize> {
        match self.pieces.as_slice() {
            [Piece::Input(index)] => Some(*index),
            _ => None,
        }
    }

    /// The input that the text begins with.
    pub(super) fn first_input(&self) -> Option<usize> {
        match self.pieces.first() {
            Some(Piece::Input(index)) => Some(*index),
            _ => None,
        }
    }

    /// The input that stands behind nothing but dashes.
    pub(super) fn input_behind_dashes(&self) -> Option<usize> {
        match self.pieces.as_slice() {
            [Piece::Literal(text), Piece::Input(index), ..] if text.bytes().all(|byte| byte == b'-') => {
                Some(*index)
            }
            _ => None,
        }
    }

    /// The text, when it has no placeholder.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    Input(usize),
}

/// What a text is made of, before its placeholders are known to be inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Literal(String),
    Input {
        name: &'t str,
        /// Where `{name}` stands in the text, its own pair of braces included.
        at: Range<usize>,
    },
}

/// Splits a text at its placeholders. Neighbouring literals are joined and none is empty.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut literal = String::new();
    let mut done = 0;
    for braced in braced_identifiers(text) {
        literal.push_str(&text[done..braced.outer.start]);
        // Of the pairs around the name, each two are one literal brace on either side; an odd one is ours.
        let braces = braced.pairs / 2;
        literal.extend(std::iter::repeat_n('{', braces));
        if braced.pairs % 2 == 1 {
            if !literal.is_empty() {
                found.push(Token::Literal(std::mem::take(&mut literal)));
            }
            let at = braced.name.start - 1..braced.name.end + 1;
            found.push(Token::Input { name: &text[braced.name], at });
        } else {
            literal.push_str(&text[braced.name]);
        }
        literal.extend(std::iter::repeat_n('}', braces));
        done = braced.outer.end;
    }
    literal.push_str(&text[done..]);
    if !literal.is_empty() {
        found.push(Token::Literal(literal));
    }
    found
}

/// The names that an opening brace stands before and no closing one behind, each with its brace: a placeholder that somebody
/// forgot to close, if it is the name of an input.
pub(super) fn unclosed(text: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    openings(text).filter(|braced| braced.pairs == 0).map(|braced| {
        let at = braced.name.start - 1..braced.name.end;
        (&text[braced.name], at)
    })
}

/// Writes a text so that nothing in it is a placeholder and it comes out as it was.
///
/// # Examples
///
/// ```
/// use longhaul_gateway::config::escape_placeholders;
///
/// assert_eq!(escape_placeholders("git show @{upstream}"), "git show @{{upstream}}");
/// assert_eq!(escape_placeholders("awk '{ print }'"), "awk '{ print }'");
/// ```
#[must_use]
pub fn escape_placeholders(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut done = 0;
    for braced in braced_identifiers(text) {
        escaped.push_str(&text[done..braced.outer.start]);
        escaped.extend(std::iter::repeat_n('{', braced.pairs));
        escaped.push_str(&text[braced.outer.clone()]);
        escaped.extend(std::iter::repeat_n('}', braced.pairs));
        done = braced.outer.end;
    }
    escaped.push_str(&text[done..]);
    escaped
}

/// Whether `name` can be the name of an input: a letter or `_`, then letters, digits, `_` and `-`, at most 64.
pub(super) fn is_input_name(name: &str) -> bool {
    name.len() <= MAX_NAME && identifier_end(name.as_bytes(), 0) == Some(name.len())
}

/// The longest name of an input: hosts refuse longer property names.
pub(super) const MAX_NAME: usize = 64;

/// An identifier between the same number of opening and closing braces.
struct Braced {
    outer: Range<usize>,
    name: Range<usize>,
    pairs: usize,
}

fn braced_identifiers(text: &str) -> impl Iterator<Item = Braced> {
    openings(text).filter(|braced| braced.pairs > 0)
}

/// Every identifier behind an opening brace; without a closing one behind it there are no pairs.
fn openings(text: &str) -> impl Iterator<Item = Braced> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            if bytes[at] != b'{' {
                at += 1;
                continue;
            }
            let open = run(bytes, at, b'{');
            let name_start = at + open;
            let Some(name_end) = identifier_end(bytes, name_start) else {
                at = name_start;
                continue;
            };
            let pairs = open.min(run(bytes, name_end, b'}'));
            at = name_end + pairs;
            return Some(Braced { outer: name_start - pairs..at, name: name_start..name_end, pairs });
        }
        None
    })
}

/// How many of `byte` stand from `at` on.
fn run(bytes: &[u8], at: usize, byte: u8) -> usize {
    bytes[at..].iter().take_while(|found| **found == byte).count()
}

fn identifier_end(bytes: &[u8], start: usize) -> Option<usize> {
    let first = *bytes.get(start)?;
    if !(first.is_ascii_alphabetic() || first == b'_') {
        return None;
    }
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'-');
    Some(start + bytes[start..].iter().take_while(is_part).count())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text with every placeholder shown as `<name>`.
    fn shown(text: &str) -> String {
        tokens(text)
            .into_iter()
            .map(|token| match token {
                Token::Literal(text) => text,
                Token::Input { name, at } => {
                    assert_eq!(&text[at], format!("{{{name}}}"));
                    format!("<{name}>")
                }
            })
            .collect()
    }

    #[test]
    fn only_braces_around_an_identifier_mean_anything() {
        assert_eq!(shown("--package={crate}!"), "--package=<crate>!");
        assert_eq!(shown("{a}{b-c}"), "<a><b-c>");
        for literal in
            ["awk '{ print }'", "{{.Names}}", "x{3,5}", "{}", "{\"a\":1}", "a{b", "b}a", "{é}", "{-a}"]
        {
            assert_eq!(shown(literal), literal);
        }
    }

    #[test]
    fn doubled_braces_around_an_identifier_are_literal() {
        assert_eq!(shown("{{crate}}"), "{crate}");
        assert_eq!(shown("{{{crate}}}"), "{<crate>}");
        assert_eq!(shown("{{{{crate}}}}"), "{{crate}}");
    }

    #[test]
    fn a_name_behind_a_brace_that_nothing_closes_is_found() {
        fn found(text: &str) -> Vec<(&str, &str)> {
            unclosed(text).map(|(name, at)| (name, &text[at])).collect()
        }
        assert_eq!(found("{s"), [("s", "{s")]);
        assert_eq!(found("--x={{s-1 {t}"), [("s-1", "{s-1")]);
        assert!(found("{s}{{t}}{ u }{1{").is_empty());
    }

    #[test]
    fn unequal_braces_pair_from_the_inside() {
        assert_eq!(shown("{\"n\":{n}}"), "{\"n\":<n>}");
        assert_eq!(shown("{{n}"), "{<n>");
        assert_eq!(shown("{\"n\":{{n}}}"), "{\"n\":{n}}");
    }

    proptest! {
        #[test]
        fn any_text_survives_escaping(text in "[{}a-c_ \u{e9}-]{0,40}") {
            let escaped = escape_placeholders(&text);
            let expected = if text.is_empty() { vec![] } else { vec![Token::Literal(text)] };
            prop_assert_eq!(tokens(&escaped), expected);
        }
    }
}
