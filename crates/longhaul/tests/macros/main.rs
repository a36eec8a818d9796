//! The attributes: what they make of functions.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

mod offered;
mod tool;
