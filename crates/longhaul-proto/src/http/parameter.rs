//! Arguments of tools that are repeated in headers: which they are, and whether header and body agree.
//!
//! (2026-07-28, Streamable HTTP, Custom Headers from Tool Parameters.)

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::header::{decode_name, mismatch};
use crate::jsonrpc::{ErrorObject, Params, Text, clip};

/// The keyword that a schema marks such an argument with.
const KEYWORD: &str = "x-mcp-header";

/// Keywords whose values are no schemas, whatever they look like.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// Keywords whose values are schemas by name.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// An argument that a header repeats.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct MirroredParameter {
    /// The header's name, in lower case.
    pub header: String,
    /// Where the argument stands: a chain of names, from the arguments inwards.
    pub path: Vec<String>,
}

/// A schema marks an argument as none may be marked, so that clients leave its tool out.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{KEYWORD}` at {at}: {what}")]
#[non_exhaustive]
pub struct InvalidAnnotation {
    /// Where it stands in the schema.
    pub at: String,
    /// What is wrong with it.
    pub what: &'static str,
}

/// What a request has of one header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "it has none, one, or what cannot be understood")]
pub enum HeaderText<'h> {
    /// None.
    Absent,
    /// One, of visible ASCII.
    Is(&'h str),
    /// Several, or other characters.
    Unreadable,
}

impl MirroredParameter {
    /// Those that the JSON Schema of a tool's arguments marks. Text that is no JSON marks none.
    ///
    /// # Errors
    ///
    /// When a mark stands where none may, or names what cannot be a header.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul_proto::http::MirroredParameter;
    ///
    /// let schema = r#"{"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}"#;
    /// let marked = MirroredParameter::of_schema(schema)?;
    /// assert_eq!((marked[0].header.as_str(), &marked[0].path[..]), ("mcp-param-region", &["region".to_owned()][..]));
    /// # Ok::<(), longhaul_proto::http::InvalidAnnotation>(())
    /// ```
    pub fn of_schema(schema: &str) -> Result<Vec<Self>, InvalidAnnotation> {
        let mut marked = Vec::new();
        if let Ok(Value::Object(schema)) = serde_json::from_str(schema) {
            collect(&schema, Some(&[]), "the schema", &mut marked)?;
        }
        Ok(marked)
    }

    /// What the header says of a call with these arguments, the JSON text of an object, before its encoding
    /// ([`encode_name`](super::encode_name)); `None` where the argument is absent, null, or what no header can repeat.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul_proto::http::MirroredParameter;
    ///
    /// let schema = r#"{"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}"#;
    /// let marked = MirroredParameter::of_schema(schema)?;
    /// assert_eq!(marked[0].text_in(r#"{"n": 42}"#).as_deref(), Some("42"));
    /// assert_eq!(marked[0].text_in(r#"{"n": null}"#), None);
    /// # Ok::<(), longhaul_proto::http::InvalidAnnotation>(())
    /// ```
    pub fn text_in<'a>(&self, arguments: &'a str) -> Option<Cow<'a, str>> {
        let value = value_at(arguments, &self.path)?;
        if value.starts_with('"') {
            serde_json::from_str::<Text<'a>>(value).ok().map(|Text(text)| text)
        } else {
            Some(Cow::Borrowed(value))
        }
    }

    /// Whether every header says what the arguments of this call say. `header` gives a header by its name.
    ///
    /// # Errors
    ///
    /// `-32020` naming the header that is missing, differs, or cannot be read.
    pub fn check<'h>(
        marked: &[Self],
        params: &Params<'_>,
        header: impl Fn(&str) -> HeaderText<'h>,
    ) -> Result<(), ErrorObject> {
        if marked.is_empty() {
            return Ok(());
        }
        let arguments = params.member("arguments").unwrap_or("{}");
        marked.iter().try_for_each(|parameter| {
            parameter.agrees(value_at(arguments, &parameter.path), header(&parameter.header))
        })
    }

    fn agrees(&self, body: Option<&str>, header: HeaderText<'_>) -> Result<(), ErrorObject> {
        let name = &self.header;
        let said = match header {
            HeaderText::Absent => None,
            HeaderText::Is(text) => Some(decode_name(text).ok_or_else(|| {
                mismatch(format!("header mismatch: {name} {:?} is not valid base64", clip(text)))
            })?),
            HeaderText::Unreadable => {
                return Err(mismatch(format!(
                    "header mismatch: send {name} once, and in base64 what is not visible ASCII"
                )));
            }
        };
        match (said, body) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(mismatch(format!(
                "header mismatch: the {name} header is missing, which repeats the argument {:?}",
                self.path.join(".")
            ))),
            (Some(said), None) => Err(mismatch(format!(
                "header mismatch: the {name} header says {:?}, and the arguments have no such value",
                clip(&said)
            ))),
            (Some(said), Some(body)) if is_same(&said, body) => Ok(()),
            (Some(said), Some(body)) => Err(mismatch(format!(
                "header mismatch: the {name} header says {:?} and the body says {}",
                clip(&said),
                clip(body)
            ))),
        }
    }
}

