//! Which dialect a request is in, decided from the request itself and the session it came in.

use super::Dialect;
use crate::jsonrpc::{ErrorObject, Params};
use crate::method::Method;
use crate::model::{ClientCapabilities, Implementation, RequestMeta};

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

impl Dialect {
    /// The dialect of a request, by its `_meta` or else by the session's handshake.
    ///
    /// `initialize` and `ping` may come before there is a session.
    ///
    /// # Errors
    ///
    /// `-32602` when a modern request lacks what it must say of itself, or when there is neither a
    /// session nor such words; `-32022` when it names a revision that is not served.
    pub fn of_request(
        meta: &RequestMeta<'_>,
        session: Option<&'static Self>,
        method: &str,
    ) -> Result<&'static Self, ErrorObject> {
        match (&meta.protocol_version, session) {
            (Some(date), _) => {
                if meta.client_capabilities.is_none() {
                    return Err(missing_meta(CLIENT_CAPABILITIES));
                }
                Self::named_by_request(date)
            }
            (None, Some(dialect)) => Ok(dialect),
            (None, None) => match Self::newest_legacy().request(method) {
                Some(Method::Initialize | Method::Ping) => Ok(Self::newest_legacy()),
                _ => Err(missing_meta(PROTOCOL_VERSION)),
            },
        }
    }
}

/// `-32602` for a modern request whose `_meta` lacks `member`.
fn missing_meta(member: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!(
        "invalid params: `_meta` lacks `{member}` (or send `initialize` first to open a session)"
    ))
}

/// The parameters of `initialize` (2025-11-25, Lifecycle, Initialization).
#[derive(Debug)]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision the client wants.
    pub protocol_version: String,
    /// What the client can do, for the whole session.
    pub capabilities: ClientCapabilities,
    /// Who the client says it is.
    pub client_info: Implementation,
}

impl InitializeParams {
    /// The handshake of a client that wants this revision.
    pub fn new(
        protocol_version: impl Into<String>,
        capabilities: ClientCapabilities,
        client_info: Implementation,
    ) -> Self {
        Self { protocol_version: protocol_version.into(), capabilities, client_info }
    }

    /// Reads the parameters.
    ///
    /// # Errors
    ///
    /// `-32602` naming the member that is missing or wrong.
    pub fn read(params: &Params<'_>) -> Result<Self, ErrorObject> {
        Ok(Self {
            protocol_version: params.require("protocolVersion")?,
            capabilities: params.require("capabilities")?,
            client_info: params.require("clientInfo")?,
        })
    }
}
