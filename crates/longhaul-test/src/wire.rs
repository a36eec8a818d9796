//! What programs of ours have noted of what they said and heard, held against the schema of each message's revision.
//!
//! A debug build of `longhaul` notes it in the folder that the variable `LONGHAUL_WIRE` names.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use crate::transcript::Book;

/// Tests in which a server of ours says what no schema has, for it passes on as it came what another server said.
const PASSING_ON: &[&str] = &["offer::what_no_revision_has_is_passed_on_as_it_came"];

/// How a line begins that notes what a peer said.
const PEER: &str = r#"{"by":"Peer","#;

/// What came of holding messages against their schemas.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Held {
    /// How many messages were looked at. One that differs from another in nothing but its id is not.
    pub messages: usize,
    /// What is wrong with each that is invalid, and where it was said.
    pub invalid: Vec<String>,
}

/// Holds everything noted in `folder` against its schema: what ours said, and with `peers` what they heard as well.
///
/// # Errors
///
/// Says what cannot be read.
pub fn hold(folder: &Path, peers: bool) -> Result<Held, String> {
    let book = Book::load()?;
    let mut lines: HashMap<String, Arc<str>> = HashMap::new();
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let program: Arc<str> = path.file_name().unwrap_or_default().display().to_string().into();
        let text = fs::read_to_string(&path).map_err(|error| format!("{program}: {error}"))?;
        // The last line of a process that was killed may lack its end.
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        for line in whole.filter(|line| peers || !line.starts_with(PEER)) {
            // Most is said again and again: a load, a story told once for each moment of it.
            if !lines.contains_key(line) {
                lines.insert(line.to_owned(), Arc::clone(&program));
            }
        }
    }
    let lines: Vec<_> = lines.into_iter().collect();
    let known = Mutex::new(HashSet::new());
    let (book, known) = (&book, &known);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let parts: Vec<Result<Held, String>> = thread::scope(|scope| {
        let share = lines.len().div_ceil(threads).max(1);
        let begun: Vec<_> =
            lines.chunks(share).map(|lines| scope.spawn(move || hold_some(lines, book, known))).collect();
        let panicked = |_| Err("a check panicked".to_owned());
        begun.into_iter().map(|part| part.join().unwrap_or_else(panicked)).collect()
    });
    let mut held = Held::default();
    for part in parts {
        let part = part?;
        held.messages += part.messages;
        held.invalid.extend(part.invalid);
    }
    // Whoever was sooner.
    held.invalid.sort_unstable();
    Ok(held)
}

/// The same of some lines, each with the program that noted it; `known` is what has been looked at already.
fn hold_some(
    lines: &[(String, Arc<str>)],
    book: &Book,
    known: &Mutex<HashSet<String>>,
) -> Result<Held, String> {
    let mut held = Held::default();
    for (line, program) in lines {
        let note = Note::read(line).map_err(|error| format!("{program}: {error}"))?;
        if PASSING_ON.contains(&note.test.as_str()) {
            continue;
        }
        let key = note.without_id();
        if !known.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
            continue;
        }
        held.messages += 1;
        if let Err(why) = note.check(book) {
            held.invalid.push(format!("{} in {program} {}: {why}", note.by, note.test));
        }
    }
    Ok(held)
}

/// A message, and what it does not say itself.
struct Note {
    by: String,
    revision: String,
    /// The method of the request that it answers.
    asked: Option<String>,
    /// The thread that said it, which has the name of its test.
    test: String,
    message: Result<Value, String>,
}

impl Note {
    fn read(line: &str) -> serde_json::Result<Self> {
        let mut note: Value = serde_json::from_str(line)?;
        let mut member = |name: &str| match note[name].take() {
            Value::String(text) => Some(text),
            _ => None,
        };
        let text = member("message").unwrap_or_default();
        Ok(Self {
            by: member("by").unwrap_or_default(),
            revision: member("revision").unwrap_or_default(),
            asked: member("asked"),
            test: member("test").unwrap_or_default(),
            message: serde_json::from_str(&text).map_err(|error| format!("{error}: {text}")),
        })
    }

    /// What it is known by among others that say the same.
    fn without_id(&self) -> String {
        let mut message = self.message.clone().unwrap_or_else(Value::String);
        if let Some(object) = message.as_object_mut() {
            object.insert("id".to_owned(), object.contains_key("id").into());
        }
        format!("{} {} {:?} {message}", self.by, self.revision, self.asked)
    }

    fn check(&self, book: &Book) -> Result<(), String> {
        book.check(&self.revision, self.message.as_ref()?, self.asked.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(lines: &[&str], peers: bool) -> Held {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes"), lines.join("\n")).unwrap();
        hold(folder.path(), peers).unwrap()
    }

    fn note(by: &str, asked: &str, message: &str) -> String {
        // In the order in which it is noted.
        let (by, asked, message) = (json!(by), json!(asked), json!(message));
        format!(r#"{{"by":{by},"revision":"2025-11-25","asked":{asked},"message":{message}}}"#)
    }

    #[test]
    fn what_a_server_of_ours_says_is_held_against_its_schema() {
        let list = |id: i64, result: &str| {
            note("Server", "tools/list", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
        };
        let (good, again, bad) = (list(1, r#"{"tools":[]}"#), list(2, r#"{"tools":[]}"#), list(3, "{}"));
        let peer = note("Peer", "", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
        let torn = list(4, "{}");
        let lines = [&good, &again, &bad, &peer, &note("Server", "", "oops"), &torn[..9]];

        let ours = held(&lines.map(AsRef::as_ref), false);
        assert_eq!(ours.messages, 3, "one of those that say the same, and none of the peer's");
        assert_eq!(ours.invalid.len(), 2, "{ours:?}");
        assert!(ours.invalid[0].contains("oops"), "{ours:?}");
        assert!(ours.invalid[1].contains("ListToolsResult of 2025-11-25"), "{ours:?}");
        assert_eq!(held(&lines.map(AsRef::as_ref), true).invalid.len(), 3);
    }

    #[test]
    fn what_is_passed_on_is_not_held_and_what_any_other_test_says_is() {
        let said = |test: &str| {
            let message = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
            let note = json!({"by": "Server", "revision": "2025-11-25", "asked": "tools/list",
                "test": test, "message": message});
            held(&[&note.to_string(), ""], false)
        };
        assert_eq!(said(PASSING_ON[0]).messages, 0);
        assert_eq!(said("offer::another").invalid.len(), 1);
    }
}
