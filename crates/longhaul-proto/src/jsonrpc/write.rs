//! Encoding: straight into the outgoing buffer, envelope and payload together.

use serde::Serialize;

use super::error::ErrorObject;
use super::id::RequestId;
use super::scan::plain;

/// Writes one JSON object, member by member, into a buffer.
///
/// # Examples
///
/// ```
/// use longhaul_proto::jsonrpc::ObjectWriter;
///
/// let mut out = Vec::new();
/// let mut object = ObjectWriter::new(&mut out);
/// object.field("n", &1).raw("list", "[2]");
/// object.end();
/// assert_eq!(out, br#"{"n":1,"list":[2]}"#);
/// ```
#[derive(Debug)]
pub struct ObjectWriter<'b> {
    out: &'b mut Vec<u8>,
    empty: bool,
}

impl<'b> ObjectWriter<'b> {
    /// Opens an object at the end of `out`.
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Writes a member.
    pub fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        self.key(name);
        write_json(self.out, value);
        self
    }

    /// Writes a member if there is a value.
    pub fn optional<T: Serialize>(&mut self, name: &str, value: Option<&T>) -> &mut Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// Writes a member that is a string, which may be long.
    pub(crate) fn string(&mut self, name: &str, text: &str) -> &mut Self {
        self.key(name);
        write_string(self.out, text);
        self
    }

    /// Writes a member whose value is JSON text already.
    pub fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.key(name);
        self.out.extend_from_slice(json.as_bytes());
        self
    }

    /// Writes a member whose value `value` appends, as JSON.
    pub fn with(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.key(name);
        value(self.out);
        self
    }

    /// Opens a member that is itself an object.
    pub fn object(&mut self, name: &str) -> ObjectWriter<'_> {
        self.key(name);
        ObjectWriter::new(self.out)
    }

    /// Writes a member that is an array, each item by `item`.
    pub fn array<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Vec<u8>, T),
    ) -> &mut Self {
        self.key(name);
        self.out.push(b'[');
        for (n, each) in items.into_iter().enumerate() {
            if n > 0 {
                self.out.push(b',');
            }
            item(self.out, each);
        }
        self.out.push(b']');
        self
    }

    /// Closes the object.
    pub fn end(self) {
        self.out.push(b'}');
    }

    fn key(&mut self, name: &str) {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        // Hardly any name has something to escape, and none is long.
        if plain(name.as_bytes()) < name.len() {
            write_string(self.out, name);
        } else {
            self.out.push(b'"');
            self.out.extend_from_slice(name.as_bytes());
            self.out.push(b'"');
        }
        self.out.push(b':');
    }
}

/// Appends `value` as JSON.
///
/// The types of this crate cannot fail to serialize into memory; for one that does, `null` stands in
/// its place so that the message stays JSON.
pub(crate) fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Appends a string as JSON. What `serde_json` does byte by byte, and then moves all of it for want of room for the last quote,
/// is a third of what a long answer takes.
fn write_string(out: &mut Vec<u8>, text: &str) {
    /// So many bytes are looked through before they are copied, from the processor's nearest cache then.
    const AT_ONCE: usize = 4096;
    // For what is escaped, and for what follows.
    out.reserve(text.len() + text.len() / 16 + 2);
    out.push(b'"');
    for mut rest in text.as_bytes().chunks(AT_ONCE) {
        loop {
            let (as_it_is, after) = rest.split_at(plain(rest));
            out.extend_from_slice(as_it_is);
            let Some((&byte, after)) = after.split_first() else { break };
            escape(out, byte);
            rest = after;
        }
    }
    out.push(b'"');
}

/// Appends a byte that a string does not hold as it is.
fn escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
            out.extend([b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 0xf)]);
            return;
        }
    };
    out.extend([b'\\', short]);
}

/// Appends a whole error answer. Without an id the member is left out, as MCP asks.
pub fn write_error(out: &mut Vec<u8>, id: Option<&RequestId>, error: &ErrorObject) {
    let mut message = ObjectWriter::new(out);
    message.raw("jsonrpc", "\"2.0\"").optional("id", id).field("error", error);
    message.end();
}

/// Appends a whole notification, its parameters written by `params`.
pub fn write_notification(out: &mut Vec<u8>, method: &str, params: impl FnOnce(&mut ObjectWriter<'_>)) {
    let mut message = ObjectWriter::new(out);
    message.raw("jsonrpc", "\"2.0\"").field("method", method);
    let mut object = message.object("params");
    params(&mut object);
    object.end();
    message.end();
}

/// Appends a whole request, its parameters written by `params`.
pub fn write_request(
    out: &mut Vec<u8>,
    id: &RequestId,
    method: &str,
    params: impl FnOnce(&mut ObjectWriter<'_>),
) {
    let mut message = ObjectWriter::new(out);
    message.raw("jsonrpc", "\"2.0\"").field("id", id).field("method", method);
    let mut object = message.object("params");
    params(&mut object);
    object.end();
    message.end();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_string_is_escaped_as_serde_does() {
        let all: String = (0..0x250).filter_map(char::from_u32).collect();
        assert_eq!(written(&all), serde_json::to_string(&all).unwrap());
        for length in [0, 1, 4095, 4096, 4097, 9000] {
            for end in ["", "\n", "\\\"", "é", "𝄞\u{1}"] {
                let text = "x".repeat(length) + end + &"y".repeat(length);
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn any_string_is_written_as_serde_does(text in r#"[a-z\x00-\x21"\\é𝄞\x7f]{0,80}"#) {
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
