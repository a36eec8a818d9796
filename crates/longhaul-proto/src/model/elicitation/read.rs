//! A form from the schema that it was written as.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::{Choice, Field, Form, Kind, Named, TextFormat};

#[derive(serde::Deserialize)]
struct Schema {
    #[serde(default)]
    properties: Properties,
    #[serde(default)]
    required: Vec<String>,
}

/// In the order in which they were written, which is the order in which a user sees them.
#[derive(Default)]
struct Properties(Vec<(String, Property)>);

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Property {
    #[serde(rename = "type")]
    word: String,
    title: Option<String>,
    description: Option<String>,
    /// One that this release does not know bounds nothing.
    format: Option<serde_json::Value>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    #[serde(rename = "enum")]
    values: Option<Vec<String>>,
    enum_names: Option<Vec<String>>,
    one_of: Option<Vec<Choice>>,
    items: Option<Items>,
    default: Option<serde_json::Value>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Items {
    #[serde(rename = "enum")]
    values: Option<Vec<String>>,
    any_of: Option<Vec<Choice>>,
}

impl<'de> Deserialize<'de> for Form {
    /// Reads the JSON Schema of a form; a field of a kind that no form has is an error.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let schema = Schema::deserialize(deserializer)?;
        let mut fields = Vec::with_capacity(schema.properties.0.len());
        for (name, property) in schema.properties.0 {
            let Some(field) = property.field() else {
                return Err(D::Error::custom(format_args!("`{name}` is of a kind that no form has")));
            };
            let required = schema.required.contains(&name);
            fields.push((name, field, required));
        }
        Ok(Self { fields })
    }
}

impl Property {
    fn field(self) -> Option<Field> {
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let default = self.default.as_ref();
        let kind = match self.word.as_str() {
            "string" => match (self.one_of, self.values, self.enum_names) {
                (Some(options), ..) => {
                    Kind::Choice { options, named: Named::Yes, default: default.and_then(text) }
                }
                (None, Some(values), Some(names)) if names.len() == values.len() => {
                    let pair = |(value, title)| Choice { value, title };
                    let options = values.into_iter().zip(names).map(pair).collect();
                    Kind::Choice { options, named: Named::Apart, default: default.and_then(text) }
                }
                (None, Some(values), _) => {
                    let options = super::unnamed(values);
                    Kind::Choice { options, named: Named::No, default: default.and_then(text) }
                }
                (None, None, _) => Kind::Text {
                    format: self.format.and_then(|word| serde_json::from_value::<TextFormat>(word).ok()),
                    length: (self.min_length, self.max_length),
                    default: default.and_then(text),
                },
            },
            word @ ("number" | "integer") => Kind::Number {
                integer: word == "integer",
                range: (self.minimum, self.maximum),
                default: default.and_then(serde_json::Value::as_f64),
            },
            "boolean" => Kind::Flag { default: default.and_then(serde_json::Value::as_bool) },
            "array" => {
                let (options, named) = match self.items? {
                    Items { any_of: Some(options), .. } => (options, Named::Yes),
                    Items { values, .. } => (super::unnamed(values?), Named::No),
                };
                let chosen = default.and_then(serde_json::Value::as_array);
                let default = chosen.into_iter().flatten().filter_map(text).collect();
                Kind::Choices { options, named, count: (self.min_items, self.max_items), default }
            }
            _ => return None,
        };
        Some(Field { kind, title: self.title, description: self.description })
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Properties;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Properties, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Properties(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
