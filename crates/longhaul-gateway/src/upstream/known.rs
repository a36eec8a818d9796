//! What a server had when it was last connected, kept in the store: what is offered of one that is started by its first call.
//!
//! It is a text in parts, for an entry is small. Each part says of which text it is one, so that parts of two texts, which processes
//! wrote at the same time or one began to write, are none.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use longhaul::client::Client;
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::model::{Prompt, Resource, ResourceTemplate, TaskSupport, Tool};
use longhaul::store::{EntryKey, Registry, StoreError, Swap, Value};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::connection::Kinds;
use crate::config::UpstreamServer;

/// What a server says of itself when it is connected to, as far as what is offered of it goes by that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Nature {
    pub(super) revision: Revision,
    pub(super) kinds: Kinds,
    /// It can make tasks of calls.
    tasks: bool,
}

impl Nature {
    /// That of a server whose resources are served, or not.
    pub(super) fn of(client: &Client, serves_resources: bool) -> Self {
        let capabilities = client.capabilities();
        let kinds = Kinds {
            resources: capabilities.resources && serves_resources,
            resource_updates: capabilities.resource_updates && serves_resources,
        };
        Self { revision: client.dialect().revision(), kinds, tasks: capabilities.tasks }
    }

    /// Whether it may make a task of a call.
    pub(super) fn makes_tasks(&self, tool: &Tool) -> bool {
        let says_by_tool = Dialect::of(self.revision).asks_for_tasks();
        self.tasks && (!says_by_tool || tool.task_support != TaskSupport::Forbidden)
    }
}

/// What a server has, as it listed it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) resources: Vec<Resource>,
    pub(super) templates: Vec<ResourceTemplate>,
}

/// The same as a text.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<T, P, R, M> {
    /// Which server it is, whatever it is called.
    of: String,
    revision: String,
    has_resources: bool,
    updates_resources: bool,
    makes_tasks: bool,
    tools: Vec<T>,
    prompts: Vec<P>,
    resources: Vec<R>,
    templates: Vec<M>,
}

