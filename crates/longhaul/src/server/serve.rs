//! The ways to serve a server that was put together.

use std::future::Future;

use longhaul_tasks::store::StoreError;

use super::principal::local_user;
use super::{BuildError, Server};
use crate::driver::{self, DriverError};
use crate::transport::stdio;

/// Why serving ended in failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server could not be put together.
    #[error("the server cannot start")]
    Build(#[from] BuildError),
    /// The store of tasks cannot be used.
    #[error("the store of tasks cannot be used")]
    Store(#[from] StoreError),
    /// The connection failed.
    #[error("the connection failed")]
    Connection(#[from] DriverError),
    /// The address cannot be served on.
    #[cfg(feature = "http")]
    #[error("the address cannot be served on")]
    Listener(#[from] std::io::Error),
}

impl Server {
    /// Serves one client over this process's standard input and output, until the input ends.
    ///
    /// Nothing else may write to standard output meanwhile. A person who starts this in a terminal is told on standard
    /// error that it waits for a host.
    ///
    /// # Errors
    ///
    /// When the server cannot be put together, or the output can no longer be written.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        stdio::greet_person();
        self.serve_stdio_until(std::future::pending()).await
    }

    /// As [`serve_stdio`](Self::serve_stdio), or until `shutdown` completes: held calls are then made durable
    /// and handed over, and the last answers written.
    ///
    /// A read of standard input that is under way can keep a runtime from ending:
    /// `Runtime::shutdown_background` does not wait for it.
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`](Self::serve_stdio).
    pub async fn serve_stdio_until(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let options = self.options.clone();
        let dispatcher = self.dispatcher()?;
        dispatcher.start().await?;
        let (reader, writer) = stdio::stdio();
        Ok(driver::serve_only_client(dispatcher, local_user(), reader, writer, options, shutdown).await?)
    }

    /// Serves every client that connects to `listener`, such as a TCP listener, over Streamable HTTP, until the listener fails.
    ///
    /// Dropping the future closes every connection at once; to let them end,
    /// [`serve`](crate::transport::http::server::serve) the [`dispatcher`](Self::dispatcher).
    ///
    /// # Errors
    ///
    /// When the server cannot be put together, or the listener fails.
    #[cfg(feature = "http")]
    pub async fn serve_http(
        self,
        listener: impl crate::transport::http::server::Listen,
        options: crate::transport::http::server::Options,
    ) -> Result<(), ServeError> {
        let dispatcher = self.dispatcher()?;
        dispatcher.start().await?;
        Ok(crate::transport::http::server::serve(dispatcher, listener, options, std::future::pending())
            .await?)
    }

    /// The endpoint of Streamable HTTP as a service of `tower`, to be mounted in an application. Must be called within
    /// the runtime that serves it.
    ///
    /// # Errors
    ///
    /// When the server cannot be put together, or its store cannot be used.
    #[cfg(feature = "http")]
    pub async fn into_http_service(
        self,
        options: crate::transport::http::server::Options,
    ) -> Result<crate::transport::http::server::HttpService, ServeError> {
        let dispatcher = self.dispatcher()?;
        dispatcher.start().await?;
        Ok(crate::transport::http::server::HttpService::new(dispatcher, options))
    }
}
