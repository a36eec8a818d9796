//! Elicitation: a server asks its client's user.

mod look;
mod read;

use std::fmt;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::jsonrpc::ObjectWriter;

pub use look::{FieldKind, FieldOption};

/// What a user is asked (2025-11-25, Client, Elicitation).
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the specification's two modes")]
pub enum ElicitParams {
    /// To fill in a form.
    Form(ElicitForm),
    /// To go somewhere, where what is secret stays.
    Url(ElicitUrl),
}

/// A form to fill in. Never for secrets: the answer passes through the client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ElicitForm {
    /// What the user reads.
    pub message: String,
    /// What the form has.
    pub form: Form,
}

impl ElicitForm {
    /// Asks with this form.
    pub fn new(message: impl Into<String>, form: Form) -> Self {
        Self { message: message.into(), form }
    }
}

/// A page for the user to visit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ElicitUrl {
    /// What the user reads before deciding to go there.
    pub message: String,
    /// The page.
    pub url: String,
    /// Names this request, for the word that it is done (2025-11-25).
    pub id: String,
}

impl ElicitUrl {
    /// Sends the user to `url`; `id` names the request among this server's.
    pub fn new(message: impl Into<String>, url: impl Into<String>, id: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into(), id: id.into() }
    }
}

/// A flat form: fields in their order, each a text, a number, a yes or no, or a choice.
///
/// # Examples
///
/// ```
/// use longhaul_proto::model::{Field, Form};
///
/// let form = Form::new()
///     .with("name", Field::text().titled("Your name"))
///     .with_optional("size", Field::choice(["small", "large"]).defaulting_to("small"));
/// assert!(form.check(r#"{"name":"Ada","size":"large"}"#).is_ok());
/// assert!(form.check(r#"{"size":"huge"}"#).is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Form {
    fields: Vec<(String, Field, bool)>,
}

impl Form {
    /// A form without fields: a yes or no.
    pub const fn new() -> Self {
        Self { fields: Vec::new() }
    }

    /// The same with a field that must be filled in.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, field: Field) -> Self {
        self.fields.push((name.into(), field, true));
        self
    }

    /// The same with a field that may be left out.
    #[must_use]
    pub fn with_optional(mut self, name: impl Into<String>, field: Field) -> Self {
        self.fields.push((name.into(), field, false));
        self
    }

    /// Whether a field takes several choices.
    pub(crate) fn has_many_choices(&self) -> bool {
        self.fields.iter().any(|(_, field, _)| matches!(field.kind, Kind::Choices { .. }))
    }

    /// The same, the names of all choices in lists of their own.
    pub(crate) fn naming_apart(&self) -> Self {
        let mut form = self.clone();
        for (_, field, _) in &mut form.fields {
            if let Kind::Choice { named: named @ Named::Yes, .. } = &mut field.kind {
                *named = Named::Apart;
            }
        }
        form
    }

    /// What the form is filled in with to begin with, the JSON of an object: what its user sees, and may send as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul_proto::model::{Field, Form};
    ///
    /// let form = Form::new().with("size", Field::text().defaulting_to("small")).with("name", Field::text());
    /// assert_eq!(form.defaults().get(), r#"{"size":"small"}"#);
    /// ```
    pub fn defaults(&self) -> Box<RawValue> {
        let mut text = Vec::new();
        let mut object = ObjectWriter::new(&mut text);
        for (name, field, _) in &self.fields {
            match &field.kind {
                Kind::Text { default, .. } | Kind::Choice { default, .. } => {
                    object.optional(name, default.as_ref());
                }
                Kind::Number { default, integer, .. } => {
                    let default = default.map(|number| Number { number, whole: *integer });
                    object.optional(name, default.as_ref());
                }
                Kind::Flag { default } => {
                    object.optional(name, default.as_ref());
                }
                Kind::Choices { default, .. } => {
                    object.optional(name, Some(default).filter(|chosen| !chosen.is_empty()));
                }
            }
        }
        object.end();
        let text = String::from_utf8(text).ok().and_then(|text| RawValue::from_string(text).ok());
        text.expect("an object that was just written is JSON")
    }

    /// Whether `content`, the JSON text of an object, fills in this form.
    ///
    /// # Errors
    ///
    /// When it does not, naming the first field that is wrong.
    pub fn check(&self, content: &str) -> Result<(), InvalidAnswer> {
        let values: serde_json::Map<String, serde_json::Value> = serde_json::from_str(content)
            .map_err(|_| InvalidAnswer { field: None, expected: "an object".to_owned() })?;
        for (name, field, required) in &self.fields {
            let wrong = match values.get(name) {
                None if *required => Some("a value".to_owned()),
                None => None,
                Some(value) => field.kind.expects(value),
            };
            if let Some(expected) = wrong {
                return Err(InvalidAnswer { field: Some(name.clone()), expected });
            }
        }
        match values.keys().find(|key| !self.fields.iter().any(|(name, ..)| name == *key)) {
            Some(unknown) => {
                Err(InvalidAnswer { field: Some(unknown.clone()), expected: "no such field".to_owned() })
            }
            None => Ok(()),
        }
    }
}

