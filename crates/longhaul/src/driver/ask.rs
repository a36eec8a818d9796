//! Asking one server over a byte stream: who reads, who writes, and how it ends.

use std::sync::{Arc, Mutex, PoisonError};

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::RequestId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::lines::{Line, Lines};
use crate::client::error::Error;
use crate::client::link::Outgoing;
use crate::client::table::{Answered, Reply, Table, too_long, unreadable};
use crate::server::Push;
use crate::trace;
use crate::transport::child::Child;
use crate::wire::{self, By};

/// A connection of a client over a byte stream.
#[derive(Debug)]
pub(crate) struct StreamLink {
    table: Arc<Table>,
    outgoing: mpsc::Sender<Out>,
    reader: JoinHandle<()>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The process at the other end, if we started it.
    child: Option<Child>,
}

/// What the writer is told.
#[derive(Debug)]
enum Out {
    Message(Vec<u8>),
    Close,
}

/// How many messages may wait to be written before their senders wait too.
const OUT_BOUND: usize = 64;

/// How many bytes to read at once, at least.
const READ_ROOM: usize = 16 << 10;

impl StreamLink {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(
        table: Arc<Table>,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        child: Option<Child>,
    ) -> Self {
        let (outgoing, queue) = mpsc::channel(OUT_BOUND);
        let reader = tokio::spawn(read(Arc::clone(&table), reader, outgoing.clone()));
        let writer = tokio::spawn(write(Arc::clone(&table), writer, queue));
        Self { table, outgoing, reader, writer: Mutex::new(Some(writer)), child }
    }

    pub(crate) async fn ask(&self, request: &Outgoing<'_>) -> Result<Answered, Error> {
        let answered = self.exchange(request).await;
        match (answered, &self.child) {
            (Err(lost @ Error::Lost { .. }), Some(child)) => Err(child.obituary().await.unwrap_or(lost)),
            (answered, _) => answered,
        }
    }

    async fn exchange(&self, request: &Outgoing<'_>) -> Result<Answered, Error> {
        let mut waiting = self.table.start(request)?;
        let message = request.message(&waiting);
        if let Err(error) = self.send(message).await {
            waiting.settle();
            return Err(error);
        }
        if request.cancellable {
            let (outgoing, dialect) = (self.outgoing.clone(), request.dialect);
            waiting.on_abandon(move |id| send_cancelled(&outgoing, dialect, id));
        }
        waiting.answered().await
    }

    pub(crate) async fn notify(&self, message: Vec<u8>) -> Result<(), Error> {
        self.send(message).await
    }

    async fn send(&self, mut message: Vec<u8>) -> Result<(), Error> {
        trace::sent(&message);
        message.push(b'\n');
        let sent = self.outgoing.send(Out::Message(message)).await;
        sent.map_err(|_| self.table.ended().unwrap_or(Error::Lost { cause: None }))
    }

    /// Where messages go that nobody waits for.
    pub(crate) fn push(&self) -> Arc<dyn Push> {
        Arc::new(StreamPush(self.outgoing.downgrade()))
    }

    /// Writes what waits, closes the output, and lets the process at the other end go.
    pub(crate) async fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut writer) = writer {
            // A closed channel means that the writer has ended already.
            let _ = self.outgoing.send(Out::Close).await;
            let grace = self.table.options().close_grace;
            if tokio::time::timeout(grace, &mut writer).await.is_err() {
                // The peer does not read: what waits is lost.
                writer.abort();
            }
        }
        if let Some(child) = &self.child {
            child.end().await;
        }
        self.reader.abort();
        self.table.end(Error::Lost { cause: None });
    }
}

impl Drop for StreamLink {
    fn drop(&mut self) {
        self.reader.abort();
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            writer.abort();
        }
    }
}

/// The output of a connection, while there is one.
#[derive(Debug)]
struct StreamPush(mpsc::WeakSender<Out>);

impl Push for StreamPush {
    fn push(&self, message: Vec<u8>) {
        let sent = self.0.upgrade().map(|outgoing| outgoing.try_send(Out::Message(terminated(message))));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!("a notification found no room");
        }
    }
}

