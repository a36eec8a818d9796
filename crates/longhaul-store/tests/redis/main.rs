//! The store on a Redis server: every promise, and what befalls servers and the ways to them.

#![expect(clippy::unwrap_used, reason = "a test may panic where something it prepares fails")]

mod failover;
mod limits;
#[path = "../networked/mod.rs"]
mod networked;
mod nodes;
mod promises;
mod rig;
mod settings;
