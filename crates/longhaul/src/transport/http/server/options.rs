//! What can be chosen about an HTTP server.

use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::http::AllowList;
use longhaul_proto::jsonrpc::Limits;
use longhaul_tasks::store::{EventStore, Registry};

use super::callback::Callbacks;
use super::pages::Pages;
use super::session::SessionObserver;

/// Bounds and rules of an HTTP server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Whether the endpoint is served, and what signs callers in. Without it only `/healthz`, `/readyz` and
    /// [pages](Self::pages) are answered, which is all that a process needs that works on tasks alone. Default yes.
    pub endpoint: bool,
    /// Where the endpoint is, unless it is [mounted](super::HttpService). Default `/mcp`.
    pub path: String,
    /// Who may speak to it. Default: this machine, by its names for itself.
    pub allow: AllowList,
    /// The size and depth of a message.
    pub limits: Limits,
    /// How many connections may be open at once. The next takes the place of the one that has waited longest for its
    /// client: to ask something, or to send the rest of a body; then of a stream that its client can open again. If there
    /// is none, its request waits a second for a place, and is refused. Default 1024.
    pub max_connections: usize,
    /// How many legacy sessions may be open at once. The next takes the place of one that was never used, or of an idle one
    /// of whoever has most, if that is more than its own client would have; else it is refused. Default 10 000.
    pub max_sessions: usize,
    /// How long a session may lie idle before it is closed. Default 30 minutes.
    pub session_idle: Duration,
    /// How many exchanges one session may have open at once. Default 256.
    pub max_open: usize,
    /// How many exchanges may run at once, whatever connections and sessions they belong to; the next is
    /// refused. A call of a session outlives its connection, so no other bound holds for all. Streams of
    /// [`legacy_sse`](Self::legacy_sse) are not counted here: each has [`max_open`](Self::max_open), and there are
    /// [`max_sessions`](Self::max_sessions) of them at most. Default 4096.
    pub max_running: usize,
    /// How many bytes of bodies may be half read at once, whatever connections they come by. When there are more, the
    /// body is refused that has been read longest. Default 128 MiB, and never less than one message may have.
    pub max_reading: usize,
    /// How many bytes of answers may wait at once for their clients to read them, whatever connections they go by. When there
    /// are more, the connection is closed whose client has read nothing for longest; tasks go on. An application that serves
    /// the [connections](super::HttpService) bounds what waits in them. Default 128 MiB, and never less than one answer has.
    pub max_writing: usize,
    /// How long a client may take over its headers, from when nothing it asked is open any more and it has read what was
    /// written to it. Default 10 s.
    pub header_timeout: Duration,
    /// How long a client may take over its body. Default 30 s.
    pub body_timeout: Duration,
    /// How long a client may leave what was written to it unread before its connection is closed, over HTTP/2 what is written to
    /// it in any one answer; tasks go on. Default 30 s.
    pub write_timeout: Duration,
    /// How long an answer may be silent before it becomes a stream. Default 1 s.
    pub stream_after: Duration,
    /// Whether every result that may come as a stream does. An error of the modern era has a status of its own, and
    /// stays what it is. Default no.
    pub always_stream: bool,
    /// Whether `initialize` opens a session. Without sessions every legacy request stands alone: it is answered by one
    /// JSON object, its client cannot be told or asked anything, and any node can answer. Default yes.
    pub sessions: bool,
    /// Whether the transport of 2024-11-05 is served, too: `GET /sse` opens a stream, and what it says where to send is
    /// POSTed to `/messages`. Each stream is a connection of its own, with `max_open` exchanges, for as long as it is
    /// open. Default no.
    pub legacy_sse: bool,
    /// Whether HTTP/2 is spoken beside HTTP/1.1, to clients that begin with it (prior knowledge; a proxy's choice). Default
    /// no.
    #[cfg(feature = "http2")]
    pub http2: bool,
    /// How many requests one connection of HTTP/2 may have open at once, those included that streams answer. Its client is
    /// told, and the next is refused. A proxy that carries many clients' subscriptions over one connection needs more. Default
    /// 128.
    #[cfg(feature = "http2")]
    pub max_streams: u32,
    /// Where what is sent in the streams of sessions is kept, so that they can be resumed. Default: in memory.
    pub events: Option<Arc<dyn EventStore>>,
    /// Where other nodes find the sessions of this one, so that they go on at any of those that share it, also once this
    /// process is gone; for their streams to be resumed there, [`events`](Self::events) must be shared, too. Default: nowhere.
    pub shared_sessions: Option<Arc<dyn Registry>>,
    /// How long a client that was let go waits before it comes back. Default 1 s.
    pub retry: Duration,
    /// Who is told of sessions.
    pub session_observer: Option<Arc<dyn SessionObserver>>,
    /// Who takes the callbacks of what runs elsewhere, at [`CALLBACKS`](super::CALLBACKS). Default: nobody.
    pub callbacks: Option<Arc<dyn Callbacks>>,
    /// What is served to people beside the endpoint. Default: nothing.
    pub pages: Option<Arc<dyn Pages>>,
    /// How often a silent stream sends a comment. Default 15 s.
    pub keep_alive: Duration,
    /// How long open answers may take to end once the server is asked to stop. Default 10 s.
    pub drain: Duration,
    /// Who has to sign in, and how. Default: nobody has to.
    #[cfg(feature = "auth")]
    pub guard: Option<crate::auth::Guard>,
}

