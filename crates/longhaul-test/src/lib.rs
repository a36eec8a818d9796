//! Rigs for tests of longhaul: nothing here waits, and time is stepped.
//!
//! - [`Pair`] links a client's and a server's connection machine over a simulated wire.
//! - [`replay_always`] enters a handler again at every question, and compares.
//! - [`transcript`] replays what a host is known to send, and compares what it is answered.

mod pair;
mod replay;
pub mod transcript;

pub use pair::{Heard, Pair, Side};
pub use replay::{Astray, Went, replay_always};
