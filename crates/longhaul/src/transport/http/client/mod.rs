//! The client's side of Streamable HTTP: a POST for each message, its answer as JSON or as events.

mod access;
mod listen;
mod pair;
mod post;
mod read;
mod resume;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_proto::dialect::{Dialect, Era};
use longhaul_proto::http::encode_name;
use longhaul_proto::jsonrpc::clip;
use longhaul_proto::method::Method;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, TRANSFER_ENCODING,
};
use reqwest::{Client, ClientBuilder, RequestBuilder, Url};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::client::error::Error;
use crate::client::link::Outgoing;
use crate::client::options::Options;
use crate::client::table::{Answered, Table};
use crate::driver::StreamLink;
use crate::server::Push;
use crate::trace;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A client's connection to one URL: a session of the legacy era, or requests that stand alone.
#[derive(Debug)]
pub(crate) struct HttpLink {
    shared: Arc<Shared>,
    listening: Mutex<Option<AbortHandle>>,
}

/// What the requests of one connection share.
#[derive(Debug)]
struct Shared {
    http: Client,
    url: Url,
    /// The server, for errors.
    name: String,
    table: Arc<Table>,
    #[cfg(feature = "oauth")]
    authorizer: Option<Arc<crate::client::auth::Authorizer>>,
    session: Mutex<Option<Session>>,
    /// There was a session, and the server has forgotten it.
    is_session_lost: AtomicBool,
    /// What nobody waits for goes out here: answers to the server, and what is no longer wanted.
    beside: mpsc::Sender<post::Beside>,
}

/// A session of the legacy era.
#[derive(Clone, Debug)]
struct Session {
    id: HeaderValue,
    dialect: &'static Dialect,
}

impl HttpLink {
    /// Connects to nothing yet: the first request will. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Target`] when `url` is none of `http`, `https` and `unix`, or no TLS can be set up for it.
    pub(crate) fn new(url: &str, table: Arc<Table>) -> Result<Self, Error> {
        let target = |reason: String| Error::Target { target: url.to_owned(), reason };
        let socket = url.strip_prefix(SOCKET);
        let parsed = Url::parse(if socket.is_some() { AT_SOCKET } else { url });
        let parsed = parsed.map_err(|error| target(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(target(
                "it must be http://HOST[:PORT]/PATH, https://HOST[:PORT]/PATH or unix:FILE".to_owned(),
            ));
        }
        let headers = own_headers(table.options()).map_err(target)?;
        let builder = http_client(&parsed, table.options().connect_timeout, headers);
        let builder = match socket {
            Some(path) => through_socket(builder, path).map_err(target)?,
            None => builder,
        };
        let http = builder.build().map_err(|error| target(unprepared(&error)))?;
        let (beside, queue) = mpsc::channel(post::BESIDE_BOUND);
        let shared = Arc::new(Shared {
            http,
            name: nameable(url),
            #[cfg(feature = "oauth")]
            authorizer: authorizer(&table, &parsed, socket.is_some()),
            url: parsed,
            table,
            session: Mutex::new(None),
            is_session_lost: AtomicBool::new(false),
            beside,
        });
        tokio::spawn(post::send_beside(Arc::downgrade(&shared), queue));
        Ok(Self { shared, listening: Mutex::new(None) })
    }

    pub(crate) async fn ask(&self, request: &Outgoing<'_>) -> Result<Answered, Error> {
        post::ask(&self.shared, request).await
    }

    pub(crate) async fn notify(&self, dialect: &'static Dialect, message: Vec<u8>) -> Result<(), Error> {
        // The modern era has no notification that a client sends over HTTP.
        if dialect.era() == Era::Modern { Ok(()) } else { post::send(&self.shared, dialect, message).await }
    }

    /// Where messages go that nobody waits for.
    pub(crate) fn push(&self, dialect: &'static Dialect) -> Arc<dyn Push> {
        Arc::new(post::BesidePush::new(self.shared.beside.downgrade(), dialect))
    }

    /// Opens the stream for what belongs to no request, once, if there is a session, and waits until it stands.
    pub(crate) async fn listen(&self, dialect: &'static Dialect) {
        let standing = {
            let mut listening = lock(&self.listening);
            let is_listening = listening.as_ref().is_some_and(|running| !running.is_finished());
            if is_listening || self.shared.session().is_none() {
                return;
            }
            let (stands, standing) = oneshot::channel();
            let running = tokio::spawn(listen::listen(Arc::clone(&self.shared), dialect, stands));
            *listening = Some(running.abort_handle());
            standing
        };
        // A server that begins no answer before it has something to say is not waited for.
        let _ = tokio::time::timeout(STANDS_WITHIN, standing).await;
    }

    /// Whether there was a session, and its server has forgotten it. What was heard of it is then no more.
    pub(crate) fn has_lost_session(&self) -> bool {
        let is_lost = self.shared.is_session_lost.load(Ordering::Acquire);
        if is_lost {
            self.stop_listening();
        }
        is_lost
    }

    /// The same server as one of 2024-11-05.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(crate) async fn older(&self) -> Result<StreamLink, Error> {
        pair::open(&self.shared).await
    }

