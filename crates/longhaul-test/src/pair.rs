//! Two connection machines linked by a wire that only time moves.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Duration;

use longhaul_proto::connection::{Admitted, ClientConnection, Serial, ServerConnection};
use longhaul_proto::dialect::{Declaration, Dialect, InitializeParams};
use longhaul_proto::jsonrpc::{Limits, Message, Request, RequestId, write_error};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::RequestMeta;

use crate::transcript::Book;

/// One end of the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a wire has two ends")]
pub enum Side {
    /// The client's.
    Client,
    /// The server's.
    Server,
}

/// A client and a server with nothing between them but a delay.
///
/// Nothing happens until [`step`](Self::step): it moves the clock to the next thing due, which is a message's
/// arrival or a request's deadline, and lets the machines decide. What the server runs is answered by the
/// test, with [`answer`](Self::answer). Each message of the two is held against the schema of its revision.
#[derive(Debug)]
pub struct Pair {
    /// The time since the pair began.
    pub now: Duration,
    /// How long a message takes.
    pub latency: Duration,
    /// The client's machine.
    pub client: ClientConnection,
    /// The server's machine.
    pub server: ServerConnection,
    /// Requests the server has admitted and the test has not answered, oldest first.
    pub running: Vec<(RequestId, Serial)>,
    /// For a test that reads them: the same requests as they came, the handshake's too. Otherwise `None`.
    pub asked: Option<Vec<Asked>>,
    /// All that has reached the client, as it came.
    pub received: Vec<Vec<u8>>,
    /// What the client has learnt, oldest first.
    pub heard: Vec<Heard>,
    /// Requests of the client's that have neither been answered nor given up, oldest first.
    waiting: Vec<RequestId>,
    dialect: &'static Dialect,
    wire: VecDeque<(Duration, Side, Vec<u8>)>,
}

/// A request that the server has admitted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Asked {
    /// Names the exchange.
    pub serial: Serial,
    /// How its answer is written.
    pub dialect: &'static Dialect,
    /// What is asked.
    pub method: Method,
    /// The request itself.
    pub bytes: Vec<u8>,
}

/// What a client has learnt.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "all that a pair can say")]
pub enum Heard {
    /// A result for this request.
    Result(RequestId),
    /// An error of this code for this request.
    Error(RequestId, i64),
    /// Progress of this request.
    Progress(RequestId),
    /// A message it dropped, for nobody waits for it.
    Dropped,
    /// It gave up on this request.
    Expired(RequestId),
}

impl Pair {
    /// A pair that speaks `dialect`, messages taking `latency`, with room for `max_open` exchanges.
    pub fn new(dialect: &'static Dialect, latency: Duration, max_open: usize) -> Self {
        Self {
            now: Duration::ZERO,
            latency,
            client: ClientConnection::new(1024),
            server: ServerConnection::new(max_open),
            running: Vec::new(),
            asked: None,
            received: Vec::new(),
            heard: Vec::new(),
            waiting: Vec::new(),
            dialect,
            wire: VecDeque::new(),
        }
    }

