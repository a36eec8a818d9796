//! Streamable HTTP, both eras on one endpoint.

#[cfg(feature = "http-client")]
pub(crate) mod client;
#[cfg(feature = "http")]
pub mod server;
