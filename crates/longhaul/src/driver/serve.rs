//! Serving one client over a byte stream.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_proto::connection::Serial;
use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{
    Code, DecodeError, ErrorObject, Message, Notification, Request, RequestId, is_batch, join_batch,
    split_batch,
};
use longhaul_proto::method::Method;
use longhaul_proto::model::RequestMeta;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::lines::{Line, Lines};
use super::{DriverError, Exchanges, LAST_WORDS, Options};
use crate::server::{Caller, ConnectionPush, Dispatched, Dispatcher, Outgoing, Outlet, Principal, Push};
use crate::trace;
use crate::wire::{self, By};

/// Serves one client of several until its input ends, then returns at once. Calls that are still running end, as
/// their caller is gone; what has become durable goes on. Dropping the future does the same.
///
/// When `shutdown` completes first, nothing more is read. Open answers may end for [`Options::drain`], and it returns
/// once the last is written. Nobody is handed over: that is for a server that ends with all its clients, as
/// [`serve_only_client`] does.
///
/// # Errors
///
/// When the input cannot be read, or the output cannot be written for another reason than that the
/// client has gone.
pub async fn serve(
    dispatcher: Dispatcher,
    principal: Principal,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), DriverError> {
    let caller = Callers::One(Caller::new(Some(principal)));
    serve_callers(dispatcher, caller, reader, writer, options, shutdown, Duration::ZERO).await
}

/// Who sends the lines of a connection.
pub(crate) enum Callers {
    /// The same for all.
    One(Caller),
    /// Each line has its own, who is there when it is read. All are of one principal.
    #[cfg(feature = "http")]
    EachLine(mpsc::Receiver<Caller>),
}

impl Callers {
    /// Who sends the next line; `None` if nobody has said so.
    fn next(&mut self) -> Option<Caller> {
        match self {
            Self::One(caller) => Some(caller.clone()),
            #[cfg(feature = "http")]
            Self::EachLine(callers) => callers.try_recv().ok(),
        }
    }
}

/// As [`serve`], for callers of whom other things may be known; after the time that open answers have, what is
/// answered within `last_words` is written too.
pub(crate) async fn serve_callers(
    dispatcher: Dispatcher,
    callers: Callers,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    options: Options,
    shutdown: impl Future<Output = ()>,
    last_words: Duration,
) -> Result<(), DriverError> {
    let limit = options.drain;
    let (stop, stopping) = oneshot::channel();
    let time_is_up = async move {
        shutdown.await;
        // A closed channel means that the connection has just ended.
        let _ = stop.send(());
        tokio::time::sleep(limit).await;
        tracing::warn!("some answers did not end in time");
        tokio::time::sleep(last_words).await;
    };
    tokio::select! {
        served = pump(dispatcher, callers, reader, writer, options, stopping) => served,
        () = time_is_up => Ok(()),
    }
}

/// As [`serve`], for the one client of a server that ends with it: when `shutdown` completes, held calls are made
/// durable and handed over. The dispatcher begins nothing lasting after that, for any client.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_only_client(
    dispatcher: Dispatcher,
    principal: Principal,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), DriverError> {
    let (engine, limit) = (dispatcher.engine().clone(), options.drain);
    let (caller, ended) = (Callers::One(Caller::new(Some(principal))), dispatcher.clone());
    let (stop, stopping) = oneshot::channel();
    let stopped = async {
        // The sender lives as long as this is waited for.
        let _ = stopping.await;
    };
    let draining = async move {
        shutdown.await;
        // A closed channel means that the connection has just ended.
        let _ = stop.send(());
        tokio::join!(engine.drain(limit), tokio::time::sleep(limit));
        // Who waits still is answered, for its call ends with this process.
        engine.leave();
        std::future::pending().await
    };
    let served = tokio::select! {
        served = serve_callers(dispatcher, caller, reader, writer, options, stopped, LAST_WORDS) => served,
        never = draining => never,
    };
    ended.has_ended();
    served
}

/// Moves messages until the input ends, or until it is told to stop and nothing is open any more.
async fn pump(
    dispatcher: Dispatcher,
    callers: Callers,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    options: Options,
    mut stopping: oneshot::Receiver<()>,
) -> Result<(), DriverError> {
    let mut stops = false;
    let mut lines = Lines::new(options.limits.max_bytes);
    let (mut loop_, mut outgoing) = Loop::new(dispatcher, callers, options);
    loop {
        while !stops && loop_.reads_on() {
            match lines.next() {
                Some(line) => loop_.handle_line(line),
                None => break,
            }
        }
        if !loop_.out.is_empty() {
            match flush(&mut writer, &mut loop_.out).await {
                Ok(()) => continue,
                Err(error) if is_gone(&error) => return Ok(()),
                Err(error) => return Err(DriverError::Write(error)),
            }
        }
        if stops && loop_.exchanges.open() == 0 {
            return finish(writer, Vec::new()).await;
        }
        tokio::select! {
            read = reader.read_buf(lines.space(READ_ROOM)), if !stops && loop_.reads_on() => match read {
                Ok(0) => {
                    loop_.handle_last_line(lines.rest());
                    let out = std::mem::take(&mut loop_.out);
                    drop(loop_);
                    return finish(writer, out).await;
                }
                Ok(_) => {}
                Err(error) => return Err(DriverError::Read(error)),
            },
            Some(message) = outgoing.recv() => loop_.handle_outgoing(message),
            Some(_) = loop_.running.join_next() => {}
            Ok(()) = &mut stopping, if !stops => stops = true,
        }
        while loop_.out.len() < OUT_BOUND
            && let Ok(message) = outgoing.try_recv()
        {
            loop_.handle_outgoing(message);
        }
    }
}

