//! Where the server is, and how it is spoken to.

use std::{fmt, net::IpAddr, sync::Arc};

use ::redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, TlsCertificates};

use crate::{StoreError, error::said};

/// The server, as it may be shown to anybody: no user, no password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Place(Arc<str>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a URL says.
pub(super) struct Address {
    pub(super) client: Client,
    pub(super) place: Place,
    /// What the store is called among those of the server.
    pub(super) name: String,
    /// How many replicas have to have a write before it is acknowledged.
    pub(super) replicas: usize,
}

impl Address {
    /// Reads a URL, `redis://USER:PASSWORD@HOST:PORT/NUMBER`, `rediss://…` for TLS or `redis+unix:///SOCKET`.
    pub(super) fn parse(url: &str, password: Option<&str>) -> Result<Self, StoreError> {
        let (before, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut name, mut replicas, mut roots) = (DEFAULT_NAME.to_owned(), 0, None);
        let mut theirs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("name", value)) => name = checked(value)?,
                Some(("replicas", value)) => {
                    let number = value.parse().ok().filter(|number| *number <= MOST_REPLICAS);
                    replicas = number.ok_or_else(|| {
                        refused(format!("replicas is {value}; it can be 0 to {MOST_REPLICAS}"))
                    })?;
                }
                Some(("sslrootcert", value)) => {
                    roots = Some(value.replace("%2F", "/").replace("%2f", "/"));
                }
                _ => theirs.push(pair),
            }
        }
        let theirs =
            if theirs.is_empty() { before.to_owned() } else { format!("{before}?{}", theirs.join("&")) };
        // What the driver says of a URL may show all of it.
        let mut info = theirs.into_connection_info().map_err(|error| {
            refused(format!("it is not redis://USER:PASSWORD@HOST:PORT/NUMBER ({})", error.category()))
        })?;
        if let (Some(password), None) = (password, info.redis_settings().password()) {
            let settings = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(settings);
        }
        let place = place(&info, &name);
        if let ConnectionAddr::Tcp(host, _) = info.addr()
            && !is_here(host)
        {
            tracing::warn!(store = %place, "what is sent to and from the server can be read on its way: use rediss://");
        }
        let client = match info.addr() {
            ConnectionAddr::TcpTls { .. } => {
                // Whoever has chosen one for the whole program has chosen.
                let _chosen_before = rustls::crypto::aws_lc_rs::default_provider().install_default();
                let root_cert = match &roots {
                    Some(path) => Some(
                        std::fs::read(path)
                            .map_err(|error| refused(format!("sslrootcert {path}: {error}")))?,
                    ),
                    None => None,
                };
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(info),
        };
        let client = client.map_err(|error| refused(error.to_string()))?;
        Ok(Self { client, place, name, replicas })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.place)
    }
}

/// A name stands in every key, in braces.
fn checked(name: &str) -> Result<String, StoreError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match name {
        _ if (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_good) => Ok(name.to_owned()),
        _ => Err(refused(format!(
            "name has 1 to {LONGEST_NAME} letters, digits, dots, dashes and underscores"
        ))),
    }
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn place(info: &ConnectionInfo, name: &str) -> Place {
    let host = |host: &String, port: &u16| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let server = match info.addr() {
        ConnectionAddr::Tcp(name, port) => format!("redis://{}", host(name, port)),
        ConnectionAddr::TcpTls { host: name, port, .. } => format!("rediss://{}", host(name, port)),
        ConnectionAddr::Unix(path) => format!("redis+unix://{}", path.display()),
        _ => "redis:".to_owned(),
    };
    let name = if name == DEFAULT_NAME { String::new() } else { format!("?name={name}") };
    Place(format!("{server}/{}{name}", info.redis_settings().db()).into())
}

/// Whatever the words are, they are none of the URL.
fn refused(why: String) -> StoreError {
    StoreError::Backend { doing: "reading the store's URL", source: said(why) }
}

/// What a store is called whose URL does not say.
const DEFAULT_NAME: &str = "longhaul";

const LONGEST_NAME: usize = 64;

const MOST_REPLICAS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let address = Address::parse("redis://ann:s3cret@127.0.0.1:6380/3?name=tasks", None).unwrap();
        assert_eq!(address.place.to_string(), "redis://127.0.0.1:6380/3?name=tasks");
        assert!(!format!("{address:?}").contains("s3cret"));
        for bad in ["redis://ann:s3cret@127.0.0.1/s3cret", "redis://127.0.0.1?name=s3{cret", "http://s3cret"]
        {
            let refusal = Address::parse(bad, None).unwrap_err();
            assert!(!format!("{refusal} {refusal:?}").contains("s3cret"), "{refusal:?}");
        }
    }

    #[test]
    fn a_url_says_how_the_server_is_spoken_to() {
        let place = |url: &str| Address::parse(url, None).unwrap().place.to_string();
        assert_eq!(place("redis://localhost"), "redis://localhost:6379/0");
        assert_eq!(place("rediss://db.example:7000/1"), "rediss://db.example:7000/1");
        assert_eq!(place("redis+unix:///run/redis.sock"), "redis+unix:///run/redis.sock/0");
        assert_eq!(Address::parse("redis://localhost?replicas=2", None).unwrap().replicas, 2);
        assert!(Address::parse("redis://localhost?replicas=many", None).is_err());
        assert!(Address::parse("rediss://localhost?sslrootcert=/no/such/file", None).is_err());
    }
}
