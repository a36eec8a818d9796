//! The store in a PostgreSQL database: every promise, and what befalls databases and the ways to them.

#![expect(clippy::unwrap_used, reason = "a test may panic where something it prepares fails")]

mod counts;
mod failover;
mod formats;
mod leases;
mod losses;
#[path = "../networked/mod.rs"]
mod networked;
mod nodes;
mod plans;
mod pooler;
mod promises;
mod rig;
mod upgrades;
