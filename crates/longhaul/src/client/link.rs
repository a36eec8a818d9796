//! One request on its way: the same for every transport.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Declaration, Dialect, RequestWriter};
use longhaul_proto::jsonrpc::{ProgressToken, RequestId};
use longhaul_proto::method::Method;
use longhaul_proto::model::Progress;

use super::error::Error;
use super::options::Callback;
use super::table::{Answered, Waiting};
use super::told::Told;
use crate::driver::StreamLink;
use crate::server::Push;
#[cfg(feature = "http-client")]
use crate::transport::http::client::HttpLink;
use crate::wire::{self, By};

/// A connection, whichever way it runs.
#[derive(Debug)]
pub(crate) enum Link {
    /// One message a line, both ways.
    Stream(StreamLink),
    /// A POST for each message.
    #[cfg(feature = "http-client")]
    Http(HttpLink),
}

/// One request, before it has an id.
pub(crate) struct Outgoing<'a> {
    pub(crate) dialect: &'static Dialect,
    pub(crate) method: Method,
    /// Its name on the wire.
    pub(crate) method_name: &'a str,
    /// What HTTP repeats in `Mcp-Name`.
    pub(crate) name: Option<&'a str>,
    /// The headers in which HTTP repeats arguments, and what they say before their encoding.
    pub(crate) repeated: Vec<(&'a str, Cow<'a, str>)>,
    /// How long to wait without answer or progress.
    pub(crate) idle: Option<Duration>,
    pub(crate) on_progress: Option<Callback<Progress>>,
    /// Who is told what belongs to the request, which is a subscription.
    pub(crate) told: Option<Arc<Told>>,
    /// Whether the server is told when the answer is no longer wanted.
    pub(crate) cancellable: bool,
    pub(crate) write: WriteMessage<'a>,
}

/// Appends the whole message.
pub(crate) type WriteMessage<'a> =
    Box<dyn Fn(&RequestId, Option<&ProgressToken>, &mut Vec<u8>) + Send + Sync + 'a>;

impl<'a> Outgoing<'a> {
    /// A request of a method that every caller may give up.
    ///
    /// # Errors
    ///
    /// When the dialect has no such method.
    pub(crate) fn new(
        dialect: &'static Dialect,
        method: Method,
        declaration: Arc<Declaration>,
        body: impl Fn(&mut RequestWriter<'_, '_>) + Send + Sync + 'a,
    ) -> Result<Self, Error> {
        let Some(method_name) = dialect.name_of(method) else {
            return Err(Error::NotOffered { what: noun(method), revision: dialect.revision() });
        };
        Ok(Self::named(dialect, method, method_name, declaration, body))
    }

    /// A request of a method of that name.
    pub(crate) fn named(
        dialect: &'static Dialect,
        method: Method,
        method_name: &'a str,
        declaration: Arc<Declaration>,
        body: impl Fn(&mut RequestWriter<'_, '_>) + Send + Sync + 'a,
    ) -> Self {
        Self {
            dialect,
            method,
            method_name,
            name: None,
            repeated: Vec::new(),
            idle: None,
            on_progress: None,
            told: None,
            cancellable: true,
            write: Box::new(move |id, token, out| {
                dialect.write_request(out, id, method_name, &declaration, token, &body);
            }),
        }
    }

    /// Whether nothing is done by it, so that it may be sent again though it may have been received.
    pub(crate) fn only_asks(&self) -> bool {
        matches!(
            self.method,
            Method::Discover
                | Method::Ping
                | Method::ListTools
                | Method::ListResources
                | Method::ListResourceTemplates
                | Method::ListPrompts
                | Method::ReadResource
                | Method::Complete
        )
    }

    /// The whole message, under the id that waits for its answer.
    pub(crate) fn message(&self, waiting: &Waiting) -> Vec<u8> {
        let mut message = Vec::with_capacity(512);
        (self.write)(waiting.id(), waiting.progress_token(), &mut message);
        wire::said(By::Client, self.dialect, None, &message);
        message
    }
}

/// What a method is about, for an error.
fn noun(method: Method) -> &'static str {
    match method {
        Method::Ping => "a ping",
        Method::TaskResult => "fetching a task's result apart",
        Method::UpdateTask => "answering a task",
        Method::GetTask | Method::CancelTask => "a task",
        Method::DeleteTask => "deleting a task",
        Method::Complete => "completion",
        Method::Listen => "a subscription",
        Method::Subscribe | Method::Unsubscribe => "hearing of one resource",
        _ => "this method",
    }
}

impl Link {
    /// Sends a request and waits for its answer. Dropping the future gives the request up.
    pub(crate) async fn ask(&self, request: &Outgoing<'_>) -> Result<Answered, Error> {
        let (dialect, method) = (request.dialect, request.method_name);
        let answered = match self {
            Self::Stream(link) => link.ask(request).await,
            #[cfg(feature = "http-client")]
            Self::Http(link) => link.ask(request).await,
        };
        answered.inspect(|answered| wire::answered(dialect, method, &answered.result))
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, dialect: &'static Dialect, message: Vec<u8>) -> Result<(), Error> {
        wire::said(By::Client, dialect, None, &message);
        match self {
            Self::Stream(link) => link.notify(message).await,
            #[cfg(feature = "http-client")]
            Self::Http(link) => link.notify(dialect, message).await,
        }
        .inspect_err(
            |error| tracing::debug!(%error, dialect = %dialect.revision(), "a notification was not sent"),
        )
    }

    /// Where messages go that nobody waits for.
    pub(crate) fn push(&self, dialect: &'static Dialect) -> Arc<dyn Push> {
        let _ = dialect;
        match self {
            Self::Stream(link) => link.push(),
            #[cfg(feature = "http-client")]
            Self::Http(link) => link.push(dialect),
        }
    }

    /// Hears what belongs to no request, where that needs a stream of its own, and waits until it stands.
    pub(crate) async fn listen(&self, dialect: &'static Dialect) {
        match self {
            Self::Stream(_) => {}
            #[cfg(feature = "http-client")]
            Self::Http(link) => link.listen(dialect).await,
        }
        let _ = dialect;
    }

    /// Whether there was a session, and its server has forgotten it.
    pub(crate) fn has_lost_session(&self) -> bool {
        match self {
            Self::Stream(_) => false,
            #[cfg(feature = "http-client")]
            Self::Http(link) => link.has_lost_session(),
        }
    }

    /// The same server, spoken to in the way that came before this one, if there was any.
    ///
    /// # Errors
    ///
    /// When it does not speak so.
    pub(crate) async fn older(&self) -> Result<Option<Self>, Error> {
        match self {
            Self::Stream(_) => Ok(None),
            #[cfg(feature = "http-client")]
            Self::Http(link) => link.older().await.map(|link| Some(Self::Stream(link))),
        }
    }

    /// Whether requests repeat parts of their body in headers.
    pub(crate) fn has_headers(&self) -> bool {
        !matches!(self, Self::Stream(_))
    }

    /// Whether a request can succeed after one that was lost.
    pub(crate) fn outlives_loss(&self) -> bool {
        !matches!(self, Self::Stream(_))
    }

    /// Ends the connection in order.
    pub(crate) async fn close(&self) {
        match self {
            Self::Stream(link) => link.close().await,
            #[cfg(feature = "http-client")]
            Self::Http(link) => link.close().await,
        }
    }
}

/// A callback that two places hold.
pub(crate) fn shared<T>(callback: &Option<Callback<T>>) -> Option<Callback<T>> {
    callback.as_ref().map(Arc::clone)
}
