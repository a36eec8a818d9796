//! The manual: how to do a thing, from its beginning to its end. What a type or a function is stands with it.
//!
//! To begin with, ten minutes each:
//!
//! - [`start_with_commands`]: commands that you have, and no code.
//! - [`start_with_a_server`]: an MCP server that you have, and no code.
//! - [`start_in_rust`]: a server of your own.
//! - [`start_a_fleet`]: several servers on PostgreSQL or Redis.
//!
//! With a configuration, and no code:
//!
//! - [`commands`]: commands that you have, as tools.
//! - [`jobs`]: an API that runs jobs, as a tool.
//! - [`existing_servers`]: MCP servers that you have, served on.
//!
//! In Rust:
//!
//! - [`rust_servers`]: tools, resources and prompts, and how a server is reached.
//! - [`resumable_tools`]: a tool that a crash does not stop, in ten minutes.
//! - [`lasting_clients`]: a client that goes on after it was killed.
//!
//! Whichever it is:
//!
//! - [`from_a_terminal`]: the program as a client: naming servers, calling, coming back, signing in.
//! - [`page`]: tasks, tools and nodes in a browser, and the same as JSON.
//! - [`signing_in`]: who may call, and what.
//! - [`operating`]: where everything is kept, what to watch, how to stop and to upgrade.
//! - [`capacity`]: what tasks take on each store, and what many of them need.
//! - [`promises`]: what is promised when what fails, and the test that shows it.

#[doc = include_str!("start_with_commands.md")]
pub mod start_with_commands {}

#[doc = include_str!("start_with_a_server.md")]
pub mod start_with_a_server {}

// The examples need both.
#[cfg_attr(any(not(doctest), all(feature = "http", feature = "sqlite")), doc = include_str!("start_in_rust.md"))]
pub mod start_in_rust {}

#[doc = include_str!("start_a_fleet.md")]
pub mod start_a_fleet {}

#[doc = include_str!("commands.md")]
pub mod commands {}

#[doc = include_str!("jobs.md")]
pub mod jobs {}

#[doc = include_str!("existing_servers.md")]
pub mod existing_servers {}

// The examples of this and the next need both.
#[cfg_attr(any(not(doctest), all(feature = "http", feature = "sqlite")), doc = include_str!("rust_servers.md"))]
pub mod rust_servers {}

#[cfg_attr(any(not(doctest), all(feature = "http", feature = "sqlite")), doc = include_str!("resumable_tools.md"))]
pub mod resumable_tools {}

#[doc = include_str!("lasting_clients.md")]
pub mod lasting_clients {}

#[doc = include_str!("from_a_terminal.md")]
pub mod from_a_terminal {}

#[doc = include_str!("page.md")]
pub mod page {}

#[doc = include_str!("signing_in.md")]
pub mod signing_in {}

#[doc = include_str!("operating.md")]
pub mod operating {}

#[doc = include_str!("capacity.md")]
pub mod capacity {}

#[doc = include_str!("promises.md")]
pub mod promises {}
