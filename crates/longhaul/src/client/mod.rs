//! Using a server: whatever its era, over HTTP, as a child process or in this process.
//!
//! ```no_run
//! # async fn run() -> Result<(), longhaul::client::Error> {
//! use longhaul::client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:8420/mcp").await?;
//! let result = client.call("test", &serde_json::json!({ "crate": "api" })).await?;
//! println!("{:?}", result.content);
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! [`Client::call`] brings a call to its end even if the server makes a task of it; [`Client::start`] hands
//! over the [`TaskHandle`] instead. What a server asks meanwhile is answered by what [`Options`] were given for it
//! ([`Options::on_form`]). The files: `connect` finds out the era, `call` and `task` drive calls, which `rounds` makes
//! again when they ask and `drafted` names; `watch` follows a task, `saved` is one written down, `journal` keeps what a crash must not lose, `pace` says how long to wait; `answers` and
//! `asked` answer, `hosting` keeps answers for servers that come back for them, `owed` is what they wait for, `pages` are where they sent the user; `structure` is held against schemas; `list`, `known`, `offer` and `subscription`, which `told` feeds, are
//! what there is beside calls; `again` sends, once more where that is safe and not at all where `cache` has the answer;
//! `table` knows who waits for what, `link` sends through `driver` and `transport`.

mod again;
mod answers;
mod asked;
#[cfg(feature = "oauth")]
pub mod auth;
mod cache;
mod call;
mod callbacks;
mod connect;
mod drafted;
mod eras;
pub(crate) mod error;
mod hosting;
pub(crate) mod journal;
mod known;
pub(crate) mod link;
mod list;
mod offer;
pub(crate) mod options;
mod owed;
mod pace;
mod pages;
mod private;
mod rounds;
mod saved;
mod structure;
mod subscription;
pub(crate) mod table;
mod target;
mod task;
pub(crate) mod told;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use longhaul_proto::dialect::{Declaration, Dialect, RequestWriter, Welcome};
use longhaul_proto::method::{Method, Notice};
use longhaul_proto::model::{Implementation, LoggingLevel, ServerCapabilities};

pub use answers::Question;
pub use call::Started;
pub use eras::Eras;
pub use error::{Cause, Error};
pub use hosting::Hosting;
pub use journal::{Begun, Calls, Ended, Entry, FileJournal, Journal, JournalError, Kept, Recovered};
pub use list::{Items, LeftOut, Listed};
pub use options::{AsTask, CallOptions, LogMessage, Options};
pub use saved::SavedTask;
pub use subscription::Subscription;
pub use target::{Command, Target};
pub use task::TaskHandle;
pub use told::Change;
pub use watch::Changes;

#[cfg(feature = "http-client")]
#[doc(hidden)]
pub use crate::transport::http::client::redirected;

pub use crate::handed_over::handed_over;

use known::Known;
use link::{Link, Outgoing};
use table::Table;

/// A connection to one server. Clones share it; when the last is dropped the connection ends in the
/// background, [`close`](Self::close) ends it in order.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    server: String,
    link: Link,
    table: Arc<Table>,
    welcome: Welcome,
    declaration: Mutex<Arc<Declaration>>,
    /// Held by whoever opens another session.
    renewing: tokio::sync::Mutex<()>,
    /// The tools, once they were needed to decide something.
    tools: tokio::sync::Mutex<Option<Arc<Known>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // What was answered for the server need not be any more.
        self.table.end(Error::Lost { cause: None });
    }
}

impl Client {
    /// Connects to a server: a URL, a command line, a [`Command`] or a [`Target`].
    ///
    /// Asks in the way of the modern era first, and opens a session of the legacy era with a server that
    /// does not know it. A program that ends at the first question is started once more. Dropping the
    /// future ends what it has started. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// When nobody is there, there is no revision in common, a program ends at once ([`Error::Died`] has its last words), or
    /// this build lacks the feature for such a target (`http-client`, `child-process`; [`Error::Target`] says which).
    pub async fn connect(target: impl Into<Target>) -> Result<Self, Error> {
        Self::connect_with(target, Options::default()).await
    }

