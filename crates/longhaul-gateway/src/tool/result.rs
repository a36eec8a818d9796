//! From the end of a run to the result of its call.

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use longhaul::proto::model::{CallToolResult, Content, Meta, ResourceLink};
use longhaul::store::Outcome;
use longhaul::tasks::project;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output::uri;
use crate::command::{Cause, Cut, Exit, FileError, Noted, Output as OutputFile, Stream};
use crate::config::{CommandTool, Output, format_duration};

/// How much of a stream a result repeats, in bytes: its end, and of one that is longer what says that it is.
const TEXT: usize = 64 << 10;

/// How much of that is kept free for saying so.
const CUT: usize = 512;

/// How much standard output is read as JSON, in bytes.
const JSON: usize = 4 << 20;

/// The facts of a run, in `_meta` always, and as `structuredContent` of a command with `output = "text"`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    exit_code: Option<i32>,
    signal: Option<i32>,
    duration_ms: u64,
    stdout_bytes: u64,
    stderr_bytes: u64,
    truncated: bool,
    /// How many processes it had left in the background, which were ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<NonZeroU32>,
}

/// How the result of a run is made. It is noted with the run, so that every node makes the same one, whatever its
/// configuration says by then, if it has any.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Terms {
    tool: String,
    output: Output,
    /// The run's own, which its supervisor keeps.
    #[serde(skip)]
    timeout: Option<Duration>,
}

impl Terms {
    /// Those of a command, as its runs note them.
    pub(super) fn note(command: &CommandTool) -> Value {
        json!({ "tool": command.name, "output": command.output })
    }

    /// Those of a command as it is configured here.
    pub(super) fn of(command: &CommandTool) -> Self {
        Self { tool: command.name.clone(), output: command.output, timeout: command.timeout }
    }

    /// What fits any command, for who has no configuration.
    pub(super) fn of_any() -> Self {
        Self { tool: "the command".to_owned(), output: Output::Text, timeout: None }
    }

    /// Those of a run, or `self` for one that does not say.
    fn or_noted(self, dir: &Path) -> Result<Self, FileError> {
        match Noted::read(dir) {
            Ok(noted) => {
                let terms = noted.note.and_then(|note| serde_json::from_value(note).ok());
                Ok(Self { timeout: noted.timeout, ..terms.unwrap_or(self) })
            }
            Err(error) if error.is_passing() => Err(error),
            Err(error) => {
                tracing::warn!(%error, dir = %dir.display(), "what a run was started with cannot be read");
                Ok(self)
            }
        }
    }
}

/// What a run that has ended so means for its call, by its own terms or else by these. Reads files, so it blocks.
/// `kept`: its output stays readable as resources.
///
/// # Errors
///
/// When files cannot be opened for what will [pass](FileError::is_passing): the result would say less than is there,
/// for good.
pub(super) fn of(id: &str, dir: &Path, exit: &Exit, kept: bool, terms: Terms) -> Result<Outcome, FileError> {
    match exit.cause {
        Cause::Cancelled => return Ok(Outcome::cancelled(Some("the command was cancelled".into()))),
        Cause::Abandoned => {
            return Ok(Outcome::lost("its server went away before the call was on disk"));
        }
        _ => {}
    }
    let terms = terms.or_noted(dir)?;
    let shown = Shown { id, dir, exit, kept };
    let stdout = shown.end_of(Stream::Stdout)?;
    // An empty block says nothing, and there are models that take none.
    let mut content: Vec<Content> = (!stdout.is_empty()).then(|| Content::text(stdout)).into_iter().collect();
    let mut structured = None;
    let mut failed = !exit.is_success();
    let why = why(&terms, exit);
    if let Some(why) = &why {
        content.push(Content::text(explained(shown.end_of(Stream::Stderr)?, why, exit)));
    } else if terms.output == Output::Json {
        match parsed(dir, exit)? {
            Ok(value) => structured = Some(value),
            Err(problem) => {
                failed = true;
                content.push(Content::text(problem));
            }
        }
    }
    // Programs take the first block for the output.
    if !content.is_empty() {
        content.extend(left(exit).map(Content::text));
    }
    if kept {
        content.extend(links(id, exit));
    }
    let facts = facts(exit);
    if terms.output == Output::Text {
        structured = serde_json::value::to_raw_value(&facts).ok();
    }
    let mut result =
        CallToolResult::new(content).failed(failed).with_meta(Meta::new().with("dev.longhaul/run", &facts));
    result.structured_content = structured;
    Ok(project::stored(&result))
}

/// How much a command has written to a stream, by what its task has come to; 0 where that does not say it.
///
/// So it is known of a task whose run files are gone what is missing.
#[must_use]
pub fn written(outcome: Option<&Outcome>, stream: Stream) -> u64 {
    let Some(Outcome::Result { value, .. }) = outcome else { return 0 };
    let pointer = match stream {
        Stream::Stdout => "/_meta/dev.longhaul~1run/stdoutBytes",
        Stream::Stderr => "/_meta/dev.longhaul~1run/stderrBytes",
    };
    let result = serde_json::from_str::<Value>(value.as_str()).unwrap_or_default();
    result.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// How the command of a task has ended: with an exit code, or by a signal.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ended {
    #[serde(default)]
    pub(crate) exit_code: Option<i32>,
    #[serde(default)]
    pub(crate) signal: Option<i32>,
}

impl Ended {
    /// As what its task has come to says it; `None` of a task that was no command, and of a command that did not run to its
    /// end.
    pub(crate) fn of(outcome: Option<&Outcome>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(rename = "_meta")]
            meta: Meta,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "dev.longhaul/run")]
            run: Ended,
        }
        let Some(Outcome::Result { value, .. }) = outcome else { return None };
        let answer: Answer = serde_json::from_str(value.as_str()).ok()?;
        Some(answer.meta.run).filter(|run| *run != Self::default())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.exit_code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => f.write_str(&signal_name(signal)),
            (None, None) => Ok(()),
        }
    }
}