/// An answer that does not fill in its form.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct InvalidAnswer {
    /// The field that is wrong; `None` when the whole is.
    pub field: Option<String>,
    /// What it should be.
    pub expected: String,
}

impl fmt::Display for InvalidAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "`{field}`: expected {}", self.expected),
            None => write!(f, "expected {}", self.expected),
        }
    }
}

impl std::error::Error for InvalidAnswer {}

/// One field of a form.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Field {
    kind: Kind,
    title: Option<String>,
    description: Option<String>,
}

#[derive(Clone, Debug)]
enum Kind {
    Text { format: Option<TextFormat>, length: (Option<u64>, Option<u64>), default: Option<String> },
    Number { integer: bool, range: (Option<f64>, Option<f64>), default: Option<f64> },
    Flag { default: Option<bool> },
    Choice { options: Vec<Choice>, named: Named, default: Option<String> },
    Choices { options: Vec<Choice>, named: Named, count: (Option<u64>, Option<u64>), default: Vec<String> },
}

/// One thing to choose.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Choice {
    #[serde(rename = "const")]
    value: String,
    title: String,
}

/// How the names of choices for people are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Named {
    /// They have none.
    No,
    /// Each beside its value.
    Yes,
    /// In a list of their own, as the first revision with forms has it.
    Apart,
}

/// What a text must be.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "the specification's four")]
pub enum TextFormat {
    /// An address of e-mail.
    Email,
    /// A URI.
    Uri,
    /// A day, as `2026-07-28`.
    Date,
    /// A moment, in ISO 8601.
    DateTime,
}

impl Field {
    const fn of(kind: Kind) -> Self {
        Self { kind, title: None, description: None }
    }

    /// A text.
    pub const fn text() -> Self {
        Self::of(Kind::Text { format: None, length: (None, None), default: None })
    }

    /// A number.
    pub const fn number() -> Self {
        Self::of(Kind::Number { integer: false, range: (None, None), default: None })
    }

    /// A whole number.
    pub const fn integer() -> Self {
        Self::of(Kind::Number { integer: true, range: (None, None), default: None })
    }

    /// A yes or no.
    pub const fn flag() -> Self {
        Self::of(Kind::Flag { default: None })
    }

