//! What the server offers, and its lists as bytes: serialized once, then copied.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul_proto::dialect::{Dialect, Revision};
use longhaul_proto::model::{self, TaskSupport};
use longhaul_tasks::runner::Worker;

use super::BuildError;
use super::dispatch::Caller;
use super::tool::{Kind, Tool};

/// The tools, by name, and each revision's list of them as JSON.
#[derive(Debug)]
pub(super) struct Catalogue {
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
    lists: Vec<(Revision, String)>,
}

impl Catalogue {
    pub(super) fn new(tools: Vec<Tool>) -> Result<Self, BuildError> {
        let mut by_name = HashMap::with_capacity(tools.len());
        for (index, tool) in tools.iter().enumerate() {
            model::Tool::check_name(&tool.definition.name)?;
            if by_name.insert(tool.definition.name.clone(), index).is_some() {
                return Err(BuildError::DuplicateTool { name: tool.definition.name.clone() });
            }
        }
        let lists = Revision::ALL.map(|revision| (revision, list(Dialect::of(revision), &tools))).into();
        Ok(Self { tools, by_name, lists })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }

    /// Whether a call of any tool can become a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.tools.iter().any(|tool| tool.definition.task_support != TaskSupport::Forbidden)
    }

    /// Every tool, as the engine works on it.
    pub(super) fn workers(&self) -> Vec<Worker> {
        let worker = |tool: &Tool| {
            let worker = Worker::new(tool.definition.name.as_str()).with_limit(tool.policy.limit);
            match &tool.kind {
                Kind::Function(_) => worker,
                Kind::Job(job) => worker.with_job(Arc::clone(job).into_job()),
            }
        };
        self.tools.iter().map(worker).collect()
    }

    /// The JSON array of every tool, as `dialect` lists it.
    pub(super) fn list(&self, dialect: &Dialect, _caller: &Caller) -> &str {
        let revision = dialect.revision();
        self.lists.iter().find(|(known, _)| *known == revision).map_or("[]", |(_, list)| list)
    }
}

fn list(dialect: &Dialect, tools: &[Tool]) -> String {
    let mut json = Vec::from(*b"[");
    for (index, tool) in tools.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        dialect.write_tool(&tool.definition, &mut json);
    }
    json.push(b']');
    String::from_utf8(json).expect("JSON is UTF-8")
}
