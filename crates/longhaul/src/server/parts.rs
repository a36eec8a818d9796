//! The parts that tasks have given, as a resource that can be read while they run.

use std::sync::Arc;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{
    CallToolResult, Content, ReadResourceResult, ResourceContents, ResourceLink, ResourceTemplate,
};
use longhaul_tasks::project::{OUTPUT_SCHEME, OutputAddress, OutputPosition, PARTS, output_uri};
use longhaul_tasks::store::{PartContent, Parts, Scope, TaskId, TaskStore};

use super::context::Cx;
use super::resource::{ReadFuture, Resources, not_found};
use crate::hosted::failed;

/// How many parts one read gives at most.
const READ: usize = 500;

/// The parts of tasks, each readable by whoever owns its task.
#[derive(Debug)]
pub(super) struct PartsOfTasks(Arc<dyn TaskStore>);

impl PartsOfTasks {
    /// Those of the tasks in this store.
    pub(super) fn new(store: Arc<dyn TaskStore>) -> Self {
        Self(store)
    }

    async fn read_parts(&self, cx: &Cx, uri: &str) -> Result<ReadResourceResult, ErrorObject> {
        let OutputAddress { task, after, .. } = address(uri).ok_or_else(|| not_found(uri))?;
        let owner = cx.owner();
        let found = self.0.parts(Scope::Owner(&owner), &task, after, READ).await;
        // Unknown, expired and somebody else's are the same to whoever asks.
        let parts = found.map_err(|error| failed(&error))?.ok_or_else(|| not_found(uri))?;
        Ok(ReadResourceResult::new(contents(task.as_str(), uri, parts)))
    }
}

impl Resources for PartsOfTasks {
    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new(format!("{OUTPUT_SCHEME}{{id}}/{PARTS}{{?after}}"), PARTS);
        vec![template.with_description(
            "What a task has given of its result so far, behind the first `after` parts. Readable while it runs; `_meta` \
             says where to go on.",
        )]
    }

    fn has(&self, uri: &str) -> bool {
        address(uri).is_some()
    }

    fn read<'a>(&'a self, cx: Cx, uri: &'a str) -> ReadFuture<'a> {
        Box::pin(async move { self.read_parts(&cx, uri).await })
    }
}

fn address(uri: &str) -> Option<OutputAddress<'_>> {
    OutputAddress::parse(uri).filter(|address| address.stream == PARTS)
}

/// The task whose parts are there.
pub(super) fn task_of(uri: &str) -> Option<TaskId> {
    address(uri).map(|address| address.task)
}

/// A part each, with where to go on behind it; where there is none, nothing, with that.
fn contents(task: &str, uri: &str, read: Parts) -> Vec<ResourceContents> {
    let Parts { start, total, ended, .. } = read;
    if read.parts.is_empty() {
        let position = OutputPosition::new(start, start, total, read.is_done());
        return vec![ResourceContents::text(uri, TEXT, "").with_meta(position.meta())];
    }
    let part = |(before, content): (u64, PartContent)| {
        let next = before + 1;
        let position = OutputPosition::new(before, next, total, ended && next >= total);
        let kind = match content {
            PartContent::Text(_) => TEXT,
            PartContent::Json(_) => "application/json",
        };
        ResourceContents::text(output_uri(task, PARTS, before), kind, content.as_str())
            .with_meta(position.meta())
    };
    (start..).zip(read.parts).map(part).collect()
}

const TEXT: &str = "text/plain";

/// The link to the parts of a task.
pub(super) fn link(task: &str) -> Content {
    let link = ResourceLink::new(output_uri(task, PARTS, 0), PARTS);
    Content::ResourceLink(link.with_description("What it has given before its end, part by part"))
}

/// The result of a call, with a link to what it has given before.
pub(super) fn linked(cx: &Cx, mut result: CallToolResult) -> CallToolResult {
    if let Some(id) = cx.keeper().filter(|keeper| keeper.has_given()).and_then(|keeper| keeper.id()) {
        result.content.push(link(id.as_str()));
    }
    result
}
