//! What tools said of themselves when they were first seen, a line each in a file: one that says something else since is not
//! served until somebody agrees to it by taking its line out, which is noticed while it is served.
//!
//! Lines are only ever added, each by one write, so that processes can share a file and people can keep it with their
//! configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use longhaul::proto::model::Tool;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::connection::{Reached, Upstream};

/// The digests of what one server's tools said when they were first seen, by their names in the file.
type Lines = BTreeMap<String, String>;

/// How what a server's tools say compares with what they said when they were first seen.
#[derive(Debug)]
pub(super) struct Compared {
    /// The names of those that say something else.
    pub(super) changed: Vec<String>,
    /// The names of those that are new and cannot be written down: the lines of their server take all the room that it has.
    pub(super) without_room: Vec<String>,
    /// What the file says of the server's tools now.
    lines: Lines,
}

/// Compares tools with what they said when they were first seen. Those that are new are written down.
///
/// # Errors
///
/// When the file cannot be read, or a line that is needed cannot be added.
pub(super) fn compare<'t>(
    file: &Path,
    server: &str,
    tools: impl IntoIterator<Item = &'t Tool>,
) -> io::Result<Compared> {
    let text = read(file)?;
    let mut lines = lines_of(&text, server)?;
    let mut room =
        lines.iter().fold(MOST, |room, (name, digest)| room.saturating_sub(line(digest, name).len()));
    let (mut changed, mut without_room, mut new) = (Vec::new(), Vec::new(), String::new());
    for tool in tools {
        let name = format!("{server}/{}", tool.name.escape_debug());
        let digest = digest(tool);
        match lines.get(&name) {
            Some(known) if *known == digest => {}
            Some(_) => changed.push(tool.name.clone()),
            None => {
                let line = line(&digest, &name);
                let Some(left) = room.checked_sub(line.len()) else {
                    without_room.push(tool.name.clone());
                    continue;
                };
                room = left;
                new.push_str(&line);
                lines.insert(name, digest);
            }
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
    Ok(Compared { changed, without_room, lines })
}

/// What the file said of one server's tools when they were compared with it last, or why that could not be done; nothing before.
#[derive(Debug, Default)]
pub(super) struct Pinned(Mutex<Option<Result<Lines, String>>>);

impl Pinned {
    /// Takes note of a comparison, and gives what it came to.
    pub(super) fn note(&self, compared: io::Result<Compared>) -> Result<Compared, String> {
        let compared = compared.map_err(|error| error.to_string());
        let said = compared.as_ref().map(|compared| compared.lines.clone());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(said.map_err(Clone::clone));
        compared
    }

    /// Whether they were compared with something else than what is said now.
    fn was_other(&self, now: &Result<Lines, String>) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|then| then != now)
    }
}

/// Completes once the file rests and says something else of that server's tools than what they were compared with: somebody may
/// have agreed to something, or mended it. That lines were added for what is new, of whichever server, is nothing to hear of.
pub(super) async fn rewritten(file: &Path, server: &str, pinned: &Pinned) {
    let (mut looked_at, mut before) = (Stamp::of(file), Stamp::of(file));
    loop {
        sleep(LOOK_EVERY).await;
        let now = Stamp::of(file);
        if now != looked_at && now == before {
            looked_at = now;
            if pinned.was_other(&said(file, server).await) {
                return;
            }
        }
        before = now;
    }
}

/// What the file says of a server's tools, or why that cannot be told.
async fn said(file: &Path, server: &str) -> Result<Lines, String> {
    let (file, server) = (file.to_owned(), server.to_owned());
    let said = spawn_blocking(move || lines_of(&read(&file)?, &server)).await;
    said.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| error.to_string())
}

/// What may be called of a server's tools, as they were compared last.
#[derive(Debug, Default)]
pub(super) struct Cleared {
    /// The connection over which they were listed.
    over: u64,
    /// Their names there.
    tools: HashSet<String>,
    /// They are compared no more.
    is_final: bool,
}

impl Cleared {
    /// They are compared no more: what was compared may be called over the connection where that was, and nothing over another.
    pub(super) fn be_final(&mut self) {
        self.is_final = true;
    }
}

impl Upstream {
    /// These tools may be called, and no others, as they were listed over that connection and compared.
    pub(super) fn clear(&self, over: u64, tools: HashSet<String>) {
        self.cleared.send_modify(|cleared| (cleared.over, cleared.tools) = (over, tools));
    }

