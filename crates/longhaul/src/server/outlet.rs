//! Where a running call's notifications go, in one order with its answer.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
#[cfg(feature = "http")]
use std::task::{Context, Poll};

use longhaul_proto::connection::Serial;
use longhaul_proto::jsonrpc::RequestId;
#[cfg(feature = "http")]
use tokio::sync::watch;
use tokio::sync::{mpsc, oneshot};

#[cfg(feature = "http")]
use super::again::Again;

use super::answer::Answered;
use super::own_stream::{StreamReceiver, StreamSender, own_stream};

/// What a call sends towards its caller.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outgoing {
    /// A notification that belongs to an exchange.
    #[non_exhaustive]
    Notification {
        /// Which exchange; `None` if it belongs to none, or the stream carries only one.
        serial: Option<Serial>,
        /// The whole message.
        message: Vec<u8>,
        /// Tells who sent it that it has been taken from the stream, by being dropped.
        taken: Option<Taken>,
    },
    /// The answer, which ends the exchange.
    #[non_exhaustive]
    Answer {
        /// Which request it answers.
        id: RequestId,
        /// Which exchange.
        serial: Serial,
        /// How it answers.
        answered: Answered,
        /// The whole message.
        message: Vec<u8>,
    },
    /// The connection may be closed, for its client to come back for the rest.
    LetGo,
}

/// Tells by being dropped that a message has left its stream.
#[derive(Debug)]
pub struct Taken(#[expect(dead_code, reason = "it is dropped")] oneshot::Sender<()>);

impl Outgoing {
    /// The answer `message` to request `id`.
    pub fn answer(id: RequestId, serial: Serial, answered: Answered, message: Vec<u8>) -> Self {
        Self::Answer { id, serial, answered, message }
    }

    /// A notification that belongs to no request.
    pub fn pushed(message: Vec<u8>) -> Self {
        Self::Notification { serial: None, message, taken: None }
    }
}

/// Where messages go that belong to no request: the stream of a session, or the one stream of a
/// connection.
pub trait Push: fmt::Debug + Send + Sync + 'static {
    /// Sends a message if there is room for it. One that is not sent is lost: nobody may rely on it.
    fn push(&self, message: Vec<u8>);

    /// The same of what every server that knows the client has for it: none needs to hear of it by another.
    fn push_here(&self, message: Vec<u8>) {
        self.push(message);
    }

    /// Whether a client is there. Unless it is said otherwise, nobody knows.
    fn reach(&self) -> Reach {
        Reach::Away
    }

    /// Sends a message that the client is to answer, if it is there and there is room; gives what knows for how long
    /// it is there.
    fn ask(&self, message: Vec<u8>) -> Option<Box<dyn Carrier>> {
        let _ = message;
        None
    }
}

/// Whether a client hears what belongs to no request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "it is there, it may come back, or it will not")]
pub enum Reach {
    /// It is there.
    Here,
    /// It may come back.
    Away,
    /// Its session or its connection has ended.
    Gone,
}

/// What carries a message to a client that is to answer it.
pub trait Carrier: fmt::Debug + Send + Sync {
    /// Whether the client is there still. One that comes back by another stream has not seen the message.
    fn is_there(&self) -> bool;
}

/// The channel of a connection that carries many exchanges.
#[derive(Clone, Debug)]
pub struct ConnectionPush(mpsc::Sender<Outgoing>);

impl ConnectionPush {
    /// Pushes into `sender`.
    pub fn new(sender: mpsc::Sender<Outgoing>) -> Self {
        Self(sender)
    }
}

impl Push for ConnectionPush {
    fn push(&self, message: Vec<u8>) {
        if self.0.try_send(Outgoing::pushed(message)).is_err() {
            tracing::debug!("a notification found no room");
        }
    }

    fn reach(&self) -> Reach {
        if self.0.is_closed() { Reach::Gone } else { Reach::Here }
    }

    fn ask(&self, message: Vec<u8>) -> Option<Box<dyn Carrier>> {
        self.0.try_send(Outgoing::pushed(message)).ok()?;
        Some(Box::new(ConnectionCarrier(self.0.downgrade())))
    }
}

