//! `[http]`: where the server listens and whom it answers.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;

use super::{
    diagnostic::{Diagnostic, Edit},
    listen::Listen,
    reader::{Reader, Section, quoted},
};

/// Where the server listens and whom it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// Where it listens.
    pub listen: Listen,
    /// The `Host` headers it answers, as `name` or `name:port`. `None` leaves the choice to the server (the names
    /// of this machine on loopback); an empty list answers nobody.
    pub allowed_hosts: Option<Vec<String>>,
    /// The `Origin` headers it answers, as `scheme://host` or `scheme://host:port`. `None` leaves the choice to
    /// the server; an empty list answers no browser.
    pub allowed_origins: Option<Vec<String>>,
    /// The most bytes of one request's body.
    pub max_body: u64,
    /// Whether the transport of 2024-11-05 is served beside the endpoint.
    pub legacy_sse: bool,
    /// Whether HTTP/2 is spoken to clients that begin with it.
    pub http2: bool,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: Listen::Address(SocketAddr::from(([127, 0, 0, 1], PORT))),
            allowed_hosts: None,
            allowed_origins: None,
            max_body: MAX_BODY,
            legacy_sse: false,
            http2: false,
        }
    }
}

impl Http {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, base: &Path) -> Self {
        reader.reject_unknown(
            section,
            &["listen", "allowed_hosts", "allowed_origins", "max_body", "legacy_sse", "http2"],
        );
        let mut http = Self::default();
        if let Some(listen) = Listen::read(reader, section, base, PORT) {
            http.listen = listen;
        }
        http.allowed_hosts = list(reader, section, "allowed_hosts", bad_host);
        http.allowed_origins = list(reader, section, "allowed_origins", bad_origin);
        http.legacy_sse = reader.boolean(section, "legacy_sse").is_some_and(|legacy_sse| legacy_sse.value);
        http.http2 = reader.boolean(section, "http2").is_some_and(|http2| http2.value);
        http.max_body = reader.size(section, "max_body", (MAX_BODY_MIN, MAX_BODY_MAX)).unwrap_or(MAX_BODY);
        http
    }
}

fn list(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    key: &str,
    mistake: fn(&str) -> Option<Mistake>,
) -> Option<Vec<String>> {
    let texts = reader.texts(section, key)?;
    for text in &texts {
        let Some(Mistake { what, instead }) = mistake(text.value) else { continue };
        let message = format!("`{key}` of {} holds {what}", section.place);
        let diagnostic = Diagnostic::error(message).at(text.span.clone(), what);
        let form = if key == "allowed_hosts" { HOST_FORM } else { ORIGIN_FORM };
        reader.push(match instead {
            Some(instead) => diagnostic
                .fix(format!("write `{instead}`"), vec![Edit::new(text.span.clone(), quoted(&instead))]),
            None => diagnostic.help(form),
        });
    }
    Some(texts.into_iter().map(|text| text.value.to_ascii_lowercase()).collect())
}

/// What is wrong with an item, and what was probably meant.
struct Mistake {
    what: &'static str,
    instead: Option<String>,
}

fn bad_host(host: &str) -> Option<Mistake> {
    if let Some((_, rest)) = host.split_once("://") {
        let name = rest.split('/').next().filter(|name| is_host(name)).map(str::to_owned);
        return Some(Mistake { what: "a URL instead of a host", instead: name });
    }
    if host.contains('*') {
        return Some(Mistake { what: "a wildcard, and hosts are compared exactly", instead: None });
    }
    (!is_host(host)).then_some(Mistake { what: "something else than a host", instead: None })
}

fn bad_origin(origin: &str) -> Option<Mistake> {
    if origin.contains('*') {
        return Some(Mistake { what: "a wildcard, and origins are compared exactly", instead: None });
    }
    let Some((scheme, rest)) = origin.split_once("://") else {
        let instead = is_host(origin).then(|| format!("https://{origin}"));
        return Some(Mistake { what: "an origin without its scheme", instead });
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if scheme.is_empty()
        || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        || !is_host(host)
    {
        return Some(Mistake { what: "something else than an origin", instead: None });
    }
    let instead = format!("{scheme}://{host}");
    (!path.is_empty()).then_some(Mistake { what: "an origin with a path", instead: Some(instead) })
}

/// Whether a text is `name`, `name:port`, `[v6]` or `[v6]:port`.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => {
            ("v6", if rest.is_empty() { Some("0") } else { rest.strip_prefix(':') })
        }
        Some(_) => return false,
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, Some("0")),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let port = port
        .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok());
    !name.is_empty() && name.bytes().all(is_name) && port
}

/// The port of a server that is not told another.
const PORT: u16 = 8420;
const MAX_BODY: u64 = 4 << 20;
const MAX_BODY_MIN: u64 = 1 << 10;
const MAX_BODY_MAX: u64 = 1 << 30;
const HOST_FORM: &str =
    "a host is a name or an address, with a port if it is not the usual one: `ci.example:8420`";
const ORIGIN_FORM: &str =
    "an origin is a scheme and a host, with a port if it is not the usual one: `https://ci.example`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_found_from_the_folder_of_the_file() {
        let config = |listen: &str| {
            let text = format!("[http]\nlisten = \"{listen}\"\n");
            crate::config::check("/etc/longhaul/longhaul.toml", &text)
                .map(|checked| checked.config.http.listen)
        };
        let place = |listen| config(listen).unwrap().to_string();
        assert_eq!(place("unix:mcp.sock"), "unix:/etc/longhaul/mcp.sock");
        assert_eq!(place("unix:/run/mcp.sock"), "unix:/run/mcp.sock");
        assert_eq!(place("127.0.0.1:1"), "127.0.0.1:1");
        assert!(config("unix:").is_err());
    }

    #[test]
    fn hosts_and_origins_are_told_from_what_only_looks_like_them() {
        for host in ["localhost", "ci.example:8420", "127.0.0.1", "[::1]:80", "[::1]"] {
            assert!(is_host(host), "{host}");
        }
        for host in ["", ":80", "a b", "x:", "x:99999", "x:+1", "[zz]", "::1", "a/b"] {
            assert!(!is_host(host), "{host}");
        }
        assert!(bad_origin("https://ci.example").is_none());
        assert_eq!(bad_origin("https://ci.example/").unwrap().instead.as_deref(), Some("https://ci.example"));
        assert_eq!(bad_origin("ci.example").unwrap().instead.as_deref(), Some("https://ci.example"));
        assert!(bad_origin("*").is_some());
        assert_eq!(bad_host("http://ci.example/mcp").unwrap().instead.as_deref(), Some("ci.example"));
    }
}