    /// Connects with other [`Options`].
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(target: impl Into<Target>, mut options: Options) -> Result<Self, Error> {
        let target = target.into();
        let named = target.name();
        if let Some(hosting) = &mut options.hosting {
            hosting.begin(target.identity().as_deref()).await?;
        }
        // Large, and done once.
        let connected = Box::pin(connect::connect(target, options)).await?;
        let connect::Connected { link, table, welcome, declaration } = connected;
        let server = named.unwrap_or_else(|| {
            welcome
                .info
                .as_ref()
                .map_or_else(|| "a stream".to_owned(), |info| format!("a stream to {}", info.name))
        });
        let (declaration, tools) = (Mutex::new(declaration), tokio::sync::Mutex::new(None));
        let renewing = tokio::sync::Mutex::new(());
        Ok(Self(Arc::new(Inner { server, link, table, welcome, declaration, renewing, tools })))
    }

    /// Who the server says it is: for display, never for trust.
    pub fn server_info(&self) -> Option<&Implementation> {
        self.0.welcome.info.as_ref()
    }

    /// Which server this is, as it was named to connect to it: its URL, or its command line. Of one at the other end of
    /// streams nothing is known but what it says it is.
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// What the server offers.
    pub fn capabilities(&self) -> &ServerCapabilities {
        &self.0.welcome.capabilities
    }

    /// How to use the server as a whole, in its own words, for a model.
    pub fn instructions(&self) -> Option<&str> {
        self.0.welcome.instructions.as_deref()
    }

    /// The dialect that is spoken; its revision is the negotiated one.
    pub fn dialect(&self) -> &'static Dialect {
        self.0.welcome.dialect
    }

    /// Asks whether the server is alive. In the modern era it is asked what it is, for there is no `ping`.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn ping(&self) -> Result<(), Error> {
        let method =
            if self.dialect().name_of(Method::Ping).is_some() { Method::Ping } else { Method::Discover };
        self.ask(self.prepare(method, |_| ())?).await.map(|_| ())
    }

    /// Asks for log messages as severe as `level` or more: of the session, or, in the modern era, of whatever is asked from
    /// here on. [`Options::on_log`] reads them.
    ///
    /// # Errors
    ///
    /// When the server has no log.
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), Error> {
        if !self.capabilities().logging {
            return Err(Error::NotOffered { what: "a log", revision: self.dialect().revision() });
        }
        if self.dialect().name_of(Method::SetLogLevel).is_some() {
            let request = self.prepare(Method::SetLogLevel, |params| {
                params.field("level", &level);
            })?;
            self.ask(request).await?;
        }
        let mut declaration = self.0.declaration.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut declaration).log_level = Some(level);
        Ok(())
    }

    /// Tells the server that [`Options::on_roots`] says something else now. In the modern era servers ask anew each time, and
    /// what nobody asks is not declared: then nothing is sent.
    ///
    /// # Errors
    ///
    /// When it cannot be sent.
    pub async fn roots_changed(&self) -> Result<(), Error> {
        if self.options().answers.roots.is_none() {
            return Ok(());
        }
        match self.dialect().notification(Notice::RootsChanged, |_| ()) {
            Some(changed) => self.0.link.notify(self.dialect(), changed).await,
            None => Ok(()),
        }
    }

    /// Whether the connection is over, so that nothing can be asked any more: its process or its stream has ended. Over
    /// HTTP it never is, for each request is one of its own.
    pub fn has_ended(&self) -> bool {
        self.0.table.ended().is_some()
    }

    /// Closes the connection: what waits is given up, a session is ended, a child process is let go and, if
    /// it does not go, killed with its group. Tasks run on.
    pub async fn close(&self) {
        self.0.link.close().await;
    }

    /// A request with the usual time to wait.
    fn prepare<'a>(
        &'a self,
        method: Method,
        body: impl Fn(&mut RequestWriter<'_, '_>) + Send + Sync + 'a,
    ) -> Result<Outgoing<'a>, Error> {
        let mut request = Outgoing::new(self.dialect(), method, self.declaration(), body)?;
        request.idle = Some(self.0.table.options().request_timeout);
        Ok(request)
    }

    /// What a request says of us.
    fn declaration(&self) -> Arc<Declaration> {
        Arc::clone(&self.0.declaration.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn options(&self) -> &Options {
        self.0.table.options()
    }
}
