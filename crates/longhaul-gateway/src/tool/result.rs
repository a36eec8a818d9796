//! From the end of a run to the result of its call.

use std::path::Path;
use std::time::Duration;

use longhaul::proto::model::{CallToolResult, Content, Meta, ResourceLink};
use longhaul::store::Outcome;
use longhaul::tasks::project;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output::uri;
use crate::command::{Cause, Cut, Exit, Noted, Output as OutputFile, Stream};
use crate::config::{CommandTool, Output, format_duration};

/// How much of a stream a result repeats, in bytes: its end.
const TEXT: usize = 64 << 10;

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
}

/// How the result of a run is made. It is noted with the run, so that every node makes the same one, whatever its
/// configuration says by then, if it has any.
#[derive(Deserialize)]
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

    /// Those of a run; of one that does not say, what fits any.
    fn read(dir: &Path) -> Self {
        let noted = Noted::read(dir).unwrap_or_else(|error| {
            tracing::warn!(%error, dir = %dir.display(), "what a run was started with cannot be read");
            Noted::default()
        });
        let terms = noted.note.and_then(|note| serde_json::from_value(note).ok());
        let unknown = || Self { tool: "the command".to_owned(), output: Output::Text, timeout: None };
        Self { timeout: noted.timeout, ..terms.unwrap_or_else(unknown) }
    }
}

/// What a run that has ended so means for its call. Reads files, so it blocks. `kept`: its output stays
/// readable as resources.
pub(super) fn of(id: &str, dir: &Path, exit: &Exit, kept: bool) -> Outcome {
    match exit.cause {
        Cause::Cancelled => return Outcome::cancelled(Some("the command was cancelled".into())),
        Cause::Abandoned => {
            return Outcome::lost("its server went away before the call was on disk");
        }
        _ => {}
    }
    let terms = Terms::read(dir);
    let stdout = end_of(dir, Stream::Stdout, TEXT);
    let mut content = vec![Content::text(lossy(&stdout))];
    let mut structured = None;
    let mut failed = !exit.is_success();
    let why = why(&terms, exit);
    if let Some(why) = &why {
        content.push(Content::text(explained(&end_of(dir, Stream::Stderr, TEXT), why, exit)));
    } else if terms.output == Output::Json {
        match parsed(dir, exit) {
            Ok(value) => structured = Some(value),
            Err(problem) => {
                failed = true;
                content.push(Content::text(problem));
            }
        }
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
    project::stored(&result)
}

fn facts(exit: &Exit) -> Facts {
    Facts {
        exit_code: exit.code,
        signal: exit.signal,
        duration_ms: exit.duration_ms,
        stdout_bytes: exit.stdout.total,
        stderr_bytes: exit.stderr.total,
        truncated: exit.is_truncated(),
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
        (_, _, Some(signal)) => Some(format!("ended by signal {signal}")),
        _ => Some("ended, and nobody knows how".to_owned()),
    }
}

/// The end of standard error, and why the run failed where that would not say it.
fn explained(stderr: &[u8], why: &str, exit: &Exit) -> String {
    let mut text = lossy(stderr);
    let says_it_itself = exit.cause == Cause::Exited && exit.code.is_some() && !text.trim().is_empty();
    if !says_it_itself {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(why);
    }
    text
}

fn end_of(dir: &Path, stream: Stream, max: usize) -> Vec<u8> {
    let read = OutputFile::open(dir, stream).map_err(std::io::Error::other);
    match read.and_then(|output| output.read_end(max, Cut::AtChar)) {
        Ok(chunk) => chunk.bytes,
        Err(error) => {
            tracing::warn!(%error, dir = %dir.display(), "a command's output cannot be read");
            format!("(the output cannot be read: {error})").into_bytes()
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output as one JSON value.
fn parsed(dir: &Path, exit: &Exit) -> Result<Box<RawValue>, String> {
    if exit.stdout.total > JSON as u64 || exit.stdout.is_truncated() {
        let total = exit.stdout.total;
        return Err(format!("standard output is not usable as JSON: {total} bytes are more than {JSON}"));
    }
    let bytes = end_of(dir, Stream::Stdout, JSON);
    serde_json::from_slice(&bytes).map_err(|error| format!("standard output is not valid JSON: {error}"))
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
