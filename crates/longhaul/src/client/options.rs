//! How a client behaves, and how one call does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::Revision;
use longhaul_proto::jsonrpc::Limits;
use longhaul_proto::model::{Implementation, LoggingLevel, Progress};
use serde_json::value::RawValue;

use super::answers::Answers;
use super::eras::Eras;
use super::hosting::Hosting;
use super::journal::{Book, Journal};

/// What a user's callback is: shared, and called where messages are read, so it must not block.
pub(crate) type Callback<T> = Arc<dyn Fn(T) + Send + Sync>;

/// What a server says in its log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogMessage {
    /// How severe it is.
    pub level: LoggingLevel,
    /// Which part of the server speaks, if it says so.
    pub logger: Option<String>,
    /// What it says: any JSON, often a string.
    pub data: Box<RawValue>,
}

/// Bounds and habits of a client.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Who the client says it is. Default: this library.
    pub info: Implementation,
    /// The revision to speak; `None` finds out what the server speaks. Default `None`.
    pub revision: Option<Revision>,
    /// The least severe log message wanted; `None` for none. Default `None`.
    pub log_level: Option<LoggingLevel>,
    /// The size and depth of a message of the server.
    pub limits: Limits,
    /// How many requests may wait for an answer at once. Default 256.
    pub max_pending: usize,
    /// How many tools, readable or not, and how many pages of them, a list may have. Default 10,000.
    pub max_listed: usize,
    /// How long to wait for the answer to any request but a call; counted as [`CallOptions::idle`] is. Default 60 s.
    pub request_timeout: Duration,
    /// How long a server over standard streams may be silent before it is taken for one of the legacy
    /// era. Default 5 s.
    pub discovery_timeout: Duration,
    /// How long one attempt to connect over HTTP may take. Default 10 s.
    pub connect_timeout: Duration,
    /// How long to wait for a server over HTTP to say what it is, once it is connected to. It may have to be started first, so
    /// who has such servers waits longer; other programs are waited for as long as for any request. Default 10 s.
    pub greeting_timeout: Duration,
    /// How long a child process may take to end once its input is closed, and again once it is told to.
    /// Default 2 s.
    pub close_grace: Duration,
    /// How long a server may be unreachable while a task of it is waited for. Default 2 min.
    pub retry_for: Duration,
    /// How often in a row a task may be found waiting for an answer, with nothing that it had not asked before, until it
    /// is taken for stuck: it is cancelled, and [`Error::Stuck`](super::Error::Stuck). A call that asks before it answers
    /// may do so as often. Default 60.
    pub stuck_after: u32,
    /// How many questions of the server may wait for the application at once, where it asks by requests. Default 64.
    pub max_questions: usize,
    /// How many pages the user may have been sent to and not be done with, as far as is known. Default 64.
    pub max_pages: usize,
    /// Whether lists and resources are asked for again only once the time has passed that their server gave them, or it
    /// has said that they changed. Default `true`.
    pub cache: bool,
    /// How many such answers are kept. Default 256.
    pub max_cached: usize,
    /// How many bytes of them are kept; one that does not fit is not. Default 8 MiB.
    pub max_cached_bytes: usize,
    /// How many changes of one subscription may wait to be read. Default 1,024.
    pub max_unread: usize,
    /// Which servers turned out to be of which era. Default: none yet, and clones of these options learn together.
    pub eras: Eras,
    /// Whether the structure of a result is held against the schema that its tool was listed with:
    /// [`Error::Unfit`](super::Error::Unfit). If the tools were not listed yet, they are when the first structure comes. Needs
    /// the feature `schema-validation`. Default `true`.
    pub validate: bool,
    /// Whether calls ask to be tasks as SEP-1686 drafted them, of servers that offer nothing newer. Default `false`: no revision has
    /// them.
    pub drafted_tasks: bool,
    pub(crate) answers: Answers,
    pub(crate) hosting: Option<Hosting>,
    pub(crate) journal: Option<Arc<Book>>,
    pub(crate) bearer: Option<Arc<str>>,
    pub(crate) headers: Vec<(Arc<str>, Arc<str>)>,
    #[cfg(feature = "oauth")]
    pub(crate) oauth: Option<super::auth::OAuth>,
    pub(crate) on_log: Option<Callback<LogMessage>>,
    pub(crate) on_stderr: Option<Callback<String>>,
    pub(crate) on_page_done: Option<Callback<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            info: Implementation::new("longhaul", env!("CARGO_PKG_VERSION")),
            revision: None,
            log_level: None,
            limits: Limits::default(),
            max_pending: 256,
            max_listed: 10_000,
            request_timeout: Duration::from_secs(60),
            discovery_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
            greeting_timeout: Duration::from_secs(10),
            close_grace: Duration::from_secs(2),
            retry_for: Duration::from_secs(120),
            stuck_after: 60,
            max_questions: 64,
            max_pages: 64,
            cache: true,
            max_cached: 256,
            max_cached_bytes: 8 << 20,
            max_unread: 1024,
            eras: Eras::default(),
            validate: true,
            drafted_tasks: false,
            answers: Answers::default(),
            hosting: None,
            journal: None,
            bearer: None,
            headers: Vec::new(),
            #[cfg(feature = "oauth")]
            oauth: None,
            on_log: None,
            on_stderr: None,
            on_page_done: None,
        }
    }
}

