//! What commands have written, wherever they run: read from the files of their runs, and elsewhere from their copies.

use std::io;

use longhaul::store::{Record, StoreError};

use super::copies::{Begin, Copies};
use super::result::written;
use crate::command::{Chunk, Cut, Gap, Output, Processes, RunsDir, RunsError, Stream};

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

    /// The processes of the command, while it runs here.
    ///
    /// # Errors
    ///
    /// When its run cannot be read.
    pub async fn processes(&self, record: &Record) -> Result<Option<Processes>, RunsError> {
        if self.is_elsewhere(record) {
            return Ok(None);
        }
        let id = record.id.to_string();
        // A runtime that ends has nothing to show.
        self.runs.blocking(move |runs| runs.processes(&id)).await.unwrap_or(Ok(None))
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
            return Ok(match (copied, begin) {
                // Its end may be copied yet, be it that nothing is: a cancelled task ends before its command does.
                (None, Begin::After(after)) if self.copies.may_grow(record) => Some(Chunk::none_yet(after)),
                (Some(chunk), _) if !chunk.closed && !self.copies.may_grow(record) => {
                    Some(as_it_ended(chunk, written(record.outcome(), stream)))
                }
                (copied, _) => copied,
            });
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

/// Nothing more is copied of what was `written`: what is not is missing, which is said once.
fn as_it_ended(mut chunk: Chunk, written: u64) -> Chunk {
    chunk.total = chunk.total.max(written);
    if chunk.bytes.is_empty() && chunk.next < chunk.total {
        let from = chunk.gap.map_or(chunk.next, |gap| gap.from);
        (chunk.gap, chunk.start, chunk.next) = (Gap::between(from, chunk.total), chunk.total, chunk.total);
    }
    (chunk.closed, chunk.done) = (true, chunk.next == chunk.total);
    chunk
}