    /// Says what is still to be said, and ends the session, if there is one.
    pub(crate) async fn close(&self) {
        self.stop_listening();
        leave(&self.shared).await;
        self.shared.table.end(Error::Lost { cause: None });
    }

    fn stop_listening(&self) {
        if let Some(listening) = lock(&self.listening).take() {
            listening.abort();
        }
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        self.stop_listening();
        if self.shared.session().is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move { leave(&shared).await });
        }
    }
}

async fn leave(shared: &Shared) {
    // Within the session, while there is one: what is no longer wanted, mostly.
    post::flush(shared).await;
    if let Some(session) = shared.take_session() {
        end(shared, &session).await;
    }
}

/// Tells the server that the session is over. It may not care, or be gone: then the session ends by itself.
async fn end(shared: &Shared, session: &Session) {
    let request = shared.http.delete(shared.url.clone()).header(SESSION_ID, &session.id);
    let version = session.dialect.revision().as_str();
    let request = request.header(PROTOCOL_VERSION, version);
    let ending = async {
        let shown = access::Access::new(shared).shown("DELETE").await?;
        request.headers(shown).send().await.map_err(|error| read::unsent(shared, error))
    };
    match tokio::time::timeout(CLOSE_TIMEOUT, ending).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a session was not ended in order"),
        Err(_) => tracing::debug!("a session was not ended in time"),
    }
}

/// How long the stream for what belongs to no request is waited for.
const STANDS_WITHIN: Duration = Duration::from_secs(1);

/// How long the server may take to acknowledge the end of a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How the address of a server at a socket of this machine begins; the rest is the socket's path.
pub(crate) const SOCKET: &str = "unix:";

/// What such a server is called.
const AT_SOCKET: &str = "http://localhost/mcp";

#[cfg(unix)]
fn through_socket(builder: ClientBuilder, path: &str) -> Result<ClientBuilder, String> {
    if path.is_empty() {
        return Err("it must be unix:FILE".to_owned());
    }
    Ok(builder.unix_socket(path))
}

#[cfg(not(unix))]
fn through_socket(_: ClientBuilder, _: &str) -> Result<ClientBuilder, String> {
    Err("this system has no Unix sockets for it".to_owned())
}

/// An HTTP client for one server, to which it sends these headers with each request. Redirects are not followed:
/// they would carry what is sent elsewhere.
pub(crate) fn http_client(url: &Url, connect_timeout: Duration, headers: HeaderMap) -> ClientBuilder {
    let mut builder = Client::builder()
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect_timeout)
        .tcp_keepalive(Duration::from_secs(30));
    if url.scheme() == "http" {
        // No trust store is read for a connection without TLS: it takes time, and there may be none.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder
}