    /// One of these values.
    pub fn choice<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        Self::of(Kind::Choice { options: unnamed(values), named: Named::No, default: None })
    }

    /// One of these values, each with a name for people.
    pub fn named_choice<S: Into<String>, T: Into<String>>(values: impl IntoIterator<Item = (S, T)>) -> Self {
        Self::of(Kind::Choice { options: named(values), named: Named::Yes, default: None })
    }

    /// One of these values, their names in a list of their own (`enumNames`), for clients of 2025-06-18.
    pub fn legacy_named_choice<S: Into<String>, T: Into<String>>(
        values: impl IntoIterator<Item = (S, T)>,
    ) -> Self {
        Self::of(Kind::Choice { options: named(values), named: Named::Apart, default: None })
    }

    /// Any of these values.
    pub fn choices<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        let (options, count) = (unnamed(values), (None, None));
        Self::of(Kind::Choices { options, named: Named::No, count, default: Vec::new() })
    }

    /// Any of these values, each with a name for people.
    pub fn named_choices<S: Into<String>, T: Into<String>>(values: impl IntoIterator<Item = (S, T)>) -> Self {
        let (options, count) = (named(values), (None, None));
        Self::of(Kind::Choices { options, named: Named::Yes, count, default: Vec::new() })
    }

    /// The same, named for people.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same with a description.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// A text of that format; nothing else has one.
    #[must_use]
    pub fn formatted(mut self, as_format: TextFormat) -> Self {
        if let Kind::Text { format, .. } = &mut self.kind {
            *format = Some(as_format);
        }
        self
    }

    /// At least and at most so long (a text), so large (a number) or so many (choices).
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths and counts are small and whole"
    )]
    pub fn within(mut self, least: impl Into<Option<f64>>, most: impl Into<Option<f64>>) -> Self {
        let (least, most) = (least.into(), most.into());
        let whole = |bound: Option<f64>| bound.map(|bound| bound.max(0.0) as u64);
        match &mut self.kind {
            Kind::Number { range, .. } => *range = (least, most),
            Kind::Text { length: bounds, .. } | Kind::Choices { count: bounds, .. } => {
                *bounds = (whole(least), whole(most));
            }
            Kind::Flag { .. } | Kind::Choice { .. } => {}
        }
        self
    }

    /// The same, filled in with `value` to begin with. A value of another kind than the field's is left out.
    #[must_use]
    pub fn defaulting_to(mut self, value: impl Into<FieldValue>) -> Self {
        match (&mut self.kind, value.into()) {
            (Kind::Text { default, .. } | Kind::Choice { default, .. }, FieldValue::Text(value)) => {
                *default = Some(value);
            }
            (Kind::Number { default, .. }, FieldValue::Number(value)) => *default = Some(value),
            (Kind::Flag { default }, FieldValue::Flag(value)) => *default = Some(value),
            (Kind::Choices { default, .. }, FieldValue::Many(values)) => *default = values,
            _ => {}
        }
        self
    }
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds a form has")]
pub enum FieldValue {
    /// A text, or what is chosen.
    Text(String),
    /// A number.
    Number(f64),
    /// A yes or no.
    Flag(bool),
    /// All that is chosen.
    Many(Vec<String>),
}

impl From<&str> for FieldValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<f64> for FieldValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<i32> for FieldValue {
    fn from(value: i32) -> Self {
        Self::Number(value.into())
    }
}

