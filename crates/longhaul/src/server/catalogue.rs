//! What the server offers, and its lists as bytes: serialized once, then copied.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul_proto::dialect::{Dialect, Revision};
use longhaul_proto::model::{self, TaskSupport};
use longhaul_tasks::runner::Worker;
use longhaul_tasks::store::Rerun;

use super::BuildError;
use super::audience::Audience;
use super::companion::Companion;
use super::dispatch::Caller;
use super::hand_over::or_hand_over;
use super::policy::TaskMode;
use super::tool::{Kind, Tool};

/// The tools, by name, and each revision's list of them as JSON.
#[derive(Debug)]
pub(super) struct Catalogue {
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
    lists: Vec<(Revision, Audience, String)>,
    has_tasks: bool,
}

impl Catalogue {
    pub(super) fn new(tools: Vec<Tool>) -> Result<Self, BuildError> {
        let has_tasks = tools.iter().any(|tool| tool.definition.task_support != TaskSupport::Forbidden);
        let mut by_name = HashMap::with_capacity(tools.len());
        for (index, tool) in tools.iter().enumerate() {
            model::Tool::check_name(&tool.definition.name)?;
            if has_tasks && Companion::named(&tool.definition.name).is_some() {
                return Err(BuildError::ReservedTool { name: tool.definition.name.clone() });
            }
            match (tool.policy.rerun, &tool.kind) {
                (Rerun::Never, _) | (Rerun::Reattach, Kind::Job(_)) => {}
                (rerun, _) => return Err(BuildError::Rerun { name: tool.definition.name.clone(), rerun }),
            }
            if by_name.insert(tool.definition.name.clone(), index).is_some() {
                return Err(BuildError::DuplicateTool { name: tool.definition.name.clone() });
            }
        }
        let lists = Revision::ALL.into_iter().flat_map(|revision| {
            let dialect = Dialect::of(revision);
            Audience::ALL.map(|audience| (revision, audience, list(dialect, audience, &tools, has_tasks)))
        });
        let lists = lists.collect();
        Ok(Self { tools, by_name, lists, has_tasks })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }

    /// Whether a call of any tool can become a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.has_tasks
    }

    /// Every tool, as the engine works on it.
    pub(super) fn workers(&self) -> Vec<Worker> {
        let worker = |tool: &Tool| {
            let worker = Worker::new(tool.definition.name.as_str()).with_limit(tool.policy.limit);
            match &tool.kind {
                Kind::Function(_) => worker,
                Kind::Job(job) => worker.with_job(Arc::clone(job) as _),
            }
        };
        self.tools.iter().map(worker).collect()
    }

    /// The JSON array of every tool, as `dialect` lists it to such a caller.
    pub(super) fn list(&self, dialect: &Dialect, caller: &Caller) -> &str {
        let (revision, audience) = (dialect.revision(), Audience::of(dialect, caller));
        let mut lists = self.lists.iter();
        lists
            .find(|(its_revision, its_audience, _)| *its_revision == revision && *its_audience == audience)
            .map_or("[]", |(_, _, list)| list)
    }
}

fn list(dialect: &Dialect, audience: Audience, tools: &[Tool], has_tasks: bool) -> String {
    let mut definitions: Vec<model::Tool> = tools.iter().map(|tool| shown(tool, audience)).collect();
    if has_tasks && audience == Audience::Waits {
        definitions.extend(Companion::definitions());
    }
    let mut json = Vec::from(*b"[");
    for (index, definition) in definitions.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        dialect.write_tool(definition, &mut json);
    }
    json.push(b']');
    String::from_utf8(json).expect("JSON is UTF-8")
}

/// A tool as such a caller sees it: what hands over may answer with the hand-over, and a server must keep
/// to the output schema it lists.
fn shown(tool: &Tool, audience: Audience) -> model::Tool {
    let mut definition = tool.definition.clone();
    // Even who is held to the end is handed over when the process goes.
    let hands_over = matches!(tool.policy.mode, TaskMode::After(_));
    if let (Audience::Waits, true, Some(own)) = (audience, hands_over, &definition.output_schema) {
        definition.output_schema = Some(or_hand_over(own));
    }
    definition
}