    /// Whether a tool may be called over that connection: where there are pins, its server has to say of it there what it said at first.
    pub(super) async fn may_call(&self, reached: &Reached, tool: &str) -> bool {
        if self.config().pins.is_none() {
            return true;
        }
        let mut cleared = self.cleared.subscribe();
        let is_compared = |cleared: &Cleared| cleared.over >= reached.number;
        let compared = cleared.wait_for(|cleared| is_compared(cleared) || cleared.is_final);
        match timeout(self.config().start_within, compared).await {
            Ok(Ok(cleared)) => is_compared(&cleared) && cleared.tools.contains(tool),
            Ok(Err(_)) | Err(_) => false,
        }
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
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        // A pipe would be waited for.
        return Err(io::Error::other("it is no file"));
    }
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

/// The lines of one server.
fn lines_of(text: &str, server: &str) -> io::Result<Lines> {
    let is_its = |name: &str| name.strip_prefix(server).is_some_and(|rest| rest.starts_with('/'));
    let lines = digests(text)?.into_iter().filter(|(name, _)| is_its(name));
    Ok(lines.map(|(name, digest)| (name.to_owned(), digest.to_owned())).collect())
}

fn line(digest: &str, name: &str) -> String {
    format!("{digest}  {name}\n")
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

/// How many bytes of it the lines of one server take at most: it names its tools as it likes, and anew with each list.
const MOST: usize = 1 << 20;

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
        let changed = |server: &str, tools: &[Tool]| compare(&file, server, tools).unwrap().changed;
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
        let changed = |tools: &[Tool]| compare(&file, "files", tools).map(|compared| compared.changed);
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
        assert!(compare(folder.path(), "files", &[tool("read", "Reads")]).is_err());
        assert!(compare(&folder.path().join("none/pins"), "files", &[tool("read", "Reads")]).is_err());
        #[cfg(unix)]
        {
            let pipe = folder.path().join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let refused = compare(&pipe, "files", &[tool("read", "Reads")]).unwrap_err();
            assert_eq!(refused.to_string(), "it is no file", "and nobody waits for who writes there");
        }
    }

    #[test]
    fn a_server_has_so_much_room_and_leaves_others_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pins");
        let long = |place: usize| tool(&format!("{place}{}", "x".repeat(100_000)), "Reads");
        let (first, last) = (tool("first", "Reads"), tool("last", "Reads"));
        let compare = |server: &str, tools: &[Tool]| compare(&file, server, tools).unwrap();
        assert_eq!(compare("sly", std::slice::from_ref(&first)).without_room, [""; 0]);
        for round in 0..20 {
            let compared = compare("sly", &[long(round), first.clone()]);
            assert_eq!(compared.without_room.len(), usize::from(round >= 10), "{round}");
            assert_eq!(compared.changed, [""; 0], "what it said before holds");
        }
        assert!(std::fs::metadata(&file).unwrap().len() <= 1 << 20);
        assert_eq!(compare("sly", &[tool("first", "Turned")]).changed, ["first"]);
        assert_eq!(compare("sly", &[long(99), last.clone()]).without_room.len(), 1, "it still fits");
        assert_eq!(compare("files", &[first, last, long(0)]).without_room, [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_the_file_says_otherwise_of_a_server_is_heard_of() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pins");
        let pinned = Pinned::default();
        let (read, list) = (tool("read", "Reads"), tool("list", "Lists"));
        let heard = async |act: &(dyn Fn() + Sync)| {
            let mut rewritten = std::pin::pin!(rewritten(&file, "files", &pinned));
            assert!(timeout(LOOK_EVERY / 2, rewritten.as_mut()).await.is_err());
            act();
            timeout(20 * LOOK_EVERY, rewritten).await.is_ok()
        };
        let compare = |server: &str, tools: &[Tool]| compare(&file, server, tools);
        assert!(!heard(&|| std::fs::write(&file, "# none yet\n").unwrap()).await, "it is compared with that");
        let both = [read.clone(), list];
        assert!(!heard(&|| drop(pinned.note(compare("files", &both)).unwrap())).await, "that was we");
        assert!(!heard(&|| drop(compare("notes", &both).unwrap())).await, "it is another server's");
        let text = std::fs::read_to_string(&file).unwrap();
        let again = text.lines().filter(|line| line.ends_with("files/read"));
        let again = text.clone() + &again.collect::<String>() + "\n";
        assert!(!heard(&|| std::fs::write(&file, &again).unwrap()).await, "the first counts");
        let rest: Vec<&str> = text.lines().filter(|line| !line.ends_with("files/read")).collect();
        assert!(heard(&|| std::fs::write(&file, rest.join("\n")).unwrap()).await, "somebody has agreed");
        pinned.note(compare("files", std::slice::from_ref(&read))).unwrap();
        assert!(heard(&|| std::fs::write(&file, "<<<<<<< ours\n").unwrap()).await, "it is none any more");
        pinned.note(compare("files", std::slice::from_ref(&read))).unwrap_err();
        assert!(heard(&|| std::fs::write(&file, "").unwrap()).await, "it is mended");
    }
}
