//! What a tool's function may return, and why it may fail.

use std::error::Error;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

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
        Ok(match serde_json::value::to_raw_value(&self.0) {
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

impl<E: Error + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        match any.downcast_ref::<ErrorObject>() {
            Some(answer) => Self::protocol(answer.clone()),
            None => Self::new(in_words(&error)),
        }
    }
}
