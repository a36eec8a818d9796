//! The loop that pumps a connection over a byte stream: one line, one message.
//!
//! Reading stops while as many exchanges are
//! open as allowed, so that memory stays flat however fast a client writes.

#[cfg(feature = "client")]
mod ask;
mod exchanges;
pub(crate) mod lines;
#[cfg(feature = "http")]
mod saved;
mod serve;

#[cfg(feature = "client")]
pub(crate) use ask::StreamLink;
pub(crate) use exchanges::Exchanges;
#[cfg(any(feature = "client", feature = "http"))]
pub(crate) use serve::{Callers, serve_callers};
pub use serve::{serve, serve_only_client};

use std::time::Duration;

use longhaul_proto::jsonrpc::Limits;

/// Bounds on one connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The size and depth of a message.
    pub limits: Limits,
    /// How many exchanges may be open at once before reading stops. Default 256.
    pub max_open: usize,
    /// How long open answers may take to end once the server is asked to stop. Default 10 s.
    pub drain: Duration,
}

impl Options {
    /// Bounds the size and depth of a message.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets this many exchanges be open at once.
    #[must_use]
    pub fn max_open(mut self, max_open: usize) -> Self {
        self.max_open = max_open;
        self
    }

    /// Gives open answers this long to end once the server is asked to stop.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), max_open: 256, drain: Duration::from_secs(10) }
    }
}

/// How long the answers to what did not end in time have to be written.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a connection ended in failure. That the peer went away is not one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The input cannot be read.
    #[error("the input cannot be read")]
    Read(#[source] std::io::Error),
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Write(#[source] std::io::Error),
}