impl Options {
    /// Says who the client is.
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = info;
        self
    }

    /// Speaks this revision and no other.
    #[must_use]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.revision = Some(revision);
        self
    }

    /// Bounds the size and depth of a message of the server.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets this many requests wait at once.
    #[must_use]
    pub fn max_pending(mut self, max_pending: usize) -> Self {
        self.max_pending = max_pending;
        self
    }

    /// Takes this many tools, and pages of them, at most.
    #[must_use]
    pub fn max_listed(mut self, max_listed: usize) -> Self {
        self.max_listed = max_listed;
        self
    }

    /// Waits this long for the answer to any request but a call.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> Self {
        self.request_timeout = request_timeout;
        self
    }

    /// Takes a server over standard streams for one of the legacy era after this much silence.
    #[must_use]
    pub fn discovery_timeout(mut self, discovery_timeout: Duration) -> Self {
        self.discovery_timeout = discovery_timeout;
        self
    }

    /// Gives one attempt to connect over HTTP this long.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Waits this long for a server over HTTP to say what it is.
    #[must_use]
    pub fn greeting_timeout(mut self, greeting_timeout: Duration) -> Self {
        self.greeting_timeout = greeting_timeout;
        self
    }

    /// Gives a child process this long to end.
    #[must_use]
    pub fn close_grace(mut self, close_grace: Duration) -> Self {
        self.close_grace = close_grace;
        self
    }

    /// Waits for a task this long although its server cannot be reached.
    #[must_use]
    pub fn retry_for(mut self, retry_for: Duration) -> Self {
        self.retry_for = retry_for;
        self
    }

    /// Takes a task for stuck after this many looks at which it waited for an answer and asked nothing new.
    #[must_use]
    pub fn stuck_after(mut self, stuck_after: u32) -> Self {
        self.stuck_after = stuck_after;
        self
    }

    /// Asks for lists and resources whenever they are wanted, or as their server says they may be kept.
    #[must_use]
    pub fn cache(mut self, cache: bool) -> Self {
        self.cache = cache;
        self
    }

    /// Keeps this many answers for later, and this many bytes of them.
    #[must_use]
    pub fn max_cached(mut self, answers: usize, bytes: usize) -> Self {
        (self.max_cached, self.max_cached_bytes) = (answers, bytes);
        self
    }

    /// Lets this many changes of one subscription wait to be read.
    #[must_use]
    pub fn max_unread(mut self, max_unread: usize) -> Self {
        self.max_unread = max_unread;
        self
    }

    /// Learns of servers' eras together with all that use these `eras`, so that each is found out once.
    #[must_use]
    pub fn eras(mut self, eras: Eras) -> Self {
        self.eras = eras;
        self
    }

    /// Lets this many questions of the server wait for the application at once.
    #[must_use]
    pub fn max_questions(mut self, max_questions: usize) -> Self {
        self.max_questions = max_questions;
        self
    }

    /// Waits for this many pages at once to be done with.
    #[must_use]
    pub fn max_pages(mut self, max_pages: usize) -> Self {
        self.max_pages = max_pages;
        self
    }

    /// Holds the structure of results against the schemas of their tools, or takes it as it comes.
    #[must_use]
    pub fn validate(mut self, validate: bool) -> Self {
        self.validate = validate;
        self
    }

    /// Has calls be tasks as SEP-1686 drafted them, before a revision had any, where the server offers those and nothing newer
    /// ([`Server::drafted_tasks`](crate::Server::drafted_tasks)).
    ///
    /// The client names the task. Only the connection that has begun one can cancel it, and hears what it asks. A client that
    /// [hosts tasks](Self::host_tasks) hosts those that its server names, too.
    ///
    /// ```
    /// use longhaul::client::Options;
    ///
    /// let options = Options::default().drafted_tasks(true);
    /// ```
    #[must_use]
    pub fn drafted_tasks(mut self, drafted_tasks: bool) -> Self {
        self.drafted_tasks = drafted_tasks;
        self
    }

    /// Lets servers of 2025-11-25 have what they ask of the user ([`on_form`](Self::on_form), [`on_page`](Self::on_page)) and of
    /// the model ([`on_sample`](Self::on_sample)) done as tasks, for whose answers they may come back. Without this a client
    /// hosts none, and servers wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use longhaul::client::{Hosting, Options};
    ///
    /// let hosting = Hosting::default().ttl(Duration::from_secs(600), Duration::from_secs(3600));
    /// let options = Options::default().host_tasks(hosting);
    /// ```
    #[must_use]
    pub fn host_tasks(mut self, hosting: Hosting) -> Self {
        self.hosting = Some(hosting);
        self
    }

    /// Notes every call before it is made, and each answer before it is told, so that after this process has been killed the next
    /// can go on with them: [`Client::recover`](super::Client::recover).
    ///
    /// Each call then has a key, under which servers that know such keys (longhaul is one) make it once. A journal is one
    /// process's; clients of the same server share these options, not only the journal.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use longhaul::client::{Client, FileJournal, Options};
    ///
    /// let options = Options::default().journal(FileJournal::open("calls.journal")?);
    /// let client = Client::connect_with("http://127.0.0.1:8420/mcp", options).await?;
    /// for call in client.recover().await? {
    ///     println!("{}: {:?}", call.tool, call.outcome);
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Book::new(Arc::new(journal)));
        self
    }

    /// Shows this bearer token with every request over HTTP, and to nobody but the server: redirects are not
    /// followed. Whoever listens on the way can read it unless the URL is `https`.
    #[must_use]
    pub fn bearer(mut self, token: impl Into<Arc<str>>) -> Self {
        self.bearer = Some(token.into());
        self
    }

    /// Sends this header with every request over HTTP. What the protocol itself says in headers cannot be said so. A value may
    /// be a secret: it is in no log, and no redirect carries it elsewhere.
    ///
    /// ```
    /// use longhaul::client::Options;
    ///
    /// let options = Options::default().header("x-api-key", "0123456789");
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn header(mut self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Gets tokens where a server over HTTP asks for them, keeps and renews them. A [`bearer`](Self::bearer) token comes
    /// before it.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn oauth(mut self, oauth: super::auth::OAuth) -> Self {
        self.oauth = Some(oauth);
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("info", &self.info)
            .field("revision", &self.revision)
            .field("log_level", &self.log_level)
            .field("limits", &self.limits)
            .field("request_timeout", &self.request_timeout)
            .field("discovery_timeout", &self.discovery_timeout)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}

