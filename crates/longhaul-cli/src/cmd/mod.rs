//! The verbs.

pub(crate) mod check;
pub(crate) mod serve;
pub(crate) mod supervise;
