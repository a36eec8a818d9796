//! Rigs for tests of longhaul: nothing here waits, and time is stepped.
//!
//! - [`Pair`] links a client's and a server's connection machine over a simulated wire.
//! - [`replay_always`] enters a handler again at every question, and compares.
//! - [`Random`] makes choices that a seed repeats.
//! - [`Lasting`] is a store of tasks that outlive their connections.
//! - [`Log`] is what a test reads of what was logged.
//! - [`transcript`] holds a server to what is said on a connection, message by message.
//! - [`wire`] holds whatever programs of ours have said against the schemas.

mod lasting;
mod log;
mod pair;
mod random;
mod replay;
pub mod transcript;
pub mod wire;

pub use lasting::Lasting;
pub use log::Log;
pub use pair::{Asked, Heard, Pair, Side};
pub use random::Random;
pub use replay::{Astray, Went, replay_always};
