//! A host's file: JSON, with comments where the host takes them, or TOML.

use std::fs::{self, File};
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

/// The text of a file that is there, or `None` of one that can be made.
///
/// # Errors
///
/// When it cannot be read, or what is in its place keeps it from being made.
pub(crate) fn text_if_there(path: &Path) -> Result<Option<String>, String> {
    if path.exists() {
        return text(path).map(Some);
    }
    // Whoever made such a link wants the file elsewhere.
    if let Some(link) = path.ancestors().find(|place| place.is_symlink() && !place.exists()) {
        let target = fs::read_link(link).map_err(|error| error.to_string())?;
        let what = if link == path { "it".to_owned() } else { link.display().to_string() };
        return Err(format!("{what} is a link to {}, which is not there", target.display()));
    }
    match path.ancestors().skip(1).find(|folder| folder.exists()) {
        Some(file) if !file.is_dir() => Err(format!("{} is no folder", file.display())),
        _ => Ok(None),
    }
}

/// A text without the mark of its order of bytes, with which some editors begin.
pub(crate) fn unmarked(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// What such a mark is in UTF-8.
pub(super) const MARK: char = '\u{feff}';

/// What a file says, whichever of the two it is.
pub(crate) fn value(path: &Path, text: &str) -> Result<Value, String> {
    let text = unmarked(text);
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
        // What stands beside those one level below, as in opencode 1, opencode 2 reads all the same.
        let below = below(host, servers).and_then(|member| Some((member, servers.get(member)?.as_object()?)));
        let (member, below) = below.unzip();
        let beside = servers.iter().filter(|(name, _)| member.is_none_or(|member| *name != member));
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

/// The member of a file's servers that has them one level below, if one does: as in opencode 2, unless it is a server of opencode 1.
pub(super) fn below(host: &Host, servers: &Map<String, Value>) -> Option<&'static str> {
    let below = servers.get("servers").filter(|below| host.name == "opencode" && below.is_object())?;
    let is_server = matches!(below["type"].as_str(), Some("local" | "remote"));
    (!is_server).then_some("servers")
}

/// The folder of the project that a file is of.
fn workspace(host: &Host, path: &Path, here: &Here) -> PathBuf {
    let depth = host.project.map_or(0, |name| Path::new(name).components().count());
    let folder = if host.has_for_user(path, here) { None } else { path.ancestors().nth(depth) };
    folder.unwrap_or(&here.folder).to_owned()
}
