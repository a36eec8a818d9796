//! Protected servers as their callers meet them: which tokens count, what each caller is told, and what stays
//! apart. Tests whose names begin with a letter and a number hold a threat (S), a rule of servers
//! (R), one of clients (C) or one of proxies (P) of the security notes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advisories;
mod client;
mod door;
mod isolation;
mod proxy;
mod resumed;
mod rig;
mod scopes;
mod tokens;
