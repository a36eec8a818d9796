//! A journal in one file: a line for each entry, with its checksum, on the disk before anything follows from it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_tasks::environment::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Calls, Entry, Journal, JournalError, Kept};
use crate::client::private;
use crate::hex::hex;
use crate::locked::Locked;

/// Keeps what a client notes in one file, which only its user can read and write (0600 where the system has such a thing),
/// and one process at a time has. Clones share it; several clients of one process may. A folder in which anybody may put another
/// one in its place is refused.
///
/// What the calls were made with and what was answered stands in it as it is.
#[derive(Clone, Debug)]
pub struct FileJournal {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    /// Held for as long as the journal is; the file itself is exchanged for a shorter one now and then.
    _lock: Locked,
    /// How much of the file is whole entries.
    len: u64,
    /// When to write it anew, without what is over.
    compact_at: u64,
    calls: Calls,
    max_calls: usize,
    is_broken: bool,
}

impl FileJournal {
    /// Opens the journal at `path`, or begins one, with its folder. What a crash has left of a last entry is cut off.
    ///
    /// # Errors
    ///
    /// [`JournalError::InUse`] when another process has it, [`JournalError::Damaged`] when it is none or was changed, and
    /// whatever the system says.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::open_with(path, MAX_CALLS)
    }

    /// The same, with another bound on how many calls may be in it that are not over. The default is 1,024.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(path: impl Into<PathBuf>, max_calls: usize) -> Result<Self, JournalError> {
        let path = path.into();
        let system = |error| failed("open", &path, error);
        private::folder().create(private::folder_of(&path)).map_err(system)?;
        private::check_folder(&path, NOT_OURS).map_err(system)?;
        let lock = private::file().create(true).truncate(false).open(path.with_extension("lock"));
        let lock = Locked::take(lock.map_err(system)?).map_err(|error| match error {
            fs::TryLockError::WouldBlock => JournalError::InUse { path: path.clone() },
            fs::TryLockError::Error(error) => system(error),
        })?;
        let mut file = private::file().read(true).create(true).truncate(false).open(&path).map_err(system)?;
        private::check(&file, NOT_PRIVATE).map_err(system)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(system)?;
        let (calls, len) = read(&bytes).map_err(|at| JournalError::Damaged { path: path.clone(), at })?;
        if len < bytes.len() {
            tracing::warn!(path = %path.display(), bytes = bytes.len() - len, "cut off what a crash left of an entry");
            file.set_len(len as u64).map_err(system)?;
        }
        file.seek(io::SeekFrom::Start(len as u64)).map_err(system)?;
        let len = if len == 0 {
            file.write_all(HEAD).map_err(system)?;
            HEAD.len()
        } else {
            len
        };
        // That it is there is to be known before anything in it is.
        file.sync_all().and_then(|()| private::flush_folder(&path)).map_err(system)?;
        let (len, compact_at) = (len as u64, COMPACT_AT.max(2 * len as u64));
        let open = Open { path, file, _lock: lock, len, compact_at, calls, max_calls, is_broken: false };
        Ok(Self { open: Arc::new(Mutex::new(open)) })
    }

    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Open) -> Result<T, JournalError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, JournalError>> {
        let open = Arc::clone(&self.open);
        Box::pin(async move {
            let worked = tokio::task::spawn_blocking(move || {
                work(&mut open.lock().unwrap_or_else(PoisonError::into_inner))
            });
            worked.await.map_err(|error| JournalError::store("the journal was not written", error))?
        })
    }
}

impl Journal for FileJournal {
    fn note<'a>(&'a self, call: &'a str, entry: Entry) -> BoxFuture<'a, Result<(), JournalError>> {
        let call = call.to_owned();
        self.with(move |open| open.note(&call, entry))
    }

    fn open(&self) -> BoxFuture<'_, Result<Vec<Kept>, JournalError>> {
        self.with(|open| Ok(open.calls.open()))
    }
}

