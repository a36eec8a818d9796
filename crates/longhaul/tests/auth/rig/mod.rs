//! An authorization server, keys that sign, and a protected server, all on this machine.

mod browser;
mod front;
mod host;
mod issuer;
mod signer;
mod upstream;

pub(crate) use browser::{Browser, damaged, encoded, field};
pub(crate) use front::{APP, CLI, Front, VERIFIER, asks};
pub(crate) use host::{Answer, Host, TOOL_RUNS, legacy, modern, server};
pub(crate) use issuer::LocalIssuer;
pub(crate) use signer::{Signer, base64};
pub(crate) use upstream::{LocalUpstream, parameters};

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

pub(crate) const RESOURCE: &str = "https://mcp.example/mcp";
pub(crate) const METADATA: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that count, with some changed; `null` removes one.
pub(crate) fn claims(issuer: &LocalIssuer, subject: &str, changes: Value) -> Value {
    let mut claims = json!({"iss": issuer.url(), "sub": subject, "client_id": "cli", "aud": RESOURCE,
        "exp": now() + 600, "scope": "mcp", "email": format!("{subject}@example.com")});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}