/// A tool as it is written: not all revisions have a word for when its calls become tasks.
#[derive(Serialize)]
struct WrittenTool {
    tool: Box<RawValue>,
    execution: Execution,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Execution {
    task_support: TaskSupport,
}

/// The same as it is read.
#[derive(Deserialize)]
struct ReadTool {
    tool: Tool,
    /// It is what reads such a member.
    execution: TaskSupport,
}

/// What a server is and has, as one text.
fn write(of: String, nature: &Nature, lists: &Lists) -> serde_json::Result<Vec<u8>> {
    // Of all revisions the one that leaves out the least.
    let dialect = Dialect::newest_modern();
    let tool = |tool: &Tool| {
        let execution = Execution { task_support: tool.task_support };
        raw(|out| dialect.write_tool(tool, out)).map(|tool| WrittenTool { tool, execution })
    };
    let prompt = |prompt: &Prompt| raw(|out| dialect.write_prompt(prompt, out));
    let resource = |resource: &Resource| raw(|out| dialect.write_resource(resource, out));
    let template = |template: &ResourceTemplate| raw(|out| dialect.write_resource_template(template, out));
    serde_json::to_vec(&Written {
        of,
        revision: nature.revision.as_str().to_owned(),
        has_resources: nature.kinds.resources,
        updates_resources: nature.kinds.resource_updates,
        makes_tasks: nature.tasks,
        tools: lists.tools.iter().map(tool).collect::<Result<_, _>>()?,
        prompts: lists.prompts.iter().map(prompt).collect::<Result<_, _>>()?,
        resources: lists.resources.iter().map(resource).collect::<Result<_, _>>()?,
        templates: lists.templates.iter().map(template).collect::<Result<_, _>>()?,
    })
}

fn raw(write: impl FnOnce(&mut Vec<u8>)) -> serde_json::Result<Box<RawValue>> {
    let mut out = Vec::new();
    write(&mut out);
    serde_json::from_slice(&out)
}

/// What such a text says, if it is of that server and of a revision that is known here.
fn read(of: &str, text: &[u8]) -> Option<(Nature, Lists)> {
    let said: Written<ReadTool, Prompt, Resource, ResourceTemplate> = serde_json::from_slice(text).ok()?;
    if said.of != of {
        return None;
    }
    let kinds = Kinds { resources: said.has_resources, resource_updates: said.updates_resources };
    let nature = Nature { revision: Revision::from_date(&said.revision)?, kinds, tasks: said.makes_tasks };
    let tools = said.tools.into_iter().map(|ReadTool { tool, execution }| {
        let mut tool = tool;
        tool.task_support = execution;
        tool
    });
    let lists = Lists {
        tools: tools.collect(),
        prompts: said.prompts,
        resources: said.resources,
        templates: said.templates,
    };
    Some((nature, lists))
}

/// Which server it is, with all that it is given, how it is spoken to and what of it is listed: another one under its name has not what
/// this one had, nor has this one for somebody else, or in another revision. There are secrets among that, so that nobody without the
/// key can tell whether they have guessed one.
fn identity(key: &Key, server: &UpstreamServer) -> String {
    let reach = server.reach.spelt();
    let mut said = format!("{reach} prompts {} resources {}", server.prompts, server.resources);
    // Only where there is one: what was kept before servers could have any is of the same server.
    if let Some(revision) = server.revision {
        said.extend([" revision ", revision.as_str()]);
    }
    // Both of one length, whatever is said: nothing can be added behind it.
    digest([Sha256::digest(&key.0), Sha256::digest(said)].concat())
}

/// It is nobody's to see.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

fn digest(of: impl AsRef<[u8]>) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(of) {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Where it is kept.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    registry: Arc<dyn Registry>,
    /// The key of all nodes that share it, once it was needed.
    key: Arc<OnceCell<Key>>,
}

/// What nobody knows who does not have the store: with it is written whose a text is.
struct Key(Arc<[u8]>);

impl Shelf {
    pub(super) fn new(registry: Arc<dyn Registry>) -> Self {
        Self { registry, key: Arc::default() }
    }

    /// What that server was and had, if anything is known of it.
    pub(super) async fn recall(&self, server: &UpstreamServer) -> Option<(Nature, Lists)> {
        let known = async {
            let Some(text) = self.text(&server.name).await? else { return Ok(None) };
            Ok::<_, StoreError>(read(&identity(self.key().await?, server), &text))
        };
        match known.await {
            Ok(known) => known,
            Err(error) => {
                tracing::warn!(server = server.name, %error, "what a server had is not known");
                None
            }
        }
    }

