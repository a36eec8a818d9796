//! The catalogue: what a configuration describes, as tools that a server can serve.
//!
//! [`CommandJob`] runs a command as a durable job; [`Outputs`] lets callers read what their commands have
//! written; [`janitor`] ends and removes what no task needs any more.

mod copies;
mod definition;
mod found;
pub mod janitor;
mod job;
mod output;
mod result;
mod run;
mod store_name;
mod streams;
mod took;

use std::sync::Arc;

use longhaul::Tool;

pub use copies::Copies;
pub use definition::{job_tool, tools};
pub use found::FoundRuns;
pub use job::CommandJob;
pub use output::Outputs;
pub(crate) use result::Ended;
pub use result::written;
pub use run::cancel as end_run;
pub use store_name::store_name;
pub use streams::{StreamError, Streams};
pub use took::took;

use crate::command::RunsDir;
use crate::config::CommandTool;

/// The tool that serves a configured command, its runs kept in `runs`.
pub fn command_tool(command: Arc<CommandTool>, runs: RunsDir, copies: Copies) -> Tool {
    definition::tool(&command, CommandJob::new(Arc::clone(&command), runs).copied_to(copies))
}
