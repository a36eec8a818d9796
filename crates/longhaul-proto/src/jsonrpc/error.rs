//! The JSON-RPC error object, a value that travels; and the codes MCP gives a meaning.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What went wrong with a request, as its answer says it.
///
/// This is a value on the wire, not a Rust error: a failed request is an ordinary answer.
#[derive(Clone, Debug, Deserialize, Serialize, thiserror::Error)]
#[error("{message} ({})", code.0)]
#[non_exhaustive]
pub struct ErrorObject {
    /// Which kind of failure.
    pub code: Code,
    /// One sentence for a person.
    pub message: Cow<'static, str>,
    /// More, in the sender's own shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl PartialEq for ErrorObject {
    fn eq(&self, other: &Self) -> bool {
        let data = |e: &Self| e.data.as_ref().map(|d| d.get().to_owned());
        self.code == other.code && self.message == other.message && data(self) == data(other)
    }
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with `data` attached.
    ///
    /// Data that cannot be written as JSON (a map with non-string keys) is left out.
    #[must_use]
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }

    /// `-32602` with `message`.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::INVALID_PARAMS, message)
    }

    /// `-32601` naming the method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Code::METHOD_NOT_FOUND, format!("method not found: {}", clip(method)))
    }

    /// `-32021`: the client must declare `required`, the JSON text of an object of client capabilities.
    pub fn missing_capability(required: &str) -> Self {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Data<'a> {
            required_capabilities: &'a RawValue,
        }
        let error = Self::new(
            Code::MISSING_CAPABILITY,
            format!("missing required client capability: declare {required} in `_meta`"),
        );
        match serde_json::from_str(required) {
            Ok(required_capabilities) => error.with_data(&Data { required_capabilities }),
            Err(_) => error,
        }
    }

    /// `-32603` with `message`.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::INTERNAL, message)
    }

    /// The caller's credential does not carry the scopes that the request needs, which are written with spaces
    /// between them.
    pub fn forbidden(needed: &impl std::fmt::Display) -> Self {
        #[derive(Serialize)]
        struct Data {
            reason: &'static str,
            scope: String,
        }
        let scope = needed.to_string();
        Self::new(Code::FORBIDDEN, format!("forbidden: this takes a credential with the scope {scope}"))
            .with_data(&Data { reason: "insufficient_scope", scope })
    }

    /// Too much is asked: come back after `retry_after`. Every refusal for want of room is this one.
    pub fn overloaded(message: impl Into<Cow<'static, str>>, retry_after: Duration) -> Self {
        Self::new(Code::OVERLOADED, message).for_now("overloaded", retry_after)
    }

    /// The same error, which a program can tell from one that stays: the request may be made again after
    /// `retry_after`.
    #[must_use]
    pub fn for_now(self, reason: &'static str, retry_after: Duration) -> Self {
        let retry_after_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
        self.with_data(&Passing { reason: Some(Cow::Borrowed(reason)), retry_after_ms })
    }

    /// When to come back, if it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        let data: Passing<'_> = serde_json::from_str(self.data.as_ref()?.get()).ok()?;
        Some(Duration::from_millis(data.retry_after_ms))
    }
}

/// The data of an error that will pass.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Passing<'a> {
    #[serde(default)]
    reason: Option<Cow<'a, str>>,
    retry_after_ms: u64,
}

/// At most 100 characters of a peer's text, so that an error never repeats a megabyte.
pub fn clip(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(100) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// What is wrong with a piece of JSON, without its line and column: they count from where the piece begins, which whoever
/// sent it cannot know.
pub fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    words.strip_suffix(&place).unwrap_or(&words).to_owned()
}

/// A JSON-RPC error code.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "a code is its number")]
pub struct Code(pub i64);

impl Code {
    /// The bytes are not JSON.
    pub const PARSE: Self = Self(-32700);
    /// The JSON is not a JSON-RPC message.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// No such method in this revision.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The receiver failed.
    pub const INTERNAL: Self = Self(-32603);
    /// There is no such resource. Only the legacy era has this code.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// The user has to visit pages before the request can be answered; `data.elicitations` names them. Only 2025-11-25 has
    /// this code.
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// HTTP headers and body disagree, or a header is missing (2026-07-28).
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// The request needs a capability its client did not declare (2026-07-28).
    pub const MISSING_CAPABILITY: Self = Self(-32021);
    /// The request names a revision the receiver does not serve (2026-07-28).
    pub const UNSUPPORTED_VERSION: Self = Self(-32022);
    /// Too much is asked; `data.retryAfterMs` says when to try again. Ours: outside the reserved
    /// range. The legacy era has no code for it.
    pub const OVERLOADED: Self = Self(-31001);
    /// The caller lacks scopes; `data.scope` names them. Ours: outside the reserved range.
    pub const FORBIDDEN: Self = Self(-31003);
}