    /// The client sends a request and waits at most `idle` at a stretch.
    ///
    /// # Panics
    ///
    /// When the client has as many requests open as it may.
    pub fn request(&mut self, method: &str, idle: Option<Duration>) -> RequestId {
        let id = self.client.start(self.now, idle).expect("the test keeps within the client's bound");
        self.client.listen(&id);
        self.waiting.push(id.clone());
        let mut bytes = Vec::new();
        let declaration = Declaration::default();
        self.dialect.write_request(&mut bytes, &id, method, &declaration, Some(&id), |params| {
            if method == "initialize" {
                params.field("protocolVersion", self.dialect.revision().as_str());
                params.raw("capabilities", "{}").raw("clientInfo", r#"{"name":"pair","version":"1"}"#);
            }
        });
        self.say(Side::Client, bytes);
        id
    }

    /// The client no longer wants a request.
    pub fn cancel(&mut self, id: &RequestId) {
        self.client.cancel(id);
        self.settle(id);
        if let Some(bytes) = self.dialect.cancelled(id, "no longer wanted") {
            self.say(Side::Client, bytes);
        }
    }

    /// The client waits for a request no longer.
    fn settle(&mut self, id: &RequestId) {
        self.client.release(id);
        self.waiting.retain(|waiting| waiting != id);
    }

    /// The server answers a request that it runs; nothing is sent if it was cancelled meanwhile.
    pub fn answer(&mut self, id: &RequestId, serial: Serial) {
        let mut bytes = Vec::new();
        self.dialect.write_result(&mut bytes, id, r#"{"name":"pair","version":"1"}"#, |_| ());
        if self.ends(id, serial) {
            self.say(Side::Server, bytes);
        }
    }

    /// The same with an answer that the test has written.
    pub fn answer_with(&mut self, id: &RequestId, serial: Serial, bytes: Vec<u8>) {
        if self.ends(id, serial) {
            self.send(Side::Server, bytes);
        }
    }

    /// A request runs no longer; whether its answer is still wanted.
    fn ends(&mut self, id: &RequestId, serial: Serial) -> bool {
        self.running.retain(|(_, running)| *running != serial);
        self.server.handle_answered(id, serial)
    }

    /// The server reports progress of a request.
    pub fn progress(&mut self, id: &RequestId, value: f64) {
        let progress = self.dialect.notification(Notice::Progress, |params| {
            params.field("progressToken", id).field("progress", &value);
        });
        if let Some(bytes) = progress {
            self.say(Side::Server, bytes);
        }
    }

    /// Puts what a machine of ours says on the wire: a message of the revision.
    fn say(&mut self, from: Side, bytes: Vec<u8>) {
        static BOOK: LazyLock<Book> = LazyLock::new(|| Book::load().expect("the schemas can be read"));
        let message = serde_json::from_slice(&bytes).expect("a machine says JSON");
        let revision = self.dialect.revision();
        if let Err(why) = BOOK.check(revision.as_str(), &message, None) {
            panic!("the {from:?} says {why}");
        }
        self.send(from, bytes);
    }

    /// Puts bytes on the wire as they are.
    pub fn send(&mut self, from: Side, bytes: Vec<u8>) {
        self.wire.push_back((self.now + self.latency, from, bytes));
    }

    /// Moves to the next thing due and lets it happen; `false` when nothing ever will.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.due() else { return false };
        self.now = self.now.max(next);
        let arrival = self.wire.front().map(|(at, ..)| *at);
        if arrival.is_some_and(|at| at <= self.now)
            && let Some((_, from, bytes)) = self.wire.pop_front()
        {
            match from {
                Side::Client => self.server_receives(&bytes),
                Side::Server => self.client_receives(&bytes),
            }
            return true;
        }
        let is_due = |id: &&RequestId| self.client.deadline(id).is_some_and(|deadline| deadline <= self.now);
        let due: Vec<_> = self.waiting.iter().filter(is_due).cloned().collect();
        for id in due {
            self.cancel(&id);
            self.heard.push(Heard::Expired(id));
        }
        true
    }

    /// Lets everything happen that is due by `limit`, and moves there if it is not for ever.
    pub fn run_until(&mut self, limit: Duration) {
        while self.due().is_some_and(|next| next <= limit) {
            self.step();
        }
        if limit < Duration::MAX {
            self.now = self.now.max(limit);
        }
    }

    /// When the next thing happens.
    fn due(&self) -> Option<Duration> {
        let arrival = self.wire.front().map(|(at, ..)| *at);
        let deadlines = self.waiting.iter().filter_map(|id| self.client.deadline(id));
        arrival.into_iter().chain(deadlines).min()
    }

    fn server_receives(&mut self, bytes: &[u8]) {
        match Message::decode(bytes, &Limits::default()) {
            Ok(Message::Request(request)) => {
                let meta: RequestMeta<'_> = match request.params.read("_meta") {
                    Ok(meta) => meta.unwrap_or_default(),
                    Err(error) => return self.refuse(Some(&request.id), &error),
                };
                match self.server.handle_request(&request.id, &request.method, &meta) {
                    Err(error) => self.refuse(Some(&request.id), &error),
                    Ok(admitted) => self.admit(&request, admitted, bytes),
                }
            }
            Ok(Message::Notification(notice)) => {
                let spoken = self.server.session().map_or(self.dialect, |session| session.dialect);
                let known = spoken.notice(&notice.method);
                if known == Some(Notice::Cancelled)
                    && let Ok(Some(id)) = notice.params.read::<RequestId>("requestId")
                    && let Some(serial) = self.server.handle_cancelled(&id)
                {
                    self.running.retain(|(_, running)| *running != serial);
                }
            }
            Ok(Message::Response(_)) => {}
            Err(error) => {
                let id = error.id().cloned();
                self.refuse(id.as_ref(), &error.to_error_object());
            }
        }
    }

    fn admit(&mut self, request: &Request<'_>, admitted: Admitted, bytes: &[u8]) {
        let Admitted { serial, mut dialect, method, .. } = admitted;
        if method == Method::Initialize {
            let opened = InitializeParams::read(&request.params)
                .and_then(|params| self.server.handle_initialize(params));
            match opened.map(|session| session.dialect) {
                Ok(chosen) if self.asked.is_some() => dialect = chosen,
                Ok(_) => return self.answer(&request.id, serial),
                Err(error) => {
                    let _ = self.server.handle_answered(&request.id, serial);
                    return self.refuse(Some(&request.id), &error);
                }
            }
        }
        self.running.push((request.id.clone(), serial));
        if let Some(asked) = &mut self.asked {
            asked.push(Asked { serial, dialect, method, bytes: bytes.to_vec() });
        }
    }

    fn refuse(&mut self, id: Option<&RequestId>, error: &longhaul_proto::jsonrpc::ErrorObject) {
        let mut bytes = Vec::new();
        write_error(&mut bytes, id, error);
        self.say(Side::Server, bytes);
    }

    fn client_receives(&mut self, bytes: &[u8]) {
        self.received.push(bytes.to_vec());
        let heard = match Message::decode(bytes, &Limits::default()) {
            Ok(Message::Response(response)) => match response.id {
                Some(id) if self.client.handle_response(&id) => {
                    self.settle(&id);
                    match response.outcome {
                        Ok(_) => Heard::Result(id),
                        Err(error) => Heard::Error(id, error.code.0),
                    }
                }
                _ => Heard::Dropped,
            },
            Ok(Message::Notification(notice)) => {
                let token = notice.params.read::<RequestId>("progressToken").ok().flatten();
                let value = notice.params.read::<f64>("progress").ok().flatten();
                match (token, value) {
                    (Some(token), Some(value)) if self.client.handle_progress(self.now, &token, value) => {
                        Heard::Progress(token)
                    }
                    _ => Heard::Dropped,
                }
            }
            _ => Heard::Dropped,
        };
        self.heard.push(heard);
    }
}
