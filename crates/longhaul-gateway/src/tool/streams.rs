//! What commands have written, wherever they run: read from the files of their runs, and elsewhere from their copies.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul::store::{Record, StoreError, Time};

use super::copies::{Begin, Copies};
use super::result::written;
use crate::command::{Chunk, Cut, Gap, Output, RunsDir, Stream};

/// The output streams of commands.
#[derive(Clone, Debug)]
pub struct Streams {
    runs: RunsDir,
    copies: Copies,
}

/// A stream could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The system refused, or the files are damaged.
    #[error("the output cannot be read")]
    Files(#[from] io::Error),
    /// The store that has its copy cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This process is ending: the next one can be asked.
    #[error("the server is ending; ask the next one")]
    Ending,
}

impl Streams {
    /// Those of the runs in `runs`, and of all whose host keeps `copies`.
    #[must_use]
    pub fn new(runs: RunsDir, copies: Copies) -> Self {
        Self { runs, copies }
    }

    /// At most `most` bytes from byte `after` on, cut between characters; `None` if there is no such stream, not yet or not any more.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn read(
        &self,
        record: &Record,
        stream: Stream,
        after: u64,
        most: usize,
    ) -> Result<Option<Chunk>, StreamError> {
        self.chunk(record, stream, Begin::After(after), most).await
    }

    /// The last bytes, at most `most`; else as [`Streams::read`].
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn read_end(
        &self,
        record: &Record,
        stream: Stream,
        most: usize,
    ) -> Result<Option<Chunk>, StreamError> {
        self.chunk(record, stream, Begin::BeforeEnd, most).await
    }

    /// Whether its task is one of a command, as far as is known here.
    pub async fn has(&self, record: &Record) -> bool {
        self.is_elsewhere(record)
            || match self.runs.dir(record.id.as_str()) {
                Ok(dir) => tokio::fs::try_exists(&dir).await.unwrap_or(false),
                Err(_) => false,
            }
    }

    async fn chunk(
        &self,
        record: &Record,
        stream: Stream,
        begin: Begin,
        most: usize,
    ) -> Result<Option<Chunk>, StreamError> {
        if self.is_elsewhere(record) {
            let copied = self.copies.read(record, stream, begin, most).await?;
            return Ok(copied.map(|chunk| as_it_ended(chunk, record, stream)));
        }
        let Ok(dir) = self.runs.dir(record.id.as_str()) else { return Ok(None) };
        let read = move |_: &RunsDir| {
            let output = match Output::open(&dir, stream) {
                Ok(output) => output,
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(io::Error::other(error)),
            };
            match begin {
                Begin::After(after) => output.read(after, most, Cut::AtChar).map(Some),
                Begin::BeforeEnd => output.read_end(most, Cut::AtChar).map(Some),
            }
        };
        Ok(self.runs.blocking(read).await.ok_or(StreamError::Ending)??)
    }

    /// Whether the files of its run are another host's.
    fn is_elsewhere(&self, record: &Record) -> bool {
        record.host.as_ref().is_some_and(|host| self.runs.host() != Some(host))
    }
}

/// Of a task that has ended, and whose host has not copied all, nothing more comes: what its result says was written is missing.
fn as_it_ended(mut chunk: Chunk, record: &Record, stream: Stream) -> Chunk {
    let Some(ended_at) = record.terminal_at else { return chunk };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Time::from_unix_ms(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    let is_long_ago = now.since(ended_at) > LATE;
    if chunk.closed || !is_long_ago {
        return chunk;
    }
    let total = chunk.total.max(written(record.outcome(), stream));
    if chunk.bytes.is_empty() && chunk.next < total {
        let from = chunk.gap.map_or(chunk.next, |gap| gap.from);
        (chunk.gap, chunk.start, chunk.next) = (Gap::between(from, total), total, total);
    }
    (chunk.total, chunk.closed, chunk.done) = (total, true, chunk.next == total);
    chunk
}

/// How long after its end what a command wrote may still be copied.
const LATE: Duration = Duration::from_secs(60);
