//! Bad input of every kind, given to the real program. Each case: a clear error that says what to do, the server
//! alive afterwards, and nothing lost.
//!
//! No test asserts that something is fast; every wait ends. Every place is empty of processes when it is left.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stderr, reason = "what the server said explains a failure")]

mod command_trees;
mod commands;
mod configurations;
mod full_runs;
mod full_store;
mod http_jobs;
mod identities;
mod messages;
mod program;
mod quotas;
mod rig;
mod signing_in;
mod sockets;
mod state_folders;
mod stores;
mod tasks_over_crashes;
mod test_runs;
mod web;
