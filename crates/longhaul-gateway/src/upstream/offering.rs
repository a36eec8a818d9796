//! What a server has, listed and listed again, and the catalogue kept like it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use longhaul::Tool;
use longhaul::client::{Client, Error};
use longhaul::proto::model::{self, SubscriptionFilter, TaskSupport};
use longhaul::server::{BuildError, Catalogue, ChangeError, TaskMode, TaskPolicy};
use longhaul::store::Rerun;
use tokio::time::sleep;

use super::call::Called;
use super::connection::{Upstream, in_words};
use super::names::{LONG, Names};
use crate::config::{Join, UpstreamPolicy};

/// What is known of what a server offers.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "whoever shows it shows each")]
pub enum Seen {
    /// It has not answered yet.
    #[default]
    Nothing,
    /// It could not be reached, and is tried again.
    Failed {
        /// Why.
        why: Arc<str>,
    },
    /// It has said what it has.
    Listed {
        /// The names of its tools here.
        tools: Vec<String>,
        /// The revision that it speaks.
        revision: &'static str,
        /// What its operator should know of them.
        notes: Vec<String>,
    },
}

/// Serves the tools of a server on, for as long as the runtime lives: listed as soon as it can be reached, and again whenever
/// it says that they are others, or was connected to again.
pub async fn keep_offered(upstream: Arc<Upstream>, catalogue: Catalogue, names: Arc<Names>) {
    let mut offered = Offered { upstream, catalogue, names, tools: BTreeMap::new() };
    loop {
        let before = offered.upstream.openings();
        match offered.upstream.client().await {
            Ok(client) => {
                let opened = offered.upstream.openings();
                match offered.follow(&client).await {
                    // It is started again by the next call, if there is one.
                    Ok(_) if client.has_ended() => drop(offered.upstream.opened_after(opened).await),
                    // Nor is it told that it was away, but by calls that fail.
                    Ok(Heard::Nothing) => {
                        offered.upstream.doubted.notified().await;
                        sleep(PAUSE).await;
                    }
                    // There may have been changes since.
                    Ok(Heard::Changes) => sleep(PAUSE).await,
                    Err(error) => {
                        offered.failed(in_words(&error).into());
                        sleep(PAUSE).await;
                    }
                }
            }
            Err(error) => {
                offered.failed(error.why);
                tokio::select! {
                    _ = offered.upstream.opened_after(before) => {}
                    () = sleep(PAUSE) => {}
                }
            }
        }
    }
}

/// Between two tries to reach a server that nobody calls, or to hear of its changes again.
const PAUSE: Duration = Duration::from_secs(3);

/// What was heard of the changes of a server, which is heard no more.
enum Heard {
    Changes,
    /// It tells of none.
    Nothing,
}

/// The tools of one server as they are offered.
struct Offered {
    upstream: Arc<Upstream>,
    catalogue: Catalogue,
    names: Arc<Names>,
    /// By their names here, as they were listed.
    tools: BTreeMap<String, String>,
}

impl Offered {
    fn failed(&self, why: Arc<str>) {
        self.upstream.seen.send_if_modified(|seen| {
            // What it offered is still offered.
            let is_new = !matches!(seen, Seen::Listed { .. });
            if is_new {
                *seen = Seen::Failed { why };
            }
            is_new
        });
    }

    /// Lists what there is now and whenever it changes, until the connection has ended.
    async fn follow(&mut self, client: &Client) -> Result<Heard, Error> {
        self.list(client).await?;
        let filter = SubscriptionFilter::default().lists();
        let Ok(mut changes) = client.subscribe(filter).await else {
            // It tells of nothing. That it ends is found out by whoever calls it.
            return Ok(Heard::Nothing);
        };
        // It may have changed before it was asked to tell.
        self.list(client).await?;
        loop {
            match changes.next().await {
                Ok(Some(_)) => self.list(client).await?,
                Ok(None) | Err(_) => return Ok(Heard::Changes),
            }
        }
    }

