//! What a session has settled, as a store keeps it for other nodes.

use longhaul_proto::connection::Session;
use longhaul_proto::dialect::{Dialect, InitializeParams};
use longhaul_proto::model::{ClientCapabilities, ClientTasks, Implementation, LoggingLevel};
use serde::{Deserialize, Serialize};

/// What a handshake has settled, and what was chosen since.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Saved {
    protocol_version: String,
    capabilities: ClientCapabilities,
    /// Of what a client can do only this has a form of its own.
    hosts: ClientCapabilities,
    client_info: Implementation,
    pub(super) log_level: LoggingLevel,
    /// The resources that it watches.
    #[serde(default)]
    watched: Vec<String>,
    /// It watches more than these.
    #[serde(default)]
    more: bool,
}

/// The resources that a session watches, in their order, as many of them as there was room for.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Watched {
    pub(crate) uris: Vec<String>,
    /// It watches others, which come after these.
    more: bool,
}

impl Watched {
    /// Whether it is not among them, and would be if it were watched.
    pub(crate) fn lacks(&self, uri: &str) -> bool {
        let has_room = !self.more || self.uris.last().is_some_and(|last| uri < last.as_str());
        has_room && self.uris.iter().all(|watched| watched != uri)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'s> {
    protocol_version: &'s str,
    capabilities: &'s ClientCapabilities,
    hosts: Hosts<'s>,
    client_info: &'s Implementation,
    log_level: LoggingLevel,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    watched: &'s [String],
    /// It watches more than that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Serialize)]
struct Hosts<'s> {
    tasks: &'s ClientTasks,
}

/// How many bytes of the names of resources are kept, with what separates them: an entry has no room for any number.
const MAX_WATCHED: usize = 32 << 10;

/// The session as bytes, with the resources that it watches in their order, as many of them as there is room for.
pub(super) fn write(session: &Session, watched: &[String]) -> Vec<u8> {
    let mut room = MAX_WATCHED;
    let fits = |uri: &&String| {
        let left = serde_json::to_string(uri).ok().and_then(|uri| room.checked_sub(uri.len() + 1));
        left.inspect(|left| room = *left).is_some()
    };
    let (watched, rest) = watched.split_at(watched.iter().take_while(fits).count());
    let written = Written {
        protocol_version: session.dialect.revision().as_str(),
        capabilities: &session.capabilities,
        hosts: Hosts { tasks: &session.capabilities.tasks },
        client_info: &session.client_info,
        log_level: session.log_level,
        watched,
        more: !rest.is_empty(),
    };
    serde_json::to_vec(&written).expect("what was read from JSON can be written as JSON")
}

impl Saved {
    /// What [`write`] wrote. `None` of what was not, or by a release that says more, or knows a revision that this one does
    /// not: its client has been told that revision, and would be answered in another.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let saved: Self = serde_json::from_slice(bytes).ok()?;
        let revision = Dialect::negotiated(&saved.protocol_version).revision();
        (revision.as_str() == saved.protocol_version).then_some(saved)
    }

    /// What it watches, which is no part of the handshake.
    pub(super) fn take_watched(&mut self) -> Watched {
        Watched { uris: std::mem::take(&mut self.watched), more: self.more }
    }

    /// The handshake once more.
    pub(super) fn into_handshake(self) -> InitializeParams {
        let mut capabilities = self.capabilities;
        capabilities.tasks = self.hosts.tasks;
        InitializeParams::new(self.protocol_version, capabilities, self.client_info)
    }
}
