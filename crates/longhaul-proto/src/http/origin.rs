//! Which hosts and origins may speak to a server: the defence against DNS rebinding.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The hosts a server answers to and the origins it lets in. An empty list lets nobody in.
#[derive(Clone, Debug)]
pub struct AllowList {
    hosts: Vec<String>,
    addresses: bool,
    origins: Vec<String>,
}

/// Why a request was turned away.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Its `Host` is not one of ours.
    #[error("forbidden: the Host {host:?} is not allowed; add it to `allowed_hosts` if it is yours")]
    #[non_exhaustive]
    Host {
        /// The header's value, or nothing.
        host: String,
    },
    /// It comes from a web page that is not one of ours.
    #[error("forbidden: the Origin {origin:?} is not allowed; {}", advice(.origin))]
    #[non_exhaustive]
    Origin {
        /// The header's value.
        origin: String,
    },
}

/// What who is turned away can do.
fn advice(origin: &str) -> &'static str {
    if origin == OPAQUE {
        // A sandboxed frame of any page says so too.
        "that is every page without an address (a file, a sandboxed frame): open it from a server, and add that one's origin \
         to `allowed_origins`"
    } else {
        "add it to `allowed_origins` if it is yours"
    }
}

/// The origin of pages that have none of their own.
const OPAQUE: &str = "null";

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl AllowList {
    /// The names of this machine for itself, on any port.
    pub fn loopback() -> Self {
        Self { hosts: LOOPBACK.map(String::from).into(), addresses: false, origins: Vec::new() }
    }

    /// Exactly these. A host without a port allows every port of it; an origin is
    /// `scheme://host[:port]`, and never `null`. Pages of an allowed host are allowed too.
    pub fn new(
        hosts: impl IntoIterator<Item = impl Into<String>>,
        origins: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            hosts: hosts.into_iter().map(Into::into).collect(),
            addresses: false,
            origins: origins.into_iter().map(Into::into).collect(),
        }
    }

    /// The same and this host; without a port, on every port of it.
    #[must_use]
    pub fn with_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// The same and every IP address as a host: rebinding a name takes a name. Pages that come from an address are no more
    /// allowed than before.
    #[must_use]
    pub fn with_addresses(mut self) -> Self {
        self.addresses = true;
        self
    }

    /// The same and pages of this origin, `scheme://host[:port]`.
    #[must_use]
    pub fn with_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Whether a request with these headers may come in.
    ///
    /// # Errors
    ///
    /// When its host is missing or foreign, or it comes from a foreign web page.
    pub fn check(&self, host: Option<&str>, origin: Option<&str>) -> Result<(), Refused> {
        if !host.is_some_and(|host| self.has_host(host) || self.addresses && is_address(host)) {
            return Err(Refused::Host { host: host.unwrap_or_default().to_owned() });
        }
        match origin {
            Some(origin) if !self.has_origin(origin) => Err(Refused::Origin { origin: origin.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Whether pages of this origin may read answers in a browser: those that are listed, and no others of an allowed
    /// host.
    pub fn shares_with(&self, origin: &str) -> bool {
        origin != OPAQUE && self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    fn has_host(&self, host: &str) -> bool {
        let is = |allowed: &String, host: &str| allowed.eq_ignore_ascii_case(host);
        self.hosts.iter().any(|allowed| is(allowed, host) || is(allowed, without_port(host)))
    }

    fn has_origin(&self, origin: &str) -> bool {
        if self.shares_with(origin) {
            return true;
        }
        let host = origin.split_once("://").filter(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
        });
        host.is_some_and(|(_, host)| self.has_host(host))
    }
}

fn is_address(host: &str) -> bool {
    let host = without_port(host);
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_may_speak_to_itself_on_any_port() {
        let list = AllowList::loopback();
        for host in ["localhost", "LOCALHOST:8420", "127.0.0.1:1", "[::1]", "[::1]:8420"] {
            assert_eq!(list.check(Some(host), None), Ok(()), "{host}");
            assert_eq!(list.check(Some(host), Some(&format!("http://{host}"))), Ok(()), "{host}");
        }
    }

    #[test]
    fn everybody_else_is_turned_away() {
        let list = AllowList::loopback();
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "::1", "", "localhost:x"]
        {
            assert!(list.check(Some(host), None).is_err(), "{host}");
        }
        assert!(list.check(None, None).is_err());
        for origin in
            ["null", "http://evil.example", "file://", "http://localhost.evil.example", "ftp://localhost"]
        {
            assert!(list.check(Some("localhost"), Some(origin)).is_err(), "{origin}");
        }
    }

    #[test]
    fn who_is_turned_away_learns_what_to_do() {
        let list = AllowList::new(["localhost"], ["null"]);
        let refused = |origin| list.check(Some("localhost"), Some(origin)).unwrap_err().to_string();
        assert!(refused("https://a.example").contains("add it to `allowed_origins`"));
        // Listing it would let in anybody's sandboxed frame, so it does nothing.
        assert!(refused("null").contains("open it from a server"), "{}", refused("null"));
    }

    #[test]
    fn an_empty_list_lets_nobody_in() {
        let list = AllowList::new([""; 0], [""; 0]);
        assert!(list.check(Some("localhost"), None).is_err());
    }

    #[test]
    fn what_is_added_may_come_in_as_well() {
        let list = AllowList::loopback().with_host("mcp.example").with_origin("https://app.example");
        assert_eq!(list.check(Some("mcp.example:8420"), Some("https://app.example")), Ok(()));
        assert_eq!(list.check(Some("localhost"), None), Ok(()));
        assert!(list.check(Some("evil.example"), None).is_err());
        assert!(list.check(Some("localhost"), Some("https://evil.example")).is_err());
    }

    #[test]
    fn an_address_is_no_name_that_could_be_rebound() {
        let list = AllowList::loopback().with_addresses();
        for host in ["10.0.0.7", "10.0.0.7:9464", "[fd00::7]:9464", "localhost:9464"] {
            assert_eq!(list.check(Some(host), None), Ok(()), "{host}");
        }
        for host in
            ["10.0.0.7.evil.example", "10.0.7", "[evil.example]", "fd00::7", "[10.0.0.7]", "evil.example"]
        {
            assert!(list.check(Some(host), None).is_err(), "{host}");
        }
        assert!(list.check(Some("10.0.0.7"), Some("http://10.0.0.7")).is_err());
        assert!(AllowList::loopback().check(Some("10.0.0.7"), None).is_err());
    }

    #[test]
    fn listed_names_may_come_in() {
        let list = AllowList::new(["mcp.example:443", "ci.example"], ["https://app.example"]);
        assert_eq!(list.check(Some("mcp.example:443"), Some("https://app.example")), Ok(()));
        assert!(list.check(Some("mcp.example:444"), None).is_err());
        assert_eq!(list.check(Some("ci.example:9"), None), Ok(()));
        assert!(list.check(Some("ci.example"), Some("https://app.example:8443")).is_err());
    }
}
