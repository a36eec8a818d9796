//! The server's side: the session a handshake opened, and the exchanges under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::dialect::{Dialect, InitializeParams};
use crate::jsonrpc::{Code, ErrorObject, RequestId};
use crate::method::Method;
use crate::model::{ClientCapabilities, Implementation, LoggingLevel, RequestMeta};

/// Names one exchange on one connection, for as long as the connection lives; an id may come again.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Serial(u64);

/// A request that may run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Admitted {
    /// Names the exchange.
    pub serial: Serial,
    /// How the answer is written.
    pub dialect: &'static Dialect,
    /// What is asked.
    pub method: Method,
}

/// When to try again once a connection is full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the handshake of a legacy session settled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Session {
    /// The negotiated revision.
    pub dialect: &'static Dialect,
    /// What the client declared, for the whole session.
    pub capabilities: ClientCapabilities,
    /// Who the client says it is, [shortened](Implementation::shortened).
    pub client_info: Implementation,
    /// The least severe log message the client wants.
    pub log_level: LoggingLevel,
}

/// One connection, seen from the server.
///
/// Feed it with `handle_*`; after each [`handle_request`](Self::handle_request) that admits, end the
/// exchange by exactly one of [`handle_answered`](Self::handle_answered) and
/// [`handle_cancelled`](Self::handle_cancelled).
#[derive(Debug)]
pub struct ServerConnection {
    session: Option<Session>,
    open: HashMap<RequestId, Serial>,
    next: u64,
    max_open: usize,
    /// Methods that no revision knows and this server has all the same.
    own: Arc<[String]>,
    /// The server knows tasks as they were drafted.
    drafted_tasks: bool,
}

impl ServerConnection {
    /// A fresh connection on which at most `max_open` exchanges run at once.
    pub fn new(max_open: usize) -> Self {
        Self {
            session: None,
            open: HashMap::new(),
            next: 0,
            max_open,
            own: Arc::default(),
            drafted_tasks: false,
        }
    }

    /// The same for a server that has these methods of its own.
    #[must_use]
    pub fn with_own_methods(mut self, own: Arc<[String]>) -> Self {
        self.own = own;
        self
    }

    /// The same for a server that knows tasks as they were drafted, or not.
    #[must_use]
    pub fn with_drafted_tasks(mut self, drafted_tasks: bool) -> Self {
        self.drafted_tasks = drafted_tasks;
        self
    }

    /// The session, once a handshake has opened one.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// How many exchanges are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether this exchange is still open: neither answered nor cancelled.
    pub fn is_open(&self, id: &RequestId, serial: Serial) -> bool {
        self.open.get(id) == Some(&serial)
    }

    /// Whether to stop reading until an exchange ends.
    pub fn is_full(&self) -> bool {
        self.open.len() >= self.max_open
    }

    /// A request has come.
    ///
    /// # Errors
    ///
    /// What to answer instead of running it: `-32600` for an id that is still open, an overload of the
    /// revision's own code for a connection that is full, `-32601` for a method its revision lacks, and whatever [`Dialect::of_request`] refuses.
    pub fn handle_request(
        &mut self,
        id: &RequestId,
        method: &str,
        meta: &RequestMeta<'_>,
    ) -> Result<Admitted, ErrorObject> {
        let session = self.session.as_ref().map(|session| session.dialect);
        let dialect = Dialect::of_request(meta, session, method)?;
        let known = dialect.request(method);
        let drafted = || self.drafted_tasks.then(|| dialect.drafted_request(method)).flatten();
        let known = known.or_else(drafted);
        let own = || self.own.iter().any(|name| name == method).then_some(Method::Own);
        let known = known.or_else(own).ok_or_else(|| ErrorObject::method_not_found(method))?;
        if self.is_full() {
            let what = format!(
                "{} requests are open on this connection, its limit: wait for one to end",
                self.max_open
            );
            return Err(dialect.error(ErrorObject::overloaded(what, RETRY_AFTER)));
        }
        if self.open.contains_key(id) {
            return Err(ErrorObject::new(
                Code::INVALID_REQUEST,
                format!("invalid request: a request with id {id} is still open"),
            ));
        }
        let serial = Serial(self.next);
        self.next += 1;
        self.open.insert(id.clone(), serial);
        Ok(Admitted { serial, dialect, method: known })
    }

    /// The handshake: opens the session and says in which dialect to answer.
    ///
    /// # Errors
    ///
    /// `-32600` when there is a session already.
    pub fn handle_initialize(&mut self, params: InitializeParams) -> Result<&Session, ErrorObject> {
        if self.session.is_some() {
            return Err(ErrorObject::new(
                Code::INVALID_REQUEST,
                "invalid request: this session is already initialized",
            ));
        }
        Ok(self.session.insert(Session {
            dialect: Dialect::negotiated(&params.protocol_version),
            capabilities: params.capabilities,
            client_info: params.client_info.shortened(),
            log_level: LoggingLevel::Info,
        }))
    }

    /// There is no handshake: the request itself names its revision, and nothing is known of its client.
    pub fn assume(&mut self, dialect: &'static Dialect) {
        self.session = Some(Session {
            dialect,
            capabilities: ClientCapabilities::default(),
            client_info: Implementation::default(),
            log_level: LoggingLevel::Info,
        });
    }

    /// The client chose the least severe log message it wants.
    pub fn handle_log_level(&mut self, level: LoggingLevel) {
        if let Some(session) = &mut self.session {
            session.log_level = level;
        }
    }

    /// The answer to an exchange is ready. `false` means it was cancelled meanwhile: send nothing.
    #[must_use]
    pub fn handle_answered(&mut self, id: &RequestId, serial: Serial) -> bool {
        let ours = self.is_open(id, serial);
        if ours {
            self.open.remove(id);
        }
        ours
    }

