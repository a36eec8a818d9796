//! The gateway: the commands that people already have, described by one file, served as durable tools.
//!
//! [`config`] reads that file into a checked model.

pub mod config;
