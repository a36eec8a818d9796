//! The manual: how to do a thing, from its beginning to its end. What a type or a function is stands with it.
//!
//! - [`resumable_tools`]: a tool that a crash does not stop, in ten minutes.
//! - [`operating`]: where everything is kept, what to watch, how to stop and to upgrade.
//! - [`promises`]: what is promised when what fails, and the test that shows it.

#[doc = include_str!("resumable_tools.md")]
pub mod resumable_tools {}

#[doc = include_str!("operating.md")]
pub mod operating {}

#[doc = include_str!("promises.md")]
pub mod promises {}
