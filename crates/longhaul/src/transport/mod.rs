//! Where bytes come from and go to.

pub(crate) mod child;
#[cfg(any(feature = "http", feature = "http-client"))]
pub mod http;
pub mod stdio;
