//! Writing a server: what it offers, and how a request finds its handler.

mod catalogue;
mod caught;
mod context;
mod dispatch;
pub(crate) mod lifecycle;
mod outlet;
mod principal;
mod tool;

use longhaul_proto::model::{Implementation, InvalidToolName, ServerCapabilities};

pub use context::Cx;
pub use dispatch::{Answered, Caller, Dispatched, Dispatcher, Exchange, PendingAnswer};
pub use outlet::{Outgoing, Outlet, OwnStream};
pub use principal::Principal;
pub use tool::{IntoToolResult, Json, Tool, ToolError, ToolFuture, ToolHandler};

use crate::driver::{self, DriverError};
use crate::transport::stdio;

/// A server being put together. Give it tools, then serve it.
#[derive(Debug)]
pub struct Server {
    info: Implementation,
    instructions: Option<String>,
    tools: Vec<Tool>,
    options: driver::Options,
}

/// Why a server cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A tool has a name no tool may have.
    #[error(transparent)]
    ToolName(#[from] InvalidToolName),
    /// Two tools have one name.
    #[error("two tools are named {name:?}: rename one")]
    DuplicateTool {
        /// The name.
        name: String,
    },
}

/// Why serving ended in failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server could not be put together.
    #[error("the server cannot start")]
    Build(#[from] BuildError),
    /// The connection failed.
    #[error("the connection failed")]
    Connection(#[from] DriverError),
}

impl Server {
    /// A server that calls itself `name`, at `version`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            tools: Vec::new(),
            options: driver::Options::default(),
        }
    }

    /// Names the server for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// Tells the model how to use the server as a whole.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Offers a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Bounds what one connection may ask of the server.
    #[must_use]
    pub fn options(mut self, options: driver::Options) -> Self {
        self.options = options;
        self
    }

    /// Finishes the server: from here on every transport can use it, at once and from many threads.
    ///
    /// # Errors
    ///
    /// When a tool's name is invalid or taken.
    pub fn dispatcher(self) -> Result<Dispatcher, BuildError> {
        let catalogue = catalogue::Catalogue::new(self.tools)?;
        let capabilities = ServerCapabilities::default().with_tools(!catalogue.is_empty()).with_logging(true);
        Ok(Dispatcher::new(self.info, self.instructions, capabilities, catalogue))
    }

    /// Serves one client over this process's standard input and output, until the input ends.
    ///
    /// Nothing else may write to standard output meanwhile.
    ///
    /// # Errors
    ///
    /// When the server cannot be put together, or the output can no longer be written.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let options = self.options.clone();
        let dispatcher = self.dispatcher()?;
        let (reader, writer) = stdio::stdio();
        Ok(driver::serve(dispatcher, Principal::local_user(), reader, writer, options).await?)
    }
}
