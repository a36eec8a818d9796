//! MCP servers that people already have: their tools served on, as durable tools, in every revision.
//!
//! `connection` has one connection to a server, opened when it is needed and again when it has ended; `offering` lists what the
//! server has and keeps the catalogue like it, by names that `names` gives; `call` makes the calls, `durable` those that become tasks there, `asking` puts what
//! they ask to who made them.

mod asking;
mod call;
mod connection;
mod durable;
mod names;
mod offering;

pub use connection::{Unreached, Upstream};
pub use names::Names;
pub use offering::{Seen, keep_offered};
