//! Where bytes come from and go to.

pub mod stdio;
