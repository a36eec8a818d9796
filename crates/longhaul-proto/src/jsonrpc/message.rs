//! One message: decoded in one pass, borrowing from the bytes it came in.

use std::borrow::Cow;

use serde::Deserialize;

use super::error::{Code, ErrorObject, without_place};
use super::id::RequestId;
use super::members::Members;
use super::scan::{ScanError, Scanner};

/// Bounds on a message, checked while it is scanned.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The longest message, in bytes. Default 4 MiB.
    pub max_bytes: usize,
    /// The deepest nesting of objects and arrays, at most 256. Default 64.
    pub max_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 4 << 20, max_depth: 64 }
    }
}

/// A JSON-RPC message, borrowing from its text.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these three")]
pub enum Message<'a> {
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// Is an answer.
    Response(Response<'a>),
}

/// A request: the method decides what `params` means.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Echoed by the answer.
    pub id: RequestId,
    /// The method's name on the wire.
    pub method: Cow<'a, str>,
    /// Its parameters, not yet read.
    pub params: Params<'a>,
}

/// A notification: nobody answers it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Notification<'a> {
    /// The method's name on the wire.
    pub method: Cow<'a, str>,
    /// Its parameters, not yet read.
    pub params: Params<'a>,
}

/// An answer to a request of ours.
#[derive(Debug)]
#[non_exhaustive]
pub struct Response<'a> {
    /// Which request it answers; absent when the peer could not read it.
    pub id: Option<RequestId>,
    /// The result's text, or the error.
    pub outcome: Result<&'a str, ErrorObject>,
}

/// Why bytes are not a message. [`DecodeError::to_error_object`] is what to answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Longer than the limit.
    #[error("the message is longer than the limit of {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("the message is not UTF-8")]
    NotUtf8(#[source] std::str::Utf8Error),
    /// Not JSON, or nested past the limit.
    #[error("the message is not valid JSON")]
    NotJson(#[source] ScanError),
    /// JSON, but not a JSON-RPC 2.0 message.
    #[error("{what}")]
    NotAMessage {
        /// What is wrong with it.
        what: &'static str,
        /// The id, where one could be read.
        id: Option<RequestId>,
        /// It names a method, so that the id is one of the peer's own.
        has_method: bool,
    },
}

impl DecodeError {
    /// The id to answer to, where one could be read.
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Self::NotAMessage { id, .. } => id.as_ref(),
            _ => None,
        }
    }

    /// The request that it is meant to answer, where that could be read.
    pub fn answered(&self) -> Option<&RequestId> {
        match self {
            Self::NotAMessage { id, has_method: false, .. } => id.as_ref(),
            _ => None,
        }
    }

    /// What the peer is told.
    pub fn to_error_object(&self) -> ErrorObject {
        match self {
            Self::NotJson(at) => ErrorObject::new(Code::PARSE, format!("parse error: {at}")),
            Self::NotUtf8(_) => ErrorObject::new(Code::PARSE, "parse error: not UTF-8"),
            Self::TooLong { .. } => ErrorObject::new(Code::INVALID_REQUEST, self.to_string()),
            Self::NotAMessage { what, .. } => {
                ErrorObject::new(Code::INVALID_REQUEST, format!("invalid request: {what}"))
            }
        }
    }
}

impl<'a> Message<'a> {
    /// Reads one message.
    ///
    /// # Errors
    ///
    /// Whatever is not exactly one JSON-RPC 2.0 message within `limits`; a batch is not (JSON-RPC
    /// batches exist in revision 2025-03-26 alone).
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul_proto::jsonrpc::{Limits, Message};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}"#;
    /// let Message::Request(call) = Message::decode(bytes, &Limits::default())? else { unreachable!() };
    /// assert_eq!(call.method, "tools/call");
    /// assert_eq!(call.params.member("name"), Some("\"echo\""));
    /// # Ok::<(), longhaul_proto::jsonrpc::DecodeError>(())
    /// ```
    pub fn decode(bytes: &'a [u8], limits: &Limits) -> Result<Self, DecodeError> {
        if bytes.len() > limits.max_bytes {
            return Err(DecodeError::TooLong { limit: limits.max_bytes });
        }
        let text = std::str::from_utf8(bytes).map_err(DecodeError::NotUtf8)?;
        let envelope = Envelope::scan(text, limits)?;
        envelope.into_message()
    }
}

