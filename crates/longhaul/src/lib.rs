//! MCP servers and clients in which a call can outlive its connection, its process and its machine.
//!
//! A server is a name, a version and some tools:
//!
//! ```no_run
//! use longhaul::{Server, Tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add {
//!     /// The first number.
//!     a: i64,
//!     /// The second number.
//!     b: i64,
//! }
//!
//! # async fn run() -> Result<(), longhaul::ServeError> {
//! let add = Tool::typed("add", "Add two numbers", |_, Add { a, b }| async move { a + b });
//! Server::new("calculator", "1.0.0").tool(add).serve_stdio().await
//! # }
//! ```
//!
//! The same server speaks every revision that [`longhaul_proto`] knows, to every client, at once.
//!
//! A tool with a [`TaskPolicy`](server::TaskPolicy) makes tasks of its calls, and [`Server::store`] says where they
//! are kept.
//!
//! The `manual` has chapters: a tool that a crash does not stop, what to know as an operator, and what is promised.
//!
//! | feature | adds |
//! |---|---|
//! | `macros` (default) | [`tool`]: a function and its doc comment are a tool |
//! | (none) | servers over standard input and output and over any byte stream; tasks in memory |
//! | `client` | clients over any byte stream, and of servers in the same process: [`client`], [`transport::memory::serve`] |
//! | `http` | Streamable HTTP for servers: [`transport`]`::http::server` and `Server::serve_http` |
//! | `http2` | HTTP/2 for servers, by the switch `Options::http2` |
//! | `child-process` | `client`, and clients of servers that are programs, which they start: [`client::Command`] |
//! | `http-client` | `client`, and Streamable HTTP for clients |
//! | `oauth` | signing in for clients over HTTP: `client::auth` |
//! | `auth` | bearer tokens for servers over HTTP, and who they prove to call: `auth` |
//! | `schema-validation` | `Tool::validated`: tools whose JSON Schemas are known only when the program runs; clients hold results against the schemas of their tools |
//! | `sealed` | `store::sealed`: what tasks carry, sealed where it is kept |
//! | `postgres` | `store::Postgres`: tasks in a PostgreSQL database that the nodes of a fleet share |
//! | `redis` | `store::Redis`: tasks on a Redis or Valkey server that the nodes of a fleet share |
//! | `sqlite` | `store::Sqlite`: tasks in one file, which survive the process and the loss of power |

#[cfg(feature = "macros")]
mod attributes;
pub mod audit;
#[cfg(feature = "auth")]
pub mod auth;
mod bucket;
mod buckets;
#[cfg(feature = "client")]
pub mod client;
pub mod driver;
mod handed_over;
mod hex;
mod hosted;
mod locked;
#[cfg(all(any(doc, doctest), feature = "macros"))]
pub mod manual;
#[cfg(any(feature = "auth", feature = "oauth"))]
mod oauth;
#[cfg(feature = "schema-validation")]
mod schema;
pub mod seal;
pub mod server;
pub mod service;
mod trace;
pub mod transport;
mod wire;

#[cfg(feature = "macros")]
pub use attributes::{prompt, resource, tool};
#[cfg(feature = "client")]
pub use client::Client;
pub use longhaul_proto as proto;
pub use longhaul_tasks as tasks;
pub use longhaul_tasks::store;
pub use server::{Cx, ServeError, Server, Tool};

#[cfg(all(doctest, feature = "http", feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// What the attributes write needs, wherever they are used.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use {schemars, serde};

    use crate::Cx;
    use crate::server::State;

    /// The value that a function has as a parameter: what needs a state that is not there is not offered.
    pub fn needed<T: Send + Sync + 'static>(cx: &Cx) -> State<T> {
        cx.state().expect("what needs a state that is not there is not offered")
    }

    /// What a plain function returns, which takes its time.
    pub async fn blocking<R: Send + 'static>(function: impl FnOnce() -> R + Send + 'static) -> R {
        crate::server::blocking(function).await
    }
}