/// A connection is there until it ends.
#[derive(Debug)]
struct ConnectionCarrier(mpsc::WeakSender<Outgoing>);

impl Carrier for ConnectionCarrier {
    fn is_there(&self) -> bool {
        self.0.upgrade().is_some_and(|sender| !sender.is_closed())
    }
}

/// A push that waits until the answer is on its way: nobody should hear of a task before it knows it has
/// one.
#[derive(Debug)]
pub(crate) struct HeldPush {
    push: Arc<dyn Push>,
    /// What waits; `None` once the answer is on its way.
    waiting: Mutex<Option<Vec<Vec<u8>>>>,
}

/// How many messages wait for an answer to be on its way; later ones are lost, as any push may be.
const HELD_BOUND: usize = 16;

impl HeldPush {
    pub(crate) fn new(push: Arc<dyn Push>) -> Self {
        Self { push, waiting: Mutex::new(Some(Vec::new())) }
    }

    fn is_held(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The answer is on its way: what waited follows it.
    pub(crate) fn release(&self) {
        let waited = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        for message in waited.into_iter().flatten() {
            self.push.push(message);
        }
    }
}

impl Push for HeldPush {
    fn push(&self, message: Vec<u8>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.as_mut() {
            Some(waiting) if waiting.len() < HELD_BOUND => waiting.push(message),
            Some(_) => tracing::debug!("a notification found no room"),
            None => self.push.push(message),
        }
    }

    fn reach(&self) -> Reach {
        match self.push.reach() {
            // Nobody is asked before its answer is on its way.
            Reach::Here if self.is_held() => Reach::Away,
            reach => reach,
        }
    }

    fn ask(&self, message: Vec<u8>) -> Option<Box<dyn Carrier>> {
        if self.is_held() { None } else { self.push.ask(message) }
    }
}

/// How a call reaches its caller while it runs.
///
/// Most calls send nothing before their answer, so a stream of one exchange opens its channel only when
/// it is first used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outlet {
    /// The shared channel of a connection that carries many exchanges.
    #[non_exhaustive]
    Shared {
        /// Marks what is sent.
        serial: Serial,
        /// The connection's channel.
        sender: mpsc::Sender<Outgoing>,
        /// Something was sent.
        used: AtomicBool,
    },
    /// The stream of this exchange alone.
    #[non_exhaustive]
    Own(Mutex<OwnStream>),
    /// That of a request, which its transport and its call share.
    #[non_exhaustive]
    Lent(Arc<Self>),
    /// Nobody listens.
    None,
}

/// The two ends of a stream that may not have been opened yet.
#[derive(Debug, Default)]
pub struct OwnStream {
    sender: Option<StreamSender>,
    receiver: Option<StreamReceiver>,
    /// Who is to be told when it is opened.
    reader: Option<Waker>,
    /// What carries it on, where its client may lose it and come back.
    carrier: Option<Box<dyn Carrier>>,
    /// How the answer is come by once more, once somebody knows or asks.
    #[cfg(feature = "http")]
    again: Option<watch::Sender<Again>>,
    closed: bool,
}

/// How many messages wait in a stream before the call that sends them waits too.
const STREAM_BOUND: usize = 64;

impl Outlet {
    /// An outlet into the channel of a connection that carries many exchanges.
    pub fn shared(serial: Serial, sender: mpsc::Sender<Outgoing>) -> Self {
        Self::Shared { serial, sender, used: AtomicBool::new(false) }
    }

    /// An outlet of this exchange alone; [`take_stream`](Self::take_stream) is its other end.
    pub fn own() -> Self {
        Self::Own(Mutex::default())
    }

