//! A host's file with one server more, all else in it as it was.

use std::fs;
use std::io::{self, Write as _};
use std::iter;
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::{Map, Value, json};

use super::{Entry, Host, file};
use crate::replace::{beside, create_new, replace};

/// A host's file with this entry.
#[derive(Debug)]
pub(crate) struct Changed {
    /// The whole file.
    pub(crate) text: String,
    /// What had its name before.
    pub(crate) was: Option<Entry>,
}

/// A file with this entry, in the place of one of the same name.
pub(crate) fn with_entry(
    host: &'static Host,
    path: &Path,
    before: &str,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<Changed, String> {
    // What it began with it goes on beginning with.
    let (mark, before) = before.split_at(before.len() - file::unmarked(before).len());
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let mut expected = file::value(path, before)?;
    if expected.is_null() {
        expected = Value::Object(Map::new());
    }
    let whole = expected.as_object_mut().ok_or("it is no object")?;
    let mut servers = within(whole, host.member)?;
    let below = file::below(host, servers);
    if let Some(member) = below {
        servers = within(servers, member)?;
    }
    let was = servers.insert(name.to_owned(), Value::Object(entry.clone()));
    let after = match (is_toml, &was) {
        (_, Some(was)) if was.as_object() == Some(entry) => before.to_owned(),
        (true, Some(_)) => replaced(host, before, name, entry)?,
        (true, None) => appended(host, before, name, entry)?,
        (false, _) => edited(before, iter::once(host.member).chain(below), name, entry)?,
    };
    // Whatever wrote it, nothing else may have changed.
    if file::value(path, &after).is_ok_and(|found| found == expected) {
        let was = was.map(|was| Entry::alone(host, name, path, &was));
        return Ok(Changed { text: format!("{mark}{after}"), was });
    }
    Err("it could not be changed without changing more: add the entry by hand".to_owned())
}

/// The object under a member, which is made where there is none.
fn within<'o>(
    object: &'o mut Map<String, Value>,
    member: &str,
) -> Result<&'o mut Map<String, Value>, String> {
    let value = object.entry(member).or_insert_with(|| Value::Object(Map::new()));
    value.as_object_mut().ok_or_else(|| format!("`{member}` is no object"))
}

/// The text with the entry in the object to which these members lead.
fn edited(
    before: &str,
    members: impl Iterator<Item = &'static str>,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    let root = CstRootNode::parse(before, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let mut servers = root.object_value_or_create().ok_or("it is no object")?;
    for member in members {
        servers = servers.object_value_or_create(member).ok_or_else(|| format!("`{member}` is no object"))?;
    }
    let value = input(&Value::Object(entry.clone()));
    match servers.get(name) {
        Some(there) => there.set_value(value),
        None => drop(servers.append(name, value)),
    }
    let text = root.to_string();
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// The entry as a table.
fn table(host: &Host, name: &str, entry: &Map<String, Value>) -> Result<String, String> {
    let mut table = Map::new();
    table.insert(name.to_owned(), Value::Object(entry.clone()));
    let mut whole = Map::new();
    whole.insert(host.member.to_owned(), Value::Object(table));
    toml::to_string(&whole).map_err(|error| error.to_string())
}

/// The tables of the entry make way for the new one, which stands where the first of them stood. What is written in any other
/// way, or over lines that look like a table's beginning, does not come out as it should, and is refused by who looks at that.
fn replaced(host: &Host, before: &str, name: &str, entry: &Map<String, Value>) -> Result<String, String> {
    let mut new = Some(table(host, name, entry)?);
    let (mut after, mut is_own, mut above_next) = (String::new(), false, String::new());
    for line in before.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            let was_own = std::mem::replace(&mut is_own, is_of(line, host.member, name));
            // Comments above a table are of that table.
            let above = std::mem::take(&mut above_next);
            if !(was_own && is_own) {
                after.push_str(&above);
            }
            after.push_str(&new.take_if(|_| is_own).unwrap_or_default());
        }
        if !is_own {
            after.push_str(line);
        } else if line.trim().is_empty() || line.trim_start().starts_with('#') {
            above_next.push_str(line);
        } else {
            above_next.clear();
        }
    }
    match new {
        Some(_) => Err(format!("its server `{name}` is no table of its own: change that one by hand")),
        None => Ok(after + &above_next),
    }
}

/// Whether a table that begins so is the entry of that name, or within it.
fn is_of(line: &str, member: &str, name: &str) -> bool {
    let read = toml::from_str::<Map<String, Value>>(line);
    read.is_ok_and(|whole| whole.get(member).is_some_and(|servers| servers.get(name).is_some()))
}

