//! What tools said of themselves when they were first seen, a line each in a file: one that says something else since is not
//! served until somebody agrees to it by taking its line out, which is noticed while it is served.
//!
//! Lines are only ever added, each by one write, so that processes can share a file and people can keep it with their
//! configuration.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use longhaul::proto::model::Tool;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

/// The names of those that say something else than when they were first seen. Those that are new are written down.
///
/// # Errors
///
/// When the file cannot be read, or a line that is needed cannot be added.
pub(super) fn changed<'t>(
    file: &Path,
    server: &str,
    tools: impl IntoIterator<Item = &'t Tool>,
) -> io::Result<Vec<String>> {
    let text = read(file)?;
    let known = digests(&text)?;
    let (mut changed, mut new) = (Vec::new(), String::new());
    for tool in tools {
        let name = format!("{server}/{}", tool.name.escape_debug());
        let digest = digest(tool);
        match known.get(name.as_str()) {
            Some(known) if *known == digest => {}
            Some(_) => changed.push(tool.name.clone()),
            None => writeln!(new, "{digest}  {name}").map_err(io::Error::other)?,
        }
    }
    if !new.is_empty() {
        // Whoever has edited the file may have left its last line without an end.
        if !text.is_empty() && !text.ends_with('\n') {
            new.insert(0, '\n');
        }
        let mut file = OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(new.as_bytes())?;
        file.sync_data()?;
    }
    Ok(changed)
}

/// Completes once the file is another than when this began, and rests: somebody may have agreed to something, or mended it.
pub(super) async fn rewritten(file: &Path) {
    let (began, mut before) = (Stamp::of(file), Stamp::of(file));
    loop {
        sleep(LOOK_EVERY).await;
        let now = Stamp::of(file);
        if now != began && now == before {
            return;
        }
        before = now;
    }
}

/// One state of a file; `None` when it is not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    length: u64,
    written: Option<SystemTime>,
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(file).ok()?;
        Some(Self { length: metadata.len(), written: metadata.modified().ok() })
    }
}

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is in the file; nothing if there is none.
fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    match File::open(file) {
        Ok(file) => file.take(LARGEST + 1).read_to_string(&mut text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if u64::try_from(text.len()).is_ok_and(|length| length > LARGEST) {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {LARGEST} bytes")));
    }
    Ok(text)
}

/// The digests, by server and tool. Of two lines of one tool the first counts; empty ones, and those that begin with `#`, are
/// people's own. Any other may be a tool's, which must not pass for one that nobody has seen.
fn digests(text: &str) -> io::Result<HashMap<&str, &str>> {
    let mut known = HashMap::new();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((digest, name)) = line.split_once("  ").filter(|(digest, _)| is_digest(digest)) else {
            let why = format!(
                "line {number} is not what was written (a digest, two spaces, and SERVER/TOOL): put it back as it was, or take it out to agree to what its tool says by then"
            );
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        };
        known.entry(name).or_insert(digest);
    }
    Ok(known)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a model reads of a tool, and what a host shows or decides by; pictures and `_meta` are left out.
fn digest(tool: &Tool) -> String {
    let schema = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let said = json!([
        tool.title,
        tool.description,
        schema(tool.input_schema.get()),
        tool.output_schema.as_ref().map(|text| schema(text.get())),
        tool.annotations,
        tool.others,
    ]);
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(said.to_string().as_bytes()) {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// How many bytes such a file has at most.
const LARGEST: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        let mut tool = Tool::new(name, serde_json::from_str(r#"{"type": "object", "a": 1}"#).unwrap());
        tool.description = Some(description.to_owned());
        tool
    }

    #[test]
    fn s37_what_a_tool_first_said_holds_until_its_line_is_taken_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pins");
        let changed = |server: &str, tools: &[Tool]| changed(&file, server, tools).unwrap();
        let (read, list) = (tool("read", "Reads"), tool("list all\n", "Lists"));
        assert_eq!(changed("files", &[read.clone(), list.clone()]), [""; 0]);
        assert_eq!(changed("notes", &[tool("read", "Reads notes")]), [""; 0], "it is another server's");
        let mut same = read.clone();
        same.input_schema = serde_json::from_str(r#"{"a":1,"type":"object"}"#).unwrap();
        assert_eq!(changed("files", &[same, list.clone()]), [""; 0]);
        let sly = tool("read", "Reads, and tells <mallory>");
        assert_eq!(changed("files", &[sly.clone(), list]), ["read"]);
        assert_eq!(changed("files", &[sly.clone(), tool("list all\n", "Turned")]), ["read", "list all\n"]);
        assert_eq!(changed("files", &[read]), [""; 0], "it says again what it said");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        let rest: String = text
            .lines()
            .filter(|line| !line.ends_with("files/read"))
            .map(|line| line.to_owned() + "\n")
            .collect();
        std::fs::write(&file, rest).unwrap();
        assert_eq!(changed("files", std::slice::from_ref(&sly)), [""; 0], "somebody has agreed");
        assert_eq!(changed("files", &[sly]), [""; 0]);
    }

    #[test]
    fn what_people_leave_in_the_file_is_read_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pins");
        let changed = |tools: &[Tool]| changed(&file, "files", tools);
        let (read, list) = (tool("read", "Reads"), tool("list", "Lists"));
        assert_eq!(changed(std::slice::from_ref(&read)).unwrap(), [""; 0]);
        let line = std::fs::read_to_string(&file).unwrap();
        // Behind the last line there is no end of a line any more.
        std::fs::write(&file, format!("# agreed to\n\n{}", line.trim_end())).unwrap();
        assert_eq!(changed(&[read, list]).unwrap(), [""; 0]);
        let turned = [tool("read", "Turned"), tool("list", "Turned")];
        assert_eq!(changed(&turned).unwrap(), ["read", "list"]);
        for broken in [&line[1..], &line[..64], "files/read", "<<<<<<< ours"] {
            std::fs::write(&file, format!("# agreed to\n{broken}")).unwrap();
            let refused = changed(&turned).unwrap_err().to_string();
            assert!(refused.starts_with("line 2 is not what was written"), "{broken}: {refused}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(changed(folder.path(), "files", &[tool("read", "Reads")]).is_err());
        assert!(changed(&folder.path().join("none/pins"), "files", &[tool("read", "Reads")]).is_err());
    }
}
