//! This process's standard input and output.

use tokio::io::{AsyncRead, AsyncWrite};

/// The reader and writer of this process's standard streams.
///
/// Whoever uses them must be the only one that does: a stray line on standard output is a protocol
/// error at the other end.
pub fn stdio() -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin) {
    (tokio::io::stdin(), tokio::io::stdout())
}
