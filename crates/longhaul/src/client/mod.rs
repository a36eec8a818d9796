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
//! ([`Options::on_form`]). The files: `connect` finds out the era, `call` and `task` drive calls, `answers` and `asked`
//! answer, `table` knows who waits for what, `link` sends through `driver` and `transport`.

mod answers;
mod asked;
mod call;
mod connect;
pub(crate) mod error;
pub(crate) mod link;
mod list;
pub(crate) mod options;
pub(crate) mod table;
mod target;
mod task;

use std::sync::Arc;

use longhaul_proto::dialect::{Declaration, Dialect, RequestWriter, Welcome};
use longhaul_proto::method::Method;
use longhaul_proto::model::{Implementation, ServerCapabilities, Tool};
use tokio::sync::Mutex;

pub use call::Started;
pub use error::{Cause, Error};
pub use options::{AsTask, CallOptions, LogMessage, Options};
pub use target::{Command, Target};
pub use task::TaskHandle;

pub use crate::handed_over::handed_over;

use link::{Link, Outgoing};
use table::{Answered, Table};

/// A connection to one server. Clones share it; when the last is dropped the connection ends in the
/// background, [`close`](Self::close) ends it in order.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Link,
    table: Arc<Table>,
    welcome: Welcome,
    declaration: Declaration,
    /// The tools, once they were needed to decide something.
    tools: Mutex<Option<Arc<[Tool]>>>,
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
    /// When nobody is there, there is no revision in common, or a program ends at once ([`Error::Died`]
    /// has its last words).
    pub async fn connect(target: impl Into<Target>) -> Result<Self, Error> {
        Self::connect_with(target, Options::default()).await
    }

    /// Connects with other [`Options`].
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(target: impl Into<Target>, options: Options) -> Result<Self, Error> {
        let connect::Connected { link, table, welcome, declaration } =
            connect::connect(target.into(), options).await?;
        Ok(Self(Arc::new(Inner { link, table, welcome, declaration, tools: Mutex::new(None) })))
    }

    /// Who the server says it is: for display, never for trust.
    pub fn server_info(&self) -> Option<&Implementation> {
        self.0.welcome.info.as_ref()
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
        self.ask(self.request(method, |_| ())?).await.map(|_| ())
    }

    /// Closes the connection: what waits is given up, a session is ended, a child process is let go and, if
    /// it does not go, killed with its group. Tasks run on.
    pub async fn close(&self) {
        self.0.link.close().await;
    }

    /// A request with the usual time to wait.
    fn request<'a>(
        &'a self,
        method: Method,
        body: impl Fn(&mut RequestWriter<'_, '_>) + Send + Sync + 'a,
    ) -> Result<Outgoing<'a>, Error> {
        let mut request = Outgoing::new(self.dialect(), method, &self.0.declaration, body)?;
        request.idle = Some(self.0.table.options().request_timeout);
        Ok(request)
    }

    async fn ask(&self, request: Outgoing<'_>) -> Result<Answered, Error> {
        self.0.link.ask(request).await
    }

    fn options(&self) -> &Options {
        self.0.table.options()
    }
}
