//! The verbs.

pub(crate) mod check;
