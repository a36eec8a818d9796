//! The tasks that `longhaul call` started, so that later verbs find them by their ids alone.
//!
//! One file, which only its user reads: what a task was called with may be nobody else's business.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::replace::replace;
use crate::{state, term};

/// A task that was started here.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Handle {
    pub(crate) task: String,
    /// Where it is, as the command line named it.
    pub(crate) server: Place,
    /// The revision that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// The environment variable that holds the token, never the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_env: Option<String>,
    pub(crate) tool: String,
    /// What it was called with, unless that was too long to keep, or secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// When it was started, RFC 3339.
    pub(crate) started: String,
}

/// Where a server is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Place {
    /// At this URL.
    Url(String),
    /// Where this command serves that is run in this folder.
    Command { words: Vec<String>, folder: PathBuf },
    /// Where a host says that has it under this name in this folder.
    Named { name: String, folder: PathBuf },
}

impl Place {
    /// What a person calls it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Url(url) => url.clone(),
            Self::Named { name, .. } => name.clone(),
            Self::Command { words, .. } => format!("-- {} …", words.first().map_or("", String::as_str)),
        }
    }
}

/// How many tasks are remembered: the latest.
const MOST: usize = 500;

/// How many bytes of arguments are kept of one, and of all.
const MOST_BYTES: usize = 64 << 10;
const MOST_BYTES_IN_ALL: usize = 2 << 20;

/// The file's own bound: what is longer was not written here.
const LONGEST: u64 = 16 << 20;

/// The file of this user; `None` for whoever has no home.
pub(crate) fn path() -> Option<PathBuf> {
    Some(state::folder()?.join("tasks.json"))
}

/// Remembers a task, in the place of the oldest if there are too many.
pub(crate) fn keep(path: &Path, mut handle: Handle) -> io::Result<()> {
    if handle.arguments.as_ref().is_some_and(|arguments| arguments.get().len() > MOST_BYTES) {
        handle.arguments = None;
    }
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(named(folder))?;
    }
    let mut private = OpenOptions::new();
    private.write(true).mode(0o600).create(true).truncate(false);
    let beside = path.with_extension("lock");
    let lock = private.open(&beside).map_err(named(&beside))?;
    lock.lock().map_err(named(&beside))?;
    let mut handles = read(path)?;
    handles.retain(|known| known.task != handle.task || known.server != handle.server);
    handles.insert(0, handle);
    handles.truncate(MOST);
    let mut bytes = 0;
    for handle in &mut handles {
        bytes += handle.arguments.as_ref().map_or(0, |arguments| arguments.get().len());
        if bytes > MOST_BYTES_IN_ALL {
            handle.arguments = None;
        }
    }
    replace(path, &serde_json::to_vec(&handles)?, 0o600).map_err(named(path))
}

/// What the system says of a file, with its name and what to do.
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| {
        let path = path.display();
        let what = match error.kind() {
            io::ErrorKind::IsADirectory => {
                format!("{path} is a folder, where tasks are to be remembered; remove it")
            }
            _ => format!("{path}: {error}"),
        };
        io::Error::new(error.kind(), what)
    }
}

/// Remembers a task if it can; where it cannot, its user is told how else to find it.
pub(crate) fn note(handle: Handle) {
    let Some(path) = path() else { return };
    if let Err(error) = keep(&path, handle) {
        term::note(&format!("note: the task is not remembered: {error}; --url finds it"));
    }
}

/// The time that it is, RFC 3339.
pub(crate) fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// The tasks that are remembered, the latest first.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Handle>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(named(path)(error)),
    };
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(named(path))?;
    // What is in it stays out of the error.
    serde_json::from_str(&text).map_err(|error| {
        let what = format!("{} is no list of tasks (line {}); remove it", path.display(), error.line());
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// What is remembered under an id, or the beginning of one.
pub(crate) enum Found {
    One(Box<Handle>),
    /// These could be meant, the latest first.
    Several(Vec<String>),
    Nothing,
}

/// The task of that id, or the only one whose id begins so.
pub(crate) fn find(path: &Path, given: &str) -> io::Result<Found> {
    let handles = read(path)?;
    let of = |is: &dyn Fn(&Handle) -> bool| -> Vec<Handle> {
        handles.iter().filter(|handle| is(handle)).cloned().collect()
    };
    let mut found = of(&|handle| handle.task == given);
    if found.is_empty() && !given.is_empty() {
        found = of(&|handle| handle.task.starts_with(given));
        if found.len() > 1 {
            return Ok(Found::Several(found.into_iter().map(|handle| handle.task).collect()));
        }
    }
    // Of two servers that gave one id, the latest.
    Ok(found.into_iter().next().map_or(Found::Nothing, |handle| Found::One(Box::new(handle))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn handle(task: &str, arguments: &str) -> Handle {
        Handle {
            task: task.to_owned(),
            server: Place::Url("http://127.0.0.1:1/mcp".to_owned()),
            revision: None,
            token_env: None,
            tool: "test".to_owned(),
            arguments: RawValue::from_string(arguments.to_owned()).ok(),
            started: String::new(),
        }
    }

    #[test]
    fn tasks_are_found_by_their_ids_and_are_their_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/tasks.json");
        assert!(matches!(find(&path, "test-1"), Ok(Found::Nothing)));
        keep(&path, handle("test-1", "{}")).unwrap();
        keep(&path, handle("test-12", "{}")).unwrap();
        let one = |given: &str| match find(&path, given).unwrap() {
            Found::One(handle) => handle.task,
            Found::Several(ids) => ids.join(" "),
            Found::Nothing => String::new(),
        };
        assert_eq!((one("test-1"), one("test-12")), ("test-1".to_owned(), "test-12".to_owned()));
        assert_eq!(
            (one("test"), one("x"), one("")),
            ("test-12 test-1".to_owned(), String::new(), String::new())
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::write(&path, "s3cret").unwrap();
        let error = find(&path, "test-1").err().unwrap().to_string();
        assert!(error.contains("no list of tasks") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.json");
        fs::create_dir(&path).unwrap();
        let said = [find(&path, "test-1").err().unwrap(), keep(&path, handle("test-1", "{}")).unwrap_err()];
        for said in said.map(|error| error.to_string()) {
            assert!(said.contains("tasks.json is a folder") && said.contains("remove it"), "{said}");
        }
        let other = folder.path().join("file");
        fs::write(&other, "").unwrap();
        let said = keep(&other.join("tasks.json"), handle("test-1", "{}")).unwrap_err().to_string();
        assert!(said.contains("file: "), "{said}");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.json");
        let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
        let many: Vec<Handle> = (0..MOST).map(|n| handle(&format!("t{n}"), &long(20_000))).collect();
        fs::write(&path, serde_json::to_vec(&many).unwrap()).unwrap();
        keep(&path, handle("new", &long(MOST_BYTES))).unwrap();
        let kept = read(&path).unwrap();
        assert_eq!((kept.len(), kept[0].task.as_str()), (MOST, "new"));
        assert!(kept[0].arguments.is_none(), "too long for one");
        assert!(kept[1].arguments.is_some() && kept[MOST - 1].arguments.is_none(), "too long for all");
        assert!(fs::metadata(&path).unwrap().len() < 4 << 20);
    }
}
