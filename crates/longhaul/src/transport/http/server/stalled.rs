//! A connection that ends when its peer stops reading: nobody may hold one, and what waits in it, for ever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::waiting::Connection;
use super::writing::Answers;

/// As many bytes are put together before they are written: the system takes longer for a list of pieces than copying takes.
const TOGETHER: usize = 1 << 10;

/// The pieces as one, if they are one or there is room for them.
fn joined<'t>(pieces: &'t [io::IoSlice<'_>], together: &'t mut [u8; TOGETHER]) -> Option<&'t [u8]> {
    if let [piece] = pieces {
        return Some(piece);
    }
    if pieces.iter().map(|piece| piece.len()).sum::<usize>() > TOGETHER {
        return None;
    }
    let mut end = 0;
    for piece in pieces {
        let begin = end;
        end += piece.len();
        together.get_mut(begin..end)?.copy_from_slice(piece);
    }
    together.get(..end)
}

/// A stream whose writes fail once they have made no progress for so long.
#[derive(Debug)]
pub(super) struct UntilStalled<S> {
    stream: S,
    patience: Duration,
    connection: Arc<Connection>,
    answers: Arc<Answers>,
    /// Runs while a write waits for the peer.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> UntilStalled<S> {
    pub(super) fn new(
        stream: S,
        patience: Duration,
        connection: Arc<Connection>,
        answers: Arc<Answers>,
    ) -> Self {
        Self { stream, patience, connection, answers, stalled: None }
    }

    /// Lets a write that makes progress through, and one that makes none wait for so long.
    fn bounded<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                self.connection.stalls(false);
                self.answers.went_on();
            }
            return written;
        }
        let timer = self.stalled.get_or_insert_with(|| {
            self.connection.stalls(true);
            Box::pin(tokio::time::sleep(self.patience))
        });
        timer.as_mut().poll(cx).map(|()| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read what is written to it"))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UntilStalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UntilStalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut together = [0; TOGETHER];
        let stream = Pin::new(&mut self.stream);
        let written = match joined(bytes, &mut together) {
            Some(bytes) => stream.poll_write(cx, bytes),
            None => stream.poll_write_vectored(cx, bytes),
        };
        self.bounded(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::super::waiting::Waiting;
    use super::super::writing::Writing;
    use super::*;

    #[test]
    fn few_bytes_are_written_as_one_piece_and_many_are_not_copied() {
        let mut together = [0; TOGETHER];
        let of = |pieces: &[&[u8]], together: &mut [u8; TOGETHER]| {
            let pieces: Vec<_> = pieces.iter().map(|piece| io::IoSlice::new(piece)).collect();
            joined(&pieces, together).map(<[u8]>::to_vec)
        };
        assert_eq!(of(&[b"head", b"", b"body"], &mut together).as_deref(), Some(&b"headbody"[..]));
        assert_eq!(of(&[&[1; 1000], &[2; 24]], &mut together).map(|bytes| bytes.len()), Some(TOGETHER));
        assert_eq!(of(&[&[1; 1000], &[2; 25]], &mut together), None);
        assert_eq!(of(&[], &mut together).as_deref(), Some(&b""[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stops_reading_is_left_and_one_that_is_slow_is_not() {
        let (mut peer, ours) = tokio::io::duplex(16);
        let connection = Connection::new(&Arc::new(Waiting::new(1)));
        let answers = Arc::new(Writing::new(0)).begin(connection.dismissal());
        let mut ours = UntilStalled::new(ours, Duration::from_secs(30), connection, answers);
        let reads = async {
            let mut buffer = [0; 16];
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(29)).await;
                peer.read_exact(&mut buffer).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[1; 80]), reads);
        written.unwrap();
        let began = Instant::now();
        let stalled = ours.write_all(&[1; 1]).await.unwrap_err();
        assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 30);
        drop(peer);
    }
}
