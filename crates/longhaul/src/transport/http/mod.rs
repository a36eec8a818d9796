//! Streamable HTTP, both eras on one endpoint.

pub mod server;