/// Collects the marks of `schema`, which is the one of the argument at `path`, if it is that of any.
fn collect(
    schema: &Map<String, Value>,
    path: Option<&[String]>,
    at: &str,
    marked: &mut Vec<MirroredParameter>,
) -> Result<(), InvalidAnnotation> {
    if let Some(mark) = schema.get(KEYWORD) {
        let refuse = |what| Err(InvalidAnnotation { at: at.to_owned(), what });
        let Some(path @ [_, ..]) = path else {
            return refuse("only a property can be repeated that is reached by `properties` alone");
        };
        if !is_simple(schema.get("type")) {
            return refuse("only a string, an integer or a boolean can be repeated");
        }
        let Some(name) = mark.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token)) else {
            return refuse("its value must be a word that can stand in the name of a header");
        };
        let header = format!("mcp-param-{}", name.to_ascii_lowercase());
        if marked.iter().any(|other| other.header == header) {
            return refuse("another argument has that header");
        }
        marked.push(MirroredParameter { header, path: path.to_vec() });
    }
    for (keyword, value) in schema {
        if DATA.contains(&keyword.as_str()) {
            continue;
        }
        let at = format!("{at}, {keyword}");
        match value {
            Value::Object(by_name) if NAMED.contains(&keyword.as_str()) => {
                for (name, schema) in by_name {
                    let Value::Object(schema) = schema else { continue };
                    let path = path.filter(|_| keyword == "properties").map(|path| {
                        let mut path = path.to_vec();
                        path.push(name.clone());
                        path
                    });
                    collect(schema, path.as_deref(), &format!("{at}, {name}"), marked)?;
                }
            }
            Value::Object(schema) => collect(schema, None, &at, marked)?,
            Value::Array(schemas) => {
                for schema in schemas.iter().filter_map(Value::as_object) {
                    collect(schema, None, &at, marked)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a `type` is one that a header can repeat, with or without null.
fn is_simple(kind: Option<&Value>) -> bool {
    let simple = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    match kind {
        Some(Value::Array(kinds)) => {
            let mut others = kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            others.next().is_some_and(simple) && others.next().is_none()
        }
        Some(kind) => simple(kind),
        None => false,
    }
}

/// Whether a byte can stand in the name of a header (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The text of the value at a path; `None` where nothing is, or null, or what no header can repeat: that is
/// for the tool to refuse.
fn value_at<'a>(object: &'a str, path: &[String]) -> Option<&'a str> {
    let (name, rest) = path.split_first()?;
    let members: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(object).ok()?;
    let value = members.get(name.as_str())?.get();
    match (rest, value.as_bytes().first()) {
        ([], Some(b'{' | b'[' | b'n')) => None,
        ([], _) => Some(value),
        (rest, _) => value_at(value, rest),
    }
}

/// Whether what a header says is what the JSON text of a simple value says. Numbers are compared as numbers.
fn is_same(said: &str, body: &str) -> bool {
    match body.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<Text<'_>>(body).is_ok_and(|Text(body)| body == said),
        Some(b't' | b'f') => said == body,
        _ if said == body => true,
        _ => match (said.parse::<i128>(), body.parse::<i128>()) {
            (Ok(said), Ok(body)) => said == body,
            _ => match (said.parse::<f64>(), body.parse::<f64>()) {
                // Past this, floating-point numbers that are equal stand for several integers.
                (Ok(said), Ok(body)) => said == body && said.abs() < MAX_SAFE,
                _ => false,
            },
        },
    }
}

/// 2^53, the first integer that JavaScript cannot tell from its neighbour.
const MAX_SAFE: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Code, Limits, Message};

    fn marks(schema: &str) -> Result<Vec<MirroredParameter>, &'static str> {
        MirroredParameter::of_schema(schema).map_err(|error| error.what)
    }

    #[test]
    fn marks_are_found_however_deep_properties_lead() {
        let schema = r#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "x-mcp-header":{"type":"object","properties":{"n":{"type":["integer","null"],"x-mcp-header":"N"}}},
            "other":{"type":"array","default":{"x-mcp-header":"no schema"}}}}"#;
        let found = marks(schema).unwrap();
        let found: Vec<_> = found.iter().map(|m| (m.header.as_str(), m.path.join("."))).collect();
        let expected = [("mcp-param-region", "region".into()), ("mcp-param-n", "x-mcp-header.n".into())];
        assert_eq!(found, expected);
        assert_eq!(marks("{}"), Ok(vec![]));
    }

    #[test]
    fn marks_that_clients_would_refuse_are_refused() {
        let property = |schema: &str| format!(r#"{{"properties":{{"a":{schema}}}}}"#);
        for schema in [
            r#"{"x-mcp-header":"Root","type":"string"}"#.to_owned(),
            property(r#"{"type":"number","x-mcp-header":"A"}"#),
            property(r#"{"x-mcp-header":"A"}"#),
            property(r#"{"type":["string","integer"],"x-mcp-header":"A"}"#),
            property(r#"{"type":"string","x-mcp-header":""}"#),
            property(r#"{"type":"string","x-mcp-header":"two words"}"#),
            property(r#"{"type":"string","x-mcp-header":7}"#),
            property(r#"{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#),
            property(r#"{"oneOf":[{"type":"string","x-mcp-header":"A"}]}"#),
            r#"{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"#.to_owned(),
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#
                .to_owned(),
        ] {
            assert!(marks(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn headers_and_arguments_must_agree() {
        use HeaderText::{Absent, Is, Unreadable};
        let is = |path: &str| MirroredParameter {
            header: "mcp-param-p".to_owned(),
            path: path.split('.').map(str::to_owned).collect(),
        };
        let agrees = |path: &str, arguments: &str, header: HeaderText<'static>| {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{arguments}}}}}"#
            );
            let Ok(Message::Request(request)) = Message::decode(body.as_bytes(), &Limits::default()) else {
                panic!("{body}")
            };
            match MirroredParameter::check(&[is(path)], &request.params, |_| header) {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.code, Code::HEADER_MISMATCH);
                    false
                }
            }
        };
        for (arguments, header) in [
            (r#"{"a":"Hello"}"#, Is("=?base64?SGVsbG8=?=")),
            (r#"{"a":"Hello"}"#, Is("Hello")),
            (r#"{"a":"SGVsbG8=?="}"#, Is("SGVsbG8=?=")),
            (r#"{"a":"=?base64?SGVsbG8="}"#, Is("=?base64?SGVsbG8=")),
            (r#"{"a":42}"#, Is("42")),
            (r#"{"a":42}"#, Is("42.0")),
            (r#"{"a":true}"#, Is("true")),
            (r#"{"a":null}"#, Absent),
            ("{}", Absent),
            (r#"{"a":[1]}"#, Absent),
        ] {
            assert!(agrees("a", arguments, header), "{arguments} {header:?}");
        }
        for (arguments, header) in [
            (r#"{"a":"Hello"}"#, Absent),
            (r#"{"a":"Hello"}"#, Is("hello")),
            (r#"{"a":"Hello"}"#, Is("=?base64?SGVsbG8?=")),
            (r#"{"a":"Hello"}"#, Is("=?base64?SGVs!!!bG8=?=")),
            (r#"{"a":"Hello"}"#, Unreadable),
            (r#"{"a":""}"#, Absent),
            (r#"{"a":9007199254740993}"#, Is("9007199254740992.0")),
            (r#"{"a":true}"#, Is("TRUE")),
            ("{}", Is("Hello")),
            (r#"{"a":null}"#, Is("null")),
        ] {
            assert!(!agrees("a", arguments, header), "{arguments} {header:?}");
        }
        assert!(agrees("a.b", r#"{"a":{"b":"x"}}"#, Is("x")));
        assert!(!agrees("a.b", r#"{"a":{"b":"x"}}"#, Absent));
        assert!(agrees("a.b", r#"{"a":"x"}"#, Absent));
    }
}
