//! The handshake of 2025-11-25 (Lifecycle, Initialization).

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::welcome::{Welcome, invalid};
use super::super::{Dialect, ResultWriter};
use crate::jsonrpc::ErrorObject;
use crate::model::{Implementation, ServerCapabilities};

impl Dialect {
    /// Writes the answer to `initialize`: this dialect's revision, what the server offers and who it is.
    pub fn write_initialize(
        &'static self,
        out: &mut ResultWriter<'_>,
        capabilities: &ServerCapabilities,
        server_info: &str,
        instructions: Option<&str>,
    ) {
        out.field("protocolVersion", self.revision.as_str());
        let mut offered = out.object("capabilities");
        if capabilities.tools {
            offered.raw("tools", "{}");
        }
        if capabilities.resources {
            offered.raw("resources", "{}");
        }
        if capabilities.logging {
            offered.raw("logging", "{}");
        }
        if capabilities.tasks {
            offered.raw("tasks", r#"{"cancel":{},"requests":{"tools":{"call":{}}}}"#);
        }
        offered.end();
        out.raw("serverInfo", server_info);
        out.optional("instructions", instructions.as_ref());
    }
}

/// Reads the answer to `initialize`: the revision it chose, and the rest.
///
/// # Errors
///
/// `-32603` saying what is wrong with it.
pub(in super::super) fn read_initialize(result: &str) -> Result<(String, Welcome), ErrorObject> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire {
        protocol_version: String,
        capabilities: Offered,
        #[serde(default)]
        server_info: Option<Implementation>,
        #[serde(default)]
        instructions: Option<String>,
    }
    #[derive(Deserialize)]
    struct Offered {
        tools: Option<IgnoredAny>,
        resources: Option<IgnoredAny>,
        logging: Option<IgnoredAny>,
        #[serde(default)]
        tasks: Option<Tasks>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Tasks {
        cancel: Option<IgnoredAny>,
        requests: Requests,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Requests {
        tools: ToolRequests,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ToolRequests {
        call: Option<IgnoredAny>,
    }
    let wire: Wire = serde_json::from_str(result).map_err(invalid)?;
    let tasks = wire.capabilities.tasks.unwrap_or_default();
    let capabilities = ServerCapabilities::default()
        .with_tools(wire.capabilities.tools.is_some())
        .with_resources(wire.capabilities.resources.is_some())
        .with_logging(wire.capabilities.logging.is_some())
        .with_tasks(tasks.requests.tools.call.is_some());
    let welcome = Welcome {
        dialect: &super::DIALECT,
        capabilities,
        cancels_tasks: tasks.cancel.is_some(),
        info: wire.server_info,
        instructions: wire.instructions,
    };
    Ok((wire.protocol_version, welcome))
}
