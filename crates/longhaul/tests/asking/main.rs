//! Handlers that ask their client, in both eras, over every way there is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod elsewhere;
mod held;
mod http;
mod rig;
mod rounds;
mod session;
mod spent;
