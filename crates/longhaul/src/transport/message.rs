//! Transports of one's own: whatever carries whole messages, as the lines that connections are driven by.
//!
//! Such a transport is two halves, so that either direction can wait without the other: where messages come from
//! ([`Receive`]) and where they go ([`Transmit`]). [`lines`] makes of them the reader and the writer that
//! [`driver::serve`](crate::driver::serve) and [`Target::stream`](crate::client::Target::stream) take. What is left to
//! the transport is who may connect, how large a message may be and how long a silent peer is believed to be there.
//! `examples/websocket` is one from end to end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Where the messages of the peer come from.
pub trait Receive: Send + 'static {
    /// The next message, whole; `None` when no more will come.
    ///
    /// It is asked for one at a time, and the future is dropped unfinished only when the connection ends.
    ///
    /// # Errors
    ///
    /// When the connection has failed, which ends it.
    fn receive(&mut self) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;
}

/// Where messages go.
pub trait Transmit: Send + 'static {
    /// Sends a message. The next comes when this is done.
    ///
    /// # Errors
    ///
    /// When the connection has failed, which ends it. [`BrokenPipe`](io::ErrorKind::BrokenPipe) says that the peer has
    /// gone, which is how a connection may end.
    fn transmit(&mut self, message: Vec<u8>) -> impl Future<Output = io::Result<()>> + Send;

    /// Says that no more will come. Most transports say so by being dropped.
    ///
    /// # Errors
    ///
    /// When the connection has failed.
    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        async { Ok(()) }
    }
}

/// The two halves of a transport as a reader and a writer of lines, one message each.
///
/// # Examples
///
/// ```
/// use std::io;
///
/// use longhaul::transport::message::{Receive, Transmit, lines};
/// use longhaul::{Client, Server, client::Target, driver, server::local_user};
/// use tokio::sync::mpsc;
///
/// struct Inbox(mpsc::Receiver<Vec<u8>>);
/// struct Outbox(mpsc::Sender<Vec<u8>>);
///
/// impl Receive for Inbox {
///     async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
///         Ok(self.0.recv().await)
///     }
/// }
///
/// impl Transmit for Outbox {
///     async fn transmit(&mut self, message: Vec<u8>) -> io::Result<()> {
///         self.0.send(message).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
///     }
/// }
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (to_server, requests) = mpsc::channel(16);
/// let (to_client, answers) = mpsc::channel(16);
///
/// let dispatcher = Server::new("greeter", "1.0.0").dispatcher()?;
/// let (reader, writer) = lines(Inbox(requests), Outbox(to_client));
/// let options = driver::Options::default();
/// tokio::spawn(driver::serve(dispatcher, local_user(), reader, writer, options, std::future::pending()));
///
/// let (reader, writer) = lines(Inbox(answers), Outbox(to_server));
/// let client = Client::connect(Target::stream(reader, writer)).await?;
/// client.ping().await?;
/// # Ok(()) }
/// ```
pub fn lines(
    receive: impl Receive,
    transmit: impl Transmit,
) -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
    let reader = Reader { half: Half::Idle(receive), line: Vec::new(), read: 0 };
    (reader, Writer { half: Half::Idle(transmit), line: Vec::new(), closed: false })
}

/// A message as one line: its own line ends can only stand between the parts of JSON.
pub(crate) fn one_line(mut message: Vec<u8>) -> Vec<u8> {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message
}

type Working<H, T> = Pin<Box<dyn Future<Output = (H, io::Result<T>)> + Send>>;

/// One half of a transport. What it works on holds it, so that nobody has to poll it to its end.
enum Half<H, T> {
    Idle(H),
    Working(Working<H, T>),
    /// It has ended, or has failed.
    Over,
}

/// It is never pinned in here.
impl<H, T> Unpin for Half<H, T> {}

impl<H, T> Half<H, T> {
    /// Begins `work`, if it is idle.
    fn start<F>(&mut self, work: impl FnOnce(H) -> F)
    where
        F: Future<Output = (H, io::Result<T>)> + Send + 'static,
    {
        *self = match std::mem::replace(self, Self::Over) {
            Self::Idle(half) => Self::Working(Box::pin(work(half))),
            busy => busy,
        };
    }

    /// What it has worked on, once that is done; `None` if it does nothing. A failure is its end.
    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<T>>> {
        let Self::Working(work) = self else { return Poll::Ready(Ok(None)) };
        let (half, done) = ready!(work.as_mut().poll(cx));
        *self = if done.is_ok() { Self::Idle(half) } else { Self::Over };
        Poll::Ready(done.map(Some))
    }
}

struct Reader<R> {
    half: Half<R, Option<Vec<u8>>>,
    line: Vec<u8>,
    read: usize,
}

impl<R: Receive> AsyncRead for Reader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.read == this.line.len() {
            this.half.start(async |mut half| {
                let received = half.receive().await;
                (half, received)
            });
            match ready!(this.half.poll_done(cx))? {
                Some(Some(message)) => (this.line, this.read) = (one_line(message), 0),
                Some(None) => this.half = Half::Over,
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = buffer.remaining().min(this.line.len() - this.read);
        buffer.put_slice(&this.line[this.read..this.read + taken]);
        this.read += taken;
        Poll::Ready(Ok(()))
    }
}

struct Writer<T> {
    half: Half<T, ()>,
    line: Vec<u8>,
    closed: bool,
}

impl<T: Transmit> AsyncWrite for Writer<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.half.poll_done(cx))?;
        if matches!(this.half, Half::Over) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            this.line.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        };
        this.line.extend_from_slice(&bytes[..end]);
        let message = std::mem::take(&mut this.line);
        this.half.start(async move |mut half: T| {
            let sent = half.transmit(message).await;
            (half, sent)
        });
        Poll::Ready(Ok(end + 1))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half.poll_done(cx).map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.half.poll_done(cx))?;
        if !std::mem::replace(&mut this.closed, true) {
            this.half.start(async |mut half: T| {
                let closed = half.close().await;
                (half, closed)
            });
        }
        this.half.poll_done(cx).map_ok(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc;

    use super::*;

    struct Inbox(Vec<Vec<u8>>);

    impl Receive for Inbox {
        async fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
            tokio::task::yield_now().await;
            Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
        }
    }

    struct Outbox(mpsc::Sender<Vec<u8>>);

    impl Transmit for Outbox {
        async fn transmit(&mut self, message: Vec<u8>) -> io::Result<()> {
            self.0.send(message).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }

        async fn close(&mut self) -> io::Result<()> {
            self.transmit(b"closed".to_vec()).await
        }
    }

    #[tokio::test]
    async fn each_message_is_one_line_and_each_line_one_message() {
        let (sender, mut sent) = mpsc::channel(1);
        let inbox = Inbox(vec![b"{\n\"a\":\r\n1}".to_vec(), b"{}".to_vec()]);
        let (mut reader, mut writer) = lines(inbox, Outbox(sender));
        let mut read = String::new();
        reader.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "{ \"a\":  1}\n{}\n");

        let write = async {
            writer.write_all(b"one\ntw").await.unwrap();
            writer.write_all(b"o\nthree\n").await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let ((), ()) = tokio::join!(write, async {
            for message in ["one", "two", "three", "closed"] {
                assert_eq!(sent.recv().await.unwrap(), message.as_bytes());
            }
        });
        drop(sent);
        let failed = async {
            writer.write_all(b"four\n").await?;
            writer.flush().await
        };
        assert_eq!(failed.await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(writer.write_all(b"five\n").await.is_err(), "a failure is the end");
    }
}