impl Open {
    fn note(&mut self, call: &str, entry: Entry) -> Result<(), JournalError> {
        if self.is_broken {
            return Err(JournalError::Broken { path: self.path.clone() });
        }
        if matches!(entry, Entry::Begun(_)) && self.calls.len() >= self.max_calls {
            return Err(JournalError::Full { max: self.max_calls });
        }
        let line = line(call, &entry).map_err(|error| failed("write", &self.path, error))?;
        // After a write or a flush that failed nobody knows what is on the disk.
        self.is_broken = true;
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|error| failed("write", &self.path, error))?;
        self.is_broken = false;
        self.len += line.len() as u64;
        self.calls.apply(call, entry);
        if self.len >= self.compact_at
            && let Err(error) = self.compact()
        {
            // The entry is kept; what comes next is told.
            tracing::error!(%error, path = %self.path.display(), "the journal was not written anew");
        }
        Ok(())
    }

    /// Writes it anew, with nothing in it but what is not over. Whoever opens it sees the old one or the new.
    fn compact(&mut self) -> io::Result<()> {
        let mut text = HEAD.to_vec();
        for (call, entry) in self.calls.entries() {
            text.extend(line(&call, &entry)?);
        }
        let (file, new) = private::beside(&self.path, &text)?;
        // From here on it could be either of the two.
        self.is_broken = true;
        private::put(&new, &self.path)?;
        self.is_broken = false;
        self.file = file;
        self.len = text.len() as u64;
        self.compact_at = COMPACT_AT.max(2 * self.len);
        Ok(())
    }
}

/// An entry as its line says it.
#[derive(Deserialize, Serialize)]
struct Said {
    call: String,
    note: Entry,
}

fn line(call: &str, entry: &Entry) -> io::Result<Vec<u8>> {
    let said = serde_json::to_string(&Said { call: call.to_owned(), note: entry.clone() })?;
    Ok(format!("{} {said}\n", checksum(said.as_bytes())).into_bytes())
}

fn checksum(text: &[u8]) -> String {
    hex(&Sha256::digest(text)[..CHECKSUM])
}

/// What a file comes to, and how much of it is whole entries; `Err` is where it is damaged.
///
/// An entry is on the disk before the next is written, so that only the last can be torn: what is no entry may be cut off
/// if no entry follows it.
fn read(bytes: &[u8]) -> Result<(Calls, usize), usize> {
    let Some(entries) = bytes.strip_prefix(HEAD) else {
        // Anything but a beginning that was torn is another's file.
        return if HEAD.starts_with(bytes) { Ok((Calls::default(), 0)) } else { Err(0) };
    };
    let (mut calls, mut whole, mut torn) = (Calls::default(), HEAD.len(), None);
    let mut at = HEAD.len();
    for line in entries.split_inclusive(|byte| *byte == b'\n') {
        match said(line) {
            Some(_) if torn.is_some() => return Err(torn.unwrap_or(at)),
            Some(Said { call, note }) => {
                calls.apply(&call, note);
                whole = at + line.len();
            }
            None => torn = torn.or(Some(at)),
        }
        at += line.len();
    }
    Ok((calls, whole))
}

fn said(line: &[u8]) -> Option<Said> {
    let line = line.strip_suffix(b"\n")?;
    let (sum, text) = line.split_at_checked(2 * CHECKSUM)?;
    let text = text.strip_prefix(b" ")?;
    if checksum(text).as_bytes() != sum {
        return None;
    }
    serde_json::from_slice(text).ok()
}

fn failed(what: &str, path: &Path, error: io::Error) -> JournalError {
    JournalError::store(format!("cannot {what} the journal {}", path.display()), error)
}

/// What to do about a file that others can read.
const NOT_OURS: &str = "anybody may put another journal in its place; keep it in a folder of your own";

/// What to do about a file of others.
const NOT_PRIVATE: &str = "it is another user's, or others can read it, and with it come to your tasks; `chmod 600` it, if it is yours";

/// Bytes of a checksum.
const CHECKSUM: usize = 8;

/// How many calls a journal has at most that are not over.
const MAX_CALLS: usize = 1024;

/// How long the file becomes before it is written anew, without what is over; then twice as long as what is not.
const COMPACT_AT: u64 = 64 << 10;

