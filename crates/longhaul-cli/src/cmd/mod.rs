//! The verbs.

pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod connect;
pub(crate) mod doctor;
pub(crate) mod login;
pub(crate) mod serve;
pub(crate) mod supervise;
pub(crate) mod targets;
pub(crate) mod tasks;
pub(crate) mod tools;
