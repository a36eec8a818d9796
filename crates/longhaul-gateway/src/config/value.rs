//! A value of an input, decoded and rendered the one way it is ever rendered.

use std::{cmp::Ordering, fmt};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A value of an input. `Display` is its text in a command line, except for a list, which has none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value {
    /// Any text.
    String(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(Number),
    /// `true` or `false`.
    Boolean(bool),
    /// A list of texts.
    Array(Vec<String>),
}

impl Value {
    /// The text that stands for a value in a command line; `None` for a list, whose items are arguments.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::String(text) => Some(text.clone()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Boolean(value) => Some(value.to_string()),
            Self::Array(_) => None,
        }
    }

    /// The value as JSON.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("text, numbers, booleans and lists of text are always JSON")
    }
}

/// A finite number in canonical decimal form: no exponent, no needless `.0`, no negative zero.
///
/// Whole numbers within 64 bits keep every digit; others are the nearest `f64`.
#[derive(Clone, Debug)]
pub struct Number {
    text: Box<str>,
    value: f64,
    /// The number itself, when it is whole and within 64 bits.
    whole: Option<i64>,
}

impl Number {
    pub(super) fn from_f64(value: f64) -> Option<Self> {
        if value.fract() == 0.0 && value.abs() <= EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
            return Some(Self::from_i64(value as i64));
        }
        value.is_finite().then(|| Self { text: value.to_string().into(), value, whole: None })
    }

    #[expect(clippy::cast_precision_loss, reason = "the digits are kept beside the approximation")]
    pub(super) fn from_i64(value: i64) -> Self {
        Self { text: value.to_string().into(), value: value as f64, whole: Some(value) }
    }

    /// Reads the text of a JSON number.
    fn from_json(text: &str) -> Option<Self> {
        match text.parse::<i64>() {
            Ok(value) => Some(Self::from_i64(value)),
            Err(_) => Self::from_f64(text.parse().ok()?),
        }
    }

    /// The number as the nearest `f64`.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.value
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.whole, other.whole) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => self.value.partial_cmp(&other.value),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.text.clone().into_string());
        raw.expect("a decimal number is JSON").serialize(serializer)
    }
}

/// The whole number a JSON number stands for: `3`, `3.0` and `3e0` are the same one, as JSON Schema says.
pub(super) fn integer_from_json(text: &str) -> Result<i64, IntegerError> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(value);
    }
    let value: f64 = text.parse().map_err(|_| IntegerError::Fraction)?;
    if !value.is_finite() {
        return Err(IntegerError::Range);
    }
    if value.fract() != 0.0 {
        return Err(IntegerError::Fraction);
    }
    // Beyond 2^53 an f64 no longer says which integer was meant.
    if value.abs() > EXACT {
        return Err(IntegerError::Range);
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
    Ok(value as i64)
}

/// Why a JSON number is not a whole number we can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerError {
    Fraction,
    Range,
}

/// The number a JSON number stands for; `None` past the range of an `f64`.
pub(super) fn number_from_json(text: &str) -> Option<Number> {
    Number::from_json(text)
}

/// A text as JSON writes it.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("any text can be written as JSON")
}

const EXACT: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_spelling() {
        for (json, text) in [
            ("1.0", "1"),
            ("-0.0", "0"),
            ("-0", "0"),
            ("1e3", "1000"),
            ("0.10", "0.1"),
            ("9007199254740993", "9007199254740993"),
            ("1e21", "1000000000000000000000"),
        ] {
            assert_eq!(number_from_json(json).unwrap().to_string(), text);
        }
        assert_eq!(number_from_json("1e400"), None);
    }

    #[test]
    fn an_integer_may_be_written_with_a_point_but_not_with_a_fraction() {
        assert_eq!(integer_from_json("3.0"), Ok(3));
        assert_eq!(integer_from_json("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(integer_from_json("3.5"), Err(IntegerError::Fraction));
        assert_eq!(integer_from_json("9223372036854775808"), Err(IntegerError::Range));
    }

    #[test]
    fn a_number_is_written_to_json_with_all_its_digits() {
        let value = Value::Number(number_from_json("9007199254740993").unwrap());
        assert_eq!(value.to_json(), "9007199254740993");
        assert_eq!(Value::Array(vec!["a\"".into()]).to_json(), r#"["a\""]"#);
    }
}
