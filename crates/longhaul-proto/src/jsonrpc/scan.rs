//! One pass over a message's bytes: checks that they are JSON, counts depth, and cuts out the members
//! of the envelope and of `params` without building anything.
//!
//! Strings are skipped eight bytes at a time, so that a large argument costs this pass almost nothing, and the
//! method's own type then reads it once.

use std::borrow::Cow;

/// Why bytes are not one JSON value within the limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what} at byte {offset}")]
#[non_exhaustive]
pub struct ScanError {
    /// Where, in bytes from the start of the message.
    pub offset: usize,
    /// What was found or missing.
    pub what: &'static str,
}

/// A cursor over JSON text.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    max_depth: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, max_depth: usize) -> Self {
        Self { text, at: 0, max_depth: max_depth.min(MAX_DEPTH), depth: 0 }
    }

    pub(crate) fn fail<T>(&self, what: &'static str) -> Result<T, ScanError> {
        Err(ScanError { offset: self.at, what })
    }

    /// The next byte that is not white space, not consumed.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// How far it is, in bytes.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The text from `start` to here.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("text after the message"),
        }
    }

    /// Walks an object, handing each key and the scanner, placed before the value, to `member`, which
    /// must consume the value.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.open(b'{', "expected an object")?;
        if self.peek() == Some(b'}') {
            return self.close();
        }
        loop {
            let key = self.key()?;
            member(self, key)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => return self.close(),
                _ => return self.fail("expected `,` or `}`"),
            }
        }
    }

    /// Skips one value and returns its text.
    pub(crate) fn value(&mut self) -> Result<&'a str, ScanError> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{' | b'[') => self.nested()?,
            _ => self.scalar()?,
        }
        Ok(&self.text[start..self.at])
    }

    fn open(&mut self, bracket: u8, what: &'static str) -> Result<(), ScanError> {
        if self.peek() != Some(bracket) {
            return self.fail(what);
        }
        if self.depth == self.max_depth {
            return self.fail("nested too deeply");
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), ScanError> {
        self.depth -= 1;
        self.at += 1;
        Ok(())
    }

    fn key(&mut self) -> Result<Cow<'a, str>, ScanError> {
        if self.peek() != Some(b'"') {
            return self.fail("expected a key");
        }
        let start = self.at;
        let escaped = self.string()?;
        let quoted = &self.text[start..self.at];
        if self.peek() != Some(b':') {
            return self.fail("expected `:`");
        }
        self.at += 1;
        if !escaped {
            return Ok(Cow::Borrowed(&quoted[1..quoted.len() - 1]));
        }
        match serde_json::from_str(quoted) {
            Ok(key) => Ok(Cow::Owned(key)),
            Err(_) => self.fail("invalid escape in a key"),
        }
    }

    /// An object or array, walked without recursion: one bit a level says which kind it is.
    fn nested(&mut self) -> Result<(), ScanError> {
        let floor = self.depth;
        let mut objects = Kinds::default();
        loop {
            // Here a value is due.
            match self.peek() {
                Some(b'{') => {
                    self.open(b'{', "")?;
                    objects.set(self.depth, true);
                    if self.peek() != Some(b'}') {
                        self.key_and_colon()?;
                        continue;
                    }
                    self.close()?;
                }
                Some(b'[') => {
                    self.open(b'[', "")?;
                    objects.set(self.depth, false);
                    if self.peek() != Some(b']') {
                        continue;
                    }
                    self.close()?;
                }
                _ => self.scalar()?,
            }
            // Here a value has ended: close what it completes.
            loop {
                if self.depth == floor {
                    return Ok(());
                }
                match (self.peek(), objects.get(self.depth)) {
                    (Some(b','), true) => {
                        self.at += 1;
                        self.key_and_colon()?;
                        break;
                    }
                    (Some(b','), false) => {
                        self.at += 1;
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => self.close()?,
                    (_, true) => return self.fail("expected `,` or `}`"),
                    (_, false) => return self.fail("expected `,` or `]`"),
                }
            }
        }
    }

    fn key_and_colon(&mut self) -> Result<(), ScanError> {
        if self.peek() != Some(b'"') {
            return self.fail("expected a key");
        }
        self.string()?;
        if self.peek() != Some(b':') {
            return self.fail("expected `:`");
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) => self.fail("expected a value"),
            None => self.fail("the message ends early"),
        }
    }

    fn word(&mut self, word: &'static str) -> Result<(), ScanError> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        Ok(())
    }

    /// Skips a string; says whether it holds an escape.
    fn string(&mut self) -> Result<bool, ScanError> {
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        self.at += 1;
        loop {
            self.at += plain(&bytes[self.at..]);
            match bytes.get(self.at) {
                None => return self.fail("a string does not end"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => self.at += 1,
                Some(_) => return self.fail("control character in a string"),
            }
            escaped = true;
            match bytes.get(self.at) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                Some(b'u') => match bytes.get(self.at + 1..self.at + 5) {
                    Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => self.at += 5,
                    _ => return self.fail("invalid escape"),
                },
                _ => return self.fail("invalid escape"),
            }
        }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        let bytes = self.text.as_bytes();
        if bytes[self.at] == b'-' {
            self.at += 1;
        }
        match bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return self.fail("invalid number"),
        }
        if bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        while bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { self.fail("invalid number") } else { Ok(()) }
    }
}

