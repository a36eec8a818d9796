//! A client and a server in one process.

#[cfg(feature = "client")]
mod served;

use tokio::io::{DuplexStream, duplex};

#[cfg(feature = "client")]
pub use served::{serve, serve_caller};

/// How many bytes wait in each direction before the writer waits too.
const BUFFER: usize = 64 << 10;

/// The two ends of a connection: what is written to one is read from the other. Dropping one ends both.
pub fn pair() -> (DuplexStream, DuplexStream) {
    duplex(BUFFER)
}
