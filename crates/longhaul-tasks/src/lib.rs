//! The durable task engine: when a call becomes a task, who works on it, and what each dialect sees.
//!
//! - [`machine`] decides, and does nothing else: state and event in, state and effects out.
//! - [`runner`] carries its decisions out on a store, with a clock and a runtime that are handed in.
//! - [`job`] is the door to work that lives outside this process.
//! - [`key`] is what callers call their calls.
//! - [`journal`] is what a handler has learnt from outside itself, and is entered again with.
//! - [`project`] turns the facts a store keeps into what one dialect may see of them.

pub mod environment;
mod id;
pub mod job;
pub mod journal;
pub mod key;
pub mod machine;
mod note;
pub mod project;
pub mod report;
pub mod runner;

pub use longhaul_store as store;
pub use note::{
    calling_client, calling_conversation, made_again_of, open_arguments, shown_arguments, written_caller,
};
