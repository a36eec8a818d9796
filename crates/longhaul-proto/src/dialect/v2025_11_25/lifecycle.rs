//! The handshake of 2025-11-25 (Lifecycle, Initialization).

use super::super::{Dialect, ResultWriter};
use crate::model::ServerCapabilities;

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
