//! Layers of `tower` around the server's requests, whatever transport and revision they come by.
//!
//! A layer wraps [`Next`], a `tower` service from [`Request`] to [`Response`], and is given to a server for a [`Level`]:
//! every request, those of a method, or those of one item ([`Server::layer`](crate::Server::layer)). Ours are [`Timeout`],
//! [`PerCaller`], [`Trace`] and [`Metrics`]; `tower`'s own work as well where their services can be cloned. An error of a
//! layer is the request's answer if it is an [`ErrorObject`](longhaul_proto::jsonrpc::ErrorObject), else an internal error
//! that says nothing of it. A layer may answer by itself ([`Request::answer`]), and is tried by itself with [`Request::new`]
//! and [`Next::server`]. Without layers a request takes none of this way.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use longhaul::Server;
//! use longhaul::proto::method::Method;
//! use longhaul::service::{Level, Metrics, PerCaller, Timeout, Trace};
//!
//! let metrics = Metrics::new();
//! let server = Server::new("limited", "1.0.0")
//!     .layer(Level::Server, Trace)
//!     .layer(Level::Server, metrics.clone())
//!     .layer(Level::Method(Method::CallTool), PerCaller::new().running(8).rate(100, Duration::from_secs(1)))
//!     .layer(Level::item(Method::CallTool, "report"), Timeout::new(Duration::from_secs(20)));
//! # assert!(server.dispatcher().is_ok());
//! // Later, for whoever gathers numbers:
//! for figures in metrics.figures() {
//!     println!("{:?} {:?} {}", figures.method, figures.outcome, figures.count);
//! }
//! ```

mod level;
mod metrics;
mod per_caller;
mod request;
mod timeout;
mod trace;

pub use level::Level;
pub(crate) use level::{Layers, run};
pub use metrics::{Figures, Metrics, Outcome};
pub use per_caller::PerCaller;
pub(crate) use request::Begun;
pub use request::{BoxError, Next, Request, Response};
pub use timeout::Timeout;
pub use trace::{Trace, trace_of};

/// The services that our layers make.
pub mod layered {
    pub use super::metrics::Measured;
    pub use super::per_caller::Bounded;
    pub use super::timeout::Timed;
    pub use super::trace::Traced;
}
