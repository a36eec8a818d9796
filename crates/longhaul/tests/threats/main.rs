//! Attacks that are known, against a server as it is served: each test has the number of its threat, or the id of the
//! advisory that it comes from. Threats to callers who sign in are in the tests of `auth`; those to commands, stores and
//! terminals beside what they threaten, under the same names.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advisories;
mod audit;
mod bytes;
mod callers;
mod calls;
mod door;
mod drafted_ids;
mod outward;
mod places;
mod polls;
mod rig;
mod room;
mod strangers;
