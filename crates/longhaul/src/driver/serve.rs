//! Serving one client over a byte stream.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul_proto::connection::{Serial, ServerConnection};
use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{
    DecodeError, ErrorObject, Message, Notification, Request, RequestId, write_error,
};
use longhaul_proto::method::Notice;
use longhaul_proto::model::RequestMeta;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::lines::{Line, Lines};
use super::{DriverError, Options};
use crate::server::lifecycle::{caller, settle};
use crate::server::{
    CallCanceller, ConnectionPush, Dispatched, Dispatcher, Exchange, Outgoing, Outlet, Principal,
};

/// Serves one client until its input ends, then returns at once. Calls that are still running are
/// dropped, as their caller is gone; what has become durable goes on.
///
/// Dropping the future does the same.
///
/// # Errors
///
/// When the input cannot be read, or the output cannot be written for another reason than that the
/// client has gone.
pub async fn serve(
    dispatcher: Dispatcher,
    principal: Principal,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    options: Options,
) -> Result<(), DriverError> {
    let mut lines = Lines::new(options.limits.max_bytes);
    let (mut loop_, mut outgoing) = Loop::new(dispatcher, principal, options);
    loop {
        while loop_.reads_on() {
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
        tokio::select! {
            read = reader.read_buf(lines.space(READ_ROOM)), if loop_.reads_on() => match read {
                Ok(0) => {
                    loop_.handle_last_line(lines.rest());
                    return finish(writer, loop_.out).await;
                }
                Ok(_) => {}
                Err(error) => return Err(DriverError::Read(error)),
            },
            Some(message) = outgoing.recv() => loop_.handle_outgoing(message),
            Some(_) = loop_.running.join_next() => {}
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
    principal: Principal,
    options: Options,
    connection: ServerConnection,
    running: JoinSet<()>,
    aborts: HashMap<Serial, (AbortHandle, CallCanceller)>,
    sender: mpsc::Sender<Outgoing>,
    out: Vec<u8>,
}

impl Loop {
    fn new(
        dispatcher: Dispatcher,
        principal: Principal,
        options: Options,
    ) -> (Self, mpsc::Receiver<Outgoing>) {
        let (sender, outgoing) = mpsc::channel(OUTGOING_BOUND);
        let this = Self {
            dispatcher,
            principal,
            connection: ServerConnection::new(options.max_open),
            options,
            running: JoinSet::new(),
            aborts: HashMap::new(),
            sender,
            out: Vec::new(),
        };
        (this, outgoing)
    }

    fn reads_on(&self) -> bool {
        !self.connection.is_full() && self.out.len() < OUT_BOUND
    }

    fn handle_line(&mut self, line: Line<'_>) {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::TooLong => {
                let limit = self.options.limits.max_bytes;
                return self.refuse(None, &DecodeError::TooLong { limit }.to_error_object());
            }
        };
        match Message::decode(bytes, &self.options.limits) {
            Ok(Message::Request(request)) => self.handle_request(&request),
            Ok(Message::Notification(notification)) => self.handle_notification(&notification),
            // This server asks nothing over this connection, so no answer is awaited.
            Ok(Message::Response(_)) => tracing::debug!("dropped an answer to nothing"),
            Err(error) => self.refuse(error.id(), &error.to_error_object()),
        }
    }

    /// The input ended in the middle of a line: if that is a message all the same, it counts.
    fn handle_last_line(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.handle_line(Line::Whole(rest));
        }
    }

    fn handle_request(&mut self, request: &Request<'_>) {
        if let Err(error) = self.admit(request) {
            self.refuse(Some(&request.id), &error);
        }
    }

    fn admit(&mut self, request: &Request<'_>) -> Result<(), ErrorObject> {
        let meta: RequestMeta<'_> = request.params.read("_meta")?.unwrap_or_default();
        let admitted = self.connection.handle_request(&request.id, &request.method, &meta)?;
        let settled = settle(&mut self.connection, admitted.method, admitted.dialect, &request.params);
        let dialect = settled.inspect_err(|_| {
            let _ = self.connection.handle_answered(&request.id, admitted.serial);
        })?;
        let caller = caller(&self.connection, &meta, Some(self.principal.clone()));
        let mut exchange =
            Exchange::new(request.id.clone(), dialect, admitted.method, &request.params, caller);
        exchange.progress_token = meta.progress_token;
        exchange.outlet = Outlet::shared(admitted.serial, self.sender.clone());
        exchange.push = Some(Arc::new(ConnectionPush::new(self.sender.clone())));
        match self.dispatcher.dispatch(exchange, &mut self.out) {
            Dispatched::Answered(_) => {
                self.out.push(b'\n');
                let _ = self.connection.handle_answered(&request.id, admitted.serial);
            }
            Dispatched::Pending(answer) => {
                let (canceller, delivery) = (answer.canceller(), answer.delivery());
                let (id, serial, sender) = (request.id.clone(), admitted.serial, self.sender.clone());
                let abort = self.running.spawn(async move {
                    let message = answer.await;
                    // A closed channel means that the connection has ended: nobody is left to answer.
                    let _ = sender.send(Outgoing::answer(id, serial, message)).await;
                    delivery.done();
                });
                self.aborts.insert(serial, (abort, canceller));
            }
        }
        Ok(())
    }

    fn handle_notification(&mut self, notification: &Notification<'_>) {
        let dialect = self.connection.session().map_or(Dialect::newest_modern(), |session| session.dialect);
        if dialect.notice(&notification.method) != Some(Notice::Cancelled) {
            return;
        }
        // An invalid cancellation is ignored, as the specification asks.
        let Ok(Some(id)) = notification.params.read::<RequestId>("requestId") else { return };
        if let Some(serial) = self.connection.handle_cancelled(&id)
            && let Some((abort, canceller)) = self.aborts.remove(&serial)
        {
            canceller.cancel();
            abort.abort();
        }
    }

    fn handle_outgoing(&mut self, message: Outgoing) {
        match message {
            Outgoing::Notification { serial, message } => {
                // Nothing may follow the cancellation of its request.
                if serial.is_none_or(|serial| self.aborts.contains_key(&serial)) {
                    self.push(&message);
                }
            }
            Outgoing::Answer { id, serial, message } => {
                self.aborts.remove(&serial);
                if self.connection.handle_answered(&id, serial) {
                    self.push(&message);
                }
            }
        }
    }

    fn refuse(&mut self, id: Option<&RequestId>, error: &ErrorObject) {
        write_error(&mut self.out, id, error);
        self.out.push(b'\n');
    }

    fn push(&mut self, message: &[u8]) {
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
    match flush(&mut writer, &mut out).await {
        Err(error) if !is_gone(&error) => Err(DriverError::Write(error)),
        _ => Ok(()),
    }
}

/// Whether a failed write means that the client has gone, which is how a connection may end.
fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
