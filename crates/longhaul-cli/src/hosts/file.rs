//! A host's file: JSON, with comments where the host takes them, or TOML.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};

use super::{Entry, Here, Host};

/// The longest file that is read: hosts keep more in theirs than servers.
const LONGEST: u64 = 64 << 20;

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST {
        return Err(format!("it is longer than {} MiB", LONGEST >> 20));
    }
    Ok(text)
}

/// What a file says, whichever of the two it is.
pub(crate) fn value(path: &Path, text: &str) -> Result<Value, String> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        // Its message shows the line, which may hold a secret.
        return toml::from_str::<Value>(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            format!("line {line} is no TOML: {}", error.message())
        });
    }
    let options = ParseOptions::default();
    let value: Option<Value> = jsonc_parser::parse_to_serde_value(text, &options)
        .map_err(|error| format!("line {} is no JSON: {}", error.line_display(), error.kind()))?;
    Ok(value.unwrap_or_default())
}

/// The servers that a file has.
pub(super) fn read(host: &'static Host, path: &Path, here: &Here) -> Result<Vec<Entry>, String> {
    let whole = value(path, &text(path)?)?;
    let inputs = whole.get("inputs").and_then(Value::as_array).cloned().unwrap_or_default();
    let workspace = workspace(host, path, here);
    let entry = |(name, value): (&String, &Value)| {
        Some(Entry {
            host,
            name: name.clone(),
            file: path.to_owned(),
            value: value.as_object()?.clone(),
            inputs: inputs.clone(),
            workspace: workspace.clone(),
        })
    };
    let none = Map::new();
    let servers = |of: &Value| -> Vec<Entry> {
        let servers = of.get(host.member).and_then(Value::as_object).unwrap_or(&none);
        // opencode 2 has them one level below; what stands beside that, as in 1, it reads all the same.
        let below = servers.get("servers").and_then(Value::as_object).filter(|_| host.name == "opencode");
        let beside = servers.iter().filter(|(name, _)| below.is_none_or(|_| *name != "servers"));
        let known = |(name, _): &(&String, &Value)| below.is_none_or(|below| !below.contains_key(*name));
        below.into_iter().flatten().chain(beside.filter(known)).filter_map(entry).collect()
    };
    // Claude Code keeps in its user's file what is this user's in one project.
    let project = here.folder.ancestors().find_map(|folder| whole.get("projects")?.get(folder.to_str()?));
    let mut entries = project.map(servers).unwrap_or_default();
    for entry in servers(&whole) {
        if !entries.iter().any(|known| known.name == entry.name) {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// The folder of the project that a file is of.
fn workspace(host: &Host, path: &Path, here: &Here) -> PathBuf {
    let depth = host.project.map_or(0, |name| Path::new(name).components().count());
    let is_user = host.user_file(here).as_deref() == Some(path);
    let folder = if is_user { None } else { path.ancestors().nth(depth) };
    folder.unwrap_or(&here.folder).to_owned()
}