/// Whether a call may become a task.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum AsTask {
    /// Wherever the server and the tool allow it.
    #[default]
    Allowed,
    /// Not if the caller can help it: the call ends with its connection.
    Never,
}

/// How one call behaves.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// Whether it may become a task.
    pub as_task: AsTask,
    /// How long to keep the task, where the caller may say so (2025-11-25; after its end, if it is a drafted one). Default: the
    /// server decides.
    pub ttl: Option<Duration>,
    /// How long to wait without an answer or progress; `None` waits for as long as the connection lives. In a session it does not
    /// count while any question of the server's waits for the application: the call may be what asks.
    /// Default `None`: a long call is what this library is for, and dropping the future cancels it.
    pub idle: Option<Duration>,
    /// How long the call may take in all, as a task or not; what has become a task runs on. Default `None`.
    pub timeout: Option<Duration>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) on_progress: Option<Callback<Progress>>,
}

impl CallOptions {
    /// Names the call in the [journal](Options::journal). A call whose name is there already is not made again: it is gone on
    /// with, or what it came to is given again, until [`Client::forget`](super::Client::forget). Without a journal a name does
    /// nothing.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Whether the call may become a task.
    #[must_use]
    pub fn as_task(mut self, as_task: AsTask) -> Self {
        self.as_task = as_task;
        self
    }

    /// Asks for the task to be kept this long.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Gives up after so long without an answer or progress.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Gives up after so long in all.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Asks for progress, and calls `on_progress` for each point of it. It must not block.
    #[must_use]
    pub fn on_progress(mut self, on_progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(on_progress));
        self
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("as_task", &self.as_task)
            .field("ttl", &self.ttl)
            .field("idle", &self.idle)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