impl Options {
    /// Serves the endpoint, or nothing but how the process is, and pages.
    #[must_use]
    pub fn endpoint(mut self, endpoint: bool) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Puts the endpoint there.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Lets these hosts and origins speak to it.
    #[must_use]
    pub fn allow(mut self, allow: AllowList) -> Self {
        self.allow = allow;
        self
    }

    /// Bounds the size and depth of a message.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets this many connections be open at once.
    #[must_use]
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// Lets this many legacy sessions be open at once.
    #[must_use]
    pub fn max_sessions(mut self, max_sessions: usize) -> Self {
        self.max_sessions = max_sessions;
        self
    }

    /// Closes a session that has lain idle this long.
    #[must_use]
    pub fn session_idle(mut self, session_idle: Duration) -> Self {
        self.session_idle = session_idle;
        self
    }

    /// Lets one session have this many exchanges open at once.
    #[must_use]
    pub fn max_open(mut self, max_open: usize) -> Self {
        self.max_open = max_open;
        self
    }

    /// Lets this many exchanges run at once.
    #[must_use]
    pub fn max_running(mut self, max_running: usize) -> Self {
        self.max_running = max_running;
        self
    }

    /// Lets this many bytes of bodies be half read at once.
    #[must_use]
    pub fn max_reading(mut self, max_reading: usize) -> Self {
        self.max_reading = max_reading;
        self
    }

    /// Lets this many bytes of answers wait at once for their clients to read them.
    #[must_use]
    pub fn max_writing(mut self, max_writing: usize) -> Self {
        self.max_writing = max_writing;
        self
    }

    /// Gives a client this long for its headers.
    #[must_use]
    pub fn header_timeout(mut self, header_timeout: Duration) -> Self {
        self.header_timeout = header_timeout;
        self
    }

    /// Gives a client this long for its body.
    #[must_use]
    pub fn body_timeout(mut self, body_timeout: Duration) -> Self {
        self.body_timeout = body_timeout;
        self
    }

    /// Gives a client this long to read what was written to it.
    #[must_use]
    pub fn write_timeout(mut self, write_timeout: Duration) -> Self {
        self.write_timeout = write_timeout;
        self
    }

    /// Makes a stream of an answer that has been silent this long.
    #[must_use]
    pub fn stream_after(mut self, stream_after: Duration) -> Self {
        self.stream_after = stream_after;
        self
    }

    /// Makes a stream of every result that may come as one.
    #[must_use]
    pub fn always_stream(mut self, always_stream: bool) -> Self {
        self.always_stream = always_stream;
        self
    }

    /// Serves legacy requests with sessions, or without.
    #[must_use]
    pub fn sessions(mut self, sessions: bool) -> Self {
        self.sessions = sessions;
        self
    }

    /// Serves the transport of 2024-11-05, too.
    #[must_use]
    pub fn legacy_sse(mut self, legacy_sse: bool) -> Self {
        self.legacy_sse = legacy_sse;
        self
    }

    /// Speaks HTTP/2, too.
    #[cfg(feature = "http2")]
    #[must_use]
    pub fn http2(mut self, http2: bool) -> Self {
        self.http2 = http2;
        self
    }

    /// Lets one connection of HTTP/2 have this many requests open at once.
    #[cfg(feature = "http2")]
    #[must_use]
    pub fn max_streams(mut self, max_streams: u32) -> Self {
        self.max_streams = max_streams;
        self
    }

    /// Keeps what is sent in the streams of sessions there.
    #[must_use]
    pub fn events(mut self, events: impl EventStore + 'static) -> Self {
        self.events = Some(Arc::new(events));
        self
    }

    /// Lets other nodes on `registry` go on with the sessions of this one.
    #[must_use]
    pub fn shared_sessions(mut self, registry: impl Registry + 'static) -> Self {
        self.shared_sessions = Some(Arc::new(registry));
        self
    }

    /// Makes a client that was let go wait this long before it comes back.
    #[must_use]
    pub fn retry(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// Tells `observer` of sessions.
    #[must_use]
    pub fn session_observer(mut self, observer: impl SessionObserver) -> Self {
        self.session_observer = Some(Arc::new(observer));
        self
    }

    /// Lets what runs elsewhere call back.
    #[must_use]
    pub fn callbacks(mut self, callbacks: impl Callbacks) -> Self {
        self.callbacks = Some(Arc::new(callbacks));
        self
    }

    /// Serves these pages, too.
    #[must_use]
    pub fn pages(mut self, pages: impl Pages) -> Self {
        self.pages = Some(Arc::new(pages));
        self
    }

    /// Sends a comment on a silent stream this often.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// Gives open answers this long to end once the server is asked to stop.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Lets in only who shows a credential that `guard` accepts.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn guard(mut self, guard: crate::auth::Guard) -> Self {
        self.guard = Some(guard);
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: true,
            path: "/mcp".to_owned(),
            allow: AllowList::loopback(),
            limits: Limits::default(),
            max_connections: 1024,
            max_sessions: 10_000,
            session_idle: Duration::from_secs(30 * 60),
            max_open: 256,
            max_running: 4096,
            max_reading: 128 << 20,
            max_writing: 128 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            stream_after: Duration::from_secs(1),
            always_stream: false,
            sessions: true,
            legacy_sse: false,
            #[cfg(feature = "http2")]
            http2: false,
            #[cfg(feature = "http2")]
            max_streams: 128,
            events: None,
            shared_sessions: None,
            retry: Duration::from_secs(1),
            session_observer: None,
            callbacks: None,
            pages: None,
            keep_alive: Duration::from_secs(15),
            drain: Duration::from_secs(10),
            #[cfg(feature = "auth")]
            guard: None,
        }
    }
}
