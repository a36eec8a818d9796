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
        // Hardly any name has something to escape.
        if plain(name.as_bytes()) < name.len() {
            write_json(self.out, name);
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