/// A table may stand at the end of any TOML.
fn appended(host: &Host, before: &str, name: &str, entry: &Map<String, Value>) -> Result<String, String> {
    let table = table(host, name, entry)?;
    let gap = match before {
        "" => "",
        before if before.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Ok(format!("{before}{gap}{table}"))
}

/// The entry as it would stand in a file that has nothing else, of the form of the one that says `before`.
pub(crate) fn alone(
    host: &'static Host,
    path: &Path,
    before: &str,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<String, String> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(with_entry(host, path, "", name, entry)?.text);
    }
    // What cannot be read has no form.
    let known = file::value(path, before).unwrap_or_default();
    let below = known.get(host.member).and_then(Value::as_object).and_then(|known| file::below(host, known));
    let empty = below.map_or_else(|| json!({}), |below| json!({host.member: {below: {}}}));
    Ok(with_entry(host, path, &empty.to_string(), name, entry)?.text)
}

/// Writes the file: whoever reads it sees all of it or what was there before, of which a copy stays beside it.
///
/// # Errors
///
/// When it does not say what it said `before`, for whoever changed it meanwhile is not overwritten; when the system refuses.
pub(crate) fn write(
    path: &Path,
    before: Option<&str>,
    after: &str,
    is_users: bool,
) -> io::Result<Option<PathBuf>> {
    let now = file::text_if_there(path).map_err(io::Error::other)?;
    // What is a link to another place stays one.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|error| io::Error::other(format!("{} cannot be made: {error}", folder.display())))?;
    }
    if now.as_deref() != before {
        return Err(io::Error::other("it has changed meanwhile, and nothing is written: run this again"));
    }
    let mode = mode_of(&path).unwrap_or(if is_users { 0o600 } else { 0o644 });
    let backup = before.map(|before| backup(&path, before, mode)).transpose()?;
    replace(&path, after.as_bytes(), mode)?;
    Ok(backup)
}

/// How many copies there may be of a file beside it.
const BACKUPS: usize = 100;

/// Keeps a copy beside the file under a name that nothing has: an older copy may be the only one of what it holds.
fn backup(path: &Path, text: &str, mode: u32) -> io::Result<PathBuf> {
    let names = iter::once(".bak".to_owned()).chain((1..BACKUPS).map(|number| format!(".bak.{number}")));
    for name in names {
        let backup = beside(path, &name);
        match create_new(&backup, mode) {
            Ok(mut file) => {
                let kept = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
                if kept.is_err() {
                    // A part of it would pass for a copy. That it cannot be written is what is told, whether or not it can go.
                    let _ = fs::remove_file(&backup);
                }
                return kept.map(|()| backup);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(io::Error::other(format!("{} cannot be made: {error}", backup.display())));
            }
        }
    }
    let full = format!("{BACKUPS} copies of it are beside it, and nothing is written: move some elsewhere");
    Err(io::Error::other(full))
}