    /// The client no longer wants a request. `None` means it is not open: nothing to stop.
    pub fn handle_cancelled(&mut self, id: &RequestId) -> Option<Serial> {
        self.open.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Limits, Message};

    fn request(connection: &mut ServerConnection, text: &str) -> Result<Admitted, ErrorObject> {
        let Ok(Message::Request(request)) = Message::decode(text.as_bytes(), &Limits::default()) else {
            panic!("{text}")
        };
        let meta = request.params.read("_meta").unwrap().unwrap_or_default();
        connection.handle_request(&request.id, &request.method, &meta)
    }

    fn initialize(connection: &mut ServerConnection, version: &str) -> Result<(), ErrorObject> {
        let params = InitializeParams {
            protocol_version: version.to_owned(),
            capabilities: ClientCapabilities::default(),
            client_info: Implementation::new("t", "1"),
        };
        connection.handle_initialize(params).map(|_| ())
    }

    const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"METHOD","params":{"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

    #[test]
    fn nothing_but_a_handshake_or_a_self_describing_request_opens() {
        let mut connection = ServerConnection::new(8);
        let refused = request(&mut connection, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        assert_eq!(refused.unwrap_err().code, Code::INVALID_PARAMS);
        let ping = request(&mut connection, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        assert_eq!(ping.method, Method::Ping);
        let modern = request(&mut connection, &MODERN.replace("METHOD", "tools/list").replace(":1,", ":2,"));
        assert_eq!(modern.unwrap().dialect.revision().as_str(), "2026-07-28");
    }

    #[test]
    fn a_method_exists_only_in_the_revisions_that_have_it() {
        let mut connection = ServerConnection::new(8);
        for removed in ["initialize", "ping", "logging/setLevel", "tasks/result", "tasks/list"] {
            let refused = request(&mut connection, &MODERN.replace("METHOD", removed));
            assert_eq!(refused.unwrap_err().code, Code::METHOD_NOT_FOUND, "{removed}");
        }
        initialize(&mut connection, "2025-11-25").unwrap();
        for later in ["server/discover", "tasks/update", "subscriptions/listen"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{later}"}}"#);
            assert_eq!(request(&mut connection, &text).unwrap_err().code, Code::METHOD_NOT_FOUND, "{later}");
        }
    }

    #[test]
    fn a_session_keeps_little_of_who_its_client_says_it_is() {
        let mut client_info = Implementation::new("n".repeat(4 << 20), "v".repeat(4 << 20));
        (client_info.title, client_info.description) = (Some("t".repeat(4 << 20)), Some("d".repeat(4 << 20)));
        let params = InitializeParams {
            protocol_version: "2025-11-25".to_owned(),
            capabilities: ClientCapabilities::default(),
            client_info,
        };
        let mut connection = ServerConnection::new(8);
        let kept = &connection.handle_initialize(params).unwrap().client_info;
        assert!(kept.name.starts_with("nnn") && kept.version.starts_with("vvv"));
        let bytes = kept.name.capacity() + kept.version.capacity() + kept.title.as_ref().unwrap().capacity();
        assert!(bytes < 1024 && kept.description.is_none(), "{bytes}");
    }

    #[test]
    fn an_unknown_revision_is_answered_with_the_known_ones() {
        let mut connection = ServerConnection::new(8);
        for date in ["1900-01-01", "2025-11-25"] {
            let refused =
                request(&mut connection, &MODERN.replace("METHOD", "tools/list").replace("2026-07-28", date));
            let error = refused.unwrap_err();
            assert_eq!(error.code, Code::UNSUPPORTED_VERSION);
            let data = error.data.unwrap();
            let all = r#"["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]"#;
            assert_eq!(data.get(), format!(r#"{{"supported":{all},"requested":"{date}"}}"#));
        }
        initialize(&mut connection, "1900-01-01").unwrap();
        assert_eq!(connection.session().unwrap().dialect.revision().as_str(), "2025-11-25");
    }

    #[test]
    fn an_open_id_cannot_be_used_again_until_it_is_answered_or_cancelled() {
        let mut connection = ServerConnection::new(8);
        let ping = r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
        let first = request(&mut connection, ping).unwrap();
        assert_eq!(request(&mut connection, ping).unwrap_err().code, Code::INVALID_REQUEST);
        assert_eq!(connection.handle_cancelled(&5.into()), Some(first.serial));
        let second = request(&mut connection, ping).unwrap();
        assert!(!connection.handle_answered(&5.into(), first.serial), "the cancelled one is not answered");
        assert!(connection.handle_answered(&5.into(), second.serial));
        assert_eq!(connection.open(), 0);
    }

    #[test]
    fn a_full_connection_refuses_and_recovers() {
        let mut connection = ServerConnection::new(1);
        let first = request(&mut connection, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        assert!(connection.is_full());
        let second = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let refused = request(&mut connection, second).unwrap_err();
        assert_eq!((refused.code, refused.retry_after()), (Code::INTERNAL, Some(RETRY_AFTER)));
        let modern = request(&mut connection, &MODERN.replace("METHOD", "tools/list").replace(":1,", ":2,"));
        assert_eq!(modern.unwrap_err().code, Code::OVERLOADED);
        assert!(connection.handle_answered(&1.into(), first.serial));
        assert!(request(&mut connection, second).is_ok());
    }

    #[test]
    fn a_session_opens_once() {
        let mut connection = ServerConnection::new(1);
        initialize(&mut connection, "2025-11-25").unwrap();
        assert_eq!(initialize(&mut connection, "2025-11-25").unwrap_err().code, Code::INVALID_REQUEST);
    }
}
