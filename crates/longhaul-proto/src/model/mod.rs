//! What the protocol talks about, without a word of how a revision writes it.

mod call;
mod capability;
mod content;
mod implementation;
mod logging;
mod meta;
mod progress;
mod resource;
mod task;
mod tool;

pub use call::{CallToolParams, CallToolResult};
pub use capability::{
    ClientCapabilities, ClientExtensions, Elicitation, ServerCapabilities, TASKS_EXTENSION,
};
pub use content::{Content, ResourceContents, ResourceLink};
pub use implementation::Implementation;
pub use logging::LoggingLevel;
pub use meta::{Meta, RequestMeta};
pub use progress::Progress;
pub use resource::{CacheScope, ReadResourceResult, Resource, ResourceTemplate};
pub use task::{Task, TaskStatus};
pub use tool::{InvalidToolName, TaskSupport, Tool, ToolAnnotations};