    /// Whether the exchanges of a connection share it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.it(), Self::Shared { .. })
    }

    /// Itself, whoever holds it.
    fn it(&self) -> &Self {
        match self {
            Self::Lent(outlet) => outlet.it(),
            own => own,
        }
    }

    /// The receiving end of an exchange's own stream, once.
    pub fn take_stream(&self) -> Option<StreamReceiver> {
        let Self::Own(stream) = self.it() else { return None };
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.open()?;
        stream.receiver.take()
    }

    /// The next that is sent on an exchange's own stream; `None` if there is nothing more. `taken` is the receiving end,
    /// once there is one: a stream is opened by what is sent, not by who listens.
    #[cfg(feature = "http")]
    pub(crate) fn poll_sent(
        &self,
        taken: &mut Option<StreamReceiver>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Outgoing>> {
        if taken.is_none() {
            let Self::Own(stream) = self.it() else { return Poll::Ready(None) };
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            *taken = stream.receiver.take();
            if taken.is_none() && !stream.closed {
                stream.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        taken.as_mut().map_or(Poll::Ready(None), |receiver| receiver.poll_recv(cx))
    }

    /// What is sent on an exchange's own stream is carried on by `carrier`.
    #[cfg(feature = "http")]
    pub(crate) fn carried_by(&self, carrier: Box<dyn Carrier>) {
        if let Self::Own(stream) = self.it() {
            stream.lock().unwrap_or_else(PoisonError::into_inner).carrier = Some(carrier);
        }
    }

    /// The answer to an exchange of its own stream is come by once more like this, if its process is gone.
    #[cfg(feature = "http")]
    pub(crate) fn found_again(&self, again: Again) {
        if let Self::Own(stream) = self.it() {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            if !stream.closed {
                stream.again().send_if_modified(|known| {
                    // What else is found is found too late.
                    let is_wanted = !known.is_unwanted();
                    if is_wanted {
                        *known = again;
                    }
                    is_wanted
                });
            }
        }
    }

    /// How the answer is come by once more, as far as that is known, from now on.
    #[cfg(feature = "http")]
    pub(crate) fn watch_again(&self) -> Option<watch::Receiver<Again>> {
        let Self::Own(stream) = self.it() else { return None };
        Some(stream.lock().unwrap_or_else(PoisonError::into_inner).again().subscribe())
    }

    /// Whether a message sent now would be heard now, as far as that is known.
    pub(super) fn is_heard(&self) -> bool {
        let Self::Own(stream) = self.it() else { return self.is_open() };
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        !stream.closed && stream.carrier.as_ref().is_none_or(|carrier| carrier.is_there())
    }

    /// Ends an exchange's own stream: what is sent from now on reaches nobody, and a call that lives on
    /// holds no memory for it.
    pub fn close(&self) {
        if let Self::Own(stream) = self.it() {
            let closed = OwnStream { closed: true, ..OwnStream::default() };
            let open = mem::replace(&mut *stream.lock().unwrap_or_else(PoisonError::into_inner), closed);
            if let Some(reader) = open.reader {
                reader.wake();
            }
        }
    }

    /// Whether anything was sent, which an answer must then follow.
    pub(super) fn was_used(&self) -> bool {
        match self.it() {
            Self::Shared { used, .. } => used.load(Ordering::Acquire),
            Self::Own(stream) => stream.lock().unwrap_or_else(PoisonError::into_inner).sender.is_some(),
            Self::Lent(_) | Self::None => false,
        }
    }

    /// Sends a notification if there is room for it; one that is not sent is lost.
    pub(super) fn try_notify(&self, message: Vec<u8>) {
        if let Some((sender, serial)) = self.sender()
            && !sender.try_send(Outgoing::Notification { serial, message, taken: None })
        {
            tracing::debug!("a notification found no room");
        }
    }

    /// Sends word that a question is no longer asked, which follows even the end of the exchange: on the stream that
    /// carried the question while it is open, else where messages go that belong to no request.
    pub(super) fn withdraw(&self, message: Vec<u8>, push: Option<&dyn Push>) {
        let sender = match self.it() {
            Self::Shared { sender, .. } => Some(StreamSender::Shared(sender.clone())),
            Self::Own(stream) => stream.lock().unwrap_or_else(PoisonError::into_inner).sender.clone(),
            Self::Lent(_) | Self::None => None,
        };
        if sender.is_some_and(|sender| sender.try_send(Outgoing::pushed(message.clone()))) {
            return;
        }
        match push {
            Some(push) => push.push(message),
            None => tracing::debug!("a notification found no stream"),
        }
    }

    /// Where to send, marking that something is.
    fn sender(&self) -> Option<(StreamSender, Option<Serial>)> {
        match self.it() {
            Self::Shared { serial, sender, used } => {
                used.store(true, Ordering::Release);
                Some((StreamSender::Shared(sender.clone()), Some(*serial)))
            }
            Self::Own(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                stream.open().map(|sender| (sender.clone(), None))
            }
            Self::Lent(_) | Self::None => None,
        }
    }

    /// Completes once nobody listens to the stream of this exchange alone: its connection is lost, and it cannot be
    /// come back to. The exchanges of a shared channel end with it.
    pub(super) async fn abandoned(&self) {
        if let Self::Own(_) = self.it()
            && let Some((sender, _)) = self.sender()
        {
            return sender.closed().await;
        }
        std::future::pending().await
    }

    /// Whether a notification sent now could reach anybody.
    pub fn is_open(&self) -> bool {
        match self.it() {
            Self::Shared { sender, .. } => !sender.is_closed(),
            Self::Own(stream) => {
                let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                !stream.closed && stream.sender.as_ref().is_none_or(|sender| !sender.is_closed())
            }
            Self::Lent(_) | Self::None => false,
        }
    }

    /// Sends the answer on the stream of this exchange alone, after all that was sent before.
    #[cfg(feature = "http")]
    pub(crate) async fn answer(&self, id: RequestId, serial: Serial, answered: Answered, message: Vec<u8>) {
        let Some((sender, _)) = self.sender() else { return };
        // A closed stream means that the caller is gone: there is nobody to tell.
        sender.send(Outgoing::answer(id, serial, answered, message)).await;
    }

    /// Lets the connection of a stream of this exchange alone go.
    pub(super) async fn let_go(&self) {
        let Self::Own(_) = self.it() else { return };
        let Some((sender, _)) = self.sender() else { return };
        // A closed stream means that the caller is gone already.
        sender.send(Outgoing::LetGo).await;
    }

    /// Sends a notification, waiting while the stream is full. Dropping the future sends nothing.
    pub async fn notify(&self, message: Vec<u8>) {
        let Some((sender, serial)) = self.sender() else { return };
        // A closed stream means that the caller is gone: there is nobody to tell.
        sender.send(Outgoing::Notification { serial, message, taken: None }).await;
    }

    /// Sends a notification and waits until it has been taken from the stream to be written, so that who sends has no
    /// more than one there.
    pub(super) async fn hand(&self, message: Vec<u8>) {
        let Some((sender, serial)) = self.sender() else { return };
        let (taken, is_taken) = oneshot::channel();
        let message = Outgoing::Notification { serial, message, taken: Some(Taken(taken)) };
        if sender.send(message).await {
            // It is never sent, only dropped.
            let _ = is_taken.await;
        }
    }
}

impl OwnStream {
    #[cfg(feature = "http")]
    fn again(&mut self) -> &watch::Sender<Again> {
        self.again.get_or_insert_with(|| watch::channel(Again::default()).0)
    }

    fn open(&mut self) -> Option<&StreamSender> {
        if self.closed {
            return None;
        }
        Some(self.sender.get_or_insert_with(|| {
            let (sender, receiver) = own_stream(STREAM_BOUND);
            self.receiver = Some(receiver);
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
            sender
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;

    #[tokio::test]
    async fn a_stream_that_was_closed_takes_nothing_and_keeps_nobody_waiting() {
        let outlet = Outlet::own();
        let mut stream = outlet.take_stream().unwrap();
        outlet.notify(b"heard".to_vec()).await;
        assert!(
            matches!(stream.recv().await, Some(Outgoing::Notification { message, .. }) if message == b"heard")
        );
        outlet.close();
        assert!(stream.recv().await.is_none() && !outlet.is_open());
        for _ in 0..=STREAM_BOUND {
            outlet.notify(b"unheard".to_vec()).await;
        }
        assert!(outlet.take_stream().is_none());
    }

    #[tokio::test]
    async fn a_stream_is_abandoned_when_its_other_end_is_gone() {
        let outlet = Outlet::own();
        let stream = outlet.take_stream().unwrap();
        let mut abandoned = std::pin::pin!(outlet.abandoned());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(abandoned.as_mut().poll(&mut cx).is_pending());
        drop(stream);
        abandoned.await;
    }
}
