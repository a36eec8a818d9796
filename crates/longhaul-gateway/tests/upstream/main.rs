//! Other MCP servers, served on: what callers see of them, in both eras on both sides.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod away;
mod changes;
mod drafted;
#[cfg(unix)]
mod first_call;
mod hostile;
#[cfg(unix)]
mod hung;
mod in_line;
mod offer;
mod rig;
mod wrong;
