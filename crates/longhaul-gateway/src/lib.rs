//! The gateway: what people already have, described by one file, served as durable tools.
//!
//! [`config`] reads that file into a checked model; [`command`] runs commands that outlive their server;
//! [`http_job`] follows the jobs of HTTP APIs; [`upstream`] serves other MCP servers on; [`tool`] makes tools of commands and
//! jobs. [`fleet`] is who serves on one store; [`admin`] is what becomes of calls, as data; [`dashboard`] shows it to people; [`clean`] makes safe what others wrote;
//! [`causes`] puts errors into words, and [`shell`] words into a shell.

pub mod admin;
pub mod causes;
pub mod clean;
pub mod command;
pub mod config;
pub mod dashboard;
pub mod fleet;
pub mod http_job;
pub mod shell;
pub mod tool;
pub mod upstream;