/// How the file begins.
const HEAD: &[u8] = b"longhaul journal 1\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::journal::{Begun, Ended};
    use longhaul_proto::model::CallToolResult;
    use serde_json::value::RawValue;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn begun(name: &str) -> Entry {
        Entry::Begun(Begun {
            server: "http://a/mcp".to_owned(),
            name: Some(name.to_owned()),
            tool: "build".to_owned(),
            arguments: raw(r#"{"n": 1}"#),
            ttl_ms: None,
        })
    }

    /// A call of every entry, and one that is over.
    fn all() -> Vec<(&'static str, Entry)> {
        let answered = Entry::Answered { question: "q".to_owned(), answer: raw(r#"{"go": true}"#) };
        vec![
            ("a", begun("one")),
            ("b", begun("two")),
            ("a", Entry::Task("t1".to_owned())),
            ("a", answered),
            ("b", Entry::Drafted("t2".to_owned())),
            ("b", Entry::Forgotten),
            ("a", Entry::Ended(Ended::Result(CallToolResult::text("built")))),
        ]
    }

    fn shown(calls: &[Kept]) -> String {
        format!("{calls:?}")
    }

    /// A journal cut anywhere opens to what was noted up to there, and goes on.
    #[tokio::test]
    async fn a_torn_entry_is_cut_off_and_a_damaged_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut calls, mut ends, mut known) = (Calls::default(), vec![HEAD.len()], vec![shown(&[])]);
        {
            let journal = FileJournal::open(&path).unwrap();
            assert!(matches!(FileJournal::open(&path), Err(JournalError::InUse { .. })));
            for (call, entry) in all() {
                journal.note(call, entry.clone()).await.unwrap();
                calls.apply(call, entry);
                ends.push(fs::metadata(&path).unwrap().len() as usize);
                known.push(shown(&calls.open()));
            }
        }
        let whole = fs::read(&path).unwrap();
        for len in (0..=whole.len()).filter(|len| len % 7 == 0 || ends.contains(len)) {
            for rest in [&b""[..], b"\0\0\n\0"] {
                if len < HEAD.len() && !rest.is_empty() {
                    continue;
                }
                fs::write(&path, [&whole[..len], rest].concat()).unwrap();
                let journal = FileJournal::open(&path).unwrap();
                let nth = ends.iter().rposition(|end| *end <= len).unwrap_or_default();
                assert_eq!(shown(&Journal::open(&journal).await.unwrap()), known[nth], "cut at {len}");
                journal.note("c", begun("three")).await.unwrap();
                drop(journal);
                let journal = FileJournal::open(&path).unwrap();
                assert!(shown(&Journal::open(&journal).await.unwrap()).contains("three"), "cut at {len}");
            }
        }
        let mut damaged = whole.clone();
        damaged[ends[2] + 30] ^= 1;
        for foreign in [&damaged[..], b"Dear diary"] {
            fs::write(&path, foreign).unwrap();
            assert!(matches!(FileJournal::open(&path), Err(JournalError::Damaged { .. })));
            assert_eq!(fs::read(&path).unwrap(), foreign, "it is left as it is");
        }
    }

    #[tokio::test]
    async fn what_is_over_is_left_out_and_nobody_else_reads_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/journal");
        let journal = FileJournal::open_with(&path, 2).unwrap();
        for (call, entry) in all() {
            journal.note(call, entry).await.unwrap();
        }
        let long = raw(&format!("\"{}\"", "x".repeat(10_000)));
        for _ in 0..20 {
            journal.note("b", begun("again")).await.unwrap();
            let full = journal.note("c", begun("too many")).await;
            assert!(matches!(full, Err(JournalError::Full { max: 2, .. })), "{full:?}");
            let answered = Entry::Answered { question: "q".to_owned(), answer: long.clone() };
            journal.note("b", answered).await.unwrap();
            journal.note("b", Entry::Forgotten).await.unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() < COMPACT_AT, "20 calls of 10 kB are over");
        let calls = shown(&Journal::open(&journal).await.unwrap());
        drop(journal);
        let again = FileJournal::open(&path).unwrap();
        assert_eq!(shown(&Journal::open(&again).await.unwrap()), calls);
        drop(again);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let error = FileJournal::open(&path).unwrap_err();
            assert!(format!("{error:?}").contains("chmod 600"), "{error:?}");
        }
    }

    /// A child has every file of its parent until it runs its own program, and with them the locks.
    #[cfg(unix)]
    #[test]
    fn one_that_was_dropped_is_free_whatever_is_begun_meanwhile() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
            let refused = (0..500).filter(|_| FileJournal::open(folder.path().join("journal")).is_err());
            let refused = refused.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0);
        });
    }

    #[cfg(unix)]
    #[test]
    fn s53_a_folder_in_which_anybody_may_put_another_journal_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        let path = folder.path().join("journal");
        let refused = format!("{:?}", FileJournal::open(&path).unwrap_err());
        assert!(refused.contains("a folder of your own"), "{refused}");
        assert!(!path.exists(), "nothing is begun there");
        mode(0o700);
        FileJournal::open(&path).unwrap();
    }
}
