//! Tools that are entered again: what is done once, what is asked once, and who goes on after a crash.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_hand;
mod cancelling;
mod children;
mod expiring;
mod fronts;
mod parts;
mod questions;
mod rig;
mod slots;
mod steps;
mod strangers;
mod traces;
mod undoing;
mod versions;
