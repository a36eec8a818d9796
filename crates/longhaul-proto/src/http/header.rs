//! What the headers of a POST must say.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::jsonrpc::{Code, ErrorObject, Params, Text, clip};
use crate::method::Method;

/// The headers that repeat parts of the body, for intermediaries that do not read it.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MirroredHeaders<'h> {
    /// `MCP-Protocol-Version`.
    pub protocol_version: Option<&'h str>,
    /// `Mcp-Method`.
    pub method: Option<&'h str>,
    /// `Mcp-Name`.
    pub name: Option<&'h str>,
}

impl<'h> MirroredHeaders<'h> {
    /// The three headers of a request.
    pub fn new(protocol_version: Option<&'h str>, method: Option<&'h str>, name: Option<&'h str>) -> Self {
        Self { protocol_version, method, name }
    }

    /// Whether they say what the body says. `known` is what the method means, where it means anything.
    ///
    /// # Errors
    ///
    /// `-32020` naming the header that is missing or differs.
    pub fn check(
        &self,
        body_version: Option<&str>,
        body_method: &str,
        known: Option<Method>,
        params: &Params<'_>,
    ) -> Result<(), ErrorObject> {
        let version = self.protocol_version.ok_or_else(|| missing("MCP-Protocol-Version"))?;
        if let Some(body) = body_version
            && body != version
        {
            return Err(differs("MCP-Protocol-Version", version, body));
        }
        let method = self.method.ok_or_else(|| missing("Mcp-Method"))?;
        if method != body_method {
            return Err(differs("Mcp-Method", method, body_method));
        }
        let Some(member) = known.and_then(Method::named_by) else { return Ok(()) };
        // A body without the name is the method's own error to report.
        let Ok(Some(Text(body))) = params.read(member) else { return Ok(()) };
        let name = self.name.ok_or_else(|| missing("Mcp-Name"))?;
        match decode_name(name) {
            Some(name) if name == body => Ok(()),
            Some(name) => Err(differs("Mcp-Name", &name, &body)),
            None => Err(mismatch(format!("header mismatch: Mcp-Name {:?} is not valid base64", clip(name)))),
        }
    }
}

fn missing(header: &str) -> ErrorObject {
    mismatch(format!("header mismatch: the {header} header is missing"))
}

fn differs(header: &str, value: &str, body: &str) -> ErrorObject {
    let (value, body) = (clip(value), clip(body));
    mismatch(format!("header mismatch: the {header} header says {value:?} and the body says {body:?}"))
}

pub(super) fn mismatch(message: String) -> ErrorObject {
    ErrorObject::new(Code::HEADER_MISMATCH, message)
}

const SENTINEL_OPEN: &str = "=?base64?";
const SENTINEL_CLOSE: &str = "?=";

/// The value a header stands for: as it is, or what its base64 says (Value Encoding). `None` when that
/// is not base64 of UTF-8.
pub fn decode_name(header: &str) -> Option<Cow<'_, str>> {
    let Some(encoded) = header.strip_prefix(SENTINEL_OPEN).and_then(|rest| rest.strip_suffix(SENTINEL_CLOSE))
    else {
        return Some(Cow::Borrowed(header));
    };
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The header for a value: as it is where it can be, else its base64 (Value Encoding).
pub fn encode_name(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~'))
        && value.trim_matches([' ', '\t']) == value
        && !(value.starts_with(SENTINEL_OPEN) && value.ends_with(SENTINEL_CLOSE));
    if plain {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("{SENTINEL_OPEN}{}{SENTINEL_CLOSE}", STANDARD.encode(value)))
    }
}

/// Whether a `Content-Type` is JSON, with whatever parameters.
pub fn is_json(content_type: &str) -> bool {
    media_type(content_type).eq_ignore_ascii_case("application/json")
}

/// Which forms of answer a caller takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Accept {
    /// One JSON object.
    pub json: bool,
    /// A stream of events.
    pub events: bool,
}

/// Reads an `Accept` header; without one, everything is accepted.
pub fn accepts(header: Option<&str>) -> Accept {
    let Some(header) = header else { return Accept { json: true, events: true } };
    // As the specification has clients write it.
    if header == "application/json, text/event-stream" {
        return Accept { json: true, events: true };
    }
    let mut accept = Accept { json: false, events: false };
    for range in header.split(',') {
        if refuses(range) {
            continue;
        }
        let range = media_type(range);
        let is_any = |names: [&str; 3]| names.iter().any(|name| range.eq_ignore_ascii_case(name));
        accept.json |= is_any(["application/json", "application/*", "*/*"]);
        accept.events |= is_any(["text/event-stream", "text/*", "*/*"]);
    }
    accept
}

/// Whether a media range carries the weight zero.
fn refuses(range: &str) -> bool {
    range.split(';').skip(1).any(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|q| q <= 0.0)
    })
}

fn media_type(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

/// The HTTP status that goes with an error found before a modern request ran.
pub fn status_of(code: Code) -> u16 {
    match code {
        Code::METHOD_NOT_FOUND => 404,
        Code::OVERLOADED => 429,
        Code::INTERNAL => 500,
        _ => 400,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Limits, Message};

    fn check(headers: MirroredHeaders<'_>, name: &str) -> Result<(), ErrorObject> {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{name:?}}}}}"#);
        let Ok(Message::Request(request)) = Message::decode(body.as_bytes(), &Limits::default()) else {
            panic!()
        };
        headers.check(Some("2026-07-28"), &request.method, Some(Method::CallTool), &request.params)
    }

    #[test]
    fn headers_must_say_what_the_body_says() {
        let good = MirroredHeaders::new(Some("2026-07-28"), Some("tools/call"), Some("echo"));
        assert_eq!(check(good, "echo"), Ok(()));
        let wrong = [
            MirroredHeaders { protocol_version: None, ..good },
            MirroredHeaders { protocol_version: Some("2025-11-25"), ..good },
            MirroredHeaders { method: None, ..good },
            MirroredHeaders { method: Some("TOOLS/CALL"), ..good },
            MirroredHeaders { name: None, ..good },
            MirroredHeaders { name: Some("Echo"), ..good },
            MirroredHeaders { name: Some("=?base64?!?="), ..good },
        ];
        for headers in wrong {
            assert_eq!(check(headers, "echo").unwrap_err().code, Code::HEADER_MISMATCH, "{headers:?}");
        }
    }

    #[test]
    fn names_outside_ascii_travel_in_base64() {
        let cases = [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ];
        for (value, header) in cases {
            assert_eq!(encode_name(value), header);
            assert_eq!(decode_name(header).as_deref(), Some(value));
        }
        assert_eq!(decode_name("=?base64?/w==?="), None, "not UTF-8");
    }

    #[test]
    fn accept_is_read_as_http_means_it() {
        let both = Accept { json: true, events: true };
        assert_eq!(accepts(None), both);
        assert_eq!(accepts(Some("application/json, text/event-stream")), both);
        assert_eq!(accepts(Some("TEXT/EVENT-STREAM;q=0.5,application/*")), both);
        assert_eq!(accepts(Some("*/*")), both);
        assert_eq!(accepts(Some("application/json")), Accept { json: true, events: false });
        assert_eq!(accepts(Some("text/html, */*;q=0")), Accept { json: false, events: false });
    }
}
