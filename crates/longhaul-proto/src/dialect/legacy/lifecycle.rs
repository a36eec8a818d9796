//! The handshake (2025-11-25, Lifecycle, Initialization).

use serde::Deserialize;

use super::super::capability::Offered;
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
        server_info: &Implementation,
        instructions: Option<&str>,
    ) {
        out.field("protocolVersion", self.date);
        self.write_offer(capabilities, out.object("capabilities"));
        out.members(|object| {
            object.with("serverInfo", |out| self.write_implementation(server_info, out));
        });
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
    #[serde(rename_all = "camelCase", expecting = "the result of `initialize`")]
    struct Wire {
        protocol_version: String,
        capabilities: Offered,
        #[serde(default)]
        server_info: Option<Implementation>,
        #[serde(default)]
        instructions: Option<String>,
    }
    let wire: Wire = serde_json::from_str(result).map_err(invalid)?;
    let (capabilities, cancels_tasks) = wire.capabilities.read();
    let welcome = Welcome {
        dialect: Dialect::newest_legacy(),
        capabilities,
        cancels_tasks,
        info: wire.server_info,
        instructions: wire.instructions,
    };
    Ok((wire.protocol_version, welcome))
}
