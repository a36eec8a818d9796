//! Where the database is, and how it is spoken to.

use std::{fmt, net::IpAddr, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::config::{Config, Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{StoreError, error::said};

/// The database, as it may be shown to anybody: no password, nor any other setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Place(Arc<str>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a URL says.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    pub(super) place: Place,
    /// Whether there is a pooler before it.
    pub(super) is_pooled: bool,
}

/// What of a URL is ours, and not the driver's to read.
#[derive(Default)]
struct Ours {
    mode: Option<String>,
    roots: Option<String>,
    pooler: Option<String>,
}

impl Address {
    /// Reads a URL, `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`, or the words that `libpq` takes in its place.
    ///
    /// With TLS the server's certificate is always held against the host's name and the system's authorities, or those of
    /// `sslrootcert`. Without a word about it TLS is a must, but for a server on this machine.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (url, Ours { mode, roots, pooler }) = split(url);
        let mut config: Config =
            url.parse().map_err(|error: tokio_postgres::Error| refused(error.to_string()))?;
        let place = place(&config);
        let is_pooled = match pooler.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(refused(format!("pooler is {other}; it can be true or false"))),
        };
        let mode = match mode.as_deref() {
            None if config.get_hosts().iter().all(is_here) => SslMode::Disable,
            None | Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some("prefer") => SslMode::Prefer,
            Some("disable") => {
                if !config.get_hosts().iter().all(is_here) {
                    tracing::warn!(store = %place, "what is sent to and from the database can be read on its way: sslmode is disable");
                }
                SslMode::Disable
            }
            Some(other) => {
                return Err(refused(format!("sslmode is {other}; it can be verify-full, prefer or disable")));
            }
        };
        let tls = MakeRustlsConnect::new(certificates(mode, roots.as_deref())?);
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name("longhaul");
        }
        if config.get_target_session_attrs() == tokio_postgres::config::TargetSessionAttrs::Any
            && config.get_hosts().len() > 1
        {
            // Of several the one that takes writes, whichever that is after a failover.
            config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { config, tls, place, is_pooled })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.place)
    }
}

/// Takes what the driver does not read out of a URL's query.
fn split(url: &str) -> (String, Ours) {
    let mut ours = Ours::default();
    let Some((before, query)) = url.split_once('?') else { return (url.to_owned(), ours) };
    let mut theirs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => ours.mode = Some(value.to_owned()),
            Some(("sslrootcert", value)) => ours.roots = Some(value.replace("%2F", "/").replace("%2f", "/")),
            Some(("pooler", value)) => ours.pooler = Some(value.to_owned()),
            _ => theirs.push(pair),
        }
    }
    let url = if theirs.is_empty() { before.to_owned() } else { format!("{before}?{}", theirs.join("&")) };
    (url, ours)
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn place(config: &Config) -> Place {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let host = match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(folder) => folder.display().to_string(),
        };
        match ports.get(at).or_else(|| ports.first()) {
            Some(port) if *port != 5432 => format!("{host}:{port}"),
            _ => host,
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or_default();
    Place(format!("postgres://{}/{database}", hosts.join(",")).into())
}

fn certificates(mode: SslMode, roots: Option<&str>) -> Result<ClientConfig, StoreError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?;
    let only = |store: RootCertStore| builder.clone().with_root_certificates(store).with_no_client_auth();
    match roots {
        _ if mode == SslMode::Disable => Ok(only(RootCertStore::empty())),
        Some(path) => {
            let mut store = RootCertStore::empty();
            let unread = |why: String| refused(format!("sslrootcert {path}: {why}"));
            let found =
                CertificateDer::pem_file_iter(Path::new(path)).map_err(|error| unread(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| unread(error.to_string()))?;
                store.add(certificate).map_err(|error| unread(error.to_string()))?;
            }
            if store.is_empty() {
                return Err(unread("it has no certificate".to_owned()));
            }
            Ok(only(store))
        }
        None => {
            let verified = builder.with_platform_verifier().map_err(|error| refused(error.to_string()))?;
            Ok(verified.with_no_client_auth())
        }
    }
}

/// The words are the driver's or ours, and never those of the URL.
fn refused(why: String) -> StoreError {
    StoreError::Backend { doing: "reading the store's URL", source: said(why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let address =
            Address::parse("postgres://ann:s3cret@db.example:6432/tasks?connect_timeout=3").unwrap();
        assert_eq!(address.place.to_string(), "postgres://db.example:6432/tasks");
        assert!(!format!("{address:?} {:?}", address.config).contains("s3cret"));
        let refusal = Address::parse("postgres://ann:s3cret@db.example/tasks?no_such=s3cret").unwrap_err();
        assert!(!format!("{refusal} {refusal:?}").contains("s3cret"), "{refusal:?}");
    }

    #[test]
    fn what_leaves_this_machine_is_encrypted_unless_that_is_given_up() {
        let mode = |url: &str| Address::parse(url).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://ann@db.example/tasks"), SslMode::Require);
        assert_eq!(mode("postgres://ann@127.0.0.1,db.example/tasks"), SslMode::Require);
        assert_eq!(mode("postgres://ann@localhost/tasks"), SslMode::Disable);
        assert_eq!(mode("postgres://ann@%2Frun%2Fpostgresql/tasks"), SslMode::Disable);
        assert_eq!(mode("postgres://ann@localhost/tasks?sslmode=verify-full"), SslMode::Require);
        assert_eq!(mode("postgres://ann@db.example/tasks?sslmode=disable"), SslMode::Disable);
        assert!(Address::parse("postgres://ann@db.example/tasks?sslmode=perhaps").is_err());
        assert!(Address::parse("postgres://ann@db.example/tasks?sslrootcert=/no/such/file").is_err());
    }

    #[test]
    fn a_url_says_whether_there_is_a_pooler() {
        let pooled = |url: &str| Address::parse(url).map(|address| address.is_pooled);
        assert!(!pooled("postgres://localhost/tasks").unwrap());
        assert!(pooled("postgres://localhost/tasks?pooler=true&connect_timeout=3").unwrap());
        assert!(pooled("postgres://localhost/tasks?pooler=maybe").is_err());
    }
}