/// The members of a message, before it is known which kind it is.
#[derive(Default)]
struct Envelope<'a> {
    version: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<Params<'a>>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    fault: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    fn scan(text: &'a str, limits: &Limits) -> Result<Self, DecodeError> {
        let mut scanner = Scanner::new(text, limits.max_depth);
        if let Some(b'[') = scanner.peek() {
            scanner.value().map_err(DecodeError::NotJson)?;
            scanner.end().map_err(DecodeError::NotJson)?;
            return Err(not_a_message("batches are not part of this protocol revision", None));
        }
        if !matches!(scanner.peek(), Some(b'{')) {
            scanner.value().map_err(DecodeError::NotJson)?;
            scanner.end().map_err(DecodeError::NotJson)?;
            return Err(not_a_message("a message is an object", None));
        }
        let mut envelope = Self::default();
        scanner
            .object(|scanner, key| {
                let slot = match key.as_ref() {
                    "jsonrpc" => &mut envelope.version,
                    "id" => &mut envelope.id,
                    "method" => &mut envelope.method,
                    "result" => &mut envelope.result,
                    "error" => &mut envelope.error,
                    "params" => {
                        let params = Params::scan(scanner, &mut envelope.fault)?;
                        if envelope.params.replace(params).is_some() {
                            envelope.fault = Some("a member appears twice");
                        }
                        return Ok(());
                    }
                    _ => return scanner.value().map(|_| ()),
                };
                if slot.replace(scanner.value()?).is_some() {
                    envelope.fault = Some("a member appears twice");
                }
                Ok(())
            })
            .map_err(DecodeError::NotJson)?;
        scanner.end().map_err(DecodeError::NotJson)?;
        Ok(envelope)
    }

    fn into_message(self) -> Result<Message<'a>, DecodeError> {
        let id: Option<RequestId> = self.id.and_then(|id| serde_json::from_str(id).ok());
        let has_method = self.method.is_some();
        let refuse = |what, id| Err(DecodeError::NotAMessage { what, id, has_method });
        if self.version != Some("\"2.0\"") {
            return refuse("`jsonrpc` must be \"2.0\"", id);
        }
        if let Some(fault) = self.fault {
            return refuse(fault, id);
        }
        let Some(method) = self.method else {
            return self.into_response(id);
        };
        let Ok(Text(method)) = serde_json::from_str(method) else {
            return refuse("`method` must be a string", id);
        };
        let params = self.params.unwrap_or_default();
        match (self.id, id) {
            (None, _) => Ok(Message::Notification(Notification { method, params })),
            (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
            (Some(_), None) => refuse("`id` must be an integer or a string", None),
        }
    }

    fn into_response(self, id: Option<RequestId>) -> Result<Message<'a>, DecodeError> {
        let outcome = match (self.result, self.error) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => match serde_json::from_str(error) {
                Ok(error) => Err(error),
                Err(_) => return Err(not_a_message("`error` must have a code and a message", id)),
            },
            (None, None) => return Err(not_a_message("`method` is missing", id)),
            (Some(_), Some(_)) => return Err(not_a_message("both `result` and `error`", id)),
        };
        if id.is_none() && (outcome.is_ok() || !matches!(self.id, None | Some("null"))) {
            return Err(not_a_message("an answer needs the id of its request", None));
        }
        Ok(Message::Response(Response { id, outcome }))
    }
}

pub(super) fn not_a_message(what: &'static str, id: Option<RequestId>) -> DecodeError {
    DecodeError::NotAMessage { what, id, has_method: false }
}

