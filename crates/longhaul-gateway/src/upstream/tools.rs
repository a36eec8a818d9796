//! The tools of a server as they are offered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use longhaul::Tool;
use longhaul::client::{Client, Error, LeftOut};
use longhaul::proto::model;
use longhaul::server::{TaskMode, TaskPolicy};
use longhaul::store::Rerun;

use super::call::Called;
use super::hidden::hidden_in;
use super::names::LONG;
use super::offering::{Listed, Offered};
use super::pins::{self, Compared};
use crate::config::{Join, UpstreamPolicy};

impl Offered {
    /// Lists the tools, and offers those.
    pub(super) async fn renew_tools(&mut self, client: &Client) -> Result<(), Error> {
        let (listed, left_out) = match client.capabilities().tools {
            true => client.list_tools_and_others().await?,
            false => Default::default(),
        };
        if self.is_for_a_call() {
            self.listed.tools.clone_from(&listed);
        }
        let note = |LeftOut { name, why, .. }: LeftOut| {
            format!("a tool that is listed as {name} is not served: {why}")
        };
        self.offer_tools(listed, left_out.into_iter().map(note).collect()).await;
        Ok(())
    }

    /// Offers these. What is noted of what else was listed, in `left_out`, comes behind all that is found here: of the first
    /// notes alone somebody is told, and a server may list as much that cannot be read as it likes.
    pub(super) async fn offer_tools(&mut self, listed: Vec<model::Tool>, left_out: Vec<String>) {
        let config = self.upstream.config();
        let unknown = config.tools.keys().filter(|name| listed.iter().all(|tool| tool.name != **name));
        let unknown = unknown.map(|name| {
            let (shown, server) = (name.escape_debug(), &config.name);
            format!("it has no tool `{shown}`, of which `[servers.{server}.tools]` says something")
        });
        let unknown: Vec<String> = unknown.collect();
        let mut notes = Vec::new();
        let listed = self.pinned(listed, &mut notes).await;
        notes.extend(unknown);
        // By their names here, the names there.
        let mut own = HashMap::new();
        let mut named = Vec::new();
        for mut tool in listed {
            let Some(name) = self.name_tool(&tool, &mut notes) else { continue };
            own.insert(name.clone(), std::mem::replace(&mut tool.name, name));
            named.push(tool);
        }
        let (upstream, nature) = (Arc::clone(&self.upstream), self.nature);
        let build = |definition: model::Tool| {
            let own = own.get(&definition.name).map(String::as_str).unwrap_or_default();
            let policy = upstream.config().policy(own);
            let may_be_task = policy.task != TaskMode::Never
                && nature.is_some_and(|nature| nature.makes_tasks(&definition));
            tool(&upstream, definition, own, policy, may_be_task)
        };
        let renewed = self.tools.renew(&self.catalogue, named, build);
        notes.extend(left_out);
        for changed in self.note(Listed::Tools, notes, renewed) {
            // What was agreed to may not be what is there now.
            tracing::warn!(
                server = self.upstream.config().name,
                tool = changed,
                "a server says something else of its tool"
            );
        }
    }

