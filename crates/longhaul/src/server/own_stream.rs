//! The channel of one exchange's own stream, or of one stream of a session.

use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::outlet::Outgoing;

/// A channel in which so many messages wait before whoever sends waits, too.
///
/// They are boxed: a channel has room for 32 from its beginning, which is more than all else that is kept of a stream on
/// which nothing is said.
pub(crate) fn own_stream(bound: usize) -> (StreamSender, StreamReceiver) {
    let (sender, receiver) = mpsc::channel(bound);
    (StreamSender::Own(sender), StreamReceiver(receiver))
}

/// The end by which messages are sent.
#[derive(Clone, Debug)]
pub(crate) enum StreamSender {
    /// Of a channel that the exchanges of a connection share, in which something is said all the time.
    Shared(mpsc::Sender<Outgoing>),
    /// Of one that is a stream's own.
    Own(mpsc::Sender<Box<Outgoing>>),
}

impl StreamSender {
    /// Sends a message, waiting while there is no room. `false` if nobody takes it any more. Dropping the future sends nothing.
    pub(crate) async fn send(&self, message: Outgoing) -> bool {
        match self {
            Self::Shared(sender) => sender.send(message).await.is_ok(),
            Self::Own(sender) => sender.send(Box::new(message)).await.is_ok(),
        }
    }

    /// Sends a message if there is room. `false` if it is lost.
    pub(crate) fn try_send(&self, message: Outgoing) -> bool {
        match self {
            Self::Shared(sender) => sender.try_send(message).is_ok(),
            Self::Own(sender) => sender.try_send(Box::new(message)).is_ok(),
        }
    }

    /// Completes once nobody takes messages any more.
    pub(crate) async fn closed(&self) {
        match self {
            Self::Shared(sender) => sender.closed().await,
            Self::Own(sender) => sender.closed().await,
        }
    }

    /// Whether nobody takes messages any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Shared(sender) => sender.is_closed(),
            Self::Own(sender) => sender.is_closed(),
        }
    }
}

/// The end at which they come.
#[derive(Debug)]
pub struct StreamReceiver(mpsc::Receiver<Box<Outgoing>>);

impl StreamReceiver {
    /// The next message; `None` if there are no more.
    pub async fn recv(&mut self) -> Option<Outgoing> {
        self.0.recv().await.map(|message| *message)
    }

    /// The same, for whoever polls.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        self.0.poll_recv(cx).map(|message| message.map(|message| *message))
    }
}