impl From<bool> for FieldValue {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl<const N: usize> From<[&str; N]> for FieldValue {
    fn from(values: [&str; N]) -> Self {
        Self::Many(values.map(str::to_owned).into())
    }
}

fn unnamed<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Vec<Choice> {
    let choice = |value: S| Choice { value: value.into(), title: String::new() };
    values.into_iter().map(choice).collect()
}

fn named<S: Into<String>, T: Into<String>>(values: impl IntoIterator<Item = (S, T)>) -> Vec<Choice> {
    let choice = |(value, title): (S, T)| Choice { value: value.into(), title: title.into() };
    values.into_iter().map(choice).collect()
}

impl Kind {
    /// What a value should be instead, if it is not of this kind.
    fn expects(&self, value: &serde_json::Value) -> Option<String> {
        let within = |count: u64, (least, most): &(Option<u64>, Option<u64>)| {
            least.is_none_or(|least| count >= least) && most.is_none_or(|most| count <= most)
        };
        match self {
            Self::Text { length, .. } => {
                let fits = value.as_str().is_some_and(|text| within(text.chars().count() as u64, length));
                (!fits).then(|| format!("a text{}", bounds(length, "characters")))
            }
            Self::Number { integer, range: (least, most), .. } => {
                let fits = value.as_f64().is_some_and(|number| {
                    (!integer || number.fract() == 0.0)
                        && least.is_none_or(|least| number >= least)
                        && most.is_none_or(|most| number <= most)
                });
                let what = if *integer { "a whole number" } else { "a number" };
                (!fits).then(|| format!("{what}{}", bounds(&(*least, *most), "")))
            }
            Self::Flag { .. } => (!value.is_boolean()).then(|| "true or false".to_owned()),
            Self::Choice { options, .. } => {
                let fits = value.as_str().is_some_and(|value| has(options, value));
                (!fits).then(|| format!("one of {}", list(options)))
            }
            Self::Choices { options, count, .. } => {
                let fits = value.as_array().is_some_and(|values| {
                    within(values.len() as u64, count)
                        && values.iter().all(|value| value.as_str().is_some_and(|value| has(options, value)))
                });
                (!fits).then(|| format!("a list of {}{}", list(options), bounds(count, "of them")))
            }
        }
    }
}

fn has(options: &[Choice], value: &str) -> bool {
    options.iter().any(|option| option.value == value)
}

fn list(options: &[Choice]) -> String {
    let values: Vec<String> = options.iter().map(|option| format!("{:?}", option.value)).collect();
    values.join(", ")
}

fn bounds<N: fmt::Display>((least, most): &(Option<N>, Option<N>), of: &str) -> String {
    let gap = if of.is_empty() { "" } else { " " };
    match (least, most) {
        (None, None) => String::new(),
        (Some(least), None) => format!(", at least {least}{gap}{of}"),
        (None, Some(most)) => format!(", at most {most}{gap}{of}"),
        (Some(least), Some(most)) => format!(", {least} to {most}{gap}{of}"),
    }
}

/// As the JSON Schema that the specification allows here.
impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Properties<'a>(&'a [(String, Field, bool)]);
        impl Serialize for Properties<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.iter().map(|(name, field, _)| (name, field)))
            }
        }
        let required: Vec<&str> =
            self.fields.iter().filter(|(.., required)| *required).map(|(name, ..)| name.as_str()).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "object")?;
        map.serialize_entry("properties", &Properties(&self.fields))?;
        if !required.is_empty() {
            map.serialize_entry("required", &required)?;
        }
        map.end()
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let word = match &self.kind {
            Kind::Text { .. } | Kind::Choice { .. } => "string",
            Kind::Number { integer: true, .. } => "integer",
            Kind::Number { integer: false, .. } => "number",
            Kind::Flag { .. } => "boolean",
            Kind::Choices { .. } => "array",
        };
        map.serialize_entry("type", word)?;
        optional(&mut map, "title", self.title.as_ref())?;
        optional(&mut map, "description", self.description.as_ref())?;
        match &self.kind {
            Kind::Text { format, length: (least, most), default } => {
                optional(&mut map, "format", format.as_ref())?;
                optional(&mut map, "minLength", least.as_ref())?;
                optional(&mut map, "maxLength", most.as_ref())?;
                optional(&mut map, "default", default.as_ref())?;
            }
            Kind::Number { integer, range: (least, most), default } => {
                let number = |number: &Option<f64>| number.map(|number| Number { number, whole: *integer });
                optional(&mut map, "minimum", number(least).as_ref())?;
                optional(&mut map, "maximum", number(most).as_ref())?;
                optional(&mut map, "default", number(default).as_ref())?;
            }
            Kind::Flag { default } => optional(&mut map, "default", default.as_ref())?,
            Kind::Choice { options, named, default } => {
                match named {
                    Named::No => map.serialize_entry("enum", &values(options))?,
                    Named::Yes => map.serialize_entry("oneOf", options)?,
                    Named::Apart => {
                        let titles: Vec<&str> = options.iter().map(|option| option.title.as_str()).collect();
                        map.serialize_entry("enum", &values(options))?;
                        map.serialize_entry("enumNames", &titles)?;
                    }
                }
                optional(&mut map, "default", default.as_ref())?;
            }
            Kind::Choices { options, named, count: (least, most), default } => {
                optional(&mut map, "minItems", least.as_ref())?;
                optional(&mut map, "maxItems", most.as_ref())?;
                match named {
                    Named::Yes => map.serialize_entry("items", &AnyOf { any_of: options })?,
                    _ => map.serialize_entry("items", &OneOf { word: "string", values: values(options) })?,
                }
                if !default.is_empty() {
                    map.serialize_entry("default", default)?;
                }
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct AnyOf<'a> {
    #[serde(rename = "anyOf")]
    any_of: &'a [Choice],
}

#[derive(Serialize)]
struct OneOf<'a> {
    #[serde(rename = "type")]
    word: &'static str,
    #[serde(rename = "enum")]
    values: Vec<&'a str>,
}

/// A number that is written without a point where it is whole.
struct Number {
    number: f64,
    whole: bool,
}

impl Serialize for Number {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number of a form is small; others lose what they never had"
    )]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.whole || self.number.fract() == 0.0 {
            serializer.serialize_i64(self.number as i64)
        } else {
            serializer.serialize_f64(self.number)
        }
    }
}

fn values(options: &[Choice]) -> Vec<&str> {
    options.iter().map(|option| option.value.as_str()).collect()
}

fn optional<M: SerializeMap, T: Serialize>(
    map: &mut M,
    key: &str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

/// What the user did.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the specification's three")]
pub enum ElicitAction {
    /// Said yes, with what the form asked for.
    Accept,
    /// Said no.
    Decline,
    /// Went away without saying either.
    Cancel,
}

/// What came of asking a user.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// What the user did.
    pub action: ElicitAction,
    /// What the form was filled in with, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Box<RawValue>>,
}

impl ElicitResult {
    /// The user said yes, with this: the JSON of an object.
    pub fn accepted(content: Box<RawValue>) -> Self {
        Self { action: ElicitAction::Accept, content: Some(content) }
    }

