//! What a protected server says of itself: what it is called, and who grants tokens for it (RFC 9728).

use reqwest::Url;
use serde::Deserialize;

use super::challenge::Challenge;
use super::error::AuthError;
use super::web::Web;
use crate::oauth::fetch::FetchError;
use crate::server::Scopes;

/// A server, as those who grant tokens for it know it.
#[derive(Clone, Debug)]
pub(super) struct ProtectedResource {
    /// Its name, byte for byte as it writes it.
    pub(super) name: String,
    /// Who grants tokens for it.
    pub(super) issuers: Vec<String>,
    /// What can be asked for, if it says so.
    pub(super) scopes: Option<Scopes>,
    /// It takes only tokens that are bound to a key.
    pub(super) bound: bool,
}

#[derive(Deserialize)]
struct Document {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    dpop_bound_access_tokens_required: bool,
}

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

const WHAT: &str = "the server's metadata";

impl ProtectedResource {
    /// The metadata of `server`: where its challenge says, else at its own path, else at the root (2026-07-28,
    /// Protected Resource Metadata Discovery Requirements). `None` if it has none at all, as before 2025-06-18.
    pub(super) async fn find(
        web: &Web,
        server: &Url,
        challenge: &Challenge,
    ) -> Result<Option<Self>, AuthError> {
        if let Some(named) = &challenge.metadata {
            let document = web.json(&web.address(named)?).await.map_err(AuthError::fetch(WHAT))?;
            return Self::read(server, document).map(Some);
        }
        for url in places(server) {
            match web.json(&url).await {
                Ok(document) => return Self::read(server, document).map(Some),
                // Such a server may have a page of its own for whatever it does not know.
                Err(FetchError::Status { status: 400..=499, .. } | FetchError::Malformed { .. }) => {}
                Err(error) => return Err(AuthError::fetch(WHAT)(error)),
            }
        }
        Ok(None)
    }

    fn read(server: &Url, document: Document) -> Result<Self, AuthError> {
        if !covers(&document.resource, server) {
            return Err(AuthError::wrong_resource(&document.resource));
        }
        let scopes = document.scopes_supported.map(|all| {
            // One that is no scope could be asked of nobody.
            let known = all.iter().filter(|scope| Scopes::parse(scope).is_ok());
            known.map(String::as_str).collect::<Scopes>()
        });
        Ok(Self {
            name: document.resource,
            issuers: document.authorization_servers,
            scopes: scopes.filter(|scopes| !scopes.is_empty()),
            bound: document.dpop_bound_access_tokens_required,
        })
    }
}

/// Where the metadata of a server may be, in order.
fn places(server: &Url) -> Vec<Url> {
    let at = |path: &str| {
        let mut url = server.clone();
        url.set_path(path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    let path = server.path().trim_end_matches('/');
    let mut places = vec![at(WELL_KNOWN)];
    if !path.is_empty() {
        places.insert(0, at(&format!("{WELL_KNOWN}{path}")));
    }
    places
}

/// Whether a resource of this name is `server`, or all that is on its host from some path down. Anybody could put the
/// name of another server in their metadata, and would be brought a token for that one.
fn covers(name: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(name) else { return false };
    let same = resource.origin() == server.origin() && resource.origin().is_tuple();
    let plain =
        resource.fragment().is_none() && resource.username().is_empty() && resource.password().is_none();
    let query = resource.query().is_none() || resource.query() == server.query();
    let (above, path) = (resource.path().trim_end_matches('/'), server.path());
    let below = path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    same && plain && query && below
}

/// What a server without metadata is called (2026-07-28, Canonical Server URI).
pub(super) fn canonical(server: &Url) -> String {
    let path = if server.path() == "/" { "" } else { server.path() };
    format!("{}{path}", server.origin().ascii_serialization())
}

/// What its tokens are kept under. Servers that differ in their query alone may be different ones.
pub(super) fn stored(server: &Url) -> String {
    let query = server.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{query}", canonical(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn c01_metadata_is_looked_for_at_the_path_and_then_at_the_root() {
        let found =
            |server| -> Vec<String> { places(&url(server)).iter().map(ToString::to_string).collect() };
        let root = "https://mcp.example/.well-known/oauth-protected-resource";
        assert_eq!(found("https://mcp.example/a/mcp?x=1"), [format!("{root}/a/mcp"), root.to_owned()]);
        assert_eq!(found("https://mcp.example/"), [root]);
    }

    #[test]
    fn c10_s48_a_server_may_not_pass_for_another() {
        let server = url("https://mcp.example/a/mcp");
        for same in [
            "https://mcp.example/a/mcp",
            "https://mcp.example/a",
            "https://mcp.example/a/",
            "https://mcp.example",
            "https://mcp.example/",
            "HTTPS://MCP.example:443/a/mcp",
        ] {
            assert!(covers(same, &server), "{same}");
        }
        for other in [
            "https://evil.example/a/mcp",
            "https://mcp.example.evil/a/mcp",
            "https://mcp.example:8443/a/mcp",
            "http://mcp.example/a/mcp",
            "https://mcp.example/a/mcp/more",
            "https://mcp.example/a/m",
            "https://mcp.example/A/mcp",
            "https://mcp.example/a/mcp?x",
            "https://mcp.example/a/mcp#x",
            "https://me@mcp.example/a/mcp",
            "mcp.example/a/mcp",
            "urn:mcp",
            "",
        ] {
            assert!(!covers(other, &server), "{other}");
        }
        assert_eq!(canonical(&url("HTTPS://MCP.example:443/?x")), "https://mcp.example");
        assert_eq!(canonical(&server), "https://mcp.example/a/mcp");
    }

    #[test]
    fn s54_servers_that_differ_share_no_tokens() {
        let all = ["", "?tenant=a", "?tenant=b", "/"]
            .map(|end| stored(&url(&format!("https://mcp.example/a{end}"))));
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        assert_eq!(stored(&url("HTTPS://MCP.example:443/a#x")), all[0]);
    }
}