    async fn list(&mut self, client: &Client) -> Result<(), Error> {
        let listed = if client.capabilities().tools { client.list_tools().await? } else { Vec::new() };
        let mut notes = Vec::new();
        let mut offered = BTreeMap::new();
        let config = self.upstream.config();
        let unknown = config.tools.keys().filter(|name| listed.iter().all(|tool| tool.name != **name));
        notes.extend(unknown.map(|name| {
            let (shown, server) = (name.escape_debug(), &config.name);
            format!("it has no tool `{shown}`, of which `[servers.{server}.tools]` says something")
        }));
        for tool in listed {
            let Some((name, text)) = self.offer(client, tool, &mut notes) else { continue };
            offered.insert(name, text);
        }
        for gone in self.tools.keys().filter(|name| !offered.contains_key(*name)) {
            if let Err(error) = self.catalogue.remove::<Tool>(gone) {
                tracing::warn!(%error, tool = gone, "a tool that is gone is offered still");
            }
        }
        self.tools = offered;
        for note in &notes {
            tracing::debug!(server = config.name, note, "of a server's tools");
        }
        let tools = self.tools.keys().cloned().collect();
        let revision = client.dialect().revision().as_str();
        self.upstream.seen.send_replace(Seen::Listed { tools, revision, notes });
        Ok(())
    }

    /// Offers one tool, if it is not offered as it is already: its name here, and all that is said of it.
    fn offer(
        &self,
        client: &Client,
        mut definition: model::Tool,
        notes: &mut Vec<String>,
    ) -> Option<(String, String)> {
        let config = self.upstream.config();
        let own = std::mem::take(&mut definition.name);
        let shown = own.escape_debug().to_string();
        let policy = config.policy(&own);
        if !policy.enabled {
            return None;
        }
        match self.names.give(config, &own) {
            Ok(name) => definition.name = name,
            Err(why) => {
                notes.push(format!("`{shown}` is not served: {why}"));
                return None;
            }
        }
        let name = definition.name.clone();
        if name.len() > LONG {
            let length = name.len();
            notes.push(format!(
                "the name `{name}` is {length} characters long: hosts put more before it, and some drop or rename tools whose name is too long"
            ));
        }
        if name != own && config.prefix.is_none() {
            notes.push(format!("`{shown}` is served as `{name}`"));
        }
        let mut said = String::new();
        write!(said, "{definition:?}").expect("a string takes all");
        match self.tools.get(&name) {
            Some(before) if *before == said => return Some((name, said)),
            // What was agreed to may not be what is there now.
            Some(_) => {
                tracing::warn!(server = config.name, tool = name, "a server says something else of its tool")
            }
            None => {}
        }
        let may_be_task = policy.task != TaskMode::Never && makes_tasks(client, &definition);
        let tool = self.tool(definition.clone(), &own, policy, may_be_task);
        let put = match self.catalogue.put(tool) {
            // The tool is of use without its picture.
            Err(ChangeError::Refused(BuildError::Icon { .. })) => {
                definition.icons.clear();
                self.catalogue.put(self.tool(definition, &own, policy, may_be_task))
            }
            put => put,
        };
        match put {
            Ok(()) => Some((name, said)),
            Err(error) => {
                notes.push(format!("`{shown}` is not served: {}", in_words(&error)));
                None
            }
        }
    }

    fn tool(&self, definition: model::Tool, own: &str, said: &UpstreamPolicy, may_be_task: bool) -> Tool {
        let called = Called::new(&self.upstream, own, said, may_be_task);
        let mut policy = task_policy(said);
        if may_be_task && policy.rerun == Rerun::Never {
            // Its work is entered again to go on with what it has begun there, and begins nothing twice.
            policy.rerun = Rerun::Resumable;
        }
        // What it is asked it is asked where it stands: made again in rounds, it would call again.
        let tool = Tool::raw(definition, called).untrusted_annotations().reentrant(false);
        tool.task(policy).scopes(said.scopes.clone())
    }
}

/// Whether its server may make a task of a call.
fn makes_tasks(client: &Client, tool: &model::Tool) -> bool {
    let says_by_tool = client.dialect().asks_for_tasks();
    client.capabilities().tasks && (!says_by_tool || tool.task_support != TaskSupport::Forbidden)
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
