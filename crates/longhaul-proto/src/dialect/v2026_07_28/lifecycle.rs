//! What a server says of itself in 2026-07-28 (Server, Discover).

use super::super::{ResultWriter, Revision};
use crate::model::{CacheScope, ServerCapabilities, TASKS_EXTENSION};

/// How long a client may keep a discovery, in milliseconds.
const DISCOVERY_TTL_MS: u64 = 60_000;

impl super::Dialect {
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
