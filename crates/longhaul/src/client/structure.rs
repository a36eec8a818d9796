//! What the structure of a result must be: what the schema says that its tool was listed with
//! (2025-06-18, Server Features, Tools, Output Schema).

use std::sync::Arc;

use longhaul_proto::model::CallToolResult;

use super::Client;
use super::error::Error;
use super::known::Known;
#[cfg(feature = "schema-validation")]
use crate::handed_over::handed_over;

impl Client {
    /// The result, if it fits what its tool was `known` to give when it was called. If the tools are not known, they are listed
    /// for a result that has a structure, and for no other: what says nothing to a program costs no request. A tool that is
    /// not there, or whose schema cannot be used, may give anything, and so may any if the tools cannot be listed.
    #[cfg(feature = "schema-validation")]
    pub(super) async fn fitting(
        &self,
        tool: Option<&str>,
        known: Option<Arc<Known>>,
        result: CallToolResult,
    ) -> Result<CallToolResult, Error> {
        // What hands its caller over says so in a structure of its own.
        let is_own = !result.is_error && handed_over(&result).is_none();
        let is_held = self.options().validate && self.dialect().structures_results() && is_own;
        let Some(tool) = tool.filter(|_| is_held) else { return Ok(result) };
        let known = match known {
            Some(known) => known,
            None if result.structured_content.is_none() => return Ok(result),
            // In a box, for every call has room for it.
            None => match Box::pin(self.look_at_tools()).await {
                Ok(known) => known,
                Err(error) => {
                    tracing::warn!(%error, tool, "a result is not held against its schema: the tools cannot be listed");
                    return Ok(result);
                }
            },
        };
        let Some(schema) = known.structure(tool) else { return Ok(result) };
        match schema.fault(result.structured_content.as_deref()) {
            Some(what) => Err(Error::Unfit { tool: tool.to_owned(), what, result: Box::new(result) }),
            None => Ok(result),
        }
    }

    /// The result: this build holds none against a schema.
    #[cfg(not(feature = "schema-validation"))]
    pub(super) async fn fitting(
        &self,
        _: Option<&str>,
        _: Option<Arc<Known>>,
        result: CallToolResult,
    ) -> Result<CallToolResult, Error> {
        Ok(result)
    }
}

#[cfg(feature = "schema-validation")]
pub(super) use compiled::Structure;

#[cfg(feature = "schema-validation")]
mod compiled {
    use std::sync::OnceLock;

    use jsonschema::Validator;
    use longhaul_proto::model::Tool;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use crate::schema;

    /// The schema of what one tool gives, compiled when it is first needed.
    #[derive(Debug)]
    pub(in crate::client) struct Structure {
        tool: String,
        schema: String,
        compiled: OnceLock<Option<Validator>>,
    }

    impl Structure {
        /// That of a tool, if it has one.
        pub(in crate::client) fn of(tool: &Tool) -> Option<Self> {
            let schema = tool.output_schema.as_ref()?.get().to_owned();
            Some(Self { tool: tool.name.clone(), schema, compiled: OnceLock::new() })
        }

        /// What is wrong with a structure, or with there being none.
        pub(in crate::client) fn fault(&self, structure: Option<&RawValue>) -> Option<String> {
            let Some(structure) = structure else { return Some("it has no structure".to_owned()) };
            let validator = self.compiled.get_or_init(|| match schema::compile(&self.schema) {
                Ok(validator) => Some(validator),
                Err(error) => {
                    tracing::warn!(%error, tool = self.tool, "results are not held against the schema of their tool");
                    None
                }
            });
            let value: Value = serde_json::from_str(structure.get()).ok()?;
            if schema::is_too_deep(&value) {
                tracing::debug!(tool = self.tool, "a structure is too deep to be held against its schema");
                return None;
            }
            schema::faults(validator.as_ref()?, &value)
        }
    }
}
