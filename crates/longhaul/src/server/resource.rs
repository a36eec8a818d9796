//! Resources a server lets its clients read.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use longhaul_proto::jsonrpc::{Code, ErrorObject};
use longhaul_proto::model::{ReadResourceResult, ResourceTemplate};

use super::context::Cx;

/// A read under way.
pub type ReadFuture<'a> = Pin<Box<dyn Future<Output = Result<ReadResourceResult, ErrorObject>> + Send + 'a>>;

/// A family of resources.
pub trait Resources: fmt::Debug + Send + Sync + 'static {
    /// The templates of their URIs, for the list.
    fn templates(&self) -> Vec<ResourceTemplate>;

    /// Whether `uri` is one of theirs.
    fn has(&self, uri: &str) -> bool;

    /// Reads one. What the caller may not see does not exist.
    ///
    /// # Errors
    ///
    /// [`not_found`] for a URI that names nothing.
    fn read<'a>(&'a self, cx: Cx, uri: &'a str) -> ReadFuture<'a>;
}

/// How the URI of a task's output begins.
pub const OUTPUT_SCHEME: &str = "longhaul://tasks/";

/// The URI of what a task has written to one of its streams, from a byte on.
pub fn output_uri(task: &str, stream: &str, after: u64) -> String {
    match after {
        0 => format!("{OUTPUT_SCHEME}{task}/{stream}"),
        after => format!("{OUTPUT_SCHEME}{task}/{stream}?after={after}"),
    }
}

/// There is no such resource; each revision has its own code for that.
pub fn not_found(uri: &str) -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    ErrorObject::new(Code::RESOURCE_NOT_FOUND, "resource not found").with_data(&Data { uri })
}
