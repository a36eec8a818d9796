//! The spans of a server, in a program that was built to make them; in any other there are none.

use std::sync::Arc;

use longhaul::Server;
#[cfg(feature = "otel")]
use longhaul::service::Level;
use longhaul::store::TaskStore;

#[cfg(feature = "otel")]
use crate::spans::Spans;

/// What makes spans, if anything does.
#[derive(Debug)]
pub(crate) struct Traced {
    #[cfg(feature = "otel")]
    spans: Option<Spans>,
}

impl Traced {
    /// As the environment says.
    #[cfg(feature = "otel")]
    pub(crate) fn from_env() -> anyhow::Result<Self> {
        Ok(Self { spans: Spans::from_env()? })
    }

    /// None.
    #[cfg(not(feature = "otel"))]
    pub(crate) fn from_env() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    /// The store, with spans of what is done with tasks.
    pub(crate) fn around(&self, store: Arc<dyn TaskStore>) -> Arc<dyn TaskStore> {
        #[cfg(feature = "otel")]
        if let Some(spans) = &self.spans {
            return spans.around(store);
        }
        store
    }

    /// The server, with a span of each request.
    pub(crate) fn layered(&self, server: Server) -> Server {
        #[cfg(feature = "otel")]
        if let Some(spans) = &self.spans {
            return server.layer(Level::Server, spans.requests());
        }
        server
    }

    /// Sends what has not been sent.
    pub(crate) async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(spans) = self.spans {
            spans.end().await;
        }
    }
}
