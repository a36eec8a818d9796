//! What MCP is: the messages, the revisions, and the state of a connection.
//!
//! This crate does no I/O, reads no clock, spawns nothing and knows no runtime: bytes and times come in
//! as arguments, bytes and decisions go out. That is what lets every rule here be tested by stepping.
//!
//! - [`jsonrpc`] decodes a message once, borrowing from its bytes, and writes messages.
//! - [`model`] holds what the protocol talks about, without a word of how a revision writes it.
//! - [`method`] names the methods.
//! - [`dialect`] is the only place that knows revisions.
//! - [`http`] is the HTTP binding as data.
//! - [`connection`] is the machine that keeps count of what is open on a connection.

pub mod connection;
pub mod dialect;
pub mod http;
pub mod jsonrpc;
pub mod method;
pub mod model;