/// The parameters of a request or notification: an object whose members are cut out but not read.
#[derive(Debug, Default)]
pub struct Params<'a> {
    raw: Option<&'a str>,
    members: Members<'a>,
}

impl<'a> Params<'a> {
    fn scan(scanner: &mut Scanner<'a>, fault: &mut Option<&'static str>) -> Result<Self, ScanError> {
        if scanner.peek() != Some(b'{') {
            *fault = Some("`params` must be an object");
            scanner.value()?;
            return Ok(Self::default());
        }
        let mut members = Members::default();
        let start = scanner.offset();
        scanner.object(|scanner, key| {
            let value = scanner.value()?;
            if let Err(wrong) = members.push(key, value) {
                *fault = Some(wrong);
            }
            Ok(())
        })?;
        Ok(Self { raw: Some(scanner.since(start)), members })
    }

    /// The text of one member, not yet read.
    pub fn member(&self, name: &str) -> Option<&'a str> {
        self.members.get(name)
    }

    /// One member, read as `T`; `None` when it is absent or null.
    ///
    /// # Errors
    ///
    /// [`ErrorObject`] `-32602` naming the member, when it is there and is not a `T`.
    pub fn read<T: Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, ErrorObject> {
        match self.member(name) {
            None | Some("null") => Ok(None),
            Some(text) => serde_json::from_str(text).map(Some).map_err(|error| {
                let problem = without_place(&error);
                ErrorObject::invalid_params(format!("invalid params: `{name}`: {problem}"))
            }),
        }
    }

    /// One member that must be there, read as `T`.
    ///
    /// # Errors
    ///
    /// [`ErrorObject`] `-32602` naming the member, when it is missing or is not a `T`.
    pub fn require<T: Deserialize<'a>>(&self, name: &str) -> Result<T, ErrorObject> {
        self.read(name)?
            .ok_or_else(|| ErrorObject::invalid_params(format!("invalid params: `{name}` is missing")))
    }

    /// The text of one member that must be an object, not yet read; `{}` when it is absent or null.
    ///
    /// # Errors
    ///
    /// [`ErrorObject`] `-32602` naming the member, when it is there and is no object.
    pub fn object_text(&self, name: &str) -> Result<&'a str, ErrorObject> {
        match self.member(name) {
            None | Some("null") => Ok("{}"),
            Some(text) if text.starts_with('{') => Ok(text),
            Some(_) => {
                Err(ErrorObject::invalid_params(format!("invalid params: `{name}` must be an object")))
            }
        }
    }

    /// The text of the whole object; `None` when `params` is absent.
    pub fn as_str(&self) -> Option<&'a str> {
        self.raw
    }

    /// The same, to outlive the message.
    pub fn to_stored(&self) -> StoredParams {
        let members = self.members.iter();
        StoredParams {
            raw: self.raw.map(str::to_owned),
            members: members.map(|(name, text)| (name.to_owned(), text.to_owned())).collect(),
        }
    }
}

/// [`Params`] that outlive the message they came in.
#[derive(Clone, Debug)]
pub struct StoredParams {
    raw: Option<String>,
    members: Vec<(String, String)>,
}

impl StoredParams {
    /// The parameters themselves.
    pub fn as_params(&self) -> Params<'_> {
        let mut members = Members::default();
        for (name, text) in &self.members {
            members.push(name.into(), text).expect("they were members of one message");
        }
        Params { raw: self.raw.as_deref(), members }
    }
}

