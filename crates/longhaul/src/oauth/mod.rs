//! What both sides of OAuth need: a server that checks tokens or grants them, and a client that gets them.

pub(crate) mod basic;
pub(crate) mod fetch;
pub(crate) mod form;
pub(crate) mod metadata;
pub(crate) mod public;