/// Says that a request is no longer wanted, from wherever its future was dropped.
fn send_cancelled(outgoing: &mpsc::Sender<Out>, dialect: &'static Dialect, id: &RequestId) {
    let Some(mut message) = wire::cancelled(By::Client, dialect, id, "no longer wanted") else { return };
    trace::sent(&message);
    message.push(b'\n');
    if let Err(mpsc::error::TrySendError::Full(message)) = outgoing.try_send(Out::Message(message))
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        let outgoing = outgoing.clone();
        runtime.spawn(async move {
            // A closed channel means that the connection has ended: nothing is left to cancel.
            let _ = outgoing.send(message).await;
        });
    }
}

async fn read(table: Arc<Table>, mut reader: impl AsyncRead + Unpin, outgoing: mpsc::Sender<Out>) {
    let limit = table.options().limits.max_bytes;
    let mut lines = Lines::new(limit);
    let why = loop {
        while let Some(line) = lines.next() {
            let handled = match line {
                Line::Whole(bytes) => handle(&table, bytes),
                // What it is its end may say.
                Line::TooLong => None,
                Line::Skipped { head, tail } => match table.handle_too_long(head, tail) {
                    Ok(reply) => reply,
                    Err(error) => return table.end(error),
                },
            };
            match handled {
                None => {}
                Some(Reply::Now(reply)) => {
                    let sent = outgoing.send(Out::Message(terminated(reply))).await;
                    if sent.is_err() {
                        break;
                    }
                }
                Some(Reply::Later(reply)) => {
                    let outgoing = outgoing.clone();
                    tokio::spawn(async move {
                        // A closed channel means that the connection has ended: nobody is there to be answered.
                        let said = reply.await;
                        let Ok(room) = outgoing.reserve().await else { return };
                        said.send(|message| room.send(Out::Message(terminated(message))));
                    });
                }
            }
        }
        if lines.skipped() > limit.saturating_mul(LONGEST_SKIPPED) {
            return table.end(too_long(limit));
        }
        match reader.read_buf(lines.space(READ_ROOM)).await {
            Ok(0) => break Error::Lost { cause: None },
            Ok(_) => {}
            Err(error) => break Error::lost(error),
        }
    };
    let rest = lines.rest();
    if !rest.is_empty() {
        // A last message without its line end counts; nobody is there to be answered.
        let _ = handle(&table, rest);
    }
    table.end(why);
}

/// How many times the limit a message may be long to be passed over: a line without an end is none.
const LONGEST_SKIPPED: usize = 64;

/// Handles a line. One that is no message is passed over: many servers print to their standard output. So is an answer that is none,
/// whose request then fails.
fn handle(table: &Arc<Table>, bytes: &[u8]) -> Option<Reply> {
    table.handle_message(bytes).unwrap_or_else(|error| {
        tracing::debug!(%error, line = unreadable(bytes), "passed over a line that is no message");
        table.say(&unreadable(bytes));
        table.handle_unreadable(bytes, &error);
        None
    })
}

/// A message as a line.
fn terminated(mut message: Vec<u8>) -> Vec<u8> {
    trace::sent(&message);
    message.push(b'\n');
    message
}

async fn write(table: Arc<Table>, mut writer: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Out>) {
    while let Some(Out::Message(mut message)) = queue.recv().await {
        let mut closing = false;
        while message.len() < BATCH {
            match queue.try_recv() {
                Ok(Out::Message(next)) => message.extend_from_slice(&next),
                Ok(Out::Close) => {
                    closing = true;
                    break;
                }
                Err(_) => break,
            }
        }
        if let Err(error) = put(&mut writer, &message).await {
            return table.end(Error::lost(error));
        }
        if closing {
            break;
        }
    }
    if let Err(error) = writer.shutdown().await {
        tracing::debug!(%error, "the output did not close in order");
    }
}

/// How many bytes to gather before they are written.
const BATCH: usize = 64 << 10;

async fn put(writer: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> std::io::Result<()> {
    writer.write_all(message).await?;
    writer.flush().await
}
