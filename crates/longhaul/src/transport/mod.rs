//! Where bytes come from and go to.

#[cfg(feature = "http")]
pub mod http;
pub mod stdio;
