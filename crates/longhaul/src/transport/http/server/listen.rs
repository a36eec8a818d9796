//! Where connections come from.

use std::future::Future;
use std::io;

use http::Extensions;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use super::Peer;

/// Where connections come from: a TCP listener, a `Socket` of this machine, or one's own, such as TLS over either.
///
/// Connections are accepted one after the other, so `accept` must only accept: a handshake belongs to the first read of
/// the stream, where a silent peer keeps nobody else waiting.
pub trait Listen: Send + Sync {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection, and what it tells of who is at its other end, which holds for each of its requests: a
    /// [`Peer`], or a [`Caller`](crate::server::Caller), who counts where there is no guard.
    ///
    /// Dropping the future loses no connection. After an error it is asked again, a moment later.
    ///
    /// # Errors
    ///
    /// When this one could not be accepted.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Extensions)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Extensions)> {
        let (stream, address) = Self::accept(self).await?;
        // Small answers must not wait for the acknowledgement of the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was refused");
        }
        let mut known = Extensions::new();
        if let Some(peer) = Peer::of(address) {
            known.insert(peer);
        }
        Ok((stream, known))
    }
}
