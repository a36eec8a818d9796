//! How what a task gives before its end is named and read.
//!
//! One idea for all of it, the output of commands and the [parts](longhaul_store::Part) that work gives: a stream is a
//! resource, read from a cursor on while the task runs and after, and `_meta` of what was read says where to go on.

use longhaul_proto::model::Meta;
use longhaul_store::{Record, TaskId};
use serde::Serialize;

/// How the URI of a task's output begins.
pub const OUTPUT_SCHEME: &str = "longhaul://tasks/";

/// The stream of the parts that a task's work gives; its cursor counts parts. Those of commands count bytes.
pub const PARTS: &str = "parts";

/// The URI of a stream of a task's output, from there on.
pub fn output_uri(task: &str, stream: &str, after: u64) -> String {
    match after {
        0 => format!("{OUTPUT_SCHEME}{task}/{stream}"),
        after => format!("{OUTPUT_SCHEME}{task}/{stream}?after={after}"),
    }
}

/// What the URI of a task's output means.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct OutputAddress<'u> {
    /// The task.
    pub task: TaskId,
    /// Which of its streams.
    pub stream: &'u str,
    /// How much of it was read before.
    pub after: u64,
}

impl<'u> OutputAddress<'u> {
    /// Reads a URI; `None` if it is not that of a task's output.
    pub fn parse(uri: &'u str) -> Option<Self> {
        let rest = uri.strip_prefix(OUTPUT_SCHEME)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (task, stream) = path.split_once('/')?;
        // No id begins so, and a path that does is an attempt at another folder.
        if task.starts_with('.') {
            return None;
        }
        let after = match query {
            "" => 0,
            query => query.strip_prefix("after=")?.parse().ok()?,
        };
        Some(Self { task: TaskId::new(task).ok()?, stream, after })
    }
}

/// Where a stretch of output stands in its stream.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct OutputPosition {
    /// Where it begins: the cursor that was asked for, or behind a gap.
    pub start: u64,
    /// The cursor of the next read.
    pub next: u64,
    /// How much there is so far.
    pub total: u64,
    /// Whether nothing follows, now or later.
    pub done: bool,
    /// What is missing before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<OutputGap>,
}

/// A stretch of output that is not kept.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(clippy::exhaustive_structs, reason = "a stretch has two ends")]
pub struct OutputGap {
    /// Where it begins.
    pub from: u64,
    /// Where what is kept goes on.
    pub to: u64,
}

impl OutputPosition {
    /// That of a stretch before which nothing is missing.
    #[must_use]
    pub fn new(start: u64, next: u64, total: u64, done: bool) -> Self {
        Self { start, next, total, done, gap: None }
    }

    /// It as `_meta` of the contents that were read.
    #[must_use]
    pub fn meta(&self) -> Meta {
        Meta::new().with("dev.longhaul/output", self)
    }
}

/// Where the parts of a task are, as every answer about it says once there are any.
pub(super) fn of(record: &Record) -> Meta {
    #[derive(Serialize)]
    struct Pointer {
        uri: String,
        total: u32,
    }
    if record.parts == 0 {
        return Meta::new();
    }
    let pointer = Pointer { uri: output_uri(record.id.as_str(), PARTS, 0), total: record.parts };
    Meta::new().with("dev.longhaul/parts", &pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_task_a_stream_and_where_to_go_on() {
        let address = OutputAddress::parse("longhaul://tasks/build-1/parts?after=42").unwrap();
        assert_eq!((address.task.as_str(), address.stream, address.after), ("build-1", "parts", 42));
        assert_eq!(output_uri("build-1", "parts", 42), "longhaul://tasks/build-1/parts?after=42");
        let start = OutputAddress::parse(&output_uri("build-1", "parts", 0)).map(|address| address.after);
        assert_eq!(start, Some(0));
        for bad in [
            "longhaul://tasks/build-1",
            "longhaul://tasks//parts",
            "longhaul://tasks/../parts",
            "longhaul://tasks/a/parts?after=-1",
            "longhaul://tasks/a/parts?before=1",
            "file:///etc/passwd",
        ] {
            assert_eq!(OutputAddress::parse(bad), None, "{bad}");
        }
    }
}
