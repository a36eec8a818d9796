//! Where a server listens.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use super::diagnostic::{Diagnostic, Edit};
use super::reader::{At, Reader, Section, quoted};

/// Where a server listens.
///
/// # Examples
///
/// ```
/// use longhaul_gateway::config::Listen;
///
/// assert_eq!("unix:/run/longhaul.sock".parse(), Ok(Listen::Socket("/run/longhaul.sock".into())));
/// assert_eq!("127.0.0.1:8420".parse(), Ok(Listen::Address(([127, 0, 0, 1], 8420).into())));
/// assert!("unix:".parse::<Listen>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever listens must know each")]
pub enum Listen {
    /// An address of the network.
    Address(SocketAddr),
    /// `unix:FILE`: a socket of this machine, for one user.
    Socket(PathBuf),
}

/// A text that is no place to listen at.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("it is neither an address, as 127.0.0.1:8420, nor a socket, as unix:FILE")]
#[non_exhaustive]
pub struct InvalidListen;

/// How a socket's place begins.
const SOCKET: &str = "unix:";

impl Listen {
    /// Whether other machines can reach it.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        matches!(self, Self::Address(address) if !address.ip().is_loopback())
    }

    /// What `listen` of a section says, if it says something; `port` is meant where none is written.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        section: &Section<'_>,
        base: &Path,
        port: u16,
    ) -> Option<Self> {
        let text = reader.text(section, "listen")?;
        match text.value.parse::<Self>() {
            Ok(listen) => Some(listen.resolved(base)),
            Err(_) => {
                reader.push(misplaced(&text, &section.place, port));
                None
            }
        }
    }

    fn resolved(self, base: &Path) -> Self {
        match self {
            Self::Socket(path) => Self::Socket(base.join(path)),
            address @ Self::Address(_) => address,
        }
    }
}

impl FromStr for Listen {
    type Err = InvalidListen;

    fn from_str(text: &str) -> Result<Self, InvalidListen> {
        match text.strip_prefix(SOCKET) {
            Some("") => Err(InvalidListen),
            Some(path) => Ok(Self::Socket(path.into())),
            None => text.parse().map(Self::Address).map_err(|_| InvalidListen),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path) => write!(f, "{SOCKET}{}", path.display()),
        }
    }
}

fn misplaced(text: &At<&str>, place: &str, port: u16) -> Diagnostic {
    let message = format!("`listen` of {place} is not an address: `{}`", text.value.escape_debug());
    let diagnostic = Diagnostic::error(message).at(text.span.clone(), "not an address");
    match meant(text.value, port) {
        Some(address) => {
            diagnostic.fix(format!("write `{address}`"), vec![Edit::new(text.span.clone(), quoted(&address))])
        }
        None => diagnostic
            .help(format!("an address is an IP address and a port, `127.0.0.1:{port}` or `[::1]:{port}`, or a socket, `unix:FILE`")),
    }
}

/// The address that a near miss stands for: a port alone, an address alone, `localhost`.
fn meant(written: &str, port: u16) -> Option<String> {
    let written = written.trim();
    let written = written.strip_prefix("http://").unwrap_or(written).trim_end_matches('/');
    let address = match written.strip_prefix("localhost").unwrap_or(written) {
        "" => format!("127.0.0.1:{port}"),
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("127.0.0.1:{port}"),
        other => match other.parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, port).to_string(),
            Err(_) if other.starts_with(':') => format!("127.0.0.1{other}"),
            Err(_) => other.to_owned(),
        },
    };
    address.parse::<SocketAddr>().ok().map(|address| address.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_near_miss_of_an_address_is_understood() {
        for (written, meant) in [
            ("8420", Some("127.0.0.1:8420")),
            (":9000", Some("127.0.0.1:9000")),
            ("localhost", Some("127.0.0.1:8420")),
            ("http://localhost:9000/", Some("127.0.0.1:9000")),
            ("0.0.0.0", Some("0.0.0.0:8420")),
            ("::1", Some("[::1]:8420")),
            ("example.org:80", None),
            ("127.0.0.1:99999", None),
        ] {
            assert_eq!(super::meant(written, 8420).as_deref(), meant, "{written}");
        }
    }
}
