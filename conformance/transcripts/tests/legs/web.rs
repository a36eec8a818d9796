//! Streamable HTTP: each message a POST, with the headers that repeat what it says; what comes on several streams has
//! no order among them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use longhaul::auth::{Protection, StaticTokens};
use longhaul::proto::dialect::{Dialect, Era, Revision};
use longhaul::server::Dispatcher;
use longhaul::transport::http::server::{Options, serve};
use longhaul_test::transcript::{Leg, Said};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::SILENCE;
use super::clients::Beside;

pub(crate) struct Web {
    address: SocketAddr,
    /// What serves it, if that ends with this leg.
    served: Option<JoinHandle<()>>,
    /// What it is let in by.
    token: Option<String>,
    /// Where messages are sent.
    path: String,
    /// Whether each session has a stream of its own.
    has_stream: bool,
    /// Whether to open that as soon as there is a session.
    listens: bool,
    session: Option<String>,
    status: Option<u16>,
    /// What has come and was not asked for yet, by stream.
    streams: Vec<VecDeque<Value>>,
    /// What reads the last stream.
    last: Option<JoinHandle<()>>,
    arrived: mpsc::UnboundedReceiver<(usize, Arrived)>,
    sender: mpsc::UnboundedSender<(usize, Arrived)>,
    event: String,
}

enum Arrived {
    Message(Value),
    Event(String),
    Address(String),
}

impl Web {
    pub(crate) async fn start(dispatcher: Dispatcher, listens: bool, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let never = std::future::pending();
            serve(dispatcher, listener, options, never).await.unwrap();
        });
        let mut this = Self::at(address, listens);
        this.served = Some(served);
        this
    }

    /// The same for who is one of these clients, each of whom has a token.
    pub(crate) async fn start_for(
        clients: &[String],
        dispatcher: Dispatcher,
        listens: bool,
        options: Options,
    ) -> Self {
        let Some(first) = clients.first() else { return Self::start(dispatcher, listens, options).await };
        let tokens =
            clients.iter().try_fold(StaticTokens::new(), |tokens, who| tokens.token(who, &token(who), None));
        let guard = Protection::new().tokens(tokens.unwrap()).guard().unwrap();
        let mut this = Self::start(dispatcher, listens, options.guard(guard)).await;
        this.token = Some(token(first));
        this
    }

    fn at(address: SocketAddr, listens: bool) -> Self {
        let (sender, arrived) = mpsc::unbounded_channel();
        let (session, status, last) = (None, None, None);
        let (streams, event) = (Vec::new(), String::new());
        let path = "/mcp".to_owned();
        let (served, token, has_stream) = (None, None, listens);
        Self {
            address,
            served,
            token,
            path,
            has_stream,
            listens,
            session,
            status,
            streams,
            last,
            arrived,
            sender,
            event,
        }
    }

    /// The same as 2024-11-05 had it: one stream, which says where messages are sent and brings all that is answered.
    pub(crate) async fn paired(dispatcher: Dispatcher) -> Self {
        let mut this = Self::start(dispatcher, false, Options::default().legacy_sse(true)).await;
        this.path = "/sse".to_owned();
        let headers = vec![("host".to_owned(), this.address.to_string())];
        this.send("GET", headers, &[], "").await;
        while this.path == "/sse" {
            let arrived = this.arrived.recv().await.unwrap();
            this.sort(arrived);
        }
        this
    }

    async fn send(
        &mut self,
        method: &str,
        mut headers: Vec<(String, String)>,
        own: &[(String, Option<String>)],
        body: &str,
    ) {
        for (name, value) in own {
            headers.retain(|(known, _)| known != name);
            headers.extend(value.clone().map(|value| (name.clone(), value)));
        }
        let mut request = Request::builder().method(method).uri(&self.path);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::<Bytes>::from(body.to_owned())).unwrap();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let response = tokio::time::timeout(SILENCE, sender.send_request(request)).await.unwrap().unwrap();
        self.status = Some(response.status().as_u16());
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        let index = self.streams.len();
        self.streams.push(VecDeque::new());
        // The connection closes when what reads it is dropped.
        self.last = Some(tokio::spawn(read(response.into_body(), index, self.sender.clone(), sender)));
    }

    fn head(&self, said: Said<'_>) -> Vec<(String, String)> {
        let mut headers = vec![
            ("host".to_owned(), self.address.to_string()),
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
        ];
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        if let Some(token) = &self.token {
            add("authorization", &format!("Bearer {token}"));
        }
        let params = said.message.map(|message| &message["params"]);
        let described =
            params.and_then(|params| params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str());
        let known = Revision::from_date(said.revision).map(Dialect::of);
        let opens = said.message.is_some_and(|message| message["method"] == "initialize");
        let modern = described.is_some() || known.is_none_or(|known| known.era() == Era::Modern);
        if modern {
            add("mcp-protocol-version", described.unwrap_or(said.revision));
            if let Some(method) = said.message.and_then(|message| message["method"].as_str()) {
                add("mcp-method", method);
            }
            let named = ["name", "taskId", "uri"].into_iter().find_map(|member| params?[member].as_str());
            if let Some(named) = named {
                add("mcp-name", named);
            }
        } else if let Some(session) = self.session.as_deref().filter(|_| !opens) {
            add("mcp-protocol-version", said.revision);
            add("mcp-session-id", session);
        }
        headers
    }

    fn sort(&mut self, (stream, arrived): (usize, Arrived)) {
        match arrived {
            Arrived::Message(message) => self.streams[stream].push_back(message),
            Arrived::Event(event) => self.event = event,
            Arrived::Address(address) => self.path = address,
        }
    }
}

