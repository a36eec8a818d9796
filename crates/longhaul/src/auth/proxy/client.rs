//! Clients: those an operator names, those that register themselves, and those that publish who they are.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::redirect;
use super::vault::{Purpose, Vault, digest};

/// A client, as far as it is to be trusted.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// What it is known by here.
    pub(super) handle: String,
    /// What it calls itself.
    pub(super) name: String,
    /// Where it may be called back.
    pub(super) redirects: Vec<String>,
    /// Who says so.
    pub(super) source: Source,
}

/// Who says who a client is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Source {
    /// The operator.
    Operator,
    /// Nobody but itself.
    Itself,
    /// The document at the address that is its id.
    Document,
}

/// What a client registered. It travels as the client's id: however many register, nothing is kept of them.
#[derive(Debug, Deserialize, Serialize)]
struct Registration {
    name: String,
    redirects: Vec<String>,
    /// No two that register the same are one client.
    at: u64,
}

/// What an id begins with that was handed out here.
const REGISTERED: &str = "longhaul_client_";

/// How long a registration lasts. Whoever still uses the client then registers it again.
const LASTS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// The most addresses of one client.
pub(super) const MAX_REDIRECTS: usize = 8;

/// The longest name, in characters. What is longer is cut.
const LONGEST_NAME: usize = 80;

/// The longest id that is handed out: it travels in addresses and in forms.
const LONGEST_ID: usize = 2048;

impl Client {
    /// The client that registered itself under this id.
    pub(super) fn registered(vault: &Vault, id: &str) -> Option<Self> {
        let registration: Registration = vault.open(Purpose::Client, id.strip_prefix(REGISTERED)?).ok()?;
        let Registration { name, redirects, .. } = registration;
        Some(Self { handle: handle(id), name, redirects, source: Source::Itself })
    }

    /// Where it asks to be called back, if that is one of its addresses.
    pub(super) fn may_return_to(&self, asked: &str) -> bool {
        self.redirects.iter().any(|registered| redirect::is_same(registered, asked))
    }
}

/// What a client is known by whose id this is. It is short, for it is part of who calls.
pub(super) fn handle(id: &str) -> String {
    if id.starts_with(REGISTERED) { format!("registered:{}", &digest(id)[..22]) } else { id.to_owned() }
}

/// Whether an operator may give a client this id: no other kind has one like it.
pub(super) fn is_plain_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !id.is_empty() && id.len() <= 100 && id.bytes().all(plain) && !id.starts_with(REGISTERED)
}

/// Registers a client (RFC 7591). It is a public one, whatever it asks for: it gets no secret.
pub(super) fn register(vault: &Vault, body: &[u8]) -> Answer {
    let refused = |code: &str, why: &str| answer::error(code, why);
    let Ok(asked) = serde_json::from_slice::<Value>(body) else {
        return refused("invalid_client_metadata", "the body is not JSON");
    };
    let Some(redirects) = redirects(&asked) else {
        return refused(
            "invalid_redirect_uri",
            "`redirect_uris` names where the client is called back: one to eight addresses, each https, or http on this machine",
        );
    };
    let supported = ["authorization_code", "refresh_token"];
    let grants: Vec<&str> = match asked.get("grant_types").and_then(Value::as_array) {
        Some(grants) => {
            grants.iter().filter_map(Value::as_str).filter(|one| supported.contains(one)).collect()
        }
        None => vec![supported[0]],
    };
    if !grants.contains(&supported[0]) {
        return refused("invalid_client_metadata", "the grant here is `authorization_code`");
    }
    let name = name(&asked).unwrap_or_else(|| "a client without a name".to_owned());
    let at = crate::seal::random::<8>();
    let registration = Registration { name, redirects, at: u64::from_le_bytes(at) };
    let Some(sealed) = vault.seal(Purpose::Client, &registration, LASTS).filter(|id| id.len() < LONGEST_ID)
    else {
        return refused("invalid_redirect_uri", "the addresses are too long");
    };
    answer::document(
        StatusCode::CREATED,
        &json!({
            "client_id": format!("{REGISTERED}{sealed}"),
            "client_name": registration.name,
            "redirect_uris": registration.redirects,
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }),
    )
}

/// The addresses of a client's metadata; `None` unless all of them may be registered.
pub(super) fn redirects(metadata: &Value) -> Option<Vec<String>> {
    let redirects = metadata.get("redirect_uris")?.as_array()?;
    let all: Option<Vec<String>> = redirects
        .iter()
        .map(|one| one.as_str().filter(|text| redirect::may_be_registered(text)).map(str::to_owned))
        .collect();
    all.filter(|all| (1..=MAX_REDIRECTS).contains(&all.len()))
}

/// What a client calls itself.
pub(super) fn name(metadata: &Value) -> Option<String> {
    let name = metadata.get("client_name")?.as_str()?.trim();
    (!name.is_empty()).then(|| name.chars().take(LONGEST_NAME).collect())
}