/// What the application has every request say: who asks, and whatever else its server wants to know.
fn own_headers(options: &Options) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &options.headers {
        let name: HeaderName =
            name.parse().map_err(|_| format!("{:?} cannot be the name of a header", clip(name)))?;
        if is_ours(&name) {
            return Err(format!("the header `{name}` is the protocol's to say"));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the header `{name}` has a character that cannot be sent"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    if let Some(token) = options.bearer.as_deref() {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| "the token for it has a character that cannot be sent".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Whether what a header says is for the protocol, or for the connection.
fn is_ours(name: &HeaderName) -> bool {
    [CONTENT_TYPE, ACCEPT, HOST, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING].contains(name)
        || name.as_str().starts_with("mcp-")
        || name.as_str() == "last-event-id"
}

/// Who gets the tokens for a server. A token that was given is shown as it is, and at a socket of this machine the system
/// says who asks.
#[cfg(feature = "oauth")]
fn authorizer(table: &Table, url: &Url, is_socket: bool) -> Option<Arc<crate::client::auth::Authorizer>> {
    let options = table.options();
    let is_known = options.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let is_known = is_known || options.bearer.is_some();
    let oauth = options.oauth.as_ref().filter(|_| !is_known && !is_socket)?;
    Some(Arc::new(crate::client::auth::Authorizer::new(oauth.clone(), url.clone())))
}

/// Why no client can be set up, in the words of the innermost cause: that of a missing trust store, mostly.
fn unprepared(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    format!("TLS cannot be set up ({cause}); are the system's certificates installed?")
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

impl Shared {
    /// A POST of `message`, with the headers that every one has.
    fn post(&self, message: Vec<u8>) -> RequestBuilder {
        trace::sent(&message);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(session) = self.session() {
            headers.insert(SESSION_ID, session.id);
        }
        self.http.post(self.url.clone()).headers(headers).body(message)
    }

    fn session(&self) -> Option<Session> {
        lock(&self.session).clone()
    }

    fn take_session(&self) -> Option<Session> {
        lock(&self.session).take()
    }

    /// The session that a handshake has opened, if it has.
    fn set_session(&self, session: Option<Session>) {
        *lock(&self.session) = session;
        self.is_session_lost.store(false, Ordering::Release);
    }

    /// The server does not know the session in which a request was made: whether there was one. Another may have been opened
    /// meanwhile.
    fn lose_session(&self, used: Option<&Session>) -> bool {
        let Some(used) = used else { return false };
        let is_lost = lock(&self.session).take_if(|session| session.id == used.id).is_some();
        if is_lost {
            self.is_session_lost.store(true, Ordering::Release);
            // Whoever hears in it looks, and by that opens another.
            self.table.lose_session();
        }
        true
    }

    /// The server, for errors.
    fn target(&self) -> String {
        self.name.clone()
    }
}

/// A URL without what may be a secret.
fn nameable(url: &str) -> String {
    Url::parse(url).ok().and_then(without_secrets).unwrap_or_else(|| url.to_owned())
}

/// A URL of a host without what may be a secret; nothing of others.
fn without_secrets(mut url: Url) -> Option<String> {
    url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    Some(url.into())
}

/// Where an answer of `asked` sends whoever asked, by its `location`, in words for whoever could write that place instead and
/// without what may be a secret. Nobody goes there. Nothing, if it is no place to write.
#[doc(hidden)]
#[must_use]
pub fn redirected(asked: &str, location: &str) -> Option<String> {
    let there = Url::parse(asked).ok()?.join(Some(location).filter(|location| !location.is_empty())?).ok()?;
    let there = without_secrets(there).filter(|there| there.len() <= LONGEST_URL)?;
    Some(format!("it redirects to {there}, which is not followed: write that"))
}

/// The longest address that is repeated of where an answer redirects to: one that is longer is nobody's to type.
const LONGEST_URL: usize = 400;

/// The headers that repeat what the body says.
fn mirrored(request: &Outgoing<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if request.method != Method::Initialize {
        let version = HeaderValue::from_static(request.dialect.revision().as_str());
        headers.insert(PROTOCOL_VERSION, version);
    }
    if request.dialect.mirrors_headers() {
        // What can be no header stays out; the server then says so.
        let mut repeat = |header: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(&encode_name(text)) {
                headers.insert(header, value);
            }
        };
        repeat(METHOD, request.method_name);
        if let Some(name) = request.name {
            repeat(NAME, name);
        }
        for (header, text) in &request.repeated {
            if let Ok(header) = HeaderName::from_bytes(header.as_bytes()) {
                repeat(header, text);
            }
        }
    }
    headers
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_without_a_proxy() {
        for (url, loopback) in [
            ("http://localhost:1/", true),
            ("http://127.0.0.2/", true),
            ("http://[::1]:8420/mcp", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), loopback, "{url}");
        }
    }
}
