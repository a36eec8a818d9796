//! The crash explorer: a server whose process ends before and after every single operation of its store.
//!
//! A scenario is first told without a crash; then once for every moment at which its process can end. All that the
//! process had in memory is gone, the next one begins on the same store, and the client does what a good client does.
//! What comes of it must be what comes of it otherwise, effects are had as often as was promised, and what must always
//! hold is looked at after every operation (`audit.rs`) and every answer (`client.rs`).
//!
//! `sim/` lets whole fleets meet whatever else there is, as seeds choose. What must hold is in `invariant.rs`.
//!
//! Names of tests begin with the rows of the failure matrix they show. `cargo xtask chaos explore --pairs` lets two
//! processes crash, one after the other.
#![cfg(test)]

mod audit;
mod client;
mod clock;
mod explore;
mod fleet;
mod invariant;
mod pairs;
mod place;
// The one thing that it needs of `longhaul-test`, which would be most of what is optimized for it.
#[expect(unreachable_pub, reason = "there it is public")]
#[path = "../../../crates/longhaul-test/src/random.rs"]
mod random;
mod scenarios;
mod session;
mod sim;
mod world;
