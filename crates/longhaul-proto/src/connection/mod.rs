//! What is open on a connection: the sans-I/O machine on either side.
//!
//! Neither side sees a payload. Decoding and encoding are pure functions beside it; the machine is told
//! `(id, method, token)` and answers with decisions. `handle_*` takes what happened, and time is
//! an argument. A stateless HTTP exchange constructs none of it.

mod client;
mod server;

pub use client::{ClientConnection, PendingLimit};
pub use server::{Admitted, Serial, ServerConnection, Session};
