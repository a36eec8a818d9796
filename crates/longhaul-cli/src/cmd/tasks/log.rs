//! `longhaul tasks log`: what the command of a task has written, byte for byte where no terminal reads it, or the parts
//! that a function has given.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::client::Error;
use longhaul::proto::model::ResourceContents;
use longhaul::server::output_uri;
use longhaul::store::{PartContent, Scope, TaskId};
use longhaul::tasks::project::PARTS;
use longhaul_gateway::command::{Chunk, Stream};
use longhaul_gateway::tool::{Streams, written};
use serde::{Deserialize, Serialize};

use super::origin::{Local, Origin, Remote};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::{Interrupt, Waited};
use crate::term::{Manner, clean, is_terminal, note, print, write};

/// Print what the command of a task has written so far, or the parts of its result that a function has given.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  longhaul tasks log test-3q9v --follow
  longhaul tasks log test-3q9v --stderr > errors.txt
  longhaul tasks log test-3q9v --json

With --json each stretch is a line: text, or what is no text as a blob in base64; missing, the bytes before it that \
were not kept; next, where to go on with --after; done, whether the command has ended. Each part of a function's task \
is a line: text, or its JSON as value.")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
    /// Its standard error instead of its standard output.
    #[arg(long)]
    stderr: bool,
    /// Go on until the command has ended.
    #[arg(long, short)]
    follow: bool,
    /// Begin at this byte; behind so many parts, where a function has given them.
    #[arg(long, value_name = "BYTE", default_value_t = 0, value_parser = byte, allow_negative_numbers = true)]
    after: u64,
}

fn byte(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "bytes are counted from 0".to_owned())
}

/// How often to look for more.
const EVERY: Duration = Duration::from_millis(500);

/// How much is read at once, in bytes.
const READ: usize = 256 << 10;

/// How many parts.
const MOST_PARTS: usize = 500;

pub(super) async fn run(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    let stream = if args.stderr { Stream::Stderr } else { Stream::Stdout };
    let source = Source::of(origin, &args.id, stream).await?;
    match Interrupt::listen().unless_left(None, Box::pin(follow(&source, args, manner))).await {
        Waited::For(ended) => ended.map(|()| Exit::Done),
        Waited::Left | Waited::TimeUp if manner != Manner::Words => Err(origin.detached("log", &args.id)),
        Waited::Left | Waited::TimeUp => Err(Failure::silent(Exit::Detached)),
    }
}

