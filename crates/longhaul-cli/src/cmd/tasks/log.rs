//! `longhaul tasks log`: what the command of a task has written, byte for byte where no terminal reads it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::client::Error;
use longhaul::proto::model::ResourceContents;
use longhaul::server::output_uri;
use longhaul_gateway::command::{Cut, Output, Stream};
use serde::{Deserialize, Serialize};

use super::origin::{Local, Origin, Remote};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::{Interrupt, Waited};
use crate::term::{Manner, clean, is_terminal, note, print, write};

/// Print what the command of a task has written so far.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  longhaul tasks log test-3q9v --follow
  longhaul tasks log test-3q9v --stderr > errors.txt
  longhaul tasks log test-3q9v --json

With --json each stretch is a line: text, or what is no text as a blob in base64; missing, the bytes before it that
were not kept; next, where to go on with --after; done, whether the command has ended.")]
pub(crate) struct Args {
    /// The task's id, or its beginning on a store.
    id: String,
    /// Its standard error instead of its standard output.
    #[arg(long)]
    stderr: bool,
    /// Go on until the command has ended.
    #[arg(long, short)]
    follow: bool,
    /// Begin at this byte.
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

pub(super) async fn run(origin: &Origin, args: &Args, manner: Manner) -> Outcome {
    let stream = if args.stderr { Stream::Stderr } else { Stream::Stdout };
    let source = Source::of(origin, &args.id, stream).await?;
    match Interrupt::listen().unless_left(None, follow(&source, args, manner)).await {
        Waited::For(ended) => ended.map(|()| Exit::Done),
        Waited::Left | Waited::TimeUp => Err(Failure::silent(Exit::Detached)),
    }
}

async fn follow(source: &Source<'_>, args: &Args, manner: Manner) -> Outcome<()> {
    let mut after = args.after;
    loop {
        let piece = source.read(after).await?;
        if let Some(total) = piece.total.filter(|total| after > *total) {
            note(&format!("there is no byte {after} yet: {total} bytes have been written"));
        }
        let is_more = piece.next > after;
        match manner {
            Manner::Words => put(&piece)?,
            // The last says that there is no more.
            _ if is_more || piece.done => print(&piece.json()?)?,
            _ => {}
        }
        after = piece.next;
        if piece.done || (!is_more && !args.follow) {
            return Ok(());
        }
        if !is_more {
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// To a terminal nothing goes that could harm it; anywhere else the bytes as they are.
fn put(Piece { bytes, missing, .. }: &Piece) -> Outcome<()> {
    if *missing > 0 {
        note(&format!("… {missing} bytes are not kept …"));
    }
    if is_terminal() { write(clean::text(&String::from_utf8_lossy(bytes)).as_bytes()) } else { write(bytes) }
}

/// A stretch of output.
struct Piece {
    bytes: Vec<u8>,
    next: u64,
    /// How many bytes there are in all, where that is known.
    total: Option<u64>,
    /// How many bytes before it were not kept.
    missing: u64,
    done: bool,
}

impl Piece {
    /// As a line of JSON: `text`, or what is none as a `blob` in base64.
    fn json(&self) -> Outcome<String> {
        #[derive(Serialize)]
        struct Line<'p> {
            #[serde(skip_serializing_if = "Option::is_none")]
            text: Option<&'p str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            blob: Option<String>,
            missing: u64,
            next: u64,
            done: bool,
        }
        let Self { bytes, next, missing, done, .. } = self;
        let text = std::str::from_utf8(bytes).ok();
        let blob = text.is_none().then(|| STANDARD.encode(bytes));
        let line = Line { text, blob, missing: *missing, next: *next, done: *done };
        let json = serde_json::to_string(&line).map_err(anyhow::Error::new)?;
        Ok(clean::json(&json))
    }
}

/// Where output is read.
enum Source<'a> {
    /// The directory of the command's run.
    Files { dir: PathBuf, stream: Stream, local: &'a Local, id: longhaul::store::TaskId },
    /// A resource of a server.
    Resource { remote: &'a Remote, id: String, stream: Stream },
}

impl<'a> Source<'a> {
    async fn of(origin: &'a Origin, id: &str, stream: Stream) -> Outcome<Self> {
        match origin {
            Origin::Store(local) => {
                let id = local.find(id).await?.id;
                let dir = local.runs()?.dir(id.as_str()).map_err(anyhow::Error::new)?;
                Ok(Self::Files { dir, stream, local, id })
            }
            Origin::Server(remote) => Ok(Self::Resource { remote, id: id.to_owned(), stream }),
        }
    }

    async fn read(&self, after: u64) -> Outcome<Piece> {
        match self {
            Self::Files { dir, stream, local, id } => read_files(dir, *stream, after, local, id).await,
            Self::Resource { remote, id, stream } => read_resource(remote, id, *stream, after).await,
        }
    }
}

async fn read_files(
    dir: &std::path::Path,
    stream: Stream,
    after: u64,
    local: &Local,
    id: &longhaul::store::TaskId,
) -> Outcome<Piece> {
    let opening = dir.to_owned();
    let read = move || {
        let output = match Output::open(&opening, stream) {
            Ok(output) => output,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(anyhow::Error::new(error)),
        };
        Ok(Some(output.read(after, READ, Cut::AtChar)?))
    };
    let chunk = tokio::task::spawn_blocking(read).await.context("reading was cut short")??;
    Ok(match chunk {
        Some(chunk) => Piece {
            missing: chunk.gap.map_or(0, |gap| gap.to - gap.from),
            next: chunk.next,
            total: Some(chunk.total),
            done: chunk.done,
            bytes: chunk.bytes,
        },
        // A task that waits for a place has written nothing yet, and one without a command never will.
        None => {
            let done = local.look(id).await?.is_terminal();
            Piece { bytes: Vec::new(), next: after, total: Some(0), missing: 0, done }
        }
    })
}

async fn read_resource(remote: &Remote, id: &str, stream: Stream, after: u64) -> Outcome<Piece> {
    let uri = output_uri(id, stream.name(), after);
    let read = remote.client.read_resource(&uri).await.map_err(|error| match error {
        Error::Answer(answer) if answer.code.0 == -32602 => {
            Failure::new(Exit::NotFound, "no_such_task", format!("no output of a task `{id}`"))
                .next("its server keeps the output of commands only, and for as long as it keeps the task")
        }
        other => other.into(),
    })?;
    let Some(contents) = read.contents.into_iter().next() else {
        return Ok(Piece { bytes: Vec::new(), next: after, total: None, missing: 0, done: true });
    };
    let position = position(&contents);
    let bytes = match (contents.text, contents.blob) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(blob)) => STANDARD.decode(blob).context("the server sent bytes that are no base64")?,
        (None, None) => Vec::new(),
    };
    let next = position.next.unwrap_or(after + bytes.len() as u64);
    let missing = position.gap.map_or(0, |gap| gap.to.saturating_sub(gap.from));
    Ok(Piece { bytes, next, total: position.total, missing, done: position.done.unwrap_or(false) })
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
