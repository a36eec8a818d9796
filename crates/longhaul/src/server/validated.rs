//! Tools whose arguments are held against a JSON Schema that is known only when the program runs.

use std::future::Future;
use std::sync::Arc;

use jsonschema::Validator;
use longhaul_proto::model::{self, CallToolResult};
use serde_json::Value;

use super::context::Cx;
use super::tool::{Tool, ToolFuture, ToolHandler};
use super::tool_result::IntoToolResult;
use crate::schema::{self, SchemaError};

impl Tool {
    /// A tool described by hand, whose function gets arguments only if they are what `definition.input_schema` (draft
    /// 2020-12) says. Others are answered with a result the model can read.
    ///
    /// Patterns are those of the `regex` crate; formats are not checked.
    ///
    /// # Errors
    ///
    /// When the schema is none, refers to something outside itself, or could be too costly.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul::Tool;
    /// use longhaul::proto::model;
    /// use serde_json::value::RawValue;
    ///
    /// # fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}"#;
    /// let definition = model::Tool::new("half", RawValue::from_string(schema.to_owned())?);
    /// let half = Tool::validated(definition, |_, arguments| async move {
    ///     arguments["n"].as_u64().unwrap_or_default() / 2
    /// })?;
    /// # Ok(())
    /// # }
    /// # run().unwrap();
    /// ```
    pub fn validated<F, R>(
        definition: model::Tool,
        function: impl Fn(Cx, Value) -> F + Send + Sync + 'static,
    ) -> Result<Self, SchemaError>
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        let validator = schema::compile(definition.input_schema.get())?;
        Ok(Self::raw(definition, Validated { validator, function: Arc::new(function) }))
    }
}

struct Validated<F> {
    validator: Validator,
    function: Arc<F>,
}

impl<F, Fut, R> ToolHandler for Validated<F>
where
    F: Fn(Cx, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult,
{
    fn call(&self, cx: Cx, arguments: &str) -> Result<ToolFuture, CallToolResult> {
        let refuse = |why: String| CallToolResult::error(format!("invalid arguments: {why}"));
        let arguments: Value = serde_json::from_str(arguments).map_err(|error| refuse(error.to_string()))?;
        if schema::is_too_deep(&arguments) {
            return Err(refuse(format!("they are nested more than {} deep", schema::DEEPEST)));
        }
        if let Some(faults) = schema::faults(&self.validator, &arguments) {
            return Err(refuse(faults));
        }
        let function = Arc::clone(&self.function);
        Ok(Box::pin(async move { function(cx, arguments).await.into_tool_result() }))
    }
}