    /// Keeps what that server is and has, in place of what was kept of it, unless this process did: that is what `last` says.
    pub(super) async fn keep(
        &self,
        server: &UpstreamServer,
        nature: &Nature,
        lists: &Lists,
        last: &mut Option<String>,
    ) {
        let name = &server.name;
        let key = match self.key().await {
            Ok(key) => key,
            Err(error) => {
                tracing::warn!(server = name, %error, "what a server has is not kept");
                return;
            }
        };
        let mut text = match write(identity(key, server), nature, lists) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(server = name, %error, "what a server has cannot be written down");
                return;
            }
        };
        let (digest, bytes) = (digest(&text), text.len());
        if last.as_ref() == Some(&digest) {
            return;
        }
        if bytes > MOST {
            tracing::warn!(
                server = name,
                bytes,
                "a server has more than is kept: it is started at once next time"
            );
            // Nor has it what it had before.
            text.clear();
        }
        match self.put(name, &text).await {
            Ok(()) => *last = Some(digest),
            Err(error) => tracing::warn!(server = name, %error, "what a server has is not kept"),
        }
    }

    /// The key that the nodes share, made by the first that needs it.
    async fn key(&self) -> Result<&Key, StoreError> {
        self.key
            .get_or_try_init(|| async {
                let mut ours = [0; 32];
                getrandom::fill(&mut ours).map_err(|error| StoreError::Backend {
                    doing: "drawing a key for what servers have",
                    source: Arc::new(error),
                })?;
                let (entry, value) = (EntryKey::of_server(KEY, "key"), Value::for_ever(&ours));
                let swap = self.registry.compare_and_set(entry, None, Some(value)).await?;
                let (Swap::Done(entry) | Swap::Found(entry)) = swap;
                Ok(Key(entry.map_or_else(|| ours.into(), |entry| entry.value)))
            })
            .await
    }

    async fn put(&self, name: &str, text: &[u8]) -> Result<(), StoreError> {
        let mut parts: Vec<&[u8]> = text.chunks(PART).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let head = format!("{} {}\n", digest(text), parts.len());
        for (number, part) in parts.into_iter().enumerate() {
            let value = [head.as_bytes(), part].concat();
            let name = part_name(name, number);
            self.registry.put(EntryKey::of_server(KIND, &name), Value::lasting(&value, LASTING)).await?;
        }
        Ok(())
    }

    async fn text(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (mut text, mut first, mut count) = (Vec::new(), None, 1);
        let mut number = 0;
        while number < count {
            let name = part_name(name, number);
            let Some(entry) = self.registry.entry(EntryKey::of_server(KIND, &name)).await? else {
                return Ok(None);
            };
            let Some((head, part)) = split(&entry.value) else { return Ok(None) };
            if first.get_or_insert_with(|| head.to_owned()).as_str() != head {
                return Ok(None);
            }
            let Some(parts) = head.split_once(' ').and_then(|(_, count)| count.parse().ok()) else {
                return Ok(None);
            };
            count = MOST.div_ceil(PART).min(parts);
            text.extend_from_slice(part);
            number += 1;
        }
        let is_whole = first.is_some_and(|head| head.starts_with(&digest(&text)));
        Ok(Some(text).filter(|_| is_whole))
    }
}

/// What a part says of which text it is one, and what it has of that.
fn split(value: &[u8]) -> Option<(&str, &[u8])> {
    let end = value.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&value[..end]).ok()?, &value[end + 1..]))
}

fn part_name(server: &str, number: usize) -> String {
    format!("{server}/{number}")
}

/// Of which kind these entries are.
const KIND: &str = "known";

/// Of which kind their key is.
const KEY: &str = "known-key";

/// How many bytes of a text an entry has: with what stands before them it is no larger than entries may be.
const PART: usize = 60 << 10;

/// How many bytes are kept of what a server has.
const MOST: usize = 1 << 20;

/// How long that is kept since the server was last connected, or had something else.
const LASTING: Duration = Duration::from_secs(90 * 24 * 3600);

#[cfg(test)]
mod tests {
    use longhaul::store::Memory;

    use super::*;
    use crate::config::check;

    fn server(lines: &str) -> UpstreamServer {
        check("longhaul.toml", &format!("[servers.files]\n{lines}")).unwrap().config.servers.remove(0)
    }

    fn nature() -> Nature {
        let kinds = Kinds { resources: true, resource_updates: false };
        Nature { revision: Dialect::newest_legacy().revision(), kinds, tasks: true }
    }

    fn of<T: serde::de::DeserializeOwned>(text: &str) -> Vec<T> {
        vec![serde_json::from_str(text).unwrap()]
    }

