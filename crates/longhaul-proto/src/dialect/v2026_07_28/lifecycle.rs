//! What a server says of itself in 2026-07-28 (Server, Discover).

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::welcome::{Welcome, invalid};
use super::super::{Dialect, ResultWriter, Revision};
use crate::jsonrpc::ErrorObject;
use crate::model::{CacheScope, Implementation, ServerCapabilities, TASKS_EXTENSION};

/// How long a client may keep a discovery, in milliseconds.
const DISCOVERY_TTL_MS: u64 = 60_000;

impl Dialect {
    /// Writes the answer to `server/discover`.
    pub fn write_discover(
        &self,
        out: &mut ResultWriter<'_>,
        capabilities: &ServerCapabilities,
        instructions: Option<&str>,
    ) {
        out.field("supportedVersions", &Revision::ALL.map(Revision::as_str));
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
            let mut extensions = offered.object("extensions");
            // Exactly `{}`: peers read any other value as "no tasks".
            extensions.raw(TASKS_EXTENSION, "{}");
            extensions.end();
        }
        offered.end();
        out.optional("instructions", instructions.as_ref());
        out.cacheable(DISCOVERY_TTL_MS, CacheScope::Public);
    }
}

/// Reads the answer to `server/discover`: the revisions it offers, and the rest.
///
/// # Errors
///
/// `-32603` saying what is wrong with it.
pub(in super::super) fn read_discover(result: &str) -> Result<(Vec<String>, Welcome), ErrorObject> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire {
        supported_versions: Vec<String>,
        capabilities: Offered,
        #[serde(default)]
        instructions: Option<String>,
        #[serde(rename = "_meta", default)]
        meta: WireMeta,
    }
    #[derive(Deserialize)]
    struct Offered {
        tools: Option<IgnoredAny>,
        resources: Option<IgnoredAny>,
        logging: Option<IgnoredAny>,
        #[serde(default)]
        extensions: Extensions,
    }
    #[derive(Default, Deserialize)]
    struct Extensions {
        #[serde(rename = "io.modelcontextprotocol/tasks")]
        tasks: Option<IgnoredAny>,
    }
    #[derive(Default, Deserialize)]
    struct WireMeta {
        #[serde(rename = "io.modelcontextprotocol/serverInfo")]
        info: Option<Implementation>,
    }
    let wire: Wire = serde_json::from_str(result).map_err(invalid)?;
    let tasks = wire.capabilities.extensions.tasks.is_some();
    let capabilities = ServerCapabilities::default()
        .with_tools(wire.capabilities.tools.is_some())
        .with_resources(wire.capabilities.resources.is_some())
        .with_logging(wire.capabilities.logging.is_some())
        .with_tasks(tasks);
    let welcome = Welcome {
        dialect: &super::DIALECT,
        capabilities,
        cancels_tasks: tasks,
        info: wire.meta.info,
        instructions: wire.instructions,
    };
    Ok((wire.supported_versions, welcome))
}
