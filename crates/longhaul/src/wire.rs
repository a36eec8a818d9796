//! What is said, written down for tests: a debug build notes each message in the folder that `LONGHAUL_WIRE` names.
//!
//! Whoever holds messages against the schema of their revision needs what they do not say themselves: which revision,
//! and what an answer was asked. Both are known here, whatever carries the message. A release build notes nothing.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, ObjectWriter, RequestId, write_error};
use longhaul_proto::method::Notice;

/// Whose words they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// A server of ours.
    Server,
    /// A client of ours.
    #[cfg(feature = "client")]
    Client,
    /// Whoever is at the other end.
    Peer,
}

/// A message is written, in the revision of `dialect`. `asked` is the method of the request that it answers.
#[inline]
pub(crate) fn said(by: By, dialect: &Dialect, asked: Option<&str>, message: &[u8]) {
    if let Some(notes) = notes() {
        notes.take(by, dialect, asked, message);
    }
}

/// A notification of ours, as [`Dialect::notification`] writes it.
pub(crate) fn notification(
    by: By,
    dialect: &Dialect,
    notice: Notice,
    params: impl FnOnce(&mut ObjectWriter<'_>),
) -> Option<Vec<u8>> {
    let message = dialect.notification(notice, params)?;
    said(by, dialect, None, &message);
    Some(message)
}

/// The notification that a request of ours is no longer wanted, as [`Dialect::cancelled`] writes it.
pub(crate) fn cancelled(by: By, dialect: &Dialect, id: &RequestId, reason: &str) -> Option<Vec<u8>> {
    let message = dialect.cancelled(id, reason)?;
    said(by, dialect, None, &message);
    Some(message)
}

/// An error of ours to what no revision is known of, as [`write_error`] writes it.
pub(crate) fn refuse(by: By, out: &mut Vec<u8>, id: Option<&RequestId>, error: &ErrorObject) {
    let start = out.len();
    write_error(out, id, error);
    said(by, Dialect::newest_modern(), None, &out[start..]);
}

/// The peer's request has come; without an id, its notification.
#[inline]
pub(crate) fn asked(dialect: &Dialect, id: Option<&RequestId>, method: &str, params: Option<&str>) {
    if let Some(notes) = notes() {
        let mut message = Vec::new();
        let mut object = ObjectWriter::new(&mut message);
        object.raw("jsonrpc", "\"2.0\"").optional("id", id).field("method", method);
        if let Some(params) = params {
            object.raw("params", params);
        }
        object.end();
        notes.take(By::Peer, dialect, None, &message);
    }
}

/// The peer has answered a request of ours with `result`.
#[inline]
pub(crate) fn answered(dialect: &Dialect, method: &str, result: &str) {
    if let Some(notes) = notes() {
        let mut message = Vec::new();
        let mut object = ObjectWriter::new(&mut message);
        object.raw("jsonrpc", "\"2.0\"").field("id", &0).raw("result", result);
        object.end();
        notes.take(By::Peer, dialect, Some(method), &message);
    }
}

/// Where this process notes what is said, if anybody wants to know.
#[inline]
fn notes() -> Option<&'static Notes> {
    static NOTES: OnceLock<Option<Notes>> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return None;
    }
    NOTES.get_or_init(|| Notes::open(Path::new(&std::env::var_os("LONGHAUL_WIRE")?))).as_ref()
}

/// A file with one message a line, each with what it does not say itself.
#[derive(Debug)]
struct Notes(Mutex<File>);

impl Notes {
    fn open(folder: &Path) -> Option<Self> {
        let opened = Self::create(folder);
        opened.inspect_err(|error| tracing::error!(%error, "what is said cannot be noted")).ok()
    }

    /// A file of this process alone; an id of a process comes again.
    fn create(folder: &Path) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let program = program.file_name().unwrap_or_default().display().to_string();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        let name = format!("{program}.{}.{}", std::process::id(), since.as_nanos());
        File::create_new(folder.join(name)).map(|file| Self(Mutex::new(file)))
    }

    fn take(&self, by: By, dialect: &Dialect, asked: Option<&str>, message: &[u8]) {
        let mut line = Vec::with_capacity(message.len() + 160);
        let mut note = ObjectWriter::new(&mut line);
        note.field("by", &format!("{by:?}")).field("revision", dialect.revision().as_str());
        note.optional("asked", asked.as_ref()).optional("test", std::thread::current().name().as_ref());
        // As text, so that even what is no JSON can be found out.
        note.field("message", &String::from_utf8_lossy(message));
        note.end();
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&line) {
            tracing::error!(%error, "a message could not be noted");
        }
    }
}