    /// One of each that says all that there is to say.
    fn everything() -> Lists {
        Lists {
            tools: of(
                r#"{"name": "a", "title": "A", "description": "Do a", "inputSchema": {"type": "object", "properties": {"b": true}},
                "outputSchema": {"type": "array"}, "annotations": {"title": "T", "readOnlyHint": true, "calm": [1.50]},
                "execution": {"taskSupport": "required"}, "icons": [{"src": "https://x/a.png", "sizes": ["any"]}],
                "_meta": {"x/y": {"z": 1}}, "cost": 1.50}"#,
            ),
            prompts: of(
                r#"{"name": "p", "title": "P", "description": "Say p", "icons": [{"src": "https://x/p.png", "theme": "dark"}],
                "arguments": [{"name": "q", "title": "Q", "description": "Which", "required": true, "kind": "name"}],
                "_meta": {"x/y": 2}, "cost": 2.50}"#,
            ),
            resources: of(
                r#"{"uri": "r://a", "name": "r", "title": "R", "description": "Is r", "mimeType": "text/plain", "size": 7,
                "icons": [{"src": "https://x/r.png", "mimeType": "image/png"}], "annotations": {"priority": 0.5, "calm": true},
                "_meta": {"x/y": 3}, "cost": 3.50}"#,
            ),
            templates: of(
                r#"{"uriTemplate": "r://{b}", "name": "m", "title": "M", "description": "Is m", "mimeType": "text/plain",
                "icons": [{"src": "https://x/m.png"}], "annotations": {"audience": ["user"]}, "_meta": {"x/y": 4}, "cost": 4.50}"#,
            ),
        }
    }

    fn same(one: &Lists, other: &Lists) -> bool {
        one.tools == other.tools
            && one.prompts == other.prompts
            && one.resources == other.resources
            && one.templates == other.templates
    }

    #[tokio::test]
    async fn what_is_recalled_is_what_was_listed_to_the_letter_and_of_the_same_server_alone() {
        let (memory, its) = (Memory::new(), server("command = [\"x\"]\ncwd = \"/\""));
        let shelf = |memory: &Memory| Shelf::new(Arc::new(memory.another_node()));
        assert!(shelf(&memory).recall(&its).await.is_none(), "nothing is known");
        shelf(&memory).keep(&its, &nature(), &everything(), &mut None).await;
        let (recalled, lists) = shelf(&memory).recall(&its).await.unwrap();
        assert_eq!(recalled, nature());
        assert!(same(&lists, &everything()), "{lists:#?}");
        for other in [
            "command = [\"x\"]\ncwd = \"/tmp\"",
            "command = [\"y\"]\ncwd = \"/\"",
            "command = [\"x\"]\ncwd = \"/\"\nprompts = false",
            "command = [\"x\"]\ncwd = \"/\"\nresources = false",
            "command = [\"x\"]\ncwd = \"/\"\nrevision = \"2025-11-25\"",
            "command = [\"x\"]\ncwd = \"/\"\nenv.USER_OF_IT = \"ann\"",
            "url = \"http://127.0.0.1\"",
        ] {
            assert!(shelf(&memory).recall(&server(other)).await.is_none(), "{other}");
        }
        assert!(shelf(&memory).recall(&its).await.is_some());
    }

    /// Otherwise what is kept is forgotten by whoever runs a newer program.
    #[test]
    fn a_server_is_the_same_for_a_program_that_knows_more_of_servers() {
        let its = server("command = [\"x\"]\ncwd = \"/\"");
        let said = r#"["x"] in "/" with {} prompts true resources true"#;
        let kept = digest([Sha256::digest([7; 32]), Sha256::digest(said)].concat());
        assert_eq!(identity(&Key([7; 32].into()), &its), kept);
    }

    #[tokio::test]
    async fn what_one_has_who_signs_in_so_is_not_what_another_has() {
        let all = [
            "command = [\"x\"]\ncwd = \"/\"",
            "command = [\"x\"]\ncwd = \"/\"\nenv.TOKEN = \"env:ANN\"",
            "command = [\"x\"]\ncwd = \"/\"\nenv.TOKEN = { from = \"env:ANN\" }",
            "command = [\"x\"]\ncwd = \"/\"\nenv.TOKEN = { from = \"env:BOB\" }",
            "command = [\"x\"]\ncwd = \"/\"\nenv.TOKEN = { from = \"file:ANN\" }",
            "url = \"https://x.example/mcp\"",
            "url = \"https://x.example/mcp?api_key=ann\"",
            "url = \"https://x.example/mcp?api_key=bob\"",
            "url = \"https://x.example/mcp\"\nheaders.X-Key = \"ann\"",
            "url = \"https://x.example/mcp\"\nheaders.X-Key = \"bob\"",
            "url = \"https://x.example/mcp\"\nheaders.X-Key = { from = \"env:ANN\" }",
            "url = \"https://x.example/mcp\"\nheaders.X-Key = { from = \"env:ANN\", prefix = \"Bearer \" }",
        ];
        for one in all {
            let memory = Memory::new();
            let shelf = Shelf::new(Arc::new(memory.another_node()));
            shelf.keep(&server(one), &nature(), &everything(), &mut None).await;
            let next = Shelf::new(Arc::new(memory.another_node()));
            for other in all {
                assert_eq!(next.recall(&server(other)).await.is_some(), one == other, "{one}\n{other}");
            }
        }
    }

    #[tokio::test]
    async fn whose_it_is_is_told_by_a_key_that_nodes_share_and_no_other_store_has() {
        let its = server("url = \"https://x.example/mcp?api_key=hush\"");
        let of = async |memory: &Memory| {
            let shelf = Shelf::new(Arc::new(memory.another_node()));
            identity(shelf.key().await.unwrap(), &its)
        };
        let (one, other) = (Memory::new(), Memory::new());
        assert_eq!(of(&one).await, of(&one).await);
        assert_ne!(of(&one).await, of(&other).await, "it says nothing to who guesses what is in it");
        let shelf = Shelf::new(Arc::new(one.another_node()));
        shelf.keep(&its, &nature(), &everything(), &mut None).await;
        let text = String::from_utf8(shelf.text("files").await.unwrap().unwrap()).unwrap();
        assert!(text.contains(&of(&one).await) && !text.contains("hush"), "{text}");
    }

    #[tokio::test]
    async fn what_is_long_is_kept_whole_or_not_at_all() {
        let (memory, its) = (Memory::new(), server("url = \"http://127.0.0.1/mcp?api_key=hush\""));
        let shelf = Shelf::new(Arc::new(memory.another_node()));
        let long = |bytes: usize| {
            let mut lists = everything();
            lists.tools[0].description = Some("x".repeat(bytes));
            lists
        };
        let tool = async |shelf: &Shelf| shelf.recall(&its).await.map(|(_, mut lists)| lists.tools.remove(0));
        shelf.keep(&its, &nature(), &long(1_000_000), &mut None).await;
        assert_eq!(tool(&shelf).await.unwrap(), long(1_000_000).tools[0]);
        // Another process writes something else meanwhile, or this one ended before all was written.
        let key = |number| part_name("files", number);
        let third = key(3);
        let theirs = memory.entry(EntryKey::of_server(KIND, &third)).await.unwrap().unwrap();
        shelf.keep(&its, &nature(), &long(900_000), &mut None).await;
        assert!(tool(&shelf).await.is_some());
        let value = Value::lasting(&theirs.value, LASTING);
        memory.put(EntryKey::of_server(KIND, &third), value).await.unwrap();
        assert!(tool(&shelf).await.is_none(), "it is of two texts");
        shelf.keep(&its, &nature(), &everything(), &mut None).await;
        assert!(tool(&shelf).await.is_some(), "what is left of a longer text is none of it");
        shelf.keep(&its, &nature(), &long(MOST), &mut None).await;
        assert!(tool(&shelf).await.is_none(), "nor is what it had before offered");
        let entries = memory.names(longhaul::store::Holder::Server, KIND, None, 1000).await.unwrap();
        assert!(entries.len() <= MOST.div_ceil(PART), "{entries:?}");
    }
}
