//! The loop that pumps a connection over a byte stream: one line, one message.
//!
//! Reading stops while as many exchanges are
//! open as allowed, so that memory stays flat however fast a client writes.

mod ask;
mod exchanges;
pub(crate) mod lines;
mod serve;

pub(crate) use ask::StreamLink;
pub(crate) use exchanges::Exchanges;
pub use serve::serve;

use longhaul_proto::jsonrpc::Limits;

/// Bounds on one connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The size and depth of a message.
    pub limits: Limits,
    /// How many exchanges may be open at once before reading stops. Default 256.
    pub max_open: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), max_open: 256 }
    }
}

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