    /// Those that say what they said when they were first seen, where that is to be so.
    async fn pinned(&self, listed: Vec<model::Tool>, notes: &mut Vec<String>) -> Vec<model::Tool> {
        let config = self.upstream.config();
        let Some(file) = config.pins.clone() else { return listed };
        let served: Vec<_> = listed.into_iter().filter(|tool| config.policy(&tool.name).enabled).collect();
        let (server, shown) = (config.name.clone(), file.display().to_string());
        let compared = tokio::task::spawn_blocking(move || {
            let compared = pins::compare(&file, &server, &served);
            (served, compared)
        });
        let compared = compared.await.map(|(served, compared)| (served, self.pinned.note(compared)));
        let why = match compared {
            Ok((served, Ok(Compared { changed, without_room, .. }))) => {
                for name in &changed {
                    // As its line has it.
                    let line = format!("{}/{}", config.name, name.escape_debug());
                    tracing::warn!(
                        server = config.name,
                        tool = name,
                        file = shown,
                        line,
                        "a tool says something else than when it was first seen, and is not served: to agree to that, take its line out of the file"
                    );
                }
                let note = |name: &String| {
                    let name = name.escape_debug();
                    format!(
                        "`{name}` is not served: it says something else of itself than when it was first seen; to agree to that, take its line out of {shown}"
                    )
                };
                notes.extend(changed.iter().map(note));
                if !without_room.is_empty() {
                    let (tools, server) = (without_room.len(), &config.name);
                    tracing::warn!(
                        server,
                        file = shown,
                        tools,
                        "new tools of a server have no room in its file of pins"
                    );
                    notes.push(format!(
                        "{tools} of its tools are new and not served: the lines of `{server}` in {shown} take all the room that one server has; take out those of tools that are gone"
                    ));
                }
                let held_back: HashSet<String> = changed.into_iter().chain(without_room).collect();
                let mut served = served;
                served.retain(|tool| !held_back.contains(&tool.name));
                // By what is there, not by what is held back: one that is listed no more is no known one.
                self.upstream.clear(self.over, served.iter().map(|tool| tool.name.clone()).collect());
                return served;
            }
            Ok((_, Err(why))) => why,
            Err(error) => error.to_string(),
        };
        self.upstream.clear(self.over, HashSet::new());
        // Nobody can tell what they said before.
        tracing::warn!(
            server = config.name,
            file = shown,
            why,
            "what tools said when they were first seen is not known"
        );
        notes.push(format!("its tools are not served: what they said when they were first seen cannot be kept in {shown}: {why}"));
        Vec::new()
    }

    /// What a tool is called here, if it is offered.
    fn name_tool(&self, tool: &model::Tool, notes: &mut Vec<String>) -> Option<String> {
        let config = self.upstream.config();
        if !config.policy(&tool.name).enabled {
            return None;
        }
        let shown = tool.name.escape_debug();
        if let Some(c) = hidden_in(tool) {
            let code = u32::from(c);
            notes.push(format!(
                "`{shown}` is not served: what it says of itself has a character that nobody sees (U+{code:04X})"
            ));
            return None;
        }
        let name = match self.names.of_tool(config, &tool.name) {
            Ok(name) => name,
            Err(why) => {
                notes.push(format!("`{shown}` is not served: {why}"));
                return None;
            }
        };
        if name.len() > LONG {
            let length = name.len();
            notes.push(format!(
                "the name `{name}` is {length} characters long: hosts put more before it, and some drop or rename tools whose name is too long"
            ));
        }
        if name != tool.name && config.prefix.is_none() {
            notes.push(format!("`{shown}` is served as `{name}`"));
        }
        Some(name)
    }
}

fn tool(
    upstream: &Arc<super::Upstream>,
    definition: model::Tool,
    own: &str,
    said: &UpstreamPolicy,
    may_be_task: bool,
) -> Tool {
    let called = Called::new(upstream, own, said, may_be_task);
    let mut policy = task_policy(said);
    if may_be_task && policy.rerun == Rerun::Never {
        // Its work is entered again to go on with what it has begun there, and begins nothing twice.
        policy.rerun = Rerun::Resumable;
    }
    // What it is asked it is asked where it stands: made again in rounds, it would call again.
    let tool = Tool::raw(definition, called).untrusted_annotations().reentrant(false);
    said.versions.of(tool).task(policy).scopes(said.scopes.clone())
}

fn task_policy(said: &UpstreamPolicy) -> TaskPolicy {
    let mut policy = TaskPolicy::new(said.task);
    policy.rerun = said.rerun;
    (policy.ttl, policy.orphan) = (said.ttl, said.orphan);
    policy.hold = Some(said.hold);
    policy.join = said.join == Join::SameArguments;
    policy.limit = said.limit.and_then(|limit| usize::try_from(limit.get()).ok());
    policy
}
