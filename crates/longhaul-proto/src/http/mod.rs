//! The HTTP binding as data: which headers must say what, and how events are framed.
//!
//! (2026-07-28, Streamable HTTP; 2025-11-25, Transports.)

mod header;
mod origin;
mod parameter;
mod sse;

pub use header::{Accept, MirroredHeaders, accepts, decode_name, encode_name, is_json, status_of};
pub use origin::{AllowList, Refused};
pub use parameter::{HeaderText, InvalidAnnotation, MirroredParameter};
pub use sse::{
    Event, EventDecoder, EventTooLong, write_comment, write_event, write_named_event, write_priming,
};
