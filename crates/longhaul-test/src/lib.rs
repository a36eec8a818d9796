//! Rigs for tests of longhaul: nothing here waits, and time is stepped.
//!
//! - [`Pair`] links a client's and a server's connection machine over a simulated wire.
//! - [`transcript`] replays what a host is known to send, and compares what it is answered.

mod pair;
pub mod transcript;

pub use pair::{Heard, Pair, Side};