/// Reads a body to its end: one object, one array, or events.
async fn read<S>(
    mut body: Incoming,
    index: usize,
    sender: mpsc::UnboundedSender<(usize, Arrived)>,
    _connection: S,
) {
    let mut text = String::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        text.push_str(std::str::from_utf8(&data).unwrap());
        while let Some((line, rest)) = text.split_once('\n') {
            let arrived = if let Some(data) = line.strip_prefix("data:") {
                let address =
                    || data.trim().starts_with('/').then(|| Arrived::Address(data.trim().to_owned()));
                serde_json::from_str(data).ok().map(Arrived::Message).or_else(address)
            } else {
                line.strip_prefix("id:").map(|id| Arrived::Event(id.trim().to_owned()))
            };
            if let Some(arrived) = arrived {
                let _ = sender.send((index, arrived));
            }
            text = rest.to_owned();
        }
    }
    if let Ok(message) = serde_json::from_str(&text) {
        let _ = sender.send((index, Arrived::Message(message)));
    }
}

/// Whether a message is of the kind that is waited for: an answer to the same request, or of the same method.
fn begins_like(expected: &Value, message: &Value) -> bool {
    expected.get("method") == message.get("method")
        && (expected.get("method").is_some()
            || expected.get("id") == message.get("id")
            || expected["id"] == "*")
}

/// What a client is let in by.
fn token(who: &str) -> String {
    format!("the-token-of-a-client-{who}")
}

impl Beside for Web {
    async fn beside(&self, who: &str) -> Result<Self, String> {
        let mut this = Self::at(self.address, self.has_stream);
        this.token = Some(token(who));
        Ok(this)
    }
}

impl Leg for Web {
    async fn say(&mut self, said: Said<'_>) -> Result<(), String> {
        self.status = None;
        let mut headers = self.head(said);
        if said.text == "HANGUP" {
            if let Some(reading) = self.last.take() {
                reading.abort();
            }
            return Ok(());
        }
        if said.is_verb {
            if said.text == "GET" {
                headers.retain(|(name, _)| name != "accept");
                headers.push(("accept".to_owned(), "text/event-stream".to_owned()));
            }
            self.send(said.text, headers, said.headers, "").await;
            return Ok(());
        }
        self.send("POST", headers, said.headers, said.text).await;
        let is_open = said.message.is_some_and(|message| message["method"] == "notifications/initialized");
        if is_open && std::mem::take(&mut self.listens) {
            let (status, mut listen) = (self.status, self.head(said));
            listen.retain(|(name, _)| name != "accept");
            listen.push(("accept".to_owned(), "text/event-stream".to_owned()));
            self.send("GET", listen, &[], "").await;
            self.status = status;
        }
        Ok(())
    }

    async fn hear(&mut self, expected: &Value, aside: &[String]) -> Result<Value, String> {
        let is_aside = |first: &Value| aside.iter().any(|aside| first["method"] == *aside);
        loop {
            let ready = |stream: &&mut VecDeque<Value>| {
                stream.front().is_some_and(|first| begins_like(expected, first) || is_aside(first))
            };
            if let Some(message) = self.streams.iter_mut().find(ready).and_then(VecDeque::pop_front) {
                return Ok(message);
            }
            match tokio::time::timeout(SILENCE.min(Duration::from_secs(10)), self.arrived.recv()).await {
                Ok(Some(arrived)) => self.sort(arrived),
                _ => {
                    let first = self.streams.iter_mut().find_map(VecDeque::pop_front);
                    return first.ok_or_else(|| "nothing came".to_owned());
                }
            }
        }
    }

    fn left(&mut self) -> Vec<Value> {
        while let Ok(arrived) = self.arrived.try_recv() {
            self.sort(arrived);
        }
        self.streams.iter_mut().flat_map(std::mem::take).collect()
    }

    fn status(&mut self) -> Result<u16, String> {
        self.status.ok_or_else(|| "nothing was answered".to_owned())
    }

    async fn wait(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        while let Ok(arrived) = self.arrived.try_recv() {
            self.sort(arrived);
        }
    }

    fn names(&self) -> Vec<(&'static str, String)> {
        let mut names = vec![("event", self.event.clone())];
        names.extend(self.session.clone().map(|session| ("session", session)));
        names
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(served) = &self.served {
            served.abort();
        }
    }
}
