//! The gateway: what people already have, described by one file, served as durable tools.
//!
//! [`config`] reads that file into a checked model; [`command`] runs commands that outlive their server.

pub mod command;
pub mod config;
