//! What a tool's function may return, and why it may fail.

use std::error::Error;

use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::model::{CallToolResult, Content};
use longhaul_tasks::store::Json as StoredJson;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::child::ChildError;
use super::failure::in_words;
use super::schema;

/// What a tool function may return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a result that a caller can be given",
    note = "return text, a number, `Json(value)` for a value that serde can write and schemars describe, `CallToolResult`, or a `Result` of these whose error is a `ToolError` or any `std::error::Error`"
)]
pub trait IntoToolResult: Send + 'static {
    /// Turns it into the result the caller gets.
    ///
    /// # Errors
    ///
    /// What the call is answered with instead: the protocol's errors, which no model reads. A tool's own failure is a
    /// result.
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject>;

    /// The JSON Schema of its `structuredContent`, if it always has some.
    fn output_schema() -> Option<Box<RawValue>> {
        None
    }
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        Ok(self)
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        Ok(CallToolResult::text(self))
    }
}

impl IntoToolResult for &'static str {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        Ok(CallToolResult::text(self))
    }
}

/// Values that are told in a word.
macro_rules! told_in_a_word {
    ($($value:ty)*) => {$(
        impl IntoToolResult for $value {
            fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
                Ok(CallToolResult::text(self.to_string()))
            }
        }
    )*};
}

told_in_a_word!(bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        Ok(CallToolResult::default())
    }
}

impl IntoToolResult for Content {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        Ok(CallToolResult::new(vec![self]))
    }
}

impl IntoToolResult for Vec<Content> {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        Ok(CallToolResult::new(self))
    }
}

/// A value that becomes `structuredContent`, with its JSON as text for clients that read only text. The tool is listed
/// with the schema of `T` as its output schema.
///
/// # Examples
///
/// ```
/// use longhaul::Tool;
/// use longhaul::server::Json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Place {
///     city: String,
/// }
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Weather {
///     /// In degrees Celsius.
///     temperature: f64,
/// }
///
/// let weather = Tool::typed("weather", "The weather in a city", |_, Place { city }| async move {
///     Json(Weather { temperature: if city == "Oslo" { 3.5 } else { 20.0 } })
/// });
/// # assert!(weather.definition().output_schema.is_some());
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper to be written by hand")]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send + 'static> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        Ok(match to_raw_value(&self.0) {
            Ok(json) => CallToolResult::text(json.get()).with_structured(json),
            Err(error) => CallToolResult::error(format!("the result cannot be written as JSON: {error}")),
        })
    }

    fn output_schema() -> Option<Box<RawValue>> {
        schema::of_output::<T>()
    }
}

impl<T: IntoToolResult, E: Into<ToolError> + Send + 'static> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<CallToolResult, ErrorObject> {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => match *error.into().0 {
                Failed::Told(result) => Ok(result),
                Failed::Protocol(error) => Err(error),
            },
        }
    }

    fn output_schema() -> Option<Box<RawValue>> {
        T::output_schema()
    }
}

/// Why a tool failed, for the model to read: the call is answered with a result whose `isError` is set.
///
/// Any error converts into it, with its sources. Only an [`ErrorObject`] does not become a result: it is the protocol's
/// own error, for what no model could mend.
#[derive(Clone, Debug)]
pub struct ToolError(Box<Failed>);

#[derive(Clone, Debug)]
enum Failed {
    Told(CallToolResult),
    Protocol(ErrorObject),
}

impl ToolError {
    /// A failure in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Failed::Told(CallToolResult::error(message))))
    }

    /// A failure that says more than words.
    pub fn with_content(content: Vec<Content>) -> Self {
        Self(Box::new(Failed::Told(CallToolResult::new(content).failed(true))))
    }

    /// Not a result at all: the call is answered with the protocol's error.
    pub fn protocol(error: ErrorObject) -> Self {
        Self(Box::new(Failed::Protocol(error)))
    }
}

/// A failure as a step keeps it.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum Kept {
    Told(Box<RawValue>),
    Protocol {
        code: i64,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Box<RawValue>>,
    },
}

impl ToolError {
    /// The failure, for a step to keep.
    pub(super) fn to_record(&self) -> StoredJson {
        let kept = match &*self.0 {
            Failed::Told(result) => to_raw_value(result).map(Kept::Told),
            Failed::Protocol(error) => {
                let (code, message, data) = (error.code.0, error.message.to_string(), error.data.clone());
                Ok(Kept::Protocol { code, message, data })
            }
        };
        kept.and_then(|kept| to_raw_value(&kept)).map_or_else(|_| StoredJson::null(), StoredJson::from)
    }

    /// What went wrong, for an operator.
    pub(super) fn in_words(&self) -> String {
        match &*self.0 {
            Failed::Told(result) => {
                let text = result.content.iter().find_map(|content| content.as_text());
                text.unwrap_or("it failed and said nothing").to_owned()
            }
            Failed::Protocol(error) => error.message.to_string(),
        }
    }

    /// The failure that a step has kept.
    pub(super) fn recorded(json: &StoredJson) -> Self {
        let told = |result: &RawValue| serde_json::from_str::<CallToolResult>(result.get()).ok();
        match serde_json::from_str(json.as_str()) {
            Ok(Kept::Protocol { code, message, data }) => {
                let error = ErrorObject::new(Code(code), message);
                Self::protocol(match data {
                    Some(data) => error.with_data(&data),
                    None => error,
                })
            }
            Ok(Kept::Told(result)) if let Some(result) = told(&result) => {
                Self(Box::new(Failed::Told(result)))
            }
            _ => Self::new("the step failed, and why cannot be read any more"),
        }
    }
}

impl<E: Error + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        if let Some(child) = any.downcast_ref::<ChildError>() {
            return child.to_tool_error();
        }
        match any.downcast_ref::<ErrorObject>() {
            Some(answer) => Self::protocol(answer.clone()),
            None => Self::new(in_words(&error)),
        }
    }
}