/// Which open levels are objects (the others are arrays).
#[derive(Default)]
struct Kinds([u64; MAX_DEPTH / 64 + 1]);

impl Kinds {
    fn set(&mut self, depth: usize, object: bool) {
        let (word, bit) = (&mut self.0[depth / 64], 1 << (depth % 64));
        if object { *word |= bit } else { *word &= !bit }
    }

    fn get(&self, depth: usize) -> bool {
        self.0[depth / 64] & (1 << (depth % 64)) != 0
    }
}

/// The deepest nesting any configuration can allow.
pub const MAX_DEPTH: usize = 256;

/// How many of the first bytes a string holds as they are: up to a quote, a backslash or a control character.
pub(super) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += size_of::<u64>();
    }
    at + bytes[at..].iter().take_while(|b| !matches!(b, b'"' | b'\\' | ..0x20)).count()
}

/// The high bit of each byte that a string does not hold as it is. Above the first, others may be marked too: what is
/// borrowed in a subtraction reaches them.
const fn marks(word: u64) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(EACH) & !word
    }
    let quote = zeros(word ^ (EACH * b'"' as u64));
    let backslash = zeros(word ^ (EACH * b'\\' as u64));
    let control = word.wrapping_sub(EACH * 0x20) & !word;
    (quote | backslash | control) & (EACH * 0x80)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Result<(), ScanError> {
        let mut scanner = Scanner::new(text, 64);
        scanner.value()?;
        scanner.end()
    }

    proptest! {
        #[test]
        fn a_string_is_plain_up_to_what_means_something(text in r#"[a-z\x00-\x21"\\\\é𝄞\x7f]{0,40}"#) {
            let found = text.bytes().position(|b| matches!(b, b'"' | b'\\' | ..0x20));
            prop_assert_eq!(plain(text.as_bytes()), found.unwrap_or(text.len()));
        }
    }

    #[test]
    fn accepts_what_json_allows() {
        for text in [
            r#"{"a":[1,-0.5e+3,{"b":null}],"c":"é\u00e9\n","d":{},"e":[]}"#,
            " [ ] ",
            "true",
            r#""\\\"""#,
            "-0",
        ] {
            assert_eq!(whole(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn refuses_what_json_forbids() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":}",
            "{\"a\" 1}",
            "{a:1}",
            "01",
            "1.",
            "-",
            "1e",
            "tru",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\u{1}\"",
            "[1}",
            "{]",
            "1 2",
            "\"open",
            "{\"a\":1,}",
            "[1 2]",
        ] {
            assert!(whole(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_is_counted() {
        let nest = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert_eq!(whole(&nest(64)), Ok(()));
        assert_eq!(whole(&nest(65)).unwrap_err().what, "nested too deeply");
        assert!(whole(&"[".repeat(1_000_000)).is_err());
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}",:0-9a-e\\ .truefalsnul-]{0,24}"#) {
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(whole(&text).is_ok(), theirs, "{}", text);
        }

        #[test]
        fn accepts_every_value(value in arbitrary_json()) {
            let text = value.to_string();
            prop_assert_eq!(whole(&text), Ok(()));
        }
    }

    fn arbitrary_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::hash_map(".*", inner, 0..6)
                    .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
            ]
        })
    }
}
