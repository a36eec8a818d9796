//! JSON-RPC 2.0 as MCP narrows it: messages, ids, errors, decoded once and borrowing.

mod batch;
mod error;
mod glimpse;
mod id;
mod members;
mod message;
mod scan;
mod write;

pub use batch::{MAX_BATCH, is_batch, join_batch, split_batch};
pub use error::{Code, ErrorObject, clip, without_place};
pub use glimpse::{GLIMPSED, Glimpse};
pub use id::{ProgressToken, RequestId};
pub use members::MAX_PARAMS;
pub use message::{
    DecodeError, Limits, Message, Notification, Params, Request, Response, StoredParams, Text,
};
pub use scan::{MAX_DEPTH, ScanError};
pub(crate) use write::write_json;
pub use write::{ObjectWriter, write_error, write_notification, write_request};
