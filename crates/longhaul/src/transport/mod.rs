//! Where bytes come from and go to.
//!
//! A connection is a stream of lines each way, whatever carries it: [`stdio`], a child process, [`memory`] within one
//! process, or a transport of one's own ([`message`]). Streamable HTTP (`http`) answers each request by itself.

#[cfg(feature = "client")]
#[cfg_attr(not(feature = "child-process"), path = "no_child.rs")]
pub(crate) mod child;
#[cfg(any(feature = "http", feature = "http-client"))]
pub mod http;
pub mod memory;
pub mod message;
pub mod stdio;
