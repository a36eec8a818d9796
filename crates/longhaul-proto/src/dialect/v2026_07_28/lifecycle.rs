//! What a server says of itself in 2026-07-28 (Server, Discover).

use serde::Deserialize;

use super::super::capability::Offered;
use super::super::welcome::{Welcome, invalid};
use super::super::{Dialect, ResultWriter};
use crate::jsonrpc::ErrorObject;
use crate::model::{CacheScope, Implementation, ServerCapabilities};

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
        out.field("supportedVersions", &Self::dates().collect::<Vec<_>>());
        self.write_offer(capabilities, out.object("capabilities"));
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
    #[serde(rename_all = "camelCase", expecting = "the result of `server/discover`")]
    struct Wire {
        supported_versions: Vec<String>,
        capabilities: Offered,
        #[serde(default)]
        instructions: Option<String>,
        #[serde(rename = "_meta", default)]
        meta: WireMeta,
    }
    #[derive(Default, Deserialize)]
    struct WireMeta {
        #[serde(rename = "io.modelcontextprotocol/serverInfo")]
        info: Option<Implementation>,
    }
    let wire: Wire = serde_json::from_str(result).map_err(invalid)?;
    let (capabilities, cancels_tasks) = wire.capabilities.read();
    let welcome = Welcome {
        dialect: &super::DIALECT,
        capabilities,
        cancels_tasks,
        info: wire.meta.info,
        instructions: wire.instructions,
    };
    Ok((wire.supported_versions, welcome))
}
