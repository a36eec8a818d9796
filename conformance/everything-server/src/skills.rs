//! The skills extension (SEP-2640), of one skill: methods of our own beside resources, as any extension is written.

use longhaul::Server;
use longhaul::server::{Failure, Resource};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const EXTENSION: &str = "io.modelcontextprotocol/skills";

const NAME: &str = "walk-planning";
const DESCRIPTION: &str = "Plan a walk that fits the time and the weather";
const FOLDER: &str = "skill://walk-planning";
const SUBFOLDER: &str = "skill://walk-planning/references";

/// The first is what the skill is.
const FILES: [(&str, &str, &str); 2] = [
    (
        "skill://walk-planning/SKILL.md",
        NAME,
        "---\nname: walk-planning\ndescription: Plan a walk that fits the time and the weather\n---\n\n# Planning a walk\n\nCount \
         four kilometres an hour, and add what references/climbs.md says of climbs.\n",
    ),
    (
        "skill://walk-planning/references/climbs.md",
        "climbs",
        "# Climbs\n\nAn hour more for every 300 metres up.\n",
    ),
];

/// How long a list may be kept, in milliseconds, and that anybody may keep it.
const CACHE: (u32, &str) = (60_000, "public");

/// Adds the skill to a server.
pub(crate) fn add(server: Server) -> Server {
    let file = |(uri, name, text): &(&str, &str, &'static str)| {
        let resource = Resource::text(*uri, *name, *text).mime_type("text/markdown");
        if *name == NAME { resource.description(DESCRIPTION) } else { resource }
    };
    let server = FILES.iter().map(file).fold(server, Server::resource);
    server
        .extension(EXTENSION, &json!({ "directoryRead": true }))
        .method("skills/list", |_, Page { cursor }: Page| async move {
            // There is one page, so no cursor was ever handed out.
            match cursor {
                None => Ok(cached(json!({ "skills": [entry()] }))),
                Some(_) => Err(Failure::invalid("unknown cursor")),
            }
        })
        .method("skills/get", |_, One { uri }: One| async move {
            if uri == FILES[0].0 {
                return Ok(cached(json!({ "skill": entry() })));
            }
            Err(Failure::invalid(format!("no skill is at {uri}")))
        })
        .method("resources/directory/read", |_, One { uri }: One| async move {
            match uri.as_str() {
                FOLDER => Ok(json!({ "resources": [listed(0), folder()] })),
                SUBFOLDER => Ok(json!({ "resources": [listed(1)] })),
                _ => Err(Failure::invalid(format!("no folder is at {uri}"))),
            }
        })
}

#[derive(Deserialize)]
struct Page {
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct One {
    uri: String,
}

/// The skill, as it is listed.
fn entry() -> Value {
    let file = |(uri, _, text): &(&str, &str, &str)| json!({ "uri": uri, "digest": digest(text), "size": text.len() });
    let files: Vec<Value> = FILES.iter().map(file).collect();
    let frontmatter = json!({ "name": NAME, "description": DESCRIPTION });
    json!({ "uri": FILES[0].0, "frontmatter": frontmatter, "resources": files })
}

fn cached(mut result: Value) -> Value {
    let (ttl, scope) = CACHE;
    result["ttlMs"] = ttl.into();
    result["cacheScope"] = scope.into();
    result
}

fn listed(file: usize) -> Value {
    let (uri, name, text) = FILES[file];
    json!({ "uri": uri, "name": name, "mimeType": "text/markdown", "size": text.len() })
}

fn folder() -> Value {
    json!({ "uri": SUBFOLDER, "name": "references", "mimeType": "inode/directory" })
}

fn digest(text: &str) -> String {
    let hex: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