fn facts(exit: &Exit) -> Facts {
    Facts {
        exit_code: exit.code,
        signal: exit.signal,
        duration_ms: exit.duration_ms,
        stdout_bytes: exit.stdout.total,
        stderr_bytes: exit.stderr.total,
        truncated: exit.is_truncated(),
        left: NonZeroU32::new(exit.left),
    }
}

/// Why a run failed, in a line; `None` when it did not.
fn why(terms: &Terms, exit: &Exit) -> Option<String> {
    let name = &terms.tool;
    match (exit.cause, exit.code, exit.signal) {
        (Cause::NotStarted, ..) => Some(match &exit.failure {
            Some(failure) => format!("{name} did not start: {failure}"),
            None => format!("{name} did not start"),
        }),
        (Cause::TimedOut, ..) => {
            let limit = terms.timeout.unwrap_or(Duration::ZERO);
            Some(format!("{name} ran longer than its timeout of {} and was ended", format_duration(limit)))
        }
        (_, Some(0), _) if exit.is_success() => None,
        (_, Some(code), _) => Some(format!("exit code {code}")),
        (_, _, Some(signal)) => Some(format!("ended by {}", signal_name(signal))),
        _ => Some("ended, and nobody knows how".to_owned()),
    }
}

/// A signal as a person knows it: `SIGSEGV (signal 11)`.
fn signal_name(number: i32) -> String {
    match signal_hook::low_level::signal_name(number) {
        Some(name) => format!("{name} (signal {number})"),
        None => format!("signal {number}"),
    }
}

/// What became of what a command had in the background when it ended, if it had anything there.
fn left(exit: &Exit) -> Option<String> {
    match exit.left {
        0 => None,
        1 => Some("(1 process that it left in the background was ended)".to_owned()),
        left => Some(format!("({left} processes that it left in the background were ended)")),
    }
}

/// The end of standard error, and why the run failed where that would not say it.
fn explained(mut text: String, why: &str, exit: &Exit) -> String {
    let says_it_itself = exit.cause == Cause::Exited && exit.code.is_some() && !text.trim().is_empty();
    if !says_it_itself {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(why);
    }
    text
}

/// What a result shows of the output of a run.
struct Shown<'r> {
    id: &'r str,
    dir: &'r Path,
    exit: &'r Exit,
    kept: bool,
}

impl Shown<'_> {
    /// The end of a stream. Where that is not all of it, it says so first: what is missing, and where it is.
    fn end_of(&self, stream: Stream) -> Result<String, FileError> {
        let summary = match stream {
            Stream::Stdout => &self.exit.stdout,
            Stream::Stderr => &self.exit.stderr,
        };
        let most = if summary.total > TEXT as u64 { TEXT - CUT } else { TEXT };
        let bytes = match end_of(self.dir, stream, most)? {
            Ok(bytes) => bytes,
            Err(problem) => return Ok(problem),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if bytes.len() as u64 >= summary.total {
            return Ok(text);
        }
        let whole = match (self.kept, summary.is_truncated()) {
            (true, false) => format!("all of them: {}", uri(self.id, stream)),
            (true, true) => format!("{} of them are kept: {}", summary.kept, uri(self.id, stream)),
            (false, _) => "the others are not kept".to_owned(),
        };
        let (shown, total, name) = (bytes.len(), summary.total, stream.name());
        Ok(format!("(cut: the last {shown} of {total} bytes of {name}; {whole})\n{text}"))
    }
}

/// The last bytes of a stream, or why they cannot be read.
fn end_of(dir: &Path, stream: Stream, max: usize) -> Result<Result<Vec<u8>, String>, FileError> {
    let read = match OutputFile::open(dir, stream) {
        Ok(output) => output.read_end(max, Cut::AtChar),
        Err(error) if error.is_passing() => return Err(error),
        Err(error) => Err(std::io::Error::other(error)),
    };
    Ok(match read {
        Ok(chunk) => Ok(chunk.bytes),
        Err(error) => {
            tracing::warn!(%error, dir = %dir.display(), "a command's output cannot be read");
            Err(format!("(the output cannot be read: {error})"))
        }
    })
}

/// Standard output as one JSON value.
fn parsed(dir: &Path, exit: &Exit) -> Result<Result<Box<RawValue>, String>, FileError> {
    if exit.stdout.total > JSON as u64 || exit.stdout.is_truncated() {
        let total = exit.stdout.total;
        return Ok(Err(format!("standard output is not usable as JSON: {total} bytes are more than {JSON}")));
    }
    let bytes = match end_of(dir, Stream::Stdout, JSON)? {
        Ok(bytes) => bytes,
        Err(problem) => return Ok(Err(problem)),
    };
    Ok(serde_json::from_slice(&bytes).map_err(|error| format!("standard output is not valid JSON: {error}")))
}

/// Links to the whole output, of the streams that were written to.
fn links(id: &str, exit: &Exit) -> impl Iterator<Item = Content> {
    let streams = [(Stream::Stdout, exit.stdout.total), (Stream::Stderr, exit.stderr.total)];
    let id = id.to_owned();
    streams.into_iter().filter(|(_, total)| *total > 0).map(move |(stream, total)| {
        let name = stream.name();
        let mut link = ResourceLink::new(uri(&id, stream), name);
        link.description = Some(format!("All of {name}, {total} bytes"));
        Content::ResourceLink(link)
    })
}