async fn follow(source: &Source<'_>, args: &Args, manner: Manner) -> Outcome<()> {
    let mut after = args.after;
    loop {
        let (mut is_more, mut done) = (false, false);
        for piece in source.read(after).await? {
            if let Some(total) = piece.total.filter(|total| after > *total) {
                note(&piece.too_far(after, total));
            }
            let has_more = piece.next > after;
            match manner {
                Manner::Words => put(&piece)?,
                // The last says that there is no more.
                _ if has_more || piece.done => print(&piece.json()?)?,
                _ => {}
            }
            (after, done, is_more) = (piece.next, piece.done, is_more || has_more);
        }
        if done || (!is_more && !args.follow) {
            return Ok(());
        }
        if !is_more {
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// To a terminal nothing goes that could harm it; anywhere else the bytes as they are.
fn put(Piece { kind, bytes, missing, .. }: &Piece) -> Outcome<()> {
    if *missing > 0 {
        note(&format!("… {missing} bytes are not kept …"));
    }
    if is_terminal() {
        write(clean::text(&String::from_utf8_lossy(bytes)).as_bytes())?;
    } else {
        write(bytes)?;
    }
    if matches!(kind, Kind::Text | Kind::Json) { write(b"\n") } else { Ok(()) }
}

/// What a piece is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What a command has written.
    Output,
    /// A part that is text.
    Text,
    /// One that is JSON.
    Json,
    /// There is no part yet, or no more.
    NoPart,
}

/// A stretch of output, or a part.
struct Piece {
    kind: Kind,
    bytes: Vec<u8>,
    next: u64,
    /// How many bytes there are in all, where that is known.
    total: Option<u64>,
    /// How many bytes before it were not kept.
    missing: u64,
    done: bool,
}

impl Piece {
    /// That nothing is kept of a stream, in which so much was written.
    fn gone(after: u64, total: u64) -> Self {
        let missing = total.saturating_sub(after);
        Self { kind: Kind::Output, bytes: Vec::new(), next: total, total: Some(total), missing, done: true }
    }

    /// What to say to who wants to begin where nothing is.
    fn too_far(&self, after: u64, total: u64) -> String {
        let yet = if self.done { "" } else { " yet" };
        match self.kind {
            Kind::Output => format!("there is no byte {after}{yet}: {total} bytes have been written"),
            _ => format!("there is no part {after}{yet}: {total} have been given"),
        }
    }

    /// As a line of JSON: `text`, or what is none as a `blob` in base64.
    fn json(&self) -> Outcome<String> {
        #[derive(Serialize)]
        struct Line<'p> {
            #[serde(skip_serializing_if = "Option::is_none")]
            text: Option<&'p str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            blob: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            value: Option<serde_json::Value>,
            missing: u64,
            next: u64,
            done: bool,
        }
        let Self { kind, bytes, next, missing, done, .. } = self;
        let value = if *kind == Kind::Json { serde_json::from_slice(bytes).ok() } else { None };
        let text = std::str::from_utf8(bytes).ok();
        let blob = text.is_none().then(|| STANDARD.encode(bytes));
        let text = text.filter(|_| value.is_none());
        let line = Line { text, blob, value, missing: *missing, next: *next, done: *done };
        let json = serde_json::to_string(&line).map_err(anyhow::Error::new)?;
        Ok(clean::json(&json))
    }
}

/// Where output is read.
enum Source<'a> {
    /// What its command has written; without one, the parts in the store.
    Store { streams: Streams, stream: Stream, local: &'a Local, id: TaskId },
    /// A resource of a server. Once it has no output of the task, its parts.
    Resource { remote: &'a Remote, id: String, stream: Stream, in_parts: AtomicBool },
}

impl<'a> Source<'a> {
    async fn of(origin: &'a Origin, id: &str, stream: Stream) -> Outcome<Self> {
        match origin {
            Origin::Store(local) => {
                let id = local.find(id).await?.id;
                Ok(Self::Store { streams: local.streams()?, stream, local, id })
            }
            Origin::Server(remote) => {
                let (id, in_parts) = (remote.id(id).to_owned(), AtomicBool::new(false));
                Ok(Self::Resource { remote, id, stream, in_parts })
            }
        }
    }

    /// What is there behind `after`: one piece at least.
    async fn read(&self, after: u64) -> Outcome<Vec<Piece>> {
        match self {
            Self::Store { streams, stream, local, id } => {
                let record = local.look(id).await?;
                let read = streams.read(&record, *stream, after, READ).await;
                if let Some(chunk) = read.map_err(anyhow::Error::new)? {
                    return Ok(vec![chunk.into()]);
                }
                match written(record.outcome(), *stream) {
                    // A task that waits for a place has written nothing yet, and a function's never will.
                    0 => {
                        let mut pieces = read_parts(local, id, after).await?;
                        // Its command may have begun and ended since.
                        pieces.iter_mut().for_each(|piece| piece.done &= record.outcome().is_some());
                        Ok(pieces)
                    }
                    total => Ok(vec![Piece::gone(after, total)]),
                }
            }
            Self::Resource { remote, id, stream, in_parts } => {
                if !in_parts.load(Ordering::Relaxed) {
                    match read_resource(remote, id, stream.name(), after).await {
                        Err(failure) if failure.exit == Exit::NotFound && *stream == Stream::Stdout => {}
                        read => return read,
                    }
                }
                let parts = read_resource(remote, id, PARTS, after).await?;
                in_parts.store(true, Ordering::Relaxed);
                Ok(parts)
            }
        }
    }
}

impl From<Chunk> for Piece {
    fn from(chunk: Chunk) -> Self {
        Self {
            kind: Kind::Output,
            missing: chunk.gap.map_or(0, |gap| gap.bytes()),
            next: chunk.next,
            total: Some(chunk.total),
            done: chunk.done,
            bytes: chunk.bytes,
        }
    }
}

async fn read_parts(local: &Local, id: &TaskId, after: u64) -> Outcome<Vec<Piece>> {
    let found =
        local.store.parts(Scope::Operator, id, after, MOST_PARTS).await.map_err(anyhow::Error::new)?;
    let Some(parts) = found else {
        return Err(Failure::new(Exit::NotFound, "no_such_task", format!("no task `{id}`")));
    };
    let (total, ended) = (parts.total, parts.ended);
    let is_done = |next| ended && next >= total;
    if parts.parts.is_empty() {
        let next = after.min(total);
        let done = is_done(next);
        return Ok(vec![Piece {
            kind: Kind::NoPart,
            bytes: Vec::new(),
            next,
            total: Some(total),
            missing: 0,
            done,
        }]);
    }
    let piece = |(before, content): (u64, PartContent)| {
        let kind = if matches!(content, PartContent::Json(_)) { Kind::Json } else { Kind::Text };
        let (bytes, next) = (content.as_str().as_bytes().to_owned(), before + 1);
        Piece { kind, bytes, next, total: Some(total), missing: 0, done: is_done(next) }
    };
    Ok((parts.start..).zip(parts.parts).map(piece).collect())
}

async fn read_resource(remote: &Remote, id: &str, stream: &str, after: u64) -> Outcome<Vec<Piece>> {
    let uri = output_uri(id, stream, after);
    let read = remote.client.read_resource(&uri).await.map_err(|error| match error {
        Error::Answer(answer) if matches!(answer.code.0, -32602 | -32002) => {
            Failure::new(Exit::NotFound, "no_such_task", format!("no output of a task `{id}`")).next(
                "its server keeps the output of commands and the parts of functions, for as long as it keeps the task",
            )
        }
        other => other.into(),
    })?;
    let nothing =
        || Piece { kind: Kind::Output, bytes: Vec::new(), next: after, total: None, missing: 0, done: true };
    let pieces: Vec<Piece> = read
        .contents
        .into_iter()
        .map(|contents| piece_of(contents, stream, after))
        .collect::<Outcome<_>>()?;
    Ok(if pieces.is_empty() { vec![nothing()] } else { pieces })
}

fn piece_of(contents: ResourceContents, stream: &str, after: u64) -> Outcome<Piece> {
    let position = position(&contents);
    let bytes = match (contents.text, contents.blob) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(blob)) => STANDARD.decode(blob).context("the server sent bytes that are no base64")?,
        (None, None) => Vec::new(),
    };
    let next = position.next.unwrap_or(after + bytes.len() as u64);
    let missing = position.gap.map_or(0, |gap| gap.to.saturating_sub(gap.from));
    let kind = match contents.mime_type.as_deref() {
        _ if stream != PARTS => Kind::Output,
        _ if next <= after => Kind::NoPart,
        Some("application/json") => Kind::Json,
        _ => Kind::Text,
    };
    Ok(Piece { kind, bytes, next, total: position.total, missing, done: position.done.unwrap_or(false) })
}

/// What the server says of where a piece stands in its stream.
#[derive(Default, Deserialize)]
struct Position {
    next: Option<u64>,
    total: Option<u64>,
    done: Option<bool>,
    gap: Option<Gap>,
}

#[derive(Deserialize)]
struct Gap {
    from: u64,
    to: u64,
}

fn position(contents: &ResourceContents) -> Position {
    let position = contents.meta.find("dev.longhaul/output");
    position.and_then(|position| serde_json::from_str(position.get()).ok()).unwrap_or_default()
}
