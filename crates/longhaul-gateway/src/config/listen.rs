//! Where a server listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

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

    pub(super) fn resolved(self, base: &Path) -> Self {
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
