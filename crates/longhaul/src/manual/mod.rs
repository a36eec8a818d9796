//! The manual: how to do a thing, from its beginning to its end. What a type or a function is stands with it.
//!
//! - [`resumable_tools`]: a tool that a crash does not stop, in ten minutes.
//! - [`lasting_clients`]: a client that goes on after it was killed.
//! - [`from_a_terminal`]: the program as a client: naming servers, calling, coming back, signing in.
//! - [`existing_servers`]: MCP servers that you have, served on.
//! - [`operating`]: where everything is kept, what to watch, how to stop and to upgrade.
//! - [`promises`]: what is promised when what fails, and the test that shows it.

#[doc = include_str!("resumable_tools.md")]
pub mod resumable_tools {}

#[doc = include_str!("lasting_clients.md")]
pub mod lasting_clients {}

#[doc = include_str!("from_a_terminal.md")]
pub mod from_a_terminal {}

#[doc = include_str!("existing_servers.md")]
pub mod existing_servers {}

#[doc = include_str!("operating.md")]
pub mod operating {}

#[doc = include_str!("promises.md")]
pub mod promises {}
