//! Rigs for tests of longhaul: nothing here waits, and time is stepped.
//!
//! - [`Pair`] links a client's and a server's connection machine over a simulated wire.
//! - [`replay_always`] enters a handler again at every question, and compares.
//! - [`transcript`] holds a server to what is said on a connection, message by message.

mod pair;
mod replay;
pub mod transcript;

pub use pair::{Asked, Heard, Pair, Side};
pub use replay::{Astray, Went, replay_always};
