//! Reading a type from named texts, such as the arguments of a prompt or the variables of a URI.

use std::collections::BTreeMap;

use serde::Deserializer;
use serde::de::value::{Error, MapDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

/// Reads `A` from texts by name. Numbers and truth values are read from the words for them.
///
/// # Errors
///
/// A sentence that names the one that cannot be read.
pub(super) fn read<A: DeserializeOwned>(texts: &BTreeMap<String, String>) -> Result<A, String> {
    let words = texts.iter().map(|(name, text)| (name.as_str(), Word(text)));
    let reader = MapDeserializer::<_, Error>::new(words);
    serde_path_to_error::deserialize(reader).map_err(|error| match error.path().iter().len() {
        0 => error.inner().to_string(),
        _ => format!("`{}`: {}", error.path(), error.inner()),
    })
}

/// One text, read as whatever is asked for.
#[derive(Clone, Copy)]
struct Word<'t>(&'t str);

impl<'de> IntoDeserializer<'de, Error> for Word<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Numbers are read as the widest of their kind: serde sees to it that they fit.
macro_rules! parsed {
    ($($method:ident)*: $wide:ty, $visit:ident, $expected:literal) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse::<$wide>() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(Error::invalid_value(Unexpected::Str(self.0), &$expected)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Word<'_> {
    type Error = Error;

    parsed!(deserialize_bool: bool, visit_bool, "`true` or `false`");
    parsed!(deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64: u64, visit_u64, "a whole number");
    parsed!(deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64: i64, visit_i64, "a whole number");
    parsed!(deserialize_u128: u128, visit_u128, "a whole number");
    parsed!(deserialize_i128: i128, visit_i128, "a whole number");
    parsed!(deserialize_f32 deserialize_f64: f64, visit_f64, "a number");

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let name: StrDeserializer<'_, Error> = self.0.into_deserializer();
        visitor.visit_enum(name)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Depth {
        Shallow,
        Deep,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Arguments {
        name: String,
        count: u8,
        depth: Option<Depth>,
        #[serde(default)]
        sure: bool,
    }

    fn of(texts: &[(&str, &str)]) -> Result<Arguments, String> {
        read(&texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn texts_are_read_as_what_they_stand_for() {
        let all = of(&[("name", "7"), ("count", "7"), ("depth", "deep"), ("sure", "true"), ("x", "?")]);
        let expected = Arguments { name: "7".to_owned(), count: 7, depth: Some(Depth::Deep), sure: true };
        assert_eq!(all, Ok(expected));
        assert_eq!(of(&[("name", ""), ("count", "0")]).map(|few| (few.depth, few.sure)), Ok((None, false)));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(of(&[("name", "a")]), Err("missing field `count`".to_owned()));
        let error = of(&[("name", "a"), ("count", "many")]).unwrap_err();
        assert_eq!(error, "`count`: invalid value: string \"many\", expected a whole number");
        assert!(of(&[("name", "a"), ("count", "256")]).unwrap_err().starts_with("`count`: invalid value"));
        let error = of(&[("name", "a"), ("count", "1"), ("depth", "x")]).unwrap_err();
        assert!(error.starts_with("`depth`: unknown variant `x`"), "{error}");
    }
}