/// Who may read and write a file that is there, where the system says so.
#[cfg(unix)]
fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode_of(_: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(url: &str) -> Map<String, Value> {
        let Value::Object(entry) = serde_json::json!({ "type": "http", "url": url }) else { unreachable!() };
        entry
    }

    fn change(host: &str, file: &str, before: &str) -> Result<String, String> {
        let host = Host::named(host).unwrap();
        with_entry(host, Path::new(file), before, "ci", &entry("http://h/mcp")).map(|changed| changed.text)
    }

    #[test]
    fn a_server_is_added_and_all_else_stays_as_it_was() {
        let before = "{\n  // Mine.\n  \"inputs\": [],\n  \"servers\": {\n    \"other\": { \"command\": \"x\" }, // the first\n  },\n}\n";
        let after = change("vscode", "mcp.json", before).unwrap();
        assert!(
            after.contains("// Mine.") && after.contains("\"other\": { \"command\": \"x\" }, // the first"),
            "{after}"
        );
        assert!(
            after.contains(
                "    \"ci\": {\n      \"type\": \"http\",\n      \"url\": \"http://h/mcp\",\n    },"
            ),
            "{after}"
        );
        let again = change("vscode", "mcp.json", &after.replace("http://h/mcp", "http://old/mcp")).unwrap();
        assert_eq!(again, after, "it takes the place of one of its name");
        for empty in ["", "{}", "\n"] {
            let after = change("claude", ".mcp.json", empty).unwrap();
            assert!(
                serde_json::from_str::<Value>(&after).is_ok() && after.contains("\"mcpServers\""),
                "{after}"
            );
        }
    }

    #[test]
    fn in_a_file_of_opencode_2_a_server_stands_among_those_one_level_below() {
        let before = r#"{ "mcp": { "timeout": { "catalog": 5 }, "servers": { "ci": { "type": "remote", "url": "http://old/mcp" } } } }"#;
        let changed = |name: &str, before: &str| -> Value {
            let (host, entry) = (Host::named("opencode").unwrap(), entry("http://h/mcp"));
            let after = with_entry(host, Path::new("opencode.json"), before, name, &entry).unwrap();
            serde_json::from_str(&after.text).unwrap()
        };
        let mut expected: Value = serde_json::from_str(before).unwrap();
        expected["mcp"]["servers"]["ci"] = Value::Object(entry("http://h/mcp"));
        assert_eq!(changed("ci", before), expected);
        expected["mcp"]["servers"]["ci"]["url"] = "http://old/mcp".into();
        expected["mcp"]["servers"]["ci"]["type"] = "remote".into();
        expected["mcp"]["servers"]["servers"] = Value::Object(entry("http://h/mcp"));
        assert_eq!(changed("servers", before), expected, "no name takes the place of all");
        // In opencode 1 this is a server's name like any other.
        let before = r#"{ "mcp": { "servers": { "type": "local", "command": ["x"] } } }"#;
        let mut expected: Value = serde_json::from_str(before).unwrap();
        expected["mcp"]["ci"] = Value::Object(entry("http://h/mcp"));
        assert_eq!(changed("ci", before), expected);
    }

    #[test]
    fn a_table_is_added_to_toml_or_takes_the_place_of_its_own() {
        let before = "# Mine.\nmodel = \"x\"";
        let after = change("codex", "config.toml", before).unwrap();
        assert!(after.starts_with("# Mine.\nmodel = \"x\"\n\n[mcp_servers.ci]\n"), "{after}");
        assert_eq!(change("codex", "config.toml", &after).unwrap(), after, "it is there already");

        let old = "# Mine.\n[mcp_servers.ci]\ncommand = \"old\" # once\nargs = [\n  \"a\",\n]\n\n[mcp_servers.ci.env]\nA = \"1\"\n\n";
        let rest = "# Another's.\n[mcp_servers.\"ci2\"]\nurl = \"http://h\"\n\n[[more]]\nx = 1";
        let after = change("codex", "config.toml", &format!("{old}{rest}")).unwrap();
        let entry = "[mcp_servers.ci]\ntype = \"http\"\nurl = \"http://h/mcp\"\n";
        assert_eq!(after, format!("# Mine.\n{entry}\n{rest}"));
    }

    #[test]
    fn an_entry_that_is_no_table_of_its_own_is_left_alone() {
        for before in [
            "mcp_servers = { ci = { url = \"http://old\" } }\n",
            "[mcp_servers]\nci.url = \"http://old\"\n",
            "[mcp_servers.ci]\nargs = [\n  [\"nested\"],\n]\n",
        ] {
            assert!(change("codex", "config.toml", before).unwrap_err().contains("by hand"), "{before}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for before in ["[]", "{\"servers\": []}", "{ nonsense"] {
            assert!(change("vscode", "mcp.json", before).is_err(), "{before}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_its_copy_kept() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.json"), folder.path().join("a.json"));
        fs::write(&file, "{}").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let backup = write(&link, Some("{}"), "{\"a\":1}", true).unwrap().unwrap();
        assert_eq!(fs::read_to_string(backup).unwrap(), "{}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\"a\":1}");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        let new = folder.path().join("sub/new.json");
        assert!(write(&new, None, "{}", true).unwrap().is_none());
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_copy_takes_no_place_that_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.json"), "1").unwrap();
        fs::write(at("theirs"), "theirs").unwrap();
        std::os::unix::fs::symlink(at("theirs"), at("a.json.bak")).unwrap();
        for (before, after, copy) in [("1", "2", "a.json.bak.1"), ("2", "3", "a.json.bak.2")] {
            let backup = write(&at("a.json"), Some(before), after, true).unwrap().unwrap();
            assert_eq!(
                (backup.file_name().unwrap(), &*fs::read_to_string(&backup).unwrap()),
                (copy.as_ref(), before)
            );
        }
        assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "theirs");
        for number in 3..BACKUPS {
            fs::write(at(&format!("a.json.bak.{number}")), "").unwrap();
        }
        let refused = write(&at("a.json"), Some("3"), "4", true).unwrap_err();
        assert!(refused.to_string().contains("move some elsewhere"), "{refused}");
        assert_eq!(fs::read_to_string(at("a.json")).unwrap(), "3");
    }

    #[test]
    fn what_others_have_written_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        fs::write(&file, "{\"theirs\":1}").unwrap();
        for before in [None, Some("{}")] {
            let refused = write(&file, before, "{\"ours\":1}", true).unwrap_err();
            assert!(refused.to_string().contains("run this again"), "{refused}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\"theirs\":1}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no copy is left, for nothing was done");
        fs::remove_file(&file).unwrap();
        assert!(write(&file, Some("{}"), "{}", true).is_err(), "it may have been taken away on purpose");
    }
}
