//! From a configured command to what the list shows of it and when its calls become tasks.

use std::sync::Arc;

use longhaul::Tool;
use longhaul::proto::model::{self, ToolAnnotations};
use longhaul::server::TaskPolicy;

use super::command_tool;
use super::copies::Copies;
use super::job::CommandJob;
use crate::command::RunsDir;
use crate::config::{self, CommandTool, Config};
use crate::http_job::JobOverHttp;

/// The tool that serves an API of jobs.
pub fn job_tool(over_http: &Arc<JobOverHttp>) -> Tool {
    let job = over_http.job();
    let mut definition = model::Tool::new(job.name.as_str(), job.input_schema());
    definition.title.clone_from(&job.title);
    definition.description.clone_from(&job.description);
    definition.annotations = annotations(&job.annotations);
    let mut policy = TaskPolicy::new(job.task);
    policy.rerun = job.rerun;
    (policy.ttl, policy.orphan) = (job.ttl, job.orphan);
    policy.hold = Some(job.hold);
    policy.join = job.join == config::Join::SameArguments;
    policy.limit = job.limit.and_then(|limit| usize::try_from(limit.get()).ok());
    job.versions.of(Tool::job(definition, Arc::clone(over_http) as _)).task(policy).scopes(job.scopes.clone())
}

/// Every command of a configuration as a tool, its runs kept in `runs`.
pub fn tools(config: &Config, runs: &RunsDir, copies: &Copies) -> Vec<Tool> {
    let tool = |tool: &CommandTool| command_tool(Arc::new(tool.clone()), runs.clone(), copies.clone());
    config.tools.iter().map(tool).collect()
}

pub(super) fn tool(command: &CommandTool, job: CommandJob) -> Tool {
    let mut definition = model::Tool::new(command.name.as_str(), command.input_schema());
    definition.title.clone_from(&command.title);
    definition.description.clone_from(&command.description);
    definition.output_schema = command.output_schema();
    definition.annotations = annotations(&command.annotations);
    let tool = command.versions.of(Tool::job(definition, Arc::new(job)));
    tool.task(policy(command)).scopes(command.scopes.clone())
}

fn annotations(hints: &config::Annotations) -> Option<ToolAnnotations> {
    let mut annotations = ToolAnnotations::default();
    annotations.read_only_hint = hints.read_only_hint;
    annotations.destructive_hint = hints.destructive_hint;
    annotations.idempotent_hint = hints.idempotent_hint;
    annotations.open_world_hint = hints.open_world_hint;
    (annotations != ToolAnnotations::default()).then_some(annotations)
}

fn policy(command: &CommandTool) -> TaskPolicy {
    let mut policy = TaskPolicy::new(command.task);
    policy.rerun = command.rerun;
    (policy.ttl, policy.orphan) = (command.ttl, command.orphan);
    policy.hold = Some(command.hold);
    policy.join = command.join == config::Join::SameArguments;
    policy.limit = command.limit.and_then(|limit| usize::try_from(limit.get()).ok());
    policy
}
