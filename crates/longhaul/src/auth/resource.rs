//! The server as authorization servers know it: its canonical URI (RFC 8707), and the document that says who
//! grants access to it (RFC 9728).

use bytes::Bytes;
use reqwest::Url;
use serde::Serialize;

use super::fetch::is_safe;
use crate::server::Scopes;

/// The canonical URI of a protected server.
///
/// It comes from configuration alone: what a request says of its host changes nothing in what clients are told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resource {
    text: String,
    origin: String,
    host: String,
    metadata_path: String,
    metadata_url: String,
}

/// A text that is no canonical URI of a server.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{}` is not the URI of a protected server: it is https://HOST[:PORT]/PATH, or http on this machine, without query and fragment", text.escape_debug())]
#[non_exhaustive]
pub struct InvalidResource {
    /// The text.
    pub text: String,
}

/// Where the metadata of a resource is found (RFC 9728, 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

impl Resource {
    /// Takes the URI that clients know the server by.
    ///
    /// # Errors
    ///
    /// [`InvalidResource`] when it is none of `https`, or of `http` on this machine, or has a query, a fragment or
    /// a user.
    pub fn parse(text: &str) -> Result<Self, InvalidResource> {
        let invalid = || InvalidResource { text: text.to_owned() };
        let url = Url::parse(text).map_err(|_| invalid())?;
        let plain = url.query().is_none() && url.fragment().is_none() && !has_user(&url);
        if !plain || !is_safe(&url) {
            return Err(invalid());
        }
        let origin = url.origin().ascii_serialization();
        let path = if url.path() == "/" { "" } else { url.path() };
        let metadata_path = format!("{WELL_KNOWN}{path}");
        Ok(Self {
            text: format!("{origin}{path}"),
            host: url.host_str().unwrap_or_default().to_owned(),
            metadata_url: format!("{origin}{metadata_path}"),
            metadata_path,
            origin,
        })
    }

    /// The URI, without a slash that means nothing.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its host, without a port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Scheme, host and port.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    /// Whether its metadata is there: at its own path, and at the root for clients that know only the host.
    pub(super) fn has_metadata_at(&self, path: &str) -> bool {
        path == self.metadata_path || path == WELL_KNOWN
    }

    /// Whether a token's audience is this server. Scheme and host are the same in any case, and a path of `/` is
    /// the same as none; everything else is compared byte for byte.
    pub(super) fn is(&self, audience: &str) -> bool {
        let Some((scheme, rest)) = audience.split_once("://") else { return false };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if path == "/" { "" } else { path };
        format!("{}://{}{path}", scheme.to_ascii_lowercase(), host.to_ascii_lowercase()) == self.text
    }

    /// The document that tells clients who grants access.
    pub(super) fn metadata(&self, issuers: &[&str], scopes: &Scopes) -> Bytes {
        #[derive(Serialize)]
        struct Document<'a> {
            resource: &'a str,
            authorization_servers: &'a [&'a str],
            #[serde(skip_serializing_if = "Vec::is_empty")]
            scopes_supported: Vec<&'a str>,
            bearer_methods_supported: [&'a str; 1],
        }
        let document = Document {
            resource: &self.text,
            authorization_servers: issuers,
            scopes_supported: scopes.iter().collect(),
            bearer_methods_supported: ["header"],
        };
        serde_json::to_vec(&document).unwrap_or_default().into()
    }
}

fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_name() {
        for (text, name, path) in [
            ("https://mcp.example", "https://mcp.example", "/.well-known/oauth-protected-resource"),
            ("HTTPS://MCP.example:443/", "https://mcp.example", "/.well-known/oauth-protected-resource"),
            (
                "https://mcp.example/mcp",
                "https://mcp.example/mcp",
                "/.well-known/oauth-protected-resource/mcp",
            ),
            (
                "http://127.0.0.1:8420/mcp",
                "http://127.0.0.1:8420/mcp",
                "/.well-known/oauth-protected-resource/mcp",
            ),
        ] {
            let resource = Resource::parse(text).unwrap();
            assert_eq!((resource.as_str(), resource.metadata_path.as_str()), (name, path), "{text}");
            assert!(resource.has_metadata_at(path) && resource.has_metadata_at(WELL_KNOWN));
        }
        for wrong in [
            "mcp.example",
            "http://mcp.example/mcp",
            "https://mcp.example/#a",
            "https://mcp.example/?a",
            "https://me@mcp.example/",
            "ftp://mcp.example/",
            "",
        ] {
            assert!(Resource::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn s55_a_near_miss_is_another_server() {
        let resource = Resource::parse("https://mcp.example/mcp").unwrap();
        for same in ["https://mcp.example/mcp", "HTTPS://MCP.EXAMPLE/mcp"] {
            assert!(resource.is(same), "{same}");
        }
        for other in [
            "https://mcp.example",
            "https://mcp.example/",
            "https://mcp.example/mcp/",
            "https://mcp.example/MCP",
            "https://mcp.example/mcp?x",
            "https://mcp.example/mcp#x",
            "https://mcp.example/a/../mcp",
            "https://mcp.example/%6dcp",
            "https://mcp.example:8443/mcp",
            "https://mcp.example./mcp",
            "https://mcp.example.evil/mcp",
            "https://evil/mcp.example/mcp",
            "https://x@mcp.example/mcp",
            "http://mcp.example/mcp",
            "mcp.example/mcp",
            "",
        ] {
            assert!(!resource.is(other), "{other}");
        }
        let root = Resource::parse("https://mcp.example").unwrap();
        assert!(root.is("https://mcp.example/") && root.is("https://mcp.example"));
        assert!(!root.is("https://mcp.example/mcp"));
    }
}