/// How many bytes to read at once, at least.
const READ_ROOM: usize = 64 << 10;

/// How many bytes of answers may wait before they are written.
const OUT_BOUND: usize = 64 << 10;

/// How many messages of running calls may wait before those calls wait too.
const OUTGOING_BOUND: usize = 256;

/// The state between two waits.
struct Loop {
    dispatcher: Dispatcher,
    callers: Callers,
    /// Who sent the line that is being handled.
    caller: Caller,
    options: Options,
    exchanges: Exchanges,
    running: JoinSet<()>,
    /// What runs for a batch, whose answers leave together.
    batched: HashMap<Serial, Arc<Batch>>,
    sender: mpsc::Sender<Outgoing>,
    /// Where messages go that belong to no request.
    push: Arc<dyn Push>,
    out: Vec<u8>,
}

/// The answers to a batch that are there already. Whoever still has one to give holds it.
#[derive(Debug, Default)]
struct Batch(Mutex<Vec<Vec<u8>>>);

impl Batch {
    fn add(&self, mut answer: Vec<u8>) {
        answer.truncate(answer.trim_ascii_end().len());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }

    fn into_answers(self) -> Vec<Vec<u8>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Loop {
    /// However it ends, nobody is there any more to be answered.
    fn drop(&mut self) {
        self.exchanges.close();
    }
}

impl Loop {
    fn new(dispatcher: Dispatcher, callers: Callers, options: Options) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, outgoing) = mpsc::channel(OUTGOING_BOUND);
        let this = Self {
            exchanges: Exchanges::new(&dispatcher, options.max_open),
            dispatcher,
            callers,
            caller: Caller::default(),
            options,
            running: JoinSet::new(),
            batched: HashMap::new(),
            push: Arc::new(ConnectionPush::new(sender.clone())),
            sender,
            out: Vec::new(),
        };
        (this, outgoing)
    }

    /// What is asked of the client is answered among its requests, so that a full connection that waits for answers
    /// is read as well; its requests are refused meanwhile.
    fn reads_on(&self) -> bool {
        (!self.exchanges.is_full() || self.exchanges.asks()) && self.out.len() < OUT_BOUND
    }

    fn handle_line(&mut self, line: Line<'_>) {
        // It was refused where it became too long.
        if let Line::Skipped { .. } = line {
            return;
        }
        let Some(caller) = self.callers.next() else {
            tracing::error!("a line came without its sender");
            return self
                .refuse(None, &ErrorObject::internal("internal error: the message could not be taken"));
        };
        self.caller = caller;
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::TooLong | Line::Skipped { .. } => {
                let limit = self.options.limits.max_bytes;
                return self.refuse(None, &DecodeError::TooLong { limit }.to_error_object());
            }
        };
        trace::received(bytes);
        if is_batch(bytes) && self.exchanges.dialect().is_some_and(Dialect::batches) {
            return self.handle_batch(bytes);
        }
        self.handle_message(bytes);
    }

    fn handle_message(&mut self, bytes: &[u8]) {
        match Message::decode(bytes, &self.options.limits) {
            Ok(Message::Request(request)) => {
                let _ = self.handle_request(&request);
            }
            Ok(Message::Notification(notification)) => self.handle_notification(&notification),
            // A line tells nobody what has become of an answer.
            Ok(Message::Response(response)) => {
                let stray = || self.dispatcher.answered_astray(&self.caller.owner());
                drop(self.exchanges.handle_response(response, stray));
            }
            Err(error) => self.refuse(error.id(), &error.to_error_object()),
        }
    }

    /// The input ended in the middle of a line: if that is a message all the same, it counts.
    fn handle_last_line(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.handle_line(Line::Whole(rest));
        }
    }

    /// Each message as if it had come alone, but that the answers leave together.
    fn handle_batch(&mut self, bytes: &[u8]) {
        let messages = match split_batch(bytes, &self.options.limits) {
            Ok(messages) => messages,
            Err(error) => return self.refuse(None, &error.to_error_object()),
        };
        let batch = Arc::new(Batch::default());
        for message in messages {
            let start = self.out.len();
            match Message::decode(message, &self.options.limits) {
                Ok(Message::Request(request)) => {
                    let serial = if self.opens_session(&request) {
                        let what = "invalid request: `initialize` cannot be part of a batch";
                        self.refuse(Some(&request.id), &ErrorObject::new(Code::INVALID_REQUEST, what));
                        None
                    } else {
                        self.handle_request(&request)
                    };
                    self.batched.extend(serial.map(|serial| (serial, Arc::clone(&batch))));
                }
                _ => self.handle_message(message),
            }
            if self.out.len() > start {
                batch.add(self.out.split_off(start));
            }
        }
        self.end_batch(batch);
    }

    fn opens_session(&self, request: &Request<'_>) -> bool {
        let dialect = self.exchanges.dialect();
        dialect.and_then(|dialect| dialect.request(&request.method)) == Some(Method::Initialize)
    }

    /// Writes what has been answered of a batch once nothing more will be.
    fn end_batch(&mut self, batch: Arc<Batch>) {
        if let Some(batch) = Arc::into_inner(batch)
            && let answers = batch.into_answers()
            && !answers.is_empty()
        {
            self.out.extend_from_slice(&join_batch(&answers));
            self.out.push(b'\n');
        }
    }

    fn handle_notification(&mut self, notification: &Notification<'_>) {
        self.exchanges.handle_notification(notification);
        if !self.batched.is_empty() {
            // What was cancelled is not answered, and its batch no longer waits for it.
            let exchanges = &self.exchanges;
            let cancelled: Vec<_> =
                self.batched.extract_if(|serial, _| !exchanges.is_running(*serial)).collect();
            cancelled.into_iter().for_each(|(_, batch)| self.end_batch(batch));
        }
    }

    /// Answers a request or begins to; gives its exchange if the answer takes longer.
    fn handle_request(&mut self, request: &Request<'_>) -> Option<Serial> {
        self.admit(request).unwrap_or_else(|error| {
            self.refuse(Some(&request.id), &error);
            None
        })
    }

    fn admit(&mut self, request: &Request<'_>) -> Result<Option<Serial>, ErrorObject> {
        let meta: RequestMeta<'_> = request.params.read("_meta")?.unwrap_or_default();
        let (serial, mut exchange) = self.exchanges.admit(request, meta, self.caller.clone())?;
        exchange.outlet = Outlet::shared(serial, self.sender.clone());
        exchange.push = Some(Arc::clone(&self.push));
        if exchange.method == Method::Initialize {
            self.dispatcher.attend(exchange.dialect, &self.push);
        }
        let start = self.out.len();
        match self.dispatcher.dispatch(exchange, &mut self.out) {
            Dispatched::Answered(_) => {
                trace::sent(&self.out[start..]);
                self.out.push(b'\n');
                let _ = self.exchanges.answered(&request.id, serial);
                Ok(None)
            }
            Dispatched::Pending(answer) => {
                let (canceller, delivery) = (answer.canceller(), answer.delivery());
                let (id, sender) = (request.id.clone(), self.sender.clone());
                let task = self.running.spawn(async move {
                    let (answered, message) = answer.await;
                    // A closed channel means that the connection has ended: nobody is left to answer.
                    let _ = sender.send(Outgoing::answer(id, serial, answered, message)).await;
                    delivery.done();
                });
                self.exchanges.run(&request.id, serial, task, canceller);
                Ok(Some(serial))
            }
        }
    }

    fn handle_outgoing(&mut self, message: Outgoing) {
        match message {
            Outgoing::Notification { serial, message, .. } => {
                // Nothing may follow the cancellation of its request.
                if serial.is_none_or(|serial| self.exchanges.is_running(serial)) {
                    self.push(&message);
                }
            }
            // A byte stream is one connection for everything.
            Outgoing::LetGo => {}
            Outgoing::Answer { id, serial, message, .. } => {
                let wanted = self.exchanges.answered(&id, serial);
                match self.batched.remove(&serial) {
                    Some(batch) => {
                        if wanted {
                            trace::sent(&message);
                            batch.add(message);
                        }
                        self.end_batch(batch);
                    }
                    None if wanted => self.push(&message),
                    None => {}
                }
            }
        }
    }

    fn refuse(&mut self, id: Option<&RequestId>, error: &ErrorObject) {
        let start = self.out.len();
        wire::refuse(By::Server, &mut self.out, id, error);
        trace::sent(&self.out[start..]);
        self.out.push(b'\n');
    }

    fn push(&mut self, message: &[u8]) {
        trace::sent(message);
        self.out.extend_from_slice(message);
        self.out.push(b'\n');
    }
}

async fn flush(writer: &mut (impl AsyncWrite + Unpin), out: &mut Vec<u8>) -> std::io::Result<()> {
    writer.write_all(out).await?;
    writer.flush().await?;
    out.clear();
    if out.capacity() > 4 * OUT_BOUND {
        *out = Vec::new();
    }
    Ok(())
}

async fn finish(mut writer: impl AsyncWrite + Unpin, mut out: Vec<u8>) -> Result<(), DriverError> {
    let written = async {
        flush(&mut writer, &mut out).await?;
        writer.shutdown().await
    };
    match written.await {
        Err(error) if !is_gone(&error) => Err(DriverError::Write(error)),
        _ => Ok(()),
    }
}

/// Whether a failed write means that the client has gone, which is how a connection may end.
fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected)
}