    /// The user did this, and has filled nothing in: to go to a page, for one, needs no more.
    pub fn of(action: ElicitAction) -> Self {
        Self { action, content: None }
    }

    /// The user said no.
    pub fn declined() -> Self {
        Self::of(ElicitAction::Decline)
    }

    /// The user went away.
    pub fn cancelled() -> Self {
        Self::of(ElicitAction::Cancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_the_schema_the_specification_allows() {
        let form = Form::new()
            .with("name", Field::text().titled("Name").formatted(TextFormat::Email).within(1.0, 9.0))
            .with("age", Field::integer().within(0.0, None).defaulting_to(30))
            .with_optional("score", Field::number().defaulting_to(95.5))
            .with_optional("ok", Field::flag().defaulting_to(true))
            .with_optional("one", Field::named_choice([("a", "A"), ("b", "B")]).defaulting_to("b"))
            .with_optional("old", Field::legacy_named_choice([("a", "A")]))
            .with_optional("many", Field::choices(["x", "y"]).within(1.0, 2.0).defaulting_to(["x"]))
            .with_optional("named", Field::named_choices([("x", "X")]));
        let expected = concat!(
            r#"{"type":"object","properties":{"#,
            r#""name":{"type":"string","title":"Name","format":"email","minLength":1,"maxLength":9},"#,
            r#""age":{"type":"integer","minimum":0,"default":30},"score":{"type":"number","default":95.5},"#,
            r#""ok":{"type":"boolean","default":true},"#,
            r#""one":{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}],"default":"b"},"#,
            r#""old":{"type":"string","enum":["a"],"enumNames":["A"]},"#,
            r#""many":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]},"default":["x"]},"#,
            r#""named":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}},"#,
            r#""required":["name","age"]}"#,
        );
        assert_eq!(serde_json::to_string(&form).unwrap(), expected);
        let read: Form = serde_json::from_str(expected).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), expected, "it is read back as it was written");
        let unknown = r#"{"type":"object","properties":{"a":{"type":"object"}}}"#;
        assert!(serde_json::from_str::<Form>(unknown).is_err());
    }

    #[test]
    fn a_form_says_what_it_is_filled_in_with() {
        let form = Form::new()
            .with("name", Field::text().defaulting_to("Ada \"A\""))
            .with("age", Field::integer().defaulting_to(30))
            .with("score", Field::number().defaulting_to(95.5))
            .with("ok", Field::flag().defaulting_to(false))
            .with("one", Field::choice(["a", "b"]).defaulting_to("b"))
            .with("many", Field::choices(["x", "y"]).defaulting_to(["x"]))
            .with_optional("none", Field::choices(["x"]))
            .with_optional("open", Field::text());
        let defaults = form.defaults();
        let expected = r#"{"name":"Ada \"A\"","age":30,"score":95.5,"ok":false,"one":"b","many":["x"]}"#;
        assert_eq!(defaults.get(), expected);
        assert_eq!(form.check(defaults.get()), Ok(()));
    }

    #[test]
    fn an_answer_must_fill_in_its_form() {
        let form = Form::new()
            .with("n", Field::integer().within(1.0, 5.0))
            .with_optional("t", Field::text().within(None, 3.0))
            .with_optional("c", Field::choices(["x", "y"]).within(1.0, None));
        for good in [r#"{"n":1}"#, r#"{"n":5,"t":"äöü","c":["x","y"]}"#, r#"{"n":2.0}"#] {
            assert_eq!(form.check(good), Ok(()), "{good}");
        }
        for (bad, complaint) in [
            ("[]", "expected an object"),
            ("{}", "`n`: expected a value"),
            (r#"{"n":1.5}"#, "`n`: expected a whole number, 1 to 5"),
            (r#"{"n":6}"#, "`n`: expected a whole number, 1 to 5"),
            (r#"{"n":1,"t":"four"}"#, "`t`: expected a text, at most 3 characters"),
            (r#"{"n":1,"c":[]}"#, r#"`c`: expected a list of "x", "y", at least 1 of them"#),
            (r#"{"n":1,"c":["z"]}"#, r#"`c`: expected a list of "x", "y", at least 1 of them"#),
            (r#"{"n":1,"z":1}"#, "`z`: expected no such field"),
        ] {
            assert_eq!(form.check(bad).unwrap_err().to_string(), complaint, "{bad}");
        }
    }
}