/// A string that borrows when it holds no escape.
///
/// A plain `&str` would refuse escapes, which are valid JSON.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a string is a string")]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;
        impl<'de> serde::de::Visitor<'de> for Borrowing {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Borrowing).map(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<Message<'_>, DecodeError> {
        Message::decode(text.as_bytes(), &Limits::default())
    }

    fn refusal(text: &str) -> (i64, String, Option<RequestId>) {
        let error = decode(text).unwrap_err();
        let object = error.to_error_object();
        (object.code.0, object.message.into_owned(), error.id().cloned())
    }

    #[test]
    fn params_may_come_before_the_method() {
        let text =
            r#"{"params":{"name":"x","arguments":{"a":[1]}},"method":"tools/call","id":"k","jsonrpc":"2.0"}"#;
        let Ok(Message::Request(request)) = decode(text) else { panic!() };
        assert_eq!(request.id, RequestId::from("k"));
        assert_eq!(request.params.member("arguments"), Some(r#"{"a":[1]}"#));
        assert_eq!(request.params.as_str(), Some(r#"{"name":"x","arguments":{"a":[1]}}"#));
    }

    #[test]
    fn escaped_keys_and_methods_are_read() {
        let text = r#"{"jsonrpc":"2.0","\u0069d":1,"method":"to\u006fls/call","params":{"n\u0061me":"x"}}"#;
        let Ok(Message::Request(request)) = decode(text) else { panic!() };
        assert_eq!(request.method, "tools/call");
        assert_eq!(request.params.member("name"), Some("\"x\""));
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(matches!(decode(r#"{"jsonrpc":"2.0","method":"a"}"#), Ok(Message::Notification(_))));
        assert!(matches!(decode(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Message::Response(_))));
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#;
        assert!(matches!(decode(error), Ok(Message::Response(Response { id: None, outcome: Err(_), .. }))));
    }

    #[test]
    fn refusals_name_the_fault_and_keep_the_id() {
        assert_eq!(refusal("{").0, -32700);
        assert_eq!(refusal("\"x\"").0, -32600);
        assert_eq!(refusal("[]").1, "invalid request: batches are not part of this protocol revision");
        let cases = [
            (r#"{"jsonrpc":"1.0","id":3,"method":"a"}"#, "`jsonrpc` must be \"2.0\""),
            (r#"{"jsonrpc":"2.0","id":3,"method":7}"#, "`method` must be a string"),
            (r#"{"jsonrpc":"2.0","id":3,"method":"a","params":[]}"#, "`params` must be an object"),
            (r#"{"jsonrpc":"2.0","id":3,"method":"a","method":"b"}"#, "a member appears twice"),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"a","params":{"n":1,"n":2}}"#,
                "a member of `params` appears twice",
            ),
            (r#"{"jsonrpc":"2.0","id":3}"#, "`method` is missing"),
        ];
        for (text, what) in cases {
            assert_eq!(refusal(text), (-32600, format!("invalid request: {what}"), Some(RequestId::from(3))));
        }
        for id in ["null", "1.5", "{}", "true"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
            assert_eq!(refusal(&text).1, "invalid request: `id` must be an integer or a string");
        }
    }

    #[test]
    fn what_is_no_message_names_the_request_that_it_is_meant_to_answer() {
        for text in [
            r#"{"jsonrpc":"2.0","id":3}"#,
            r#"{"id":3,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":3,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":""}}"#,
        ] {
            assert_eq!(decode(text).unwrap_err().answered(), Some(&RequestId::from(3)), "{text}");
        }
        for text in [r#"{"id":3,"method":"a"}"#, r#"{"jsonrpc":"2.0","id":3,"method":7}"#, "[]", "{"] {
            assert_eq!(decode(text).unwrap_err().answered(), None, "{text}");
        }
    }

    #[test]
    fn limits_are_enforced() {
        let limits = Limits { max_bytes: 60, max_depth: 3 };
        let deep = br#"{"jsonrpc":"2.0","method":"a","params":{"x":[[1]]}}"#;
        assert!(matches!(Message::decode(deep, &limits), Err(DecodeError::NotJson(_))));
        assert!(matches!(Message::decode(&[b' '; 61], &limits), Err(DecodeError::TooLong { limit: 60 })));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = Message::decode(&bytes, &Limits::default());
        }
    }
}
