//! Servers that are their own authorization server, before another that knows none of their clients.

mod approval;
mod binding;
mod clients;
mod grants;
mod metadata;
mod registry;
mod routes;
mod secrets;
